/* styles.c - see styles.h. Each is a tokenizer.json put together here, its vocabulary in a loop. */
#include "fuzz/styles.h"
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "fuzz/check.h"
#include "text/utf8.h"

#define ADDED                                                                                                          \
    "\"added_tokens\":[{\"id\":900,\"content\":\"<s>\",\"special\":true},"                                             \
    "{\"id\":901,\"content\":\"<|a|>\",\"lstrip\":true,\"rstrip\":true,\"special\":true},"                             \
    "{\"id\":902,\"content\":\"word\",\"single_word\":true,\"normalized\":false},"                                     \
    "{\"id\":903,\"content\":\"e\xCC\x81\",\"normalized\":true},{\"id\":904,\"content\":\"  \"}],"

static const char bytes_head[] =
    "{" ADDED "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{";
static const char nfc_head[] =
    "{" ADDED "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
    "{\"type\":\"Digits\",\"individual_digits\":true},{\"type\":\"Split\",\"pattern\":{\"Regex\":"
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+"
    "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},"
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":false}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
    "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[900]}}},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{";
static const char byte_tail[] =
    ",\"ab\":256,\"abc\":257,\"\xC4\xA0\xC4\xA0\":258,\"\xC4\xA0\xC4\xA0\xC4\xA0\xC4\xA0\":259,\"aa\":260,\"aaaa\":261,"
    "\"\xC3\x83\xC2\xA9\":262,\"\xC4\xA0"
    "a\":263},\"merges\":[\"a b\",\"ab c\",\"\xC4\xA0 \xC4\xA0\",\"\xC4\xA0\xC4\xA0 \xC4\xA0\xC4\xA0\",\"a a\","
    "\"aa aa\",\"\xC3\x83 \xC2\xA9\",\"\xC4\xA0 a\"]}}";

static const char chars_head[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":300,\"content\":\"<s>\",\"special\":"
    "true}],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xE2\x96\x81\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}]},"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xE2\x96\x81\"},"
    "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \","
    "\"start\":1,\"stop\":0}]},\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,"
    "\"byte_fallback\":true,\"vocab\":{\"<unk>\":0";
static const char chars_tail[] =
    ",\"\xE2\x96\x81\":257,\"a\":258,\"b\":259,\"c\":260,\"ab\":261,\"abc\":262,\"\xE2\x96\x81"
    "a\":263,\"\xE2\x96\x81\xE2\x96\x81\":264,\"\xC3\xA9\":265,\"aa\":266,\"aaaa\":267},\"merges\":[\"a b\",\"ab c\","
    "\"\xE2\x96\x81 a\",\"\xE2\x96\x81 \xE2\x96\x81\",\"a a\",\"aa aa\"]}}";

static const char unigram[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":12,\"content\":\"<s>\",\"special\":"
    "true,\"rstrip\":true}],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":"
    "\"Strip\",\"strip_left\":true,\"strip_right\":true},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}|1\"},"
    "\"content\":\" \"},{\"type\":\"Lowercase\"}]},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
    "{\"type\":\"WhitespaceSplit\"},{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"},{\"type\":\"Metaspace\","
    "\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"always\",\"split\":true}]},\"decoder\":{\"type\":"
    "\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"always\"},\"model\":{\"type\":\"Unigram\","
    "\"unk_id\":0,\"byte_fallback\":false,\"vocab\":[[\"<unk>\",0.0],[\"\xE2\x96\x81\",-2.5],[\"a\",-3],[\"b\",-4.25],"
    "[\"ab\",-3.5],[\"\xE2\x96\x81"
    "ab\",-10.0],[\"\xC3\xA9\",-6],[\"aa\",-4],[\"\xE2\x96\x81"
    "a\",-4.5],[\"fi\",-7],[\"\xE4\xB8\xAD\",-8],[\"...\",-9]]}}";

/* GPT-2's letters of the bytes: printable ones stand for themselves, the others for U+0100 on. */
static void put_letters(struct qr_buf *out)
{
    uint32_t next = 256;

    for (uint32_t b = 0; b < 256; b++) {
        bool itself = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        uint32_t c = itself ? b : next++;

        qr_buf_puts(out, b ? ",\"" : "\"");
        if (c == '"' || c == '\\')
            qr_buf_putc(out, '\\');
        if (c >= 0x80)
            qr_buf_putc(out, (char)(0xC0 | (c >> 6)));
        qr_buf_putc(out, (char)(c >= 0x80 ? 0x80 | (c & 0x3F) : c));
        qr_buf_printf(out, "\":%u", b);
    }
}

struct qr_tokenizer *style_tokenizer(enum style style)
{
    struct qr_tokenizer *tok = NULL;
    struct qr_err err = {0};
    struct qr_buf json;

    qr_buf_init(&json, 0);
    if (style == STYLE_UNIGRAM) {
        qr_buf_puts(&json, unigram);
    } else if (style == STYLE_CHARS) {
        qr_buf_puts(&json, chars_head);
        for (unsigned b = 0; b < 256; b++)
            qr_buf_printf(&json, ",\"<0x%02X>\":%u", b, b + 1);
        qr_buf_puts(&json, chars_tail);
    } else {
        qr_buf_puts(&json, style == STYLE_NFC ? nfc_head : bytes_head);
        put_letters(&json);
        qr_buf_puts(&json, byte_tail);
    }
    check(qr_tokenizer_from_json(json.data, json.len, NULL, 0, &tok, &err) == QR_OK, err.message);
    qr_buf_free(&json);
    return tok;
}
