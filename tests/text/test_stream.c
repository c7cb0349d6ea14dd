/* test_stream.c - text that comes id by id: whole code points, stop strings across the seams, never sent in part. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "text/stream.h"
#include "text/tiny.h"
#include "text/utf8.h"

/* ids 0-255 the bytes, then these */
static const char *const merges[] = {"a+b", "ab+c", "\u00C3+\u00A9", "b+c"};
enum { AB = 256, ABC, E_ACUTE, BC, SPECIAL };

static struct qr_tokenizer *tokenizer(void)
{
    return tiny_tokenizer(merges, 4, NULL,
                          "\"added_tokens\":[{\"id\":260,\"content\":\"<x>\",\"special\":true,\"normalized\":false}]");
}

struct out {
    struct qr_buf text;
    bool stopped;
};

static struct qr_stream *open_stream(const struct qr_tokenizer *tok, const char *const *stop, size_t n, bool keep)
{
    struct qr_stream *stream;
    struct qr_err err = {0};

    if (qr_stream_create(tok, stop, n, keep, &stream, &err))
        fail_msg("%s", err.message);
    return stream;
}

/* Pushes ids one by one; checks after each that what was sent is whole code points. */
static void push_all(struct qr_stream *stream, const int32_t *ids, size_t n, struct out *out)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(qr_stream_push(stream, ids[i], &out->text, &out->stopped, NULL), QR_OK);
        assert_int_equal(qr_utf8_valid(out->text.data, out->text.len), out->text.len);
    }
}

static void whole_code_points(void **state)
{
    struct qr_tokenizer *tok = tokenizer();
    struct qr_stream *stream = open_stream(tok, NULL, 0, false);
    struct out out = {0};

    (void)state;
    push_all(stream, (int32_t[]){0xF0, 0x9F, 0x98}, 3, &out);
    assert_int_equal(out.text.len, 0);
    push_all(stream, (int32_t[]){0x80, E_ACUTE, SPECIAL, 0xC3}, 4, &out);
    assert_string_equal(out.text.data, "\U0001F600\u00E9");
    push_all(stream, (int32_t[]){'!', 0xE2, 0x82}, 3, &out); /* C3 is alone */
    assert_string_equal(out.text.data, "\U0001F600\u00E9\uFFFD!");
    assert_int_equal(qr_stream_flush(stream, &out.text, NULL), QR_OK);
    assert_string_equal(out.text.data, "\U0001F600\u00E9\uFFFD!\uFFFD");
    assert_int_equal(qr_stream_push(stream, 99999, &out.text, &out.stopped, NULL), QR_OK); /* a padded vocabulary */
    assert_int_equal(qr_stream_push(stream, -1, &out.text, &out.stopped, NULL), QR_INVALID);
    assert_int_equal(out.text.len, 13);
    qr_buf_free(&out.text);
    qr_stream_destroy(stream);
    stream = open_stream(tok, NULL, 0, true);
    push_all(stream, (int32_t[]){'a', SPECIAL}, 2, &out);
    assert_string_equal(out.text.data, "a<x>");
    qr_buf_free(&out.text);
    qr_stream_destroy(stream);
    qr_tokenizer_destroy(tok);
}

static void stops_across_seams(void **state)
{
    static const char *const stop[] = {"bcd", "xyz"};
    struct qr_tokenizer *tok = tokenizer();
    struct qr_stream *stream = open_stream(tok, stop, 2, false);
    struct out out = {0};

    (void)state;
    push_all(stream, (int32_t[]){'x', ABC}, 2, &out);
    assert_string_equal(out.text.data, "xa"); /* "bc" may become a stop string */
    push_all(stream, (int32_t[]){'b', 'c'}, 2, &out);
    assert_string_equal(out.text.data, "xabc");
    assert_false(out.stopped);
    push_all(stream, (int32_t[]){'d', 'q'}, 2, &out);
    assert_string_equal(out.text.data, "xabc");
    assert_true(out.stopped);
    assert_int_equal(qr_stream_flush(stream, &out.text, NULL), QR_OK);
    assert_string_equal(out.text.data, "xabc");
    qr_buf_free(&out.text);
    qr_stream_destroy(stream);

    stream = open_stream(tok, stop, 2, false);
    push_all(stream, (int32_t[]){'q', 'x', 'y'}, 3, &out);
    assert_string_equal(out.text.data, "q");
    assert_int_equal(qr_stream_flush(stream, &out.text, NULL), QR_OK);
    assert_string_equal(out.text.data, "qxy"); /* the end: it became none */
    qr_buf_free(&out.text);
    qr_stream_destroy(stream);
    qr_tokenizer_destroy(tok);
}

static bool ends_with(const char *s, size_t n, const char *stop)
{
    size_t len = strlen(stop);

    return len <= n && memcmp(s + n - len, stop, len) == 0;
}

/* Where the text must end: before the longest stop string at the first place where one ends. */
static size_t cut_of(const char *s, size_t n, const char *const *stop, size_t n_stop)
{
    for (size_t end = 1; end <= n; end++) {
        size_t longest = 0;

        for (size_t k = 0; k < n_stop; k++)
            if (ends_with(s, end, stop[k]) && strlen(stop[k]) > longest)
                longest = strlen(stop[k]);
        if (longest)
            return end - longest;
    }
    return n;
}

/* Bytes at the end of s[0, n) that start a stop string, the longest such. */
static size_t may_become(const char *s, size_t n, const char *const *stop, size_t n_stop)
{
    size_t longest = 0;

    for (size_t k = 0; k < n_stop; k++)
        for (size_t len = 1; len < strlen(stop[k]) && len <= n; len++)
            if (len > longest && memcmp(s + n - len, stop[k], len) == 0)
                longest = len;
    return longest;
}

static void random_stops(void **state)
{
    struct qr_tokenizer *tok = tokenizer();
    uint32_t random = 7;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        static const int32_t choice[] = {'a', 'b', 'c', AB, ABC, BC, 'a', 'b'};
        char stops[3][8], text[256];
        const char *stop[3];
        size_t n_stop, n = 0, cut;
        struct qr_stream *stream;
        struct out out = {0};

        n_stop = 1 + (random = random * 1664525u + 1013904223u) % 3;
        for (size_t k = 0; k < n_stop; k++) {
            size_t len = 1 + ((random = random * 1664525u + 1013904223u) >> 8) % 6;

            for (size_t i = 0; i < len; i++)
                stops[k][i] = (char)('a' + ((random = random * 1664525u + 1013904223u) >> 8) % 3);
            stops[k][len] = 0;
            stop[k] = stops[k];
        }
        stream = open_stream(tok, stop, n_stop, false);
        for (int i = 0; i < 30; i++) {
            int32_t id = choice[((random = random * 1664525u + 1013904223u) >> 8) % 8];
            size_t len, held;
            const char *bytes = qr_tokenizer_bytes(tok, id, &len);

            memcpy(text + n, bytes, len);
            n += len;
            push_all(stream, &id, 1, &out);
            cut = cut_of(text, n, stop, n_stop);
            held = cut < n ? 0 : may_become(text, n, stop, n_stop);
            assert_int_equal(out.stopped, cut < n);
            assert_int_equal(out.text.len, cut - held); /* all that is certain, and nothing else */
            assert_memory_equal(out.text.data ? out.text.data : "", text, cut - held);
        }
        qr_buf_free(&out.text);
        qr_stream_destroy(stream);
    }
    qr_tokenizer_destroy(tok);
}

static void limits(void **state)
{
    struct qr_tokenizer *tok = tokenizer();
    const char *many[4097], *one;
    char *large = malloc(65538);
    struct qr_stream *stream;
    struct qr_err err;

    (void)state;
    for (size_t i = 0; i < 4097; i++)
        many[i] = "stop";
    assert_int_equal(qr_stream_create(tok, many, 4097, false, &stream, &err), QR_LIMIT);
    assert_non_null(strstr(err.message, "4097"));
    assert_int_equal(qr_stream_create(tok, many, 4096, false, &stream, &err), QR_OK);
    qr_stream_destroy(stream);
    memset(large, 'a', 65537);
    large[65537] = 0;
    one = large;
    assert_int_equal(qr_stream_create(tok, &one, 1, false, &stream, &err), QR_LIMIT);
    assert_null(stream);
    one = "";
    assert_int_equal(qr_stream_create(tok, &one, 1, false, &stream, &err), QR_INVALID);
    one = "\xC3";
    assert_int_equal(qr_stream_create(tok, &one, 1, false, &stream, &err), QR_INVALID);

    /* the worst for an automaton: a^65535 b, and text of a: each byte falls back by one */
    memset(large, 'a', 65536);
    large[65535] = 'b';
    large[65536] = 0;
    one = large;
    assert_int_equal(qr_stream_create(tok, &one, 1, false, &stream, &err), QR_OK);
    {
        struct out out = {0};
        int32_t a = 'a', b = 'b';

        for (int i = 0; i < 200000; i++)
            assert_int_equal(qr_stream_push(stream, a, &out.text, &out.stopped, NULL), QR_OK);
        assert_int_equal(out.text.len, 200000 - 65535);
        push_all(stream, &b, 1, &out);
        assert_true(out.stopped);
        assert_int_equal(out.text.len, 200000 - 65535);
        qr_buf_free(&out.text);
    }
    qr_stream_destroy(stream);
    free(large);
    qr_tokenizer_destroy(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_code_points),
        cmocka_unit_test(stops_across_seams),
        cmocka_unit_test(random_stops),
        cmocka_unit_test(limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
