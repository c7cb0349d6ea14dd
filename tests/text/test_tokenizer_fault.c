/* test_tokenizer_fault.c - every allocation of loading, encoding, decoding and streaming fails once. No string of 14
 * characters stands in the files: jansson 2.14 reads past one whose closing quote it had no memory for. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "common/fault.h"
#include "text/stream.h"
#include "text/tiny.h"

static const char *const merges[] = {"a+b", "ab+c"};
static const char more[] =
    "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
    "\"pattern\":{\"Regex\":\"[^\\\\S]\\\\b|\\\\p{L}{1,3}+\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\","
    "\"pattern\":{\"String\":\"x\"},\"behavior\":\"Removed\"},{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]},"
    "\"added_tokens\":[{\"id\":258,\"content\":\"<s>\",\"special\":true},{\"id\":259,\"content\":\"e\xCC\x81\"}]";

static const char chars[] =
    "{\"added_tokens\":[{\"id\":7,\"content\":\"<s>\",\"special\":true},{\"id\":8,\"content\":\"x "
    "y\",\"normalized\":true"
    "}],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"_\"},{\"type\":"
    "\"Replace\","
    "\"pattern\":{\"Regex\":\" |q\"},\"content\":\"_\"},{\"type\":\"NFKD\"},{\"type\":\"Lowercase\"}]},"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"_\"},\"content\":"
    "\" \"},"
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"byte_fallback\":true,\"vocab\":{\"a\":0,\"b\":1,\"_\":2,\"<0xCC>"
    "\":3,"
    "\"u\":4,\"ab\":5,\"_a\":6},\"merges\":[\"a b\",\"_ a\"]}}";
static const char unigram[] =
    "{\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"special\":true}],\"normalizer\":{\"type\":\"NFKC\"},\"pre_"
    "tokenizer\":"
    "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"split\":true},\"decoder\":{\"type\":"
    "\"Metaspace\",\"replacement\":\"_\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
    "\"vocab\":"
    "[[\"u\",0.0],[\"_\",-2.5],[\"a\",-3],[\"_ab\",-1e1],[\"b\",-4.25]]}}";

static bool run(void *json)
{
    static const char config[] = "{\"bos_token\":\"<s>\",\"add_bos_token\":true}";
    static const char *const stop[] = {"stop", "top"};
    struct qr_tokenizer *tok = NULL;
    struct qr_stream *stream = NULL;
    struct qr_buf out = {0};
    int32_t *ids = NULL;
    char text[300], *shown = NULL;
    size_t n = 0, n_text;
    bool stopped, ok;

    memset(text, 'a', sizeof text);
    memcpy(text + 100, "o\xCC\x82\xCC\xA3 <s> \xFF 12x", 15);
    ok = qr_tokenizer_from_json(json, strlen(json), config, sizeof config - 1, &tok, NULL) == QR_OK &&
         qr_tokenizer_encode(tok, text, sizeof text, true, true, &ids, &n, NULL) == QR_OK &&
         qr_tokenizer_decode(tok, ids, n, false, &shown, &n_text, NULL) == QR_OK &&
         qr_stream_create(tok, stop, 2, true, &stream, NULL) == QR_OK;
    for (size_t i = 0; ok && i < n; i++)
        ok = qr_stream_push(stream, ids[i], &out, &stopped, NULL) == QR_OK;
    ok = ok && qr_stream_flush(stream, &out, NULL) == QR_OK;
    qr_buf_free(&out);
    qr_stream_destroy(stream);
    free(shown);
    free(ids);
    qr_tokenizer_destroy(tok);
    return ok;
}

static void every_allocation_fails(void **state)
{
    char *json = tiny_json(merges, 2, NULL, more);
    long live;

    (void)state;
    if (!fault_works())
        skip();
    assert_true(run(json));
    live = fault_live();
    assert_true(fault_torture(run, json, FAULT_ALLOC, 0) > 100);
    assert_int_equal(fault_live(), live);
    free(json);
    for (int k = 0; k < 2; k++) {
        char *text = strdup(k ? unigram : chars);

        assert_true(run(text));
        live = fault_live();
        assert_true(fault_torture(run, text, FAULT_ALLOC, 0) > 50);
        assert_int_equal(fault_live(), live);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
