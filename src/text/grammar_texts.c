/* grammar_texts.c - which tokens stay inside a JSON string, and where others close it: once for a vocabulary, so that masks
 * inside strings, counted ones too, need no walk over it. */
#include <stdlib.h>
#include "text/grammar_internal.h"

static bool add_closer(struct qr_gr_texts *t, uint32_t node, uint32_t chars)
{
    if (t->n_closer == t->room_closer) {
        size_t room = t->room_closer ? t->room_closer * 2 : 1024;
        struct qr_gr_closer *closer = realloc(t->closer, room * sizeof *closer);

        if (!closer)
            return false;
        t->closer = closer;
        t->room_closer = room;
    }
    t->closer[t->n_closer++] = (struct qr_gr_closer){node, chars};
    return true;
}

/* Walks the trie from between two characters. */
static bool walk(struct qr_grammar_vocab *v, const struct qr_grammar *g, uint32_t between)
{
    uint32_t state[QR_GR_MAX_TOKEN + 1] = {between};
    uint16_t chars[QR_GR_MAX_TOKEN + 1] = {0};

    for (uint32_t i = 0; i < v->n_node;) {
        uint32_t d = v->depth[i], to = qr_gr_target(g, &g->state[state[d - 1]], v->byte[i]);

        if (to == QR_GR_FIN && !add_closer(&v->texts, i, chars[d - 1]))
            return false;
        if (to == QR_GR_NONE || to == QR_GR_FIN) {
            i = v->skip[i];
            continue;
        }
        state[d] = to;
        chars[d] = (uint16_t)(chars[d - 1] + (state[d - 1] == between)); /* leaving the place between starts one */
        for (int32_t id = v->token[i]; id >= 0; id = v->same[id])
            v->texts.chars[id] = chars[d];
        i++;
    }
    return true;
}

enum qr_status qr_gr_texts_make(struct qr_grammar_vocab *v)
{
    json_t *schema = json_pack("{s:s}", "type", "string");
    struct qr_grammar *g = NULL;
    enum qr_status status = schema ? qr_grammar_compile_json_schema(v, schema, NULL, &g, NULL) : QR_NOMEM;

    json_decref(schema);
    if (status == QR_OK) {
        v->texts.chars = calloc(v->n_bits, sizeof *v->texts.chars);
        status = v->texts.chars ? QR_OK : QR_NOMEM;
    }
    for (uint32_t s = 0; status == QR_OK && s < g->n_state; s++)
        if (g->state[s].text && !walk(v, g, s))
            status = QR_NOMEM;
    qr_grammar_destroy(g);
    v->memory += v->n_bits * sizeof *v->texts.chars + v->texts.room_closer * sizeof *v->texts.closer;
    return status;
}

void qr_gr_texts_free(struct qr_gr_texts *texts)
{
    free(texts->chars);
    free(texts->closer);
}
