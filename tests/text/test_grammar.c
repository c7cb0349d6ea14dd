/* test_grammar.c - every bit of every mask against accepting that token; states, ends, limits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"
#include "text/grammar_walk.h"
#include "text/tiny.h"

/* As JSON: tokens that cross the seams of JSON: ends of strings with what follows, several brackets, spaces, parts of UTF-8. */
static const char *const merges[] = {"\\\"+:",     "\\\"+,",
                                     "\\\",+\\\"", "\\\"+}",
                                     "\\\"}+}",    "\\\"+]",
                                     "]+}",        "]}+]",
                                     "}+}",        "[+[",
                                     "[[+[",       "{+\\\"",
                                     "{\\\"+a",    ":+[",
                                     ":+\\\"",     "\\\":+\\\"",
                                     ",+\\\"",     "1+2",
                                     "12+3",       ",+1",
                                     "1+,",        "-+1",
                                     "1+]",        "a+b",
                                     "ab+c",       "abc+a",
                                     "abca+b",     "[+]",
                                     "{+}",        "{}+}",
                                     "t+r",        "tr+u",
                                     "tru+e",      "\xC3\x83+\xC2\xA9",
                                     "\\\\+u",     "0+0",
                                     "00+0",       "\\\\+\\\"",
                                     "a+\\\"",     "1+.",
                                     ".+5",        "n+u",
                                     "l+l",        "nu+ll",
                                     "e+,",        ":+1",
                                     "\\\"+a",     "\\\"a+\\\":",
                                     "a+\xC3\x83", "\\\"a+b",
                                     "\\\"ab+c",   "\\\"abc+a",
                                     "\\\"abca+b"};

#define ENDS 3
struct fixture {
    struct qr_tokenizer *tok;
    struct qr_grammar_vocab *vocab;
    int32_t end[ENDS];
};

static int set_up(void **state)
{
    static struct fixture f;
    int32_t n = 256 + (int32_t)(sizeof merges / sizeof *merges);
    char more[200];

    snprintf(more, sizeof more,
             "\"added_tokens\":[{\"id\":%d,\"content\":\"<end>\",\"special\":true},{\"id\":%d,\"content\":\"<other>\","
             "\"special\":true}]",
             n, n + 1);
    f.tok = tiny_tokenizer(merges, sizeof merges / sizeof *merges, NULL, more);
    f.end[0] = n;
    f.end[1] = 300; /* an ordinary token may be an end as well */
    f.end[2] = n + 20;
    if (qr_grammar_vocab_create(f.tok, n + 40, f.end, ENDS, &f.vocab, NULL) != QR_OK)
        return 1;
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    qr_grammar_vocab_destroy(f->vocab);
    qr_tokenizer_destroy(f->tok);
    return 0;
}

static struct qr_grammar *schema_grammar(const struct fixture *f, const char *text,
                                         const struct qr_grammar_limits *limits)
{
    json_t *schema = json_loads(text, JSON_DECODE_ANY, NULL);
    struct qr_err err = {0};
    struct qr_grammar *g;

    assert_non_null(schema);
    if (qr_grammar_compile_json_schema(f->vocab, schema, limits, &g, &err) != QR_OK)
        fail_msg("%s: %s", text, err.message);
    json_decref(schema);
    return g;
}

static void compare_bits(struct qr_grammar_state *s, const uint32_t *bits, int n_bits, const char *what,
                         const char *text)
{
    for (int32_t id = 0; id < n_bits; id++) {
        struct qr_grammar_state *copy;
        bool accepted;

        assert_int_equal(qr_grammar_state_clone(s, &copy, NULL), QR_OK);
        accepted = qr_grammar_accept(copy, id, NULL) == QR_OK;
        qr_grammar_state_destroy(copy);
        if (accepted != (bits[id / 32] >> id % 32 & 1))
            fail_msg("%s: behind %s, token %d is %s, its bit says otherwise", what, text, id,
                     accepted ? "accepted" : "refused");
    }
}

static int32_t some_bit(const uint32_t *bits, int n_bits, uint64_t seed, uint32_t at)
{
    int32_t start = (int32_t)(qr_rand_uniform(seed, 1, at) * (float)n_bits);

    for (int32_t i = 0; i < n_bits; i++) {
        int32_t id = (start + i * 37) % n_bits; /* 37 and n_bits share no divisor: all are visited */

        if (bits[id / 32] >> id % 32 & 1)
            return id;
    }
    return -1;
}

/* Walks at random; at each step every token is tried. */
static void check_masks(const struct fixture *f, struct qr_grammar *g, const char *what, uint64_t seed, int steps)
{
    int n_bits = f->end[2] + 20;
    uint32_t *bits = calloc(qr_grammar_vocab_words(f->vocab), sizeof *bits);
    struct qr_grammar_state *s;
    char text[4096] = "";

    assert_int_equal(n_bits % 37 != 0, 1);
    assert_int_equal(qr_grammar_state_create(g, &s, NULL), QR_OK);
    for (int i = 0; i < steps && !qr_grammar_is_finished(s); i++) {
        struct qr_err err = {0};
        const char *piece;
        size_t n = 0;
        int32_t id;

        if (qr_grammar_mask(s, bits, &err) != QR_OK)
            fail_msg("%s: behind %s: %s", what, text, err.message);
        compare_bits(s, bits, n_bits, what, text);
        id = some_bit(bits, n_bits, seed, (uint32_t)i);
        assert_true(id >= 0);
        assert_int_equal(qr_grammar_accept(s, id, NULL), QR_OK);
        piece = id < f->end[0] ? qr_tokenizer_bytes(f->tok, id, &n) : "";
        if (strlen(text) + n + 1 < sizeof text)
            strncat(text, piece, n);
    }
    qr_grammar_state_destroy(s);
    free(bits);
}

static const char *const schemas[] = {
    "true",
    "{\"type\":\"object\"}",
    "{\"type\":\"string\"}",
    "{\"type\":\"string\",\"minLength\":2,\"maxLength\":5}",
    "{\"maxLength\":2}",
    "{\"type\":\"number\"}",
    "{\"type\":\"integer\",\"minimum\":-12,\"maximum\":1200}",
    "{\"enum\":[\"a\",\"ab\",\"abc\",1,12,123,null,{\"a\":[1,{}]}]}",
    "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},\"maxItems\":3}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"ab\":{\"type\":\"number\"},\"abc\":{}},"
    "\"required\":[\"ab\"]}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},"
    "\"additionalProperties\":false}},\"additionalProperties\":false}",
    "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}},{\"type\":\"object\","
    "\"properties\":{\"a\":{\"type\":\"string\"}}}]}",
    "{\"type\":\"string\",\"pattern\":\"^(ab|abc)+$\"}",
    "{\"type\":[\"integer\",\"array\"],\"items\":{\"$ref\":\"#\"}}",
    "{\"$defs\":{\"t\":{\"anyOf\":[{\"type\":\"array\",\"prefixItems\":[{\"$ref\":\"#/$defs/t\"},{\"$ref\":\"#/$defs/"
    "t\"}],\"minItems\":2,\"maxItems\":2},{\"const\":1}]}},\"$ref\":\"#/$defs/t\"}",
};
#define N_SCHEMA (sizeof schemas / sizeof *schemas)

static void bits_say_what_is_accepted(void **state)
{
    for (size_t i = 0; i < N_SCHEMA; i++) {
        struct qr_grammar *g = schema_grammar(*state, schemas[i], NULL);

        for (uint64_t seed = 0; seed < 5; seed++)
            check_masks(*state, g, schemas[i], seed, 25);
        qr_grammar_destroy(g);
    }
}

/* Close to the limit of depth, masks are other ones; and a small table of masks is emptied all the time. */
static void bits_near_limits(void **state)
{
    for (size_t i = 0; i < N_SCHEMA; i++)
        for (uint32_t depth = 3; depth < 6; depth++) {
            struct qr_grammar_limits limits = {.max_depth = depth, .cache_bytes = 1};
            struct qr_grammar *g = schema_grammar(*state, schemas[i], &limits);

            check_masks(*state, g, schemas[i], depth, 25);
            qr_grammar_destroy(g);
        }
}

static void walks_reach_an_end(void **state)
{
    struct walk_stats stats = {0};

    for (size_t i = 0; i < N_SCHEMA; i++) {
        struct qr_grammar_limits limits = {.max_depth = i % 2 ? 4 : 30};
        struct qr_grammar *g = schema_grammar(*state, schemas[i], &limits);
        struct walker *w = walker_create(g);

        for (uint64_t seed = 0; seed < 20; seed++) {
            struct qr_buf text = {0};
            struct qr_err err = {0};
            json_t *value;

            if (!walk_text(w, seed, 30, &text, &stats, &err))
                fail_msg("%s: %s", schemas[i], err.message);
            value = json_loadb(text.data, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            if (!value)
                fail_msg("%s: %s is no JSON", schemas[i], text.data);
            json_decref(value);
            qr_buf_free(&text);
        }
        walker_destroy(w);
        qr_grammar_destroy(g);
    }
}

static bool bit(const uint32_t *bits, int32_t id)
{
    return bits[id / 32] >> id % 32 & 1;
}

static void ends_come_where_a_text_may_end(void **state)
{
    struct fixture *f = *state;
    struct qr_grammar *g = schema_grammar(f, "{\"type\":\"integer\",\"minimum\":0,\"maximum\":12}", NULL);
    uint32_t bits[32];
    struct qr_grammar_state *s, *other;

    assert_int_equal(qr_grammar_state_create(g, &s, NULL), QR_OK);
    assert_int_equal(qr_grammar_mask(s, bits, NULL), QR_OK);
    assert_false(bit(bits, f->end[0]) || bit(bits, f->end[1]) || bit(bits, f->end[2]));
    assert_int_equal(qr_grammar_accept(s, f->end[0], NULL), QR_INVALID);
    assert_int_equal(qr_grammar_accept(s, '1', NULL), QR_OK);
    assert_int_equal(qr_grammar_mask(s, bits, NULL), QR_OK);
    assert_true(bit(bits, f->end[0]) && bit(bits, f->end[1]) && bit(bits, f->end[2]) && bit(bits, '2'));
    assert_false(bit(bits, '3') || bit(bits, f->end[0] + 1)); /* 13 is too much; <other> is special */
    assert_true(qr_grammar_may_end(s));
    assert_false(qr_grammar_is_finished(s));
    assert_int_equal(qr_grammar_accept(s, f->end[0] + 1, NULL), QR_INVALID);
    assert_int_equal(qr_grammar_accept(s, -1, NULL), QR_INVALID);
    assert_int_equal(qr_grammar_accept(s, 1 << 30, NULL), QR_INVALID);
    /* a copy goes its own way; a refusal changes nothing */
    assert_int_equal(qr_grammar_state_clone(s, &other, NULL), QR_OK);
    assert_int_equal(qr_grammar_accept(other, '9', NULL), QR_INVALID);
    assert_int_equal(qr_grammar_accept(other, '2', NULL), QR_OK);
    assert_true(qr_grammar_is_finished(other));
    assert_false(qr_grammar_is_finished(s));
    assert_int_equal(qr_grammar_accept(s, f->end[2], NULL), QR_OK);
    assert_true(qr_grammar_is_finished(s));
    assert_int_equal(qr_grammar_accept(s, '1', NULL), QR_INVALID);
    qr_grammar_state_reset(s);
    assert_int_equal(qr_grammar_accept_bytes(s, "12", 2, NULL), QR_OK);
    assert_int_equal(qr_grammar_mask(s, bits, NULL), QR_OK);
    for (int32_t id = 0; id < f->end[2] + 20; id++)
        assert_int_equal(bit(bits, id), id == f->end[0] || id == f->end[1] || id == f->end[2]);
    qr_grammar_state_destroy(other);
    qr_grammar_state_destroy(s);
    qr_grammar_destroy(g);
}

static void text_is_strict_utf8(void **state)
{
    static const char *const bad[] = {"\"\x80",     "\"\xC0\x80", "\"\xC1",      "\"\xE0\x80",
                                      "\"\xED\xA0", "\"\xF0\x80", "\"\xF4\x90",  "\"\xF5",
                                      "\"\xFF",     "\"\x1F",     "\"\\ud800\"", "\"\\ud800\\u0041",
                                      "\"\\udc00",  "\"\\u00g",   "\"\\u004",    "\"\\u0041"};
    static const char *const good[] = {"\"\xC2\x80\"",
                                       "\"\xE0\xA0\x80\"",
                                       "\"\xED\x9F\xBF\"",
                                       "\"\xEE\x80\x80\"",
                                       "\"\xF0\x90\x80\x80\"",
                                       "\"\xF4\x8F\xBF\xBF\"",
                                       "\"\x7F\"",
                                       "\"\\ud83d\\ude00\"",
                                       "\"\\uDBFF\\uDFFF\"",
                                       "\"\\u0000\\ud7ff\\ue000\\uFFFF\"",
                                       "\"\\b\\f\\n\\r\\t\\\\\\\"\""};
    struct qr_grammar *g = schema_grammar(*state, "{\"type\":\"string\"}", NULL);
    struct qr_grammar_state *s;

    assert_int_equal(qr_grammar_state_create(g, &s, NULL), QR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qr_grammar_state_reset(s);
        if (qr_grammar_accept_bytes(s, bad[i], strlen(bad[i]), NULL) == QR_OK && strlen(bad[i]) != 6 + 1)
            fail_msg("%zu is accepted", i);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        qr_grammar_state_reset(s);
        if (qr_grammar_accept_bytes(s, good[i], strlen(good[i]), NULL) != QR_OK || !qr_grammar_is_finished(s))
            fail_msg("%s is refused", good[i]);
    }
    qr_grammar_state_destroy(s);
    qr_grammar_destroy(g);
}

static enum qr_status compile_text(const struct fixture *f, const char *text, const struct qr_grammar_limits *limits)
{
    json_t *schema = json_loads(text, JSON_DECODE_ANY, NULL);
    struct qr_grammar *g;
    enum qr_status status = qr_grammar_compile_json_schema(f->vocab, schema, limits, &g, NULL);

    json_decref(schema);
    qr_grammar_destroy(g);
    return status;
}

static void limits_hold(void **state)
{
    static const char object[] =
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"pattern\":\"^[a-z]{30}$\"}}}";
    const struct qr_grammar_limits states = {.max_states = 50}, work = {.max_work = 200}, bytes = {.max_bytes = 5000};
    const struct qr_grammar_limits deep = {.max_depth = 2};

    assert_int_equal(compile_text(*state, object, NULL), QR_OK);
    assert_int_equal(compile_text(*state, object, &states), QR_LIMIT);
    assert_int_equal(compile_text(*state, object, &work), QR_LIMIT);
    assert_int_equal(compile_text(*state, object, &bytes), QR_LIMIT);
    assert_int_equal(compile_text(*state, "{\"const\":[[[1]]]}", &deep), QR_OK); /* a literal needs no stack */
    assert_int_equal(
        compile_text(*state,
                     "{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"array\",\"minItems\":1,\"items\":"
                     "{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"null\"}}}}",
                     &deep),
        QR_INVALID);
    assert_int_equal(compile_text(*state, "null", NULL), QR_INVALID);
    assert_int_equal(
        qr_grammar_compile_json_schema(((struct fixture *)*state)->vocab, NULL, NULL, &(struct qr_grammar *){0}, NULL),
        QR_INVALID);
}

static void patterns_and_choices(void **state)
{
    struct fixture *f = *state;
    static const char *const texts[] = {"abc", "ab", "b\xC3\xA9", "ab"};
    static const char *const bad[] = {"ok", ""};
    struct qr_grammar *g;
    struct qr_err err;

    assert_int_equal(qr_grammar_compile_choice(f->vocab, texts, 4, NULL, &g, &err), QR_OK);
    for (uint64_t seed = 0; seed < 5; seed++)
        check_masks(f, g, "choice", seed, 10);
    qr_grammar_destroy(g);
    assert_int_equal(qr_grammar_compile_choice(f->vocab, bad, 2, NULL, &g, &err), QR_INVALID);
    assert_null(g);
    assert_int_equal(qr_grammar_compile_choice(f->vocab, bad, 0, NULL, &g, &err), QR_INVALID);
    assert_int_equal(qr_grammar_compile_regex(f->vocab, "(a|ab)(c|bcd)*1{2,3}", 20, NULL, &g, &err), QR_OK);
    for (uint64_t seed = 0; seed < 5; seed++)
        check_masks(f, g, "regex", seed, 20);
    qr_grammar_destroy(g);
    assert_int_equal(qr_grammar_compile_regex(f->vocab, "a^b", 3, NULL, &g, &err), QR_INVALID);
    assert_non_null(strstr(err.message, "no text"));
    assert_int_equal(qr_grammar_compile_regex(f->vocab, "\xFF", 1, NULL, &g, &err), QR_INVALID);
    assert_int_equal(qr_grammar_compile_json_object(f->vocab, NULL, &g, &err), QR_OK);
    check_masks(f, g, "object", 1, 20);
    qr_grammar_destroy(g);
    assert_int_equal(qr_grammar_vocab_create(f->tok, -3, NULL, 0, &(struct qr_grammar_vocab *){0}, &err), QR_INVALID);
    assert_int_equal(qr_grammar_vocab_create(f->tok, 0, &(int32_t){-5}, 1, &(struct qr_grammar_vocab *){0}, &err),
                     QR_INVALID);
}

struct visitor {
    pthread_t thread;
    struct qr_grammar *g;
    uint64_t hash; /* of all masks seen */
    bool ok;
};

static void *visit(void *arg)
{
    struct visitor *me = arg;
    uint32_t bits[32] = {0};
    struct qr_grammar_state *s;

    me->hash = 1;
    me->ok = qr_grammar_state_create(me->g, &s, NULL) == QR_OK;
    for (int round = 0; me->ok && round < 20; round++) {
        qr_grammar_state_reset(s);
        for (uint32_t i = 0; me->ok && i < 30 && !qr_grammar_is_finished(s); i++) {
            me->ok = qr_grammar_mask(s, bits, NULL) == QR_OK;
            for (int w = 0; w < 10; w++)
                me->hash = (me->hash ^ bits[w]) * 0x100000001B3u;
            me->ok = me->ok && qr_grammar_accept(s, some_bit(bits, 300, (uint64_t)round, i), NULL) == QR_OK;
        }
    }
    if (s)
        qr_grammar_state_destroy(s);
    return NULL;
}

static void threads_share_a_grammar(void **state)
{
    for (size_t cache = 0; cache < 2; cache++) {
        struct qr_grammar_limits limits = {.cache_bytes = cache}; /* 1: emptied before each mask */
        struct qr_grammar *g = schema_grammar(*state, schemas[1], &limits);
        struct visitor visitor[4] = {{0}};

        for (int i = 0; i < 4; i++) {
            visitor[i].g = g;
            assert_int_equal(pthread_create(&visitor[i].thread, NULL, visit, &visitor[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(visitor[i].thread, NULL);
            assert_true(visitor[i].ok);
            assert_true(visitor[i].hash == visitor[0].hash);
        }
        qr_grammar_destroy(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_say_what_is_accepted), cmocka_unit_test(bits_near_limits),
        cmocka_unit_test(walks_reach_an_end),        cmocka_unit_test(ends_come_where_a_text_may_end),
        cmocka_unit_test(text_is_strict_utf8),       cmocka_unit_test(limits_hold),
        cmocka_unit_test(patterns_and_choices),      cmocka_unit_test(threads_share_a_grammar),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
