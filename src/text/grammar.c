/* grammar.c - compiling: the builder around a schema, a pattern or a list of texts. */
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"
#include "text/grammar_internal.h"
#include "text/grammar_state.h"
#include "text/utf8.h"

void qr_grammar_destroy(struct qr_grammar *g)
{
    if (!g)
        return;
    qr_gr_cache_free(g);
    free(g->state);
    free(g->edge);
    free(g->call);
    free(g->rule);
    free(g->limit);
    free(g->row);
    free(g);
}

size_t qr_grammar_bytes(const struct qr_grammar *g)
{
    return sizeof *g + g->n_state * sizeof *g->state + g->n_edge * sizeof *g->edge + g->n_call * sizeof *g->call +
           g->n_rule * sizeof *g->rule + g->n_row * sizeof *g->row + g->cache.bytes;
}

static void start(struct qr_gr_builder *b, const struct qr_grammar_vocab *vocab, const struct qr_grammar_limits *limits,
                  struct qr_err *err)
{
    static const struct qr_grammar_limits none = {0};
    const struct qr_grammar_limits *l = limits ? limits : &none;

    memset(b, 0, sizeof *b);
    b->err = err;
    b->seed = qr_rand_fresh_seed();
    b->max_states = l->max_states ? l->max_states : 400000;
    b->max_work = l->max_work ? l->max_work : 50000000;
    b->max_bytes = l->max_bytes ? l->max_bytes : (size_t)128 << 20;
    b->closed_objects = l->closed_objects;
    b->arena = qr_arena_create(b->max_bytes);
    b->g = calloc(1, sizeof *b->g);
    b->owned = json_array();
    if (!b->arena || !b->g || !b->owned) {
        qr_gr_nomem(b);
        return;
    }
    b->g->vocab = vocab;
    b->g->max_depth = l->max_depth ? l->max_depth : 64;
    b->g->cache_bytes = l->cache_bytes ? l->cache_bytes : (size_t)32 << 20;
    if (b->g->max_depth > QR_GR_MAX_DEPTH)
        b->g->max_depth = QR_GR_MAX_DEPTH;
    qr_gr_new(b); /* none */
    qr_gr_new(b); /* the end */
    qr_gr_limit(b, 0, 0);
    if (b->status == QR_OK)
        b->g->state[QR_GR_FIN].accept = true;
}

/* Frees the builder; gives the grammar away when all went well. */
static enum qr_status finish(struct qr_gr_builder *b, struct qr_grammar **grammar)
{
    if (b->status == QR_OK)
        qr_gr_finish(b);
    if (b->status == QR_OK && qr_gr_cache_init(b->g) != QR_OK)
        qr_gr_nomem(b);
    *grammar = NULL;
    if (b->status == QR_OK)
        qr_gr_cache_warm(b->g);
    if (b->status == QR_OK)
        *grammar = b->g;
    else
        qr_grammar_destroy(b->g);
    qr_arena_destroy(b->arena);
    json_decref(b->owned);
    free(b->item);
    free(b->empty);
    free(b->cons.slot);
    free(b->schemas.slot);
    free(b->strings.slot);
    return b->status;
}

enum qr_status qr_grammar_compile_json_schema(const struct qr_grammar_vocab *vocab, const json_t *schema,
                                              const struct qr_grammar_limits *limits, struct qr_grammar **grammar,
                                              struct qr_err *err)
{
    struct qr_gr_builder b;

    start(&b, vocab, limits, err);
    if (b.status == QR_OK)
        qr_gr_schema(&b, schema);
    return finish(&b, grammar);
}

enum qr_status qr_grammar_compile_json_object(const struct qr_grammar_vocab *vocab,
                                              const struct qr_grammar_limits *limits, struct qr_grammar **grammar,
                                              struct qr_err *err)
{
    json_t *schema = json_pack("{s:s}", "type", "object");
    enum qr_status status;

    *grammar = NULL;
    if (!schema)
        return qr_fail(err, QR_NOMEM, "out of memory while compiling a grammar");
    status = qr_grammar_compile_json_schema(vocab, schema, limits, grammar, err);
    json_decref(schema);
    return status;
}

static void only_rule(struct qr_gr_builder *b, uint32_t state)
{
    uint32_t rule = qr_gr_rule(b);

    if (b->status == QR_OK)
        b->g->rule[rule].start = state;
}

enum qr_status qr_grammar_compile_regex(const struct qr_grammar_vocab *vocab, const char *pattern, size_t n,
                                        const struct qr_grammar_limits *limits, struct qr_grammar **grammar,
                                        struct qr_err *err)
{
    struct qr_gr_builder b;
    struct qr_cdfa *dfa;

    start(&b, vocab, limits, err);
    dfa = b.status == QR_OK ? qr_cdfa_pattern(&b, pattern, n, false, "regex") : NULL;
    if (dfa && !dfa->n)
        qr_gr_fail(&b, QR_INVALID, "no text matches the regular expression; correct it");
    only_rule(&b, dfa ? qr_gr_emit_raw(&b, dfa) : 0);
    return finish(&b, grammar);
}

enum qr_status qr_grammar_compile_choice(const struct qr_grammar_vocab *vocab, const char *const *choice,
                                         size_t n_choice, const struct qr_grammar_limits *limits,
                                         struct qr_grammar **grammar, struct qr_err *err)
{
    struct qr_gr_builder b;
    struct qr_gr_text *text;

    start(&b, vocab, limits, err);
    if (n_choice == 0)
        qr_gr_fail(&b, QR_INVALID, "a choice needs at least one text");
    text = b.status == QR_OK ? qr_gr_alloc(&b, n_choice, sizeof *text) : NULL;
    for (size_t i = 0; text && i < n_choice; i++) {
        text[i] = (struct qr_gr_text){choice[i], strlen(choice[i])};
        if (!text[i].n || qr_utf8_valid(text[i].s, text[i].n) != text[i].n)
            qr_gr_fail(&b, QR_INVALID, "choice %zu is empty or not well-formed UTF-8", i);
    }
    only_rule(&b, text && b.status == QR_OK ? qr_gr_choice(&b, text, n_choice) : 0);
    return finish(&b, grammar);
}
