/* jinja_node.c - making nodes of the syntax tree. Every finished node knows its height, which is bounded: so is the
 * recursion of the evaluator. */
#include <string.h>
#include "text/jinja_parse.h"
#include "text/jinja_render.h"

static void out_of_memory(struct jparse *p)
{
    qr_jinja_lex_fail(&p->lex, QR_NOMEM, p->cur.line, "out of memory");
    p->cur.type = JT_EOF;
}

/* Never NULL: after a failure all nodes are one that nobody will run. */
struct jnode *qr_jinja_node(struct jparse *p, enum jnode_type type, int line)
{
    struct jnode *node = p->lex.failed ? NULL : qr_arena_alloc(p->jinja->arena, sizeof *node);
    if (!node) {
        out_of_memory(p);
        node = &p->void_node;
        memset(node, 0, sizeof *node);
    }
    node->type = (uint8_t)type;
    node->line = line;
    return node;
}

void qr_jinja_push(struct jparse *p, struct jnodes *list, struct jnode *node)
{
    if (p->lex.failed)
        return;
    if (list->n == list->room) {
        int room = list->room ? list->room * 2 : 4;
        struct jnode **more = qr_arena_array(p->jinja->arena, (size_t)room, sizeof(struct jnode *));
        if (!more) {
            out_of_memory(p);
            return;
        }
        if (list->n)
            memcpy(more, list->v, (size_t)list->n * sizeof(struct jnode *));
        list->v = more;
        list->room = room;
    }
    list->v[list->n++] = node;
}

static void higher(int *height, const struct jnode *part)
{
    if (part && part->height > *height)
        *height = part->height;
}

struct jnode *qr_jinja_done(struct jparse *p, struct jnode *node)
{
    if (p->lex.failed)
        return node;
    int height = 0;
    higher(&height, node->a);
    higher(&height, node->b);
    higher(&height, node->c);
    higher(&height, node->d);
    higher(&height, node->e);
    for (int i = 0; i < node->n_kid; i++)
        higher(&height, node->kid[i]);
    if (node->call) {
        const struct jcall *call = node->call;
        for (int i = 0; i < call->n_pos; i++)
            higher(&height, call->pos[i]);
        for (int i = 0; i < call->n_kw; i++)
            higher(&height, call->kw[i]);
        higher(&height, call->star);
        higher(&height, call->star_star);
    }
    if (height >= QR_JINJA_DEPTH) {
        qr_jinja_lex_fail(&p->lex, QR_LIMIT, node->line, "it nests deeper than %d levels", QR_JINJA_DEPTH);
        p->cur.type = JT_EOF;
        return node;
    }
    node->height = (uint16_t)(height + 1);
    qr_jinja_note_fixed(node);
    return node;
}
