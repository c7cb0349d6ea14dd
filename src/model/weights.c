/* weights.c - describes a model's weights from headers alone: which tensors, which storages, how many bytes. Loading
 * (weights_fill.c) then allocates and fills exactly what stands here. */
#include "model/weights.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/checked.h"
#include "base/pack.h"
#include "model/weights_build.h"

#define ALIGN    64 /* bytes: a cache line, and one AVX-512 register */
#define MAX_PART 3

/* One tensor of a merged storage. */
struct part {
    const char *tensor; /* "attn_q" */
    uint64_t n_row;
    bool bias;
    uint32_t n_pair; /* rows per head where the file may have them in another order, else 0 */
    struct qr_weight *view;
    const struct qr_vector *norm; /* in front of it; NULL: none */
};

static enum qr_status no_memory(struct qr_err *err)
{
    return qr_fail(err, QR_NOMEM, "no memory for the description of the weights");
}

/* "blk.3." + name, or name alone when layer is -1; in the arena. */
static const char *full_name(struct qr_weights_build *b, int layer, const char *name)
{
    char s[96];
    if (layer < 0)
        snprintf(s, sizeof(s), "%s", name);
    else
        snprintf(s, sizeof(s), "blk.%d.%s", layer, name);
    return qr_arena_strdup(b->arena, s);
}

static enum qr_status find(struct qr_weights_build *b, const char *name, const char *suffix, uint64_t n_row,
                           uint64_t n_col, const struct qr_source_tensor **out, struct qr_err *err)
{
    char s[128];
    snprintf(s, sizeof(s), "%s.%s", name, suffix);
    return qr_source_find(b->source, s, n_row, n_col, out, err);
}

static void add_patch(struct qr_weights_build *b, struct qr_segment *segment, const float **vector, uint64_t offset)
{
    b->patch[b->n_patch++] = (struct qr_weights_patch){segment, vector, offset};
}

/* Room for n floats; their offset. Each vector starts at a cache line. */
static enum qr_status reserve_floats(struct qr_weights_build *b, uint64_t n, uint64_t *offset, struct qr_err *err)
{
    uint64_t end;
    *offset = b->n_float;
    if (!qr_add_u64(b->n_float, n, &end) || !qr_align_u64(end, ALIGN / sizeof(float), &end) || end > UINT64_MAX / 4)
        return qr_fail(err, QR_LIMIT, "the model's vectors take more than 2^64 bytes");
    b->n_float = end;
    return QR_OK;
}

static enum qr_status add_vector(struct qr_weights_build *b, int layer, const char *name, uint64_t n, uint32_t n_pair,
                                 struct qr_vector *out, struct qr_err *err)
{
    struct qr_weights_item *item = &b->item[b->n_item];
    const char *full = full_name(b, layer, name);
    if (!full)
        return no_memory(err);
    QR_TRY(find(b, full, "weight", 1, n, &item->tensor, err));
    QR_TRY(reserve_floats(b, n, &item->offset, err));
    item->vector = true;
    item->n_pair = n_pair;
    b->n_item++;
    out->name = full;
    out->n = (uint32_t)n;
    add_patch(b, NULL, &out->data, item->offset);
    return QR_OK;
}

/* Whether the file has rows of q and k in another order than ROPE wants them (qr_weights_file_row). */
static bool other_order(const struct qr_weights_build *b, const struct qr_source_tensor *tensor)
{
    const struct qr_config *c = b->weights.config;
    return tensor->interleaved_rope || qr_config_rope_dim(c) != c->head_dim;
}

/* Adds a part's tensor as panels behind what is there; it joins the segment before it when the types are equal. */
static enum qr_status add_part(struct qr_weights_build *b, const struct part *part, struct qr_storage *storage,
                               struct qr_err *err)
{
    struct qr_weights_item *item = &b->item[b->n_item++];
    QR_TRY(find(b, part->view->name, "weight", part->n_row, storage->n_col, &item->tensor, err));
    enum qr_dtype type = item->tensor->as;
    if (!qr_pack_supported(type, storage->n_col) || qr_panel_bytes(type, storage->n_col) % ALIGN != 0)
        return qr_fail(err, QR_UNSUPPORTED, "tensor '%s': quire has no kernel for rows of %u elements of type %s",
                       item->tensor->name, storage->n_col, qr_dtype_info(type)->name);
    uint64_t n_panel = (part->n_row + QR_PANEL_ROWS - 1) / QR_PANEL_ROWS, bytes, end;
    if (!qr_mul_u64(n_panel, qr_panel_bytes(type, storage->n_col), &bytes) || !qr_align_u64(bytes, ALIGN, &bytes) ||
        !qr_add_u64(b->block_bytes, bytes, &end) || end > (uint64_t)1 << 62)
        return qr_fail(err, QR_LIMIT, "tensor '%s': the weights up to here take more than 2^62 bytes",
                       item->tensor->name);
    struct qr_segment *last = storage->n_segment > 0 ? &storage->segment[storage->n_segment - 1] : NULL;
    if (!last || last->type != type) {
        last = &storage->segment[storage->n_segment++];
        *last = (struct qr_segment){.type = type, .packing = QR_PANEL16, .row = storage->n_row};
        add_patch(b, last, NULL, b->block_bytes);
    }
    item->offset = b->block_bytes;
    item->n_pair = other_order(b, item->tensor) ? part->n_pair : 0;
    item->norm = part->norm;
    last->n_row += (uint32_t)part->n_row;
    last->bytes += bytes;
    b->weights.bytes_by_type[type] += bytes;
    b->block_bytes = end;
    storage->n_row += (uint32_t)part->n_row;
    return QR_OK;
}

/* Biases of all parts go into one array, in row order. */
static enum qr_status add_bias(struct qr_weights_build *b, const struct part *part, uint32_t n_pair, uint64_t offset,
                               struct qr_err *err)
{
    struct qr_weights_item *item = &b->item[b->n_item++];
    QR_TRY(find(b, part->view->name, "bias", 1, part->n_row, &item->tensor, err));
    item->vector = true;
    item->n_pair = n_pair;
    item->offset = offset;
    add_patch(b, NULL, &part->view->bias, offset);
    return QR_OK;
}

/* A storage of n_part tensors of equal n_col, and a view for each. */
static enum qr_status add_storage(struct qr_weights_build *b, int layer, const char *name, uint64_t n_col, int n_part,
                                  const struct part *part, struct qr_err *err)
{
    struct qr_storage *storage = qr_arena_alloc(b->arena, sizeof(*storage));
    uint64_t n_row = 0, bias_offset = 0;
    if (!storage || !(storage->name = full_name(b, layer, name)) ||
        !(storage->segment = qr_arena_array(b->arena, MAX_PART, sizeof(*storage->segment))))
        return no_memory(err);
    for (int i = 0; i < n_part; i++) {
        if (i + 1 < n_part && part[i].n_row % QR_PANEL_ROWS != 0)
            return qr_fail(err, QR_UNSUPPORTED,
                           "%s has %llu rows, which is no multiple of %d: quire cannot merge such matrices",
                           part[i].tensor, (unsigned long long)part[i].n_row, QR_PANEL_ROWS);
        n_row += part[i].n_row; /* sums of at most 3 numbers below 2^62 */
        if (part[i].n_row > INT32_MAX || n_row > INT32_MAX || n_col > INT32_MAX)
            return qr_fail(err, QR_LIMIT, "%s is %llu x %llu; a matrix may have up to 2^31 - 1 rows and columns",
                           storage->name, (unsigned long long)n_row, (unsigned long long)n_col);
    }
    storage->n_col = (uint32_t)n_col;
    if (part[0].bias)
        QR_TRY(reserve_floats(b, n_row, &bias_offset, err));
    for (int i = 0; i < n_part; i++) {
        struct qr_weight *view = part[i].view;
        if (!(view->name = full_name(b, layer, part[i].tensor)))
            return no_memory(err);
        view->storage = storage;
        view->row = storage->n_row;
        view->n_row = (uint32_t)part[i].n_row;
        view->n_col = storage->n_col;
        QR_TRY(add_part(b, &part[i], storage, err));
        if (part[i].bias)
            QR_TRY(add_bias(b, &part[i], b->item[b->n_item - 1].n_pair, bias_offset + view->row, err));
    }
    return QR_OK;
}

static enum qr_status describe_layer(struct qr_weights_build *b, int n, struct qr_layer_weights *layer,
                                     struct qr_err *err)
{
    const struct qr_config *c = b->weights.config;
    uint64_t n_q = (uint64_t)c->n_head * (uint64_t)c->head_dim, n_kv = (uint64_t)c->n_kv_head * (uint64_t)c->head_dim;
    uint64_t n_embd = (uint64_t)c->n_embd, n_ff = (uint64_t)c->n_ff;
    uint32_t head_dim = (uint32_t)c->head_dim;
    struct part qkv[] = {{"attn_q", n_q, c->qkv_bias, head_dim, &layer->q, &layer->attn_norm},
                         {"attn_k", n_kv, c->qkv_bias, head_dim, &layer->k, &layer->attn_norm},
                         {"attn_v", n_kv, c->qkv_bias, 0, &layer->v, &layer->attn_norm}};
    struct part o = {"attn_output", n_embd, c->o_bias, 0, &layer->o, NULL};
    struct part gate_up[] = {{"ffn_gate", n_ff, c->mlp_bias, 0, &layer->gate, &layer->ffn_norm},
                             {"ffn_up", n_ff, c->mlp_bias, 0, &layer->up, &layer->ffn_norm}};
    struct part down = {"ffn_down", n_embd, c->mlp_bias, 0, &layer->down, NULL};

    if (n_kv % QR_PANEL_ROWS != 0)
        return qr_fail(
            err, QR_UNSUPPORTED,
            "%d key heads of %d make %llu rows, which is no multiple of %d: quire cannot merge such matrices",
            c->n_kv_head, c->head_dim, (unsigned long long)n_kv, QR_PANEL_ROWS);
    QR_TRY(add_vector(b, n, "attn_norm", n_embd, 0, &layer->attn_norm, err));
    QR_TRY(add_storage(b, n, "attn_qkv", n_embd, 3, qkv, err));
    if (c->qk_norm) {
        const struct qr_source_tensor *q;
        QR_TRY(find(b, layer->q.name, "weight", n_q, n_embd, &q, err));
        uint32_t n_pair = other_order(b, q) ? head_dim : 0;
        QR_TRY(add_vector(b, n, "attn_q_norm", head_dim, n_pair, &layer->q_norm, err));
        QR_TRY(add_vector(b, n, "attn_k_norm", head_dim, n_pair, &layer->k_norm, err));
    }
    QR_TRY(add_storage(b, n, "attn_output", n_q, 1, &o, err));
    QR_TRY(add_vector(b, n, "ffn_norm", n_embd, 0, &layer->ffn_norm, err));
    if (c->post_norms) {
        QR_TRY(add_vector(b, n, "post_attention_norm", n_embd, 0, &layer->post_attn_norm, err));
        QR_TRY(add_vector(b, n, "post_ffw_norm", n_embd, 0, &layer->post_ffn_norm, err));
    }
    QR_TRY(add_storage(b, n, "ffn_gate_up", n_embd, 2, gate_up, err));
    return add_storage(b, n, "ffn_down", n_ff, 1, &down, err);
}

/* The head is a matrix of its own when the source has one and the config does not tie it. A GGUF file says "tied" by
 * leaving it out; a Hugging Face directory has tie_word_embeddings for that, so there a missing head is an error. */
static enum qr_status describe_head(struct qr_weights_build *b, struct qr_err *err)
{
    struct qr_weights *w = &b->weights;
    const struct qr_config *c = w->config;
    struct part head = {"output", (uint64_t)c->n_vocab, false, 0, &w->head, &w->output_norm};
    bool tied = c->tie_embd;
    if (!tied && qr_source_gguf(b->source)) {
        const struct qr_source_tensor *tensor;
        tied = find(b, "output", "weight", head.n_row, (uint64_t)c->n_embd, &tensor, NULL) == QR_NOTFOUND;
    }
    if (!tied)
        return add_storage(b, -1, "output", (uint64_t)c->n_embd, 1, &head, err);
    b->item[0].norm = head.norm; /* the embedding */
    w->head = w->embd;
    w->head.name = "output";
    return QR_OK;
}

static enum qr_status describe(struct qr_weights_build *b, struct qr_err *err)
{
    struct qr_weights *w = &b->weights;
    const struct qr_config *c = w->config;
    struct part embd = {"token_embd", (uint64_t)c->n_vocab, false, 0, &w->embd, NULL};
    const struct qr_source_tensor *tensor;

    /* 7 matrices, 6 norms, 7 biases a layer; embedding, head, norm and three kinds of frequencies */
    b->room = 20 * c->n_layer + 6;
    b->item = qr_arena_array(b->arena, (size_t)b->room, sizeof(*b->item));
    b->patch = qr_arena_array(b->arena, (size_t)b->room, sizeof(*b->patch));
    w->layer = qr_arena_array(b->arena, (size_t)c->n_layer, sizeof(*w->layer));
    if (!b->item || !b->patch || !w->layer)
        return no_memory(err);
    QR_TRY(add_storage(b, -1, "token_embd", (uint64_t)c->n_embd, 1, &embd, err));
    if (find(b, "rope_freqs", "weight", 1, (uint64_t)qr_config_rope_dim(c) / 2, &tensor, NULL) != QR_NOTFOUND)
        QR_TRY(add_vector(b, -1, "rope_freqs", (uint64_t)qr_config_rope_dim(c) / 2, 0, &w->rope_freq_factors, err));
    if (c->rope.kind == QR_ROPE_LONGROPE && c->rope.n_factor == 0) {
        QR_TRY(add_vector(b, -1, "rope_factors_long", (uint64_t)qr_config_rope_dim(c) / 2, 0, &w->rope_long, err));
        QR_TRY(add_vector(b, -1, "rope_factors_short", (uint64_t)qr_config_rope_dim(c) / 2, 0, &w->rope_short, err));
    }
    for (int i = 0; i < c->n_layer; i++)
        QR_TRY(describe_layer(b, i, &w->layer[i], err));
    QR_TRY(add_vector(b, -1, "output_norm", (uint64_t)c->n_embd, 0, &w->output_norm, err));
    QR_TRY(describe_head(b, err));
    w->bytes_by_type[QR_F32] += b->n_float * sizeof(float);
    if (!qr_add_u64(b->block_bytes, b->n_float * sizeof(float), &w->bytes))
        return qr_fail(err, QR_LIMIT, "the weights take more than 2^64 bytes");
    return QR_OK;
}

enum qr_status qr_weights_load(const struct qr_source *source, bool headers_only, struct qr_pool *pool,
                               bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
                               struct qr_weights **weights, struct qr_err *err)
{
    *weights = NULL;
    struct qr_arena *arena = qr_arena_create(0);
    struct qr_weights_build *b = arena ? qr_arena_alloc(arena, sizeof(*b)) : NULL;
    if (!b) {
        qr_arena_destroy(arena);
        return no_memory(err);
    }
    b->arena = arena;
    b->source = source;
    struct qr_config *config = qr_arena_alloc(arena, sizeof(*config));
    if (config)
        *config = *qr_source_config(source); /* the weights may outlive the source */
    b->weights.config = config;
    enum qr_status status = config ? describe(b, err) : no_memory(err);
    if (status == QR_OK)
        status = qr_weights_alloc(b, headers_only, err);
    if (status == QR_OK && !headers_only)
        status = qr_weights_fill(b, pool, progress, ctx, err);
    b->source = NULL; /* the source may be closed now */
    b->item = NULL;
    if (status != QR_OK) {
        qr_weights_free(&b->weights);
        return status;
    }
    *weights = &b->weights;
    return QR_OK;
}

void qr_weights_free(struct qr_weights *weights)
{
    if (!weights)
        return;
    struct qr_weights_build *b = (struct qr_weights_build *)weights;
    if (b->block_mapped)
        munmap(b->block, b->block_bytes);
    else
        free(b->block);
    free(b->vectors);
    qr_arena_destroy(b->arena);
}
