/* test_tokenizer_flip.c - a small tokenizer.json and tokenizer_config.json, cut at every byte and with every byte
 * changed: an error or a tokenizer that works, never a crash. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "text/tiny.h"

static const char bytes[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":true,"
    "\"rstrip\":false,\"normalized\":false,\"special\":true},{\"id\":10,\"content\":\"e\xCC\x81\",\"normalized\":true}]"
    ","
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},"
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s)|[^\\\\s\\\\p{L}]?\\\\w{1,3}+|\\\\s+(?!\\\\S)\"},"
    "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
    "\"use_regex\":false}]},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
    "{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[9]}}},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"fuse_unk\":true,"
    "\"ignore_merges\":false,\"vocab\":{\"a\":0,\"b\":1,\"\\u0120\":2,\"c\":3,\"u\":4,\"ab\":5,\"abc\":6,\"\xC4\xA0"
    "a\":7},\"merges\":[\"a b\",[\"ab\",\"c\"],\"\xC4\xA0 a\"]}}";
/* BPE on characters with byte tokens, and Unigram, with a step of every kind. */
static const char chars[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true},{\"id\":10,\"content\":\"e "
    "\",\"normalized\":true"
    "}],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"_\"},{\"type\":"
    "\"Replace\","
    "\"pattern\":{\"String\":\" "
    "\"},\"content\":\"_\"},{\"type\":\"NFKD\"},{\"type\":\"Lowercase\"}]},\"pre_tokenizer\":null,"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":"
    "\" \"},"
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"fuse_unk\":true,\"byte_fallback\":true,\"vocab\":{\"a\":0,\"b\":"
    "1,\"_\":"
    "2,\"<0xE2>\":3,\"u\":4,\"ab\":5,\"_a\":6,\"<0x0A>\":7,\"<0xCC>\":8},\"merges\":[\"a b\",\"_ a\"]}}";
static const char unigram[] = "{\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"special\":true}],\"normalizer\":{"
                              "\"type\":\"Sequence\",\"normalizers\":"
                              "[{\"type\":\"NFKC\"},{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true},{"
                              "\"type\":\"Replace\",\"pattern\":"
                              "{\"Regex\":\" {2,}|1\"},\"content\":\" "
                              "\"}]},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                              "\"WhitespaceSplit\"},{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"},{\"type\":"
                              "\"Whitespace\"},{\"type\":\"Metaspace\","
                              "\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"split\":true}]},\"decoder\":{"
                              "\"type\":\"Metaspace\",\"replacement\":"
                              "\"_\",\"prepend_scheme\":\"first\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_"
                              "fallback\":false,\"vocab\":"
                              "[[\"u\",0.0],[\"_\",-2.5],[\"a\",-3],[\"_ab\",-1e1],[\"b\",-4.25]]}}";
static const char config[] =
    "{\"add_bos_token\":true,\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"u\",\"add_eos_token\":false,"
    "\"added_tokens_decoder\":{\"9\":{\"content\":\"<s>\",\"special\":true},\"12\":{\"content\":\"<t>\"}}}";

static int n_loaded;

/* Loads copies without a NUL behind, so that a read past the end shows. */
static void try(const char *tokenizer, size_t n, const char *configuration, size_t n_config)
{
    static const char text[] = " abc<s>a\xCC\x81 b12 don'S \xFF\xE2\x82 e\xCC\x81\n\n";
    char *a = malloc(n + !n), *b = malloc(n_config + !n_config), *decoded;
    struct qr_tokenizer *tok = NULL;
    struct qr_err err = {0};
    int32_t *ids;
    size_t n_ids, n_decoded;

    memcpy(a, tokenizer, n);
    memcpy(b, configuration, n_config);
    if (qr_tokenizer_from_json(a, n, b, n_config, &tok, &err) == QR_OK) {
        n_loaded++;
        if (qr_tokenizer_encode(tok, text, sizeof text - 1, true, true, &ids, &n_ids, &err) == QR_OK) {
            assert_int_equal(qr_tokenizer_decode(tok, ids, n_ids, false, &decoded, &n_decoded, &err), QR_OK);
            free(decoded);
            free(ids);
        } else {
            assert_int_not_equal(err.message[0], 0);
        }
        qr_tokenizer_destroy(tok);
    } else {
        assert_null(tok);
        assert_int_not_equal(err.status, QR_OK);
        assert_int_not_equal(err.status, QR_INTERNAL);
        assert_int_not_equal(err.message[0], 0);
    }
    free(a);
    free(b);
}

static const struct {
    const char *json;
    size_t n;
} files[] = {{bytes, sizeof bytes - 1}, {chars, sizeof chars - 1}, {unigram, sizeof unigram - 1}};
enum { N_FILE = sizeof files / sizeof *files, MAX_FILE = 4096 };

static void unchanged(void **state)
{
    (void)state;
    n_loaded = 0;
    for (int f = 0; f < N_FILE; f++)
        try(files[f].json, files[f].n, "{}", 2);
    try(bytes, sizeof bytes - 1, config, sizeof config - 1);
    assert_int_equal(n_loaded, N_FILE + 1);
}

static void cut_anywhere(void **state)
{
    (void)state;
    n_loaded = 0;
    for (int f = 0; f < N_FILE; f++)
        for (size_t n = 0; n < files[f].n; n++)
            try(files[f].json, n, "{}", 2);
    for (size_t n = 0; n < sizeof config - 1; n++)
        try(bytes, sizeof bytes - 1, config, n);
    assert_int_equal(n_loaded, 0);
}

/* Each byte of text [n] changed, one by one; is_config: it is the configuration of bytes. */
static void change_each(const char *text, size_t n, bool is_config)
{
    static const unsigned char masks[] = {0x01, 0x02, 0x08, 0x20, 0x80, 0xFF};
    static char changed[MAX_FILE];

    assert_true(n < sizeof changed);
    memcpy(changed, text, n);
    for (size_t m = 0; m < sizeof masks; m++)
        for (size_t i = 0; i < n; i++) {
            changed[i] = (char)(text[i] ^ masks[m]);
            if (is_config)
                try(bytes, sizeof bytes - 1, changed, n);
            else
                try(changed, n, "{}", 2);
            changed[i] = text[i];
        }
}

static void change_anything(void **state)
{
    (void)state;
    n_loaded = 0;
    for (int f = 0; f < N_FILE; f++)
        change_each(files[f].json, files[f].n, false);
    change_each(config, sizeof config - 1, true);
    assert_true(n_loaded > 100); /* changed letters of names that nothing depends on */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unchanged),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(change_anything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
