/* fuzz_schema.c - a JSON schema (first byte even) or a regular expression (odd), compiled over a small vocabulary and
 * walked: each mask allows something or says why not, and what a mask allows is accepted. */
#include <stdlib.h>
#include "base/json.h"
#include "fuzz/check.h"
#include "fuzz/styles.h"
#include "text/grammar.h"

static struct qr_grammar_vocab *vocab;
static uint32_t *bits;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const int32_t end = 900;
    struct qr_tokenizer *tok = style_tokenizer(STYLE_BYTES);

    (void)argc;
    (void)argv;
    check(qr_grammar_vocab_create(tok, 0, &end, 1, &vocab, NULL) == QR_OK, "no vocabulary");
    bits = calloc(qr_grammar_vocab_words(vocab), sizeof *bits);
    check(bits != NULL, "no memory");
    qr_tokenizer_destroy(tok);
    return 0;
}

/* The allowed id that draw picks; -1: none is. */
static int32_t pick(uint32_t draw)
{
    size_t words = qr_grammar_vocab_words(vocab);

    for (size_t i = 0; i < words; i++) {
        size_t w = (i + draw / 32) % words;
        uint32_t rotated = draw % 32 ? bits[w] >> (draw % 32) : bits[w];

        if (rotated)
            return (int32_t)(w * 32 + draw % 32 + (unsigned)__builtin_ctz(rotated));
        if (bits[w])
            return (int32_t)(w * 32 + (unsigned)__builtin_ctz(bits[w]));
    }
    return -1;
}

static void walk(struct qr_grammar *grammar, uint32_t seed)
{
    struct qr_grammar_state *state = NULL;
    struct qr_err err = {0};
    enum qr_status status = qr_grammar_state_create(grammar, &state, &err);

    check_error(status, &err);
    for (int i = 0; i < 24 && status == QR_OK && !qr_grammar_is_finished(state); i++) {
        int32_t id;

        for (size_t w = 0; w < qr_grammar_vocab_words(vocab); w++)
            bits[w] = 0;
        status = qr_grammar_mask(state, bits, &err);
        check_error(status, &err);
        if (status != QR_OK)
            break;
        seed = seed * 1664525 + 1013904223; /* Numerical Recipes' linear congruence */
        id = pick(seed >> 16);
        check(id >= 0, "a mask allows nothing");
        check(qr_grammar_accept(state, id, &err) == QR_OK, "what the mask allows is not accepted");
    }
    qr_grammar_state_destroy(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const struct qr_grammar_limits limits = {
        .max_states = 5000, .max_work = 100000, .max_bytes = 16 << 20, .cache_bytes = 1 << 20};
    struct parts parts = parts_of(data + (n > 0), n ? n - 1 : 0);
    struct qr_grammar *grammar = NULL;
    struct qr_err err = {0};
    enum qr_status status;

    if (n && data[0] % 2) {
        status = qr_grammar_compile_regex(vocab, parts.first, parts.n_first, &limits, &grammar, &err);
    } else {
        json_t *schema = NULL;

        status = qr_json_parse(parts.first, parts.n_first, "schema", &schema, &err);
        if (status == QR_OK)
            status = qr_grammar_compile_json_schema(vocab, schema, &limits, &grammar, &err);
        json_decref(schema);
    }
    check_error(status, &err);
    if (status == QR_OK)
        walk(grammar, (uint32_t)n);
    qr_grammar_destroy(grammar);
    parts_free(&parts);
    return 0;
}
