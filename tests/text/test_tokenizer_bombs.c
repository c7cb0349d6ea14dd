/* test_tokenizer_bombs.c - normalizers and decoders of strangers that make a million bytes of one: refused within their
 * limit, where they took all memory once. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/tiny.h"

#define REPLACE(from, to) "{\"type\":\"Replace\",\"pattern\":" from ",\"content\":\"" to "\"}"
#define TEN               "aaaaaaaaaa"
#define HUNDRED           TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define BY_TEN            REPLACE("{\"String\":\"a\"}", TEN)
#define ADDED             "\"added_tokens\":[{\"id\":256,\"content\":\"<s>\",\"special\":true,\"normalized\":false}]"

static struct qr_tokenizer *with_normalizer(const char *normalizer)
{
    char more[2048];

    snprintf(more, sizeof more, ADDED ",\"normalizer\":%s", normalizer);
    return tiny_tokenizer(NULL, 0, NULL, more);
}

/* text, repeated. */
static enum qr_status encode(const struct qr_tokenizer *tok, const char *text, size_t times, size_t *n_ids,
                             struct qr_err *err)
{
    size_t n = strlen(text);
    char *all = malloc(n * times + 1);
    int32_t *ids;
    enum qr_status status;

    for (size_t i = 0; i < times; i++)
        memcpy(all + i * n, text, n);
    status = qr_tokenizer_encode(tok, all, n * times, true, false, &ids, n_ids, err);
    free(all);
    free(ids);
    return status;
}

static void assert_refused(const struct qr_tokenizer *tok, const char *text, size_t times)
{
    struct qr_err err = {0};
    size_t n;

    assert_int_equal(encode(tok, text, times, &n, &err), QR_LIMIT);
    assert_non_null(strstr(err.message, "normalizer makes more than"));
}

static void normalizers(void **state)
{
    static const char *const bomb[] = {
        REPLACE("{\"String\":\"a\"}", HUNDRED),
        REPLACE("{\"Regex\":\"a\"}", HUNDRED),
        "{\"type\":\"Sequence\",\"normalizers\":[" BY_TEN "," BY_TEN "," BY_TEN "]}",
    };
    struct qr_tokenizer *tok;
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof bomb / sizeof *bomb; i++) {
        tok = with_normalizer(bomb[i]);
        assert_refused(tok, "a", 1000);
        assert_int_equal(encode(tok, "b", 100000, &n, NULL), QR_OK); /* the next text is right */
        assert_int_equal(n, 100000);
        qr_tokenizer_destroy(tok);
    }
    tok = with_normalizer(BY_TEN); /* what real ones make is let through */
    assert_int_equal(encode(tok, "a", 100000, &n, NULL), QR_OK);
    assert_int_equal(n, 1000000);
    qr_tokenizer_destroy(tok);
}

/* Each of many segments stays within its own limit; all together must not pass that of the text. */
static void segments(void **state)
{
    struct qr_tokenizer *tok = with_normalizer("{\"type\":\"Prepend\",\"prepend\":\"" HUNDRED HUNDRED HUNDRED "\"}");
    size_t n;

    (void)state;
    assert_int_equal(encode(tok, "b<s>", 10, &n, NULL), QR_OK);
    assert_int_equal(n, 10 * 302);
    assert_refused(tok, "b<s>", 2000);
    qr_tokenizer_destroy(tok);
}

static char *with_decoder(const char *decoder)
{
    char *json = malloc(8192);

    snprintf(
        json, 8192,
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]},\"decoder\":%s,\"added_tokens\":[]}",
        decoder);
    return json;
}

static void decoders(void **state)
{
    char *json = with_decoder("{\"type\":\"Sequence\",\"decoders\":[" BY_TEN "," BY_TEN "," BY_TEN "," BY_TEN "]}");
    struct qr_tokenizer *tok;
    struct qr_err err = {0};

    (void)state;
    /* its tokens' texts are made when it is read */
    assert_int_equal(qr_tokenizer_from_json(json, strlen(json), NULL, 0, &tok, &err), QR_LIMIT);
    assert_non_null(strstr(err.message, "decoder makes more than"));
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalizers),
        cmocka_unit_test(segments),
        cmocka_unit_test(decoders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
