/* test_grammar_hostile.c - schemas and patterns put together at random, most of them wrong: refused with a sentence, or
 * compiled into masks that lead to an end. QUIRE_LONG tries more. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/rand.h"
#include "text/grammar_walk.h"
#include "text/tiny.h"

static const char *const merges[] = {"\\\"+:", "\\\"+,", "\\\"+}", "]+}", "[+[",
                                     "{+\\\"", "a+b",    "ab+c",   "1+2", ",+\\\""};

struct source {
    uint64_t seed;
    uint32_t at;
};

static uint32_t draw(struct source *s, uint32_t below)
{
    return (uint32_t)(qr_rand_uniform(s->seed, 0, s->at++) * (float)below);
}

static const char *const words[] = {"a",
                                    "b",
                                    "ab",
                                    "\"",
                                    "\\",
                                    "\xC3\xA9",
                                    "\xF0\x9F\x98\x80",
                                    "",
                                    "object",
                                    "string",
                                    "integer",
                                    "number",
                                    "array",
                                    "boolean",
                                    "null",
                                    "date",
                                    "uuid",
                                    "time",
                                    "email",
                                    "ipv6",
                                    "#",
                                    "#/$defs/a",
                                    "#/$defs/b",
                                    "#/properties/a",
                                    "#/x",
                                    "a\nb",
                                    "#/%zz"};
static const char *const patterns[] = {
    "^a+$",   "a|b",        "[^a]{2,5}",   "(a*)*b", "\\d{1,3}",   ".",       "^$",   "(",  "[",
    "a{9,3}", "\\u{1F600}", "(?:x|y)*z?$", "\\w\\W", "^(a|ab)*c$", "$^",      "a{0}", "[]", "[^]",
    "(^|b)+", "\\x",        "x{,2}",       "(?=a)",  "\\1",        "[\\d-z]", "a**"};
static const char *const keys[] = {"type",
                                   "type",
                                   "type",
                                   "properties",
                                   "properties",
                                   "required",
                                   "additionalProperties",
                                   "items",
                                   "items",
                                   "prefixItems",
                                   "minItems",
                                   "maxItems",
                                   "enum",
                                   "const",
                                   "anyOf",
                                   "anyOf",
                                   "oneOf",
                                   "allOf",
                                   "$ref",
                                   "$ref",
                                   "$defs",
                                   "minLength",
                                   "maxLength",
                                   "pattern",
                                   "format",
                                   "minimum",
                                   "maximum",
                                   "exclusiveMinimum",
                                   "exclusiveMaximum",
                                   "multipleOf",
                                   "propertyNames",
                                   "patternProperties",
                                   "minProperties",
                                   "maxProperties",
                                   "uniqueItems",
                                   "not",
                                   "description",
                                   "unevaluatedProperties",
                                   "title",
                                   "definitions"};
#define PICK(s, list) (list[draw(s, sizeof list / sizeof *list)])

static json_t *number(struct source *s)
{
    static const double odd[] = {0, -0.0, 0.5, -1.5, 1e15, -1e15, 1e300, 0.1, 3, 1e-9, 123456.789, 9007199254740993.0};

    return draw(s, 2) ? json_integer((json_int_t)draw(s, 12) - 3) : json_real(PICK(s, odd));
}

static json_t *schema(struct source *s, int depth);

static json_t *list(struct source *s, int depth, json_t *(*make)(struct source *, int))
{
    json_t *out = json_array();

    for (uint32_t n = draw(s, 4); n > 0; n--)
        json_array_append_new(out, make(s, depth + 1));
    return out;
}

static json_t *word(struct source *s, int depth)
{
    (void)depth;
    return json_string(PICK(s, words));
}

static json_t *value(struct source *s, int depth)
{
    switch (depth > 4 ? draw(s, 5) : draw(s, 8)) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(draw(s, 2));
    case 2:
        return number(s);
    case 5:
        return list(s, depth, value);
    case 6:
        return schema(s, depth + 1);
    default:
        return word(s, depth);
    }
}

static json_t *map(struct source *s, int depth, bool of_patterns)
{
    json_t *out = json_object();

    for (uint32_t n = draw(s, 5); n > 0; n--)
        json_object_set_new(out, of_patterns ? PICK(s, patterns) : PICK(s, words), schema(s, depth + 1));
    return out;
}

/* Mostly what the keyword wants. */
static json_t *argument(struct source *s, const char *key, int depth)
{
    if (draw(s, 12) == 0)
        return value(s, depth);
    if (!strcmp(key, "type"))
        return draw(s, 4) ? json_string(words[8 + draw(s, 7)]) : list(s, depth, word);
    if (!strcmp(key, "properties") || !strcmp(key, "patternProperties"))
        return map(s, depth, key[1] == 'a');
    if (!strcmp(key, "$defs") || !strcmp(key, "definitions"))
        return json_pack("{s:o,s:o}", "a", schema(s, depth + 1), "b", schema(s, depth + 1));
    if (!strcmp(key, "required"))
        return list(s, depth, word);
    if (!strcmp(key, "anyOf") || !strcmp(key, "oneOf") || !strcmp(key, "allOf") || !strcmp(key, "prefixItems"))
        return list(s, depth, schema);
    if (!strcmp(key, "items") || !strcmp(key, "additionalProperties") || !strcmp(key, "propertyNames"))
        return schema(s, depth + 1);
    if (!strcmp(key, "enum"))
        return list(s, depth, value);
    if (!strcmp(key, "pattern"))
        return json_string(PICK(s, patterns));
    if (!strcmp(key, "$ref"))
        return json_string(words[20 + draw(s, 5)]);
    if (!strncmp(key, "min", 3) || !strncmp(key, "max", 3) || !strncmp(key, "excl", 4) || !strcmp(key, "multipleOf"))
        return number(s);
    return value(s, depth);
}

static json_t *schema(struct source *s, int depth)
{
    json_t *out;

    if (depth > 5 || draw(s, 10) == 0)
        return json_boolean(draw(s, 8) != 0);
    out = json_object();
    for (uint32_t n = draw(s, 6); n > 0; n--) {
        const char *key = PICK(s, keys);

        json_object_set_new(out, key, argument(s, key, depth));
    }
    return out;
}

struct counts {
    long made, refused, texts, ambiguous;
};

static void try_schema(const struct qr_grammar_vocab *vocab, uint64_t seed, struct counts *n)
{
    const struct qr_grammar_limits limits = {
        .max_states = 20000, .max_work = 2000000, .max_depth = 3 + (uint32_t)(seed % 20)};
    struct source s = {seed, 0};
    json_t *in = schema(&s, 0);
    char *text = json_dumps(in, JSON_ENCODE_ANY);
    struct qr_err err = {0};
    struct walk_stats stats = {0};
    struct qr_grammar *g;
    struct walker *w;

    if (qr_grammar_compile_json_schema(vocab, in, &limits, &g, &err) != QR_OK) {
        if (g || strlen(err.message) < 10 || err.status == QR_INTERNAL || err.status == QR_NOMEM)
            fail_msg("seed %llu: %s: %s", (unsigned long long)seed, text, err.message);
        n->refused++;
    } else {
        n->made++;
        w = walker_create(g);
        for (uint64_t i = 0; i < 3; i++) {
            struct qr_buf out = {0};
            json_t *parsed;

            if (!walk_text(w, seed + i, 12, &out, &stats, &err)) {
                if (err.status != QR_LIMIT)
                    fail_msg("seed %llu: %s: behind %.*s: %s", (unsigned long long)seed, text, (int)out.len, out.data,
                             err.message);
                n->ambiguous++;
            } else {
                parsed = json_loadb(out.data, out.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
                if (!parsed)
                    fail_msg("seed %llu: %s: %s is no JSON", (unsigned long long)seed, text, out.data);
                json_decref(parsed);
                n->texts++;
            }
            qr_buf_free(&out);
        }
        walker_destroy(w);
        qr_grammar_destroy(g);
    }
    free(text);
    json_decref(in);
}

static void random_schemas(void **state)
{
    struct qr_tokenizer *tok = tiny_tokenizer(merges, sizeof merges / sizeof *merges, NULL, NULL);
    double end = qr_now_s() + (getenv("QUIRE_LONG") ? 300 : 5);
    struct qr_grammar_vocab *vocab;
    struct counts n = {0};

    (void)state;
    assert_int_equal(qr_grammar_vocab_create(tok, 0, NULL, 0, &vocab, NULL), QR_OK);
    for (uint64_t seed = getenv("QUIRE_SEED") ? strtoull(getenv("QUIRE_SEED"), NULL, 10) : 0; qr_now_s() < end; seed++)
        try_schema(vocab, seed, &n);
    print_message("%ld compiled, %ld refused, %ld texts, %ld too ambiguous\n", n.made, n.refused, n.texts, n.ambiguous);
    assert_true(n.made > 50 && n.refused > 50);
    qr_grammar_vocab_destroy(vocab);
    qr_tokenizer_destroy(tok);
}

static void random_patterns(void **state)
{
    static const char alphabet[] = "ab()[]{}|*+?^$.\\,-0129dwsDWSpPu:=!<>\xC3\xA9\n";
    struct qr_tokenizer *tok = tiny_tokenizer(merges, sizeof merges / sizeof *merges, NULL, NULL);
    const struct qr_grammar_limits limits = {.max_states = 20000, .max_work = 3000000};
    double end = qr_now_s() + (getenv("QUIRE_LONG") ? 300 : 3);
    struct qr_grammar_vocab *vocab;
    long made = 0, refused = 0;

    (void)state;
    assert_int_equal(qr_grammar_vocab_create(tok, 0, NULL, 0, &vocab, NULL), QR_OK);
    for (uint64_t seed = 0; qr_now_s() < end; seed++) {
        struct source s = {seed, 0};
        struct qr_err err = {0};
        struct qr_grammar *g;
        char pattern[64];
        size_t n = 0, parts = draw(&s, 6);

        if (draw(&s, 2))
            for (; parts > 0; parts--) { /* pieces of good ones */
                const char *piece = PICK(&s, patterns);

                memcpy(pattern + n, piece, strlen(piece));
                n += strlen(piece);
                if (n > sizeof pattern - 16)
                    break;
            }
        else
            for (n = 0; n < sizeof pattern && draw(&s, 20); n++)
                pattern[n] = alphabet[draw(&s, sizeof alphabet - 1)];
        if (qr_grammar_compile_regex(vocab, pattern, n, &limits, &g, &err) == QR_OK)
            made++;
        else if (strlen(err.message) > 10 && err.status != QR_INTERNAL)
            refused++;
        else
            fail_msg("%.*s: %s", (int)n, pattern, err.message);
        qr_grammar_destroy(g);
    }
    print_message("%ld compiled, %ld refused\n", made, refused);
    assert_true(made > 50 && refused > 50);
    qr_grammar_vocab_destroy(vocab);
    qr_tokenizer_destroy(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_schemas), cmocka_unit_test(random_patterns)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
