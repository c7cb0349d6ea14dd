/* source_gguf.c - the tensors of a GGUF file as a source. */
#include <stdio.h>
#include <string.h>
#include "model/source_parts.h"

static enum qr_status unsupported_type(const struct qr_source_tensor *tensor, int ggml_type, struct qr_err *err)
{
    const char *name = qr_ggml_type_name(ggml_type);
    char supported[128] = "";
    size_t n = 0;

    for (int i = 0; i < QR_N_DTYPE && n < sizeof supported && qr_dtype_info((enum qr_dtype)i)->ggml_type >= 0; i++)
        n += (size_t)snprintf(supported + n, sizeof supported - n, "%s%s", i ? " " : "",
                              qr_dtype_info((enum qr_dtype)i)->name);
    return qr_fail(err, QR_UNSUPPORTED, "tensor \"%s\" has type %d (%s), which quire does not read; it reads %s",
                   tensor->name, ggml_type, name ? name : "unknown", supported);
}

/* llama.cpp's converter reorders the rows of q and k of Llama models so that rope turns neighbours. */
static bool interleaved(const struct qr_source *source, const char *name)
{
    const char *part = strchr(name + (strncmp(name, "blk.", 4) == 0 ? 4 : 0), '.');

    return source->config.arch == QR_ARCH_LLAMA && part &&
           (strcmp(part, ".attn_q.weight") == 0 || strcmp(part, ".attn_k.weight") == 0 ||
            strcmp(part, ".attn_q.bias") == 0 || strcmp(part, ".attn_k.bias") == 0);
}

/* Phi-3's gate and up are one matrix, which GGUF files call ffn_up. */
static void merged_name(const struct qr_source *source, struct qr_source_tensor *tensor)
{
    const char *part = strstr(tensor->name, ".ffn_up.weight");
    char name[sizeof tensor->name];

    if (source->config.arch != QR_ARCH_PHI3 || !part)
        return;
    snprintf(name, sizeof name, "%.*s.ffn_gate_up.weight", (int)(part - tensor->name) % 64, tensor->name);
    memcpy(tensor->name, name, sizeof name);
}

static enum qr_status add_tensor(struct qr_source *source, const struct qr_gguf_tensor *in, struct qr_err *err)
{
    struct qr_source_tensor tensor = {.n_row = in->dim[1], .n_col = in->dim[0], .data = in->data};

    if (in->name.n >= sizeof tensor.name || memchr(in->name.s, 0, in->name.n))
        return qr_fail(err, QR_UNSUPPORTED, "the model has a tensor \"%.*s\", which quire does not know",
                       (int)(in->name.n > 90 ? 90 : in->name.n), in->name.s);
    memcpy(tensor.name, in->name.s, in->name.n);
    if (in->dim[2] != 1 || in->dim[3] != 1)
        return qr_fail(err, QR_UNSUPPORTED, "tensor \"%s\" has %d dimensions; quire knows vectors and matrices",
                       tensor.name, in->n_dim);
    if (!qr_dtype_from_ggml(in->ggml_type, &tensor.type))
        return unsupported_type(&tensor, in->ggml_type, err);
    merged_name(source, &tensor);
    tensor.interleaved_rope = interleaved(source, tensor.name);
    return qr_source_add(source, &tensor, in->map, err);
}

/* Under the guard: names and keys are read out of the mapping. What is allocated belongs to the source. */
static enum qr_status add_all(void *ctx, struct qr_err *err)
{
    struct qr_source *source = ctx;
    uint64_t n = qr_gguf_n_tensor(source->gguf);

    QR_TRY(qr_config_from_gguf(source->gguf, &source->config, err));
    QR_TRY(qr_source_reserve(source, 3 * n, err)); /* a merged matrix is up to three */
    for (uint64_t i = 0; i < n; i++)
        QR_TRY(add_tensor(source, qr_gguf_tensor_at(source->gguf, i), err));
    return qr_source_finish(source, err);
}

enum qr_status qr_source_open_gguf(struct qr_source *source, const char *path, struct qr_err *err)
{
    enum qr_status status;

    QR_TRY(qr_gguf_open(path, &source->gguf, err));
    status = qr_map_guard(qr_gguf_map(source->gguf), add_all, source, err);
    if (status != QR_OK)
        return qr_err_prefix(err, status, "%s", path);
    if (!source->config.name[0])
        qr_source_set_name(source, path);
    return QR_OK;
}
