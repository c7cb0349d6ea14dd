/* test_grammar_fault.c - every allocation of compiling grammars and of using them fails once. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "common/fault.h"
#include "text/grammar.h"
#include "text/tiny.h"

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":3},\"n\":{\"type\":"
    "\"number\",\"minimum\":0.5,"
    "\"maximum\":2},\"l\":{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"maxItems\":2}},\"required\":[\"n\"],"
    "\"additionalProperties\":"
    "{\"enum\":[\"x\",1,2.5,{\"k\":[null]}]}}",
    "{\"anyOf\":[{\"allOf\":[{\"type\":\"string\"},{\"pattern\":\"^[a-c]+$\"},{\"maxLength\":4}]},{\"const\":\"q\"},{"
    "\"const\":7},{\"type\":"
    "\"object\",\"patternProperties\":{\"^x\":{\"type\":\"null\"}},\"propertyNames\":{\"maxLength\":3},"
    "\"minProperties\":1}]}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"pattern\":\"^(?!b)[a-z]*$\"}},\"dependentRequired\":{\"a\":[\"b\"]},"
    "\"dependentSchemas\":{\"b\":{\"required\":[\"c\"]}},\"unevaluatedProperties\":true}",
    "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"}},\"required\":[\"k\"]},{\"$ref\":\"#/"
    "$defs/b\"}],"
    "\"$defs\":{\"b\":{\"type\":\"array\",\"items\":{\"enum\":[1,\"x\"]},\"uniqueItems\":true}}}",
    "{\"oneOf\":[{\"type\":\"integer\",\"multipleOf\":3},{\"type\":\"string\",\"format\":\"date\"}],\"$defs\":{\"u\":"
    "true}}",
};

struct input {
    struct qr_tokenizer *tok;
    json_t *schema;
};

static bool use(struct qr_grammar *g, const struct qr_grammar_vocab *vocab)
{
    static uint32_t bits[64];
    struct qr_grammar_state *s = NULL, *copy = NULL;
    bool ok = qr_grammar_state_create(g, &s, NULL) == QR_OK;

    (void)vocab;
    for (int i = 0; ok && i < 6 && !qr_grammar_is_finished(s); i++) {
        ok = qr_grammar_mask(s, bits, NULL) == QR_OK;
        for (int32_t id = 255; ok && id >= 0; id--)
            if (bits[id / 32] >> id % 32 & 1) {
                ok = qr_grammar_accept(s, id, NULL) == QR_OK;
                break;
            }
    }
    ok = ok && qr_grammar_state_clone(s, &copy, NULL) == QR_OK;
    qr_grammar_state_destroy(s);
    qr_grammar_state_destroy(copy);
    return ok;
}

static bool run(void *ctx)
{
    const struct input *in = ctx;
    struct qr_grammar_vocab *vocab = NULL;
    struct qr_grammar *g = NULL;
    bool ok = qr_grammar_vocab_create(in->tok, 0, &(int32_t){256}, 1, &vocab, NULL) == QR_OK;

    ok = ok && qr_grammar_compile_json_schema(vocab, in->schema, NULL, &g, NULL) == QR_OK && use(g, vocab);
    qr_grammar_destroy(g);
    qr_grammar_vocab_destroy(vocab);
    return ok;
}

static bool run_others(void *ctx)
{
    const struct input *in = ctx;
    static const char *const texts[] = {"yes", "no"};
    struct qr_grammar_vocab *vocab = NULL;
    struct qr_grammar *g = NULL;
    bool ok = qr_grammar_vocab_create(in->tok, 0, NULL, 0, &vocab, NULL) == QR_OK;

    ok = ok && qr_grammar_compile_choice(vocab, texts, 2, NULL, &g, NULL) == QR_OK && use(g, vocab);
    qr_grammar_destroy(g);
    g = NULL;
    ok =
        ok && qr_grammar_compile_regex(vocab, "(a|\\p{Lu}|[^b-d]){2,3}$", 23, NULL, &g, NULL) == QR_OK && use(g, vocab);
    qr_grammar_destroy(g);
    g = NULL;
    ok = ok && qr_grammar_compile_json_object(vocab, NULL, &g, NULL) == QR_OK && use(g, vocab);
    qr_grammar_destroy(g);
    qr_grammar_vocab_destroy(vocab);
    return ok;
}

static void every_allocation_fails(void **state)
{
    static const char *const merge[] = {"\\\"+:"};
    struct input in = {.tok = tiny_tokenizer(merge, 1, NULL, NULL)};
    long live, points = 0;

    (void)state;
    if (!fault_works())
        skip();
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        in.schema = json_loads(schemas[i], 0, NULL);
        assert_non_null(in.schema);
        assert_true(run(&in));
        live = fault_live();
        points += fault_torture(run, &in, FAULT_ALLOC, 0);
        assert_int_equal(fault_live(), live);
        json_decref(in.schema);
    }
    assert_true(run_others(&in));
    live = fault_live();
    points += fault_torture(run_others, &in, FAULT_ALLOC, 0);
    assert_int_equal(fault_live(), live);
    print_message("%ld fault points\n", points);
    assert_true(points > 1000);
    qr_tokenizer_destroy(in.tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_fails)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
