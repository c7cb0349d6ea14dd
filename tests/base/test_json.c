/* test_json.c - JSON: limits, hostile texts, and the typed getters. */
#include "base/json.h"
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "common/fault.h"
#include "common/tmp.h"

static enum qr_status parse(const char *text, json_t **out, struct qr_err *err)
{
    return qr_json_parse(text, strlen(text), "test.json", out, err);
}

static void refused(const char *text, size_t n, enum qr_status wanted, const char *part)
{
    struct qr_err err = {0};
    json_t *value = (json_t *)&err;

    assert_int_equal(qr_json_parse(text, n, "test.json", &value, &err), wanted);
    assert_null(value);
    assert_int_equal(err.status, wanted);
    if (!strstr(err.message, part) || !strstr(err.message, "test.json"))
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static char *nested(char open, char close, size_t depth)
{
    char *text = malloc(2 * depth + 1);

    assert_non_null(text);
    memset(text, open, depth);
    memset(text + depth, close, depth);
    text[2 * depth] = 0;
    return text;
}

static void depth_is_limited(void **state)
{
    static const size_t refused_depth[] = {201, 1000, 1000000};
    json_t *value;
    char *text = nested('[', ']', 200);

    (void)state;
    assert_int_equal(parse(text, &value, NULL), QR_OK);
    json_decref(value);
    free(text);
    for (size_t i = 0; i < 3; i++) {
        text = nested('[', ']', refused_depth[i]);
        refused(text, 2 * refused_depth[i], QR_LIMIT, "200 deep");
        refused(text, refused_depth[i], QR_LIMIT, "200 deep"); /* never closed */
        free(text);
    }
    text = nested('{', '}', 1000);
    refused(text, 2000, QR_LIMIT, "200 deep");
    free(text);
    /* brackets in strings do not count, behind an escaped quote or backslash neither; closing too often does not help */
    text = malloc(4000);
    strcpy(text, "[\"\\\"");
    memset(text + 4, '[', 1000);
    strcpy(text + 1004, "\\\\\"]");
    assert_int_equal(parse(text, &value, NULL), QR_OK);
    assert_int_equal(json_string_length(json_array_get(value, 0)), 1002);
    json_decref(value);
    memset(text, ']', 1000);
    memset(text + 1000, '[', 1100);
    refused(text, 2100, QR_FORMAT, "bad JSON");
    free(text);
}

static void hostile_texts_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "nul",
        "\"abc",
        "\"\\ud800\"", /* lone surrogates */
        "\"\\udc00\\ud800\"",
        "\"\xff\"",         /* not UTF-8 */
        "\"\xed\xa0\x80\"", /* a surrogate in UTF-8 */
        "\"\xc0\x80\"",     /* overlong */
        "\"\\x\"",
        "\"a\nb\"",
        "1e999",
        "-1e999",
        "9223372036854775808", /* beyond int64 */
        "-9223372036854775809",
        "100000000000000000000000",
        "01",
        "+1",
        ".5",
        "0x10",
        "NaN",
        "Infinity",
        "[] []",
        "// comment\n1",
        "{\"a\":1,\"a\":2}",
        "{\"a\":{\"b\":1,\"c\":2,\"b\":3}}",
        "{\"a\\u0000b\":1}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i], strlen(bad[i]), QR_FORMAT, "bad JSON at line ");
    refused("[1, 2]\0", 7, QR_FORMAT, "bad JSON");
    refused("[\0]", 3, QR_FORMAT, "bad JSON");
    refused("{\"a\0b\":1}", 9, QR_FORMAT, "bad JSON");
    refused("{\n\"a\": 1,\n\"a\": 2}", 18, QR_FORMAT, "line 3");
}

/* Every prefix of a text and every changed byte: an error or a value, never a crash (the sanitizers watch). */
static void every_cut_and_flip(void **state)
{
    static const char text[] = "{\"a\":[1,-2.5e3,true,null,\"x\\u20ac\\ud83d\\ude00\\n\"],\"b\":{\"c\":{},\"d\":[]}}";
    char copy[sizeof text];
    json_t *value;

    (void)state;
    for (size_t n = 0; n < sizeof text - 1; n++)
        assert_int_equal(qr_json_parse(text, n, "cut", &value, NULL), QR_FORMAT);
    for (size_t at = 0; at < sizeof text - 1; at++)
        for (int byte = 0; byte < 256; byte++) {
            memcpy(copy, text, sizeof text);
            copy[at] = (char)byte;
            if (qr_json_parse(copy, sizeof text - 1, "flip", &value, NULL) == QR_OK)
                json_decref(value);
        }
}

static void any_value_parses(void **state)
{
    json_t *value;

    (void)state;
    assert_int_equal(parse(" 9223372036854775807 ", &value, NULL), QR_OK);
    assert_true(json_integer_value(value) == INT64_MAX);
    json_decref(value);
    assert_int_equal(parse("\"a\\u0000b\"", &value, NULL), QR_OK); /* NUL is fine in a value */
    assert_int_equal(json_string_length(value), 3);
    json_decref(value);
    assert_int_equal(parse("null", &value, NULL), QR_OK);
    json_decref(value);
}

static void getters(void **state)
{
    struct qr_err err;
    json_t *obj;
    int64_t i = -7;
    double r = -7;
    bool b = true;
    const char *s = "kept";

    (void)state;
    assert_int_equal(
        parse("{\"i\":5,\"r\":2.5,\"b\":false,\"s\":\"str\",\"n\":null,\"z\":\"a\\u0000b\",\"a\":[]}", &obj, NULL),
        QR_OK);
    /* absent or null: kept */
    assert_int_equal(qr_json_int(obj, "absent", 0, 10, &i, &err), QR_OK);
    assert_int_equal(qr_json_int(obj, "n", 0, 10, &i, &err), QR_OK);
    assert_int_equal(i, -7);
    assert_int_equal(qr_json_real(obj, "n", 0, 1, &r, &err), QR_OK);
    assert_true(r == -7);
    assert_int_equal(qr_json_bool(obj, "absent", &b, &err), QR_OK);
    assert_true(b);
    assert_int_equal(qr_json_string(obj, "n", &s, &err), QR_OK);
    assert_string_equal(s, "kept");
    /* present */
    assert_int_equal(qr_json_int(obj, "i", 5, 5, &i, &err), QR_OK);
    assert_int_equal(i, 5);
    assert_int_equal(qr_json_real(obj, "i", 0, 10, &r, &err), QR_OK); /* an integer is a number */
    assert_true(r == 5.0);
    assert_int_equal(qr_json_real(obj, "r", 2.5, 2.5, &r, &err), QR_OK);
    assert_true(r == 2.5);
    assert_int_equal(qr_json_bool(obj, "b", &b, &err), QR_OK);
    assert_false(b);
    assert_int_equal(qr_json_string(obj, "s", &s, &err), QR_OK);
    assert_string_equal(s, "str");
    /* out of range: the message has the value and the limits */
    assert_int_equal(qr_json_int(obj, "i", 6, 9, &i, &err), QR_INVALID);
    assert_string_equal(err.message, "\"i\" is 5 but must be 6 to 9");
    assert_int_equal(qr_json_int(obj, "i", -3, 4, &i, &err), QR_INVALID);
    assert_int_equal(qr_json_real(obj, "r", 0, 1, &r, &err), QR_INVALID);
    assert_string_equal(err.message, "\"r\" is 2.5 but must be 0 to 1");
    /* another type */
    assert_int_equal(qr_json_int(obj, "r", 0, 9, &i, &err), QR_INVALID);
    assert_string_equal(err.message, "\"r\" must be an integer, not a real number");
    assert_int_equal(qr_json_int(obj, "s", 0, 9, &i, &err), QR_INVALID);
    assert_int_equal(qr_json_real(obj, "b", 0, 9, &r, &err), QR_INVALID);
    assert_int_equal(qr_json_bool(obj, "i", &b, &err), QR_INVALID);
    assert_int_equal(qr_json_string(obj, "a", &s, &err), QR_INVALID);
    assert_string_equal(err.message, "\"a\" must be a string, not an array");
    assert_int_equal(qr_json_string(obj, "z", &s, &err), QR_INVALID);
    assert_int_equal(i, 5);
    assert_string_equal(s, "str");
    json_decref(obj);
    /* not an object at all: everything is absent */
    assert_int_equal(qr_json_int(NULL, "i", 0, 1, &i, &err), QR_OK);
}

static void files(void **state)
{
    const char *path = tmp_write(state, "a.json", "{\"a\": 1}", 8);
    struct qr_err err;
    json_t *value;

    assert_int_equal(qr_json_file(path, 8, &value, &err), QR_OK);
    json_decref(value);
    assert_int_equal(qr_json_file(path, 7, &value, &err), QR_LIMIT);
    assert_int_equal(qr_json_file(tmp_path(state, "none"), 100, &value, &err), QR_NOTFOUND);
    path = tmp_write(state, "b.json", "{\"a\": ", 6);
    assert_int_equal(qr_json_file(path, 100, &value, &err), QR_FORMAT);
    assert_non_null(strstr(err.message, "b.json"));
}

static enum qr_status parse_file(const char *text, json_t **value, struct qr_err *err)
{
    return qr_json_parse_file(text, strlen(text), "a.json", value, err);
}

/* model_max_length as transformers writes it where there is none, among what must stay as it is. */
static const char python[] =
    "{\"model_max_length\":1000000000000000019884624838656,\"a\\\\\":-12345678901234567890123,"
    "\"s\":\"\\\"98765432109876543210\\\\\",\"i\":9007199254740993,\"r\":12345678901234567890.5e1,"
    "\"l\":[true,99999999999999999999]}";

static void integers_without_end(void **state)
{
    struct qr_err err;
    json_t *v;

    (void)state;
    assert_int_equal(parse(python, &v, &err), QR_FORMAT); /* what clients send is no such file */
    assert_non_null(strstr(err.message, "too big integer"));
    assert_int_equal(parse_file(python, &v, &err), QR_OK);
    assert_true(json_real_value(json_object_get(v, "model_max_length")) == 1e30);
    assert_true(json_real_value(json_object_get(v, "a\\")) == -12345678901234567890123.0);
    assert_string_equal(json_string_value(json_object_get(v, "s")), "\"98765432109876543210\\");
    assert_true(json_integer_value(json_object_get(v, "i")) == 9007199254740993); /* beyond a double's whole numbers */
    assert_true(json_real_value(json_object_get(v, "r")) == 12345678901234567890.5e1);
    assert_true(json_real_value(json_array_get(json_object_get(v, "l"), 1)) == 1e20);
    json_decref(v);
    assert_int_equal(parse_file("1e999", &v, &err), QR_FORMAT);
    assert_int_equal(parse_file("[99999999999999999999,]", &v, &err), QR_FORMAT);
    assert_int_equal(parse_file("[99999999999999999999,\"", &v, &err), QR_FORMAT);
    assert_int_equal(parse_file("\xEF\xBB\xBF{}", &v, &err), QR_FORMAT);
    assert_non_null(strstr(err.message, "byte order mark"));
}

static bool parse_python(void *ctx)
{
    struct qr_err err;
    json_t *value;
    enum qr_status status = parse_file(python, &value, &err);

    (void)ctx;
    if (status == QR_OK)
        json_decref(value);
    else
        assert_true(value == NULL && status == QR_NOMEM);
    return status == QR_OK;
}

static bool parse_object(void *ctx)
{
    struct qr_err err;
    json_t *value;
    enum qr_status status = parse("{\"a\":[1,2.5,{\"b\":\"some text \\u20ac\"}],\"c\":{\"d\":true}}", &value, &err);

    (void)ctx;
    if (status == QR_OK)
        json_decref(value);
    else
        assert_true(value == NULL && err.message[0]);
    return status == QR_OK;
}

static void survives_every_failed_allocation(void **state)
{
    (void)state;
    if (!fault_works())
        skip();
    assert_true(fault_torture(parse_object, NULL, FAULT_ALLOC, 0) > 10);
    assert_true(fault_torture(parse_python, NULL, FAULT_ALLOC, 0) > 10);
}

/* An allocator below qr_json_parse's: calls from number fail_from up to fail_to, counted from 1, get nothing. Behind each
 * block lie bytes that must be there still when it is freed, with quotes that end a string which was read past its end. */
static struct {
    long n, fail_from, fail_to, n_live;
} below;
enum { BELOW_HEAD = 16, BELOW_TAIL = 512 };

static void fill_tail(char tail[BELOW_TAIL])
{
    memset(tail, 'c', 32);
    memset(tail + 32, '"', BELOW_TAIL - 32);
}

static void *below_malloc(size_t n)
{
    below.n++;
    if (below.n >= below.fail_from && below.n <= below.fail_to)
        return NULL;
    char *block = malloc(BELOW_HEAD + n + BELOW_TAIL);
    if (!block)
        return NULL;
    memcpy(block, &n, sizeof n);
    memset(block + BELOW_HEAD, 'b', n);
    fill_tail(block + BELOW_HEAD + n);
    below.n_live++;
    return block + BELOW_HEAD;
}

static void below_free(void *at)
{
    char tail[BELOW_TAIL], *block = at;
    size_t n;
    if (!at)
        return;
    block -= BELOW_HEAD;
    memcpy(&n, block, sizeof n);
    fill_tail(tail);
    assert_memory_equal(block + BELOW_HEAD + n, tail, sizeof tail);
    below.n_live--;
    free(block);
}

static int use_allocator_below(void **state)
{
    (void)state;
    json_set_alloc_funcs(below_malloc,
                         below_free); /* before the first parse of the process, which looks who is there */
    return 0;
}

/* Parses with allocations from..to failing. Returns whether one did. */
static bool parse_short_of_memory(const char *text, long from, long to, const json_t *whole)
{
    long live = below.n_live;
    json_t *value;
    struct qr_err err;

    below.n = 0;
    below.fail_from = from;
    below.fail_to = to;
    enum qr_status status = parse(text, &value, &err);
    bool fired = below.n >= from;
    below.fail_from = below.fail_to = 0;
    assert_int_equal(status, fired ? QR_NOMEM : QR_OK);
    assert_true(fired ? !value && strstr(err.message, "out of memory") : json_equal(whole, value));
    json_decref(value);
    assert_true(below.n_live == live);
    return fired;
}

/* Each allocation alone, with up to 8 behind it, and with all behind it. Returns the number of parses without memory. */
static long fail_everywhere(const char *text)
{
    long n = 0;
    json_t *whole;
    assert_int_equal(parse(text, &whole, NULL), QR_OK);
    for (int i = 0; i < 10; i++)
        for (long k = 1; parse_short_of_memory(text, k, i < 9 ? k + i : LONG_MAX, whole); k++)
            n++;
    json_decref(whole);
    return n;
}

/* A text whose tokens outgrow the lexer's buffer again and again, at every place among the pieces that it is fed: the k-th
 * allocation fails, and some behind it. Jansson by itself would lose bytes, or read past the end. */
static void long_tokens_without_memory(void **state)
{
    char text[] =
        "        [\"exactly fourteen\", \"a string of some thirty bytes long\", {\"a key longer than the buffer\": "
        "\"\\u20ac\\ud83d\\ude00\\n\\\"\\\\ and a number of plain bytes behind them, so that it doubles thrice "
        "over\"}, "
        "-1234567890.12345678901234567890e-12, 9223372036854775807, \"fourteen byte.\", \"sixteen bytes...\", "
        "false, [[[\"another long one, deeper, and as long as the one before it was, or nearly so\"]]]]";
    long n_failed = 0;

    (void)state;
    for (int lead = 0; lead < 8; lead++)
        n_failed += fail_everywhere(text + lead);
    for (int n = 10; n < 140; n++) { /* one token alone: what is set aside is just enough for it */
        memset(text, 'a', (size_t)n);
        text[0] = text[n - 1] = '"';
        text[n] = 0;
        n_failed += fail_everywhere(text);
    }
    assert_true(n_failed > 8 * 10 * 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(hostile_texts_are_refused),
        cmocka_unit_test(every_cut_and_flip),
        cmocka_unit_test(any_value_parses),
        cmocka_unit_test(integers_without_end),
        cmocka_unit_test(getters),
        cmocka_unit_test_setup_teardown(files, tmp_setup, tmp_teardown),
        cmocka_unit_test(survives_every_failed_allocation),
        cmocka_unit_test(long_tokens_without_memory),
    };
    return cmocka_run_group_tests(tests, use_allocator_below, NULL);
}
