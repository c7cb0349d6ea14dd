/* source_fill.c - putting tensors into a source, and what is checked once all are there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/checked.h"
#include "model/source_parts.h"

enum qr_status qr_source_reserve(struct qr_source *source, uint64_t room, struct qr_err *err)
{
    source->tensor = calloc(room + 1, sizeof *source->tensor);
    source->map = calloc(room + 1, sizeof *source->map);
    source->name = calloc(room + 1, sizeof *source->name);
    if (!source->tensor || !source->map || !source->name)
        return qr_fail(err, QR_NOMEM, "out of memory for %llu tensors", (unsigned long long)room);
    source->room = room;
    return QR_OK;
}

/* A part of the rows of a merged matrix, under a name of its own. */
static enum qr_status add_rows(struct qr_source *source, const struct qr_source_tensor *whole, const char *part,
                               uint64_t row, uint64_t n_row, const struct qr_map *map, struct qr_err *err)
{
    struct qr_source_tensor tensor = *whole;
    const char *dot = strchr(whole->name + 4, '.');

    snprintf(tensor.name, sizeof tensor.name, "%.*s.%s.weight", (int)(dot - whole->name) % 64, whole->name, part);
    tensor.n_row = n_row;
    tensor.derived_row = row;
    if (!whole->derived)
        tensor.data = whole->data ? whole->data + row * qr_row_bytes(whole->type, whole->n_col) : NULL;
    return qr_source_add(source, &tensor, map, err);
}

/* The parts in the order of rows in which modeling_phi3.py takes them apart. */
static enum qr_status add_merged(struct qr_source *source, const struct qr_source_tensor *tensor, bool qkv,
                                 const struct qr_map *map, struct qr_err *err)
{
    const struct qr_config *c = &source->config;
    uint64_t q = (uint64_t)c->n_head * (uint64_t)c->head_dim, kv = (uint64_t)c->n_kv_head * (uint64_t)c->head_dim;
    uint64_t ff = (uint64_t)c->n_ff, wanted = qkv ? q + 2 * kv : 2 * ff;

    if (c->arch != QR_ARCH_PHI3)
        return qr_fail(err, QR_UNSUPPORTED, "the model has a tensor \"%s\", which quire does not know for %s models",
                       tensor->name, qr_arch_name(c->arch));
    if (tensor->n_row != wanted || tensor->n_col % qr_dtype_info(tensor->type)->block != 0)
        return qr_fail(err, QR_FORMAT, "tensor \"%s\" has %llu rows of %llu %s; the config wants %llu rows",
                       tensor->name, (unsigned long long)tensor->n_row, (unsigned long long)tensor->n_col,
                       qr_dtype_info(tensor->type)->name, (unsigned long long)wanted);
    if (qkv) {
        QR_TRY(add_rows(source, tensor, "attn_q", 0, q, map, err));
        QR_TRY(add_rows(source, tensor, "attn_k", q, kv, map, err));
        return add_rows(source, tensor, "attn_v", q + kv, kv, map, err);
    }
    QR_TRY(add_rows(source, tensor, "ffn_gate", 0, ff, map, err));
    return add_rows(source, tensor, "ffn_up", ff, ff, map, err);
}

enum qr_status qr_source_add(struct qr_source *source, const struct qr_source_tensor *tensor, const struct qr_map *map,
                             struct qr_err *err)
{
    bool qkv = strstr(tensor->name, ".attn_qkv.") != NULL;
    const struct qr_dtype_info *info = qr_dtype_info(tensor->type);
    struct qr_source_tensor *own;
    int64_t layer;

    if (!qr_tensor_name_known(tensor->name, &layer))
        return qr_fail(err, QR_UNSUPPORTED, "the model has a tensor \"%s\", which quire does not know for %s models",
                       tensor->name, qr_arch_name(source->config.arch));
    if (layer >= source->config.n_layer)
        return QR_OK;
    if (qkv || strstr(tensor->name, ".ffn_gate_up."))
        return add_merged(source, tensor, qkv, map, err);
    if (source->n_tensor == source->room)
        return qr_fail(err, QR_INTERNAL, "room for %llu tensors only", (unsigned long long)source->room);
    if (tensor->n_col % info->block != 0)
        return qr_fail(err, QR_UNSUPPORTED, "tensor \"%s\" has rows of %llu, no multiple of the %u in a block of %s",
                       tensor->name, (unsigned long long)tensor->n_col, info->block, info->name);
    own = &source->tensor[source->n_tensor];
    *own = *tensor;
    own->as = own->type;
    if (!qr_mul_u64(qr_row_bytes(own->type, own->n_col), own->n_row, &own->bytes))
        return qr_fail(err, QR_FORMAT, "tensor \"%s\" takes more than 2^64 bytes", own->name);
    source->map[source->n_tensor++] = map;
    return QR_OK;
}

bool qr_source_denied(const struct qr_source *source, const char *name)
{
    const struct qr_config *config = &source->config;
    const struct {
        const char *part;
        bool expected;
    } parts[] = {
        {"attn_q.bias", config->qkv_bias},
        {"attn_k.bias", config->qkv_bias},
        {"attn_v.bias", config->qkv_bias},
        {"attn_output.bias", config->o_bias},
        {"ffn_gate.bias", config->mlp_bias},
        {"ffn_up.bias", config->mlp_bias},
        {"ffn_down.bias", config->mlp_bias},
        {"attn_q_norm.weight", config->qk_norm},
        {"attn_k_norm.weight", config->qk_norm},
        {"post_attention_norm.weight", config->post_norms},
        {"post_ffw_norm.weight", config->post_norms},
    };
    const char *part = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;

    for (size_t i = 0; part && i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(part + 1, parts[i].part) == 0)
            return !parts[i].expected;
    return false;
}

/* Parts that the config says are not there: leaving them out would give another model's answers. */
static enum qr_status check_agreement(const struct qr_source *source, struct qr_err *err)
{
    for (uint64_t i = 0; i < source->n_tensor; i++)
        if (qr_source_denied(source, source->tensor[i].name))
            return qr_fail(err, QR_FORMAT, "the model has a tensor \"%s\", but its config knows none such",
                           source->tensor[i].name);
    return QR_OK;
}

enum qr_status qr_source_finish(struct qr_source *source, struct qr_err *err)
{
    const struct qr_name *twice;

    for (uint64_t i = 0; i < source->n_tensor; i++)
        source->name[i] = (struct qr_name){source->tensor[i].name, strlen(source->tensor[i].name), i};
    qr_names_sort(source->name, source->n_tensor);
    twice = qr_names_duplicate(source->name, source->n_tensor);
    if (twice)
        return qr_fail(err, QR_FORMAT, "tensor \"%s\" stands in the model twice", twice->s);
    return check_agreement(source, err);
}

enum qr_status qr_quantise_check(const char *how, struct qr_err *err)
{
    if (how && strcmp(how, "none") != 0 && strcmp(how, "fp8") != 0)
        return qr_fail(err, QR_INVALID, "quantization is \"%.40s\": it must be fp8 or none", how);
    return QR_OK;
}

enum qr_status qr_source_quantise(struct qr_source *source, const char *how, struct qr_err *err)
{
    const uint32_t block = qr_dtype_info(QR_FP8)->block;

    QR_TRY(qr_quantise_check(how, err));
    if (!how || strcmp(how, "none") == 0)
        return QR_OK;
    for (uint64_t i = 0; i < source->n_tensor; i++) {
        struct qr_source_tensor *tensor = &source->tensor[i];

        if (tensor->n_row == 1) /* norms, biases, frequencies */
            continue;
        if (tensor->type != QR_BF16 && tensor->type != QR_F16 && tensor->type != QR_F32)
            return qr_fail(
                err, QR_UNSUPPORTED,
                "quantization fp8 is made from weights of BF16, F16 or F32, but \"%s\" is quantised already: "
                "%s; leave the option out, or name the model's unquantised files",
                tensor->name, qr_dtype_info(tensor->type)->name);
        if (tensor->n_col % block != 0)
            return qr_fail(err, QR_UNSUPPORTED,
                           "quantization fp8 takes rows of a multiple of %u, but \"%s\" has rows of %llu: leave it out",
                           block, tensor->name, (unsigned long long)tensor->n_col);
        tensor->as = QR_FP8;
    }
    return QR_OK;
}

void qr_source_set_name(struct qr_source *source, const char *path)
{
    size_t end = strlen(path), begin;

    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/';)
        begin--;
    qr_name_copy(source->config.name, sizeof source->config.name, path + begin, end - begin);
}
