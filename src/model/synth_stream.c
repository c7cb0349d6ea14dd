/* synth_stream.c - tensors of random numbers to a file, a few hundred KB at a time, made by all threads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "model/synth_parts.h"

#define CHUNK ((uint64_t)1 << 20) /* bytes made before they are written */

enum qr_status qr_synth_put(FILE *file, const char *path, const void *data, uint64_t n, struct qr_err *err)
{
    if (n > 0 && fwrite(data, 1, n, file) != n)
        return qr_fail_errno(err, "cannot write to %s", path);
    return QR_OK;
}

bool qr_synth_is_vector(const struct qr_source_tensor *tensor)
{
    return tensor->n_row == 1 && (strstr(tensor->name, "norm.") || strstr(tensor->name, ".bias"));
}

double qr_synth_tidy(float f)
{
    char s[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(s, sizeof(s), "%.*g", digits, (double)f);
        if (strtof(s, NULL) == f)
            break;
    }
    return strtod(s, NULL);
}

struct chunk {
    const struct qr_source *source;
    const struct qr_source_tensor *tensor;
    uint64_t row, n, row_bytes;
    uint32_t interleave;
    uint8_t *out;
    enum qr_status *status; /* [n_worker] */
    struct qr_err *error;   /* [n_worker] */
};

/* The inverse of the loader's order: file row 2i of a head is its row i, file row 2i + 1 its row head_dim/2 + i. */
static uint64_t own_row(uint64_t row, uint32_t head_dim)
{
    if (head_dim == 0)
        return row;
    uint64_t head = row / head_dim, at = row % head_dim;
    return head * head_dim + at / 2 + (at % 2) * (head_dim / 2);
}

static void make_rows(void *ctx, int worker, int n_worker)
{
    struct chunk *c = ctx;
    uint64_t each = (c->n + (uint64_t)n_worker - 1) / (uint64_t)n_worker;
    uint64_t from = each * (uint64_t)worker, to = from + each < c->n ? from + each : c->n;
    c->status[worker] = QR_OK;
    for (uint64_t i = from; i < to && c->status[worker] == QR_OK; i++)
        c->status[worker] = qr_source_rows(c->source, c->tensor, own_row(c->row + i, c->interleave), 1,
                                           c->out + i * c->row_bytes, &c->error[worker]);
}

/* A vector of one row: its elements are what q and k biases interleave. */
static void interleave_vector(uint8_t *data, uint64_t n, uint32_t head_dim, uint8_t *copy)
{
    memcpy(copy, data, n * sizeof(float));
    for (uint64_t i = 0; i < n; i++)
        memcpy(data + i * sizeof(float), copy + own_row(i, head_dim) * sizeof(float), sizeof(float));
}

static void take_one_off(uint8_t *data, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, data + i * sizeof x, sizeof x);
        x -= 1;
        memcpy(data + i * sizeof x, &x, sizeof x);
    }
}

static enum qr_status stream(struct qr_synth *s, struct chunk *c, uint64_t n_row_chunk, FILE *file, const char *path,
                             struct qr_err *err)
{
    int n_worker = qr_pool_size(s->pool);
    bool vector = qr_synth_is_vector(c->tensor);
    uint32_t interleave = c->interleave;
    if (vector)
        c->interleave = 0;
    for (c->row = 0; c->row < c->tensor->n_row; c->row += c->n) {
        uint64_t left = c->tensor->n_row - c->row;
        c->n = left < n_row_chunk ? left : n_row_chunk;
        qr_pool_run(s->pool, make_rows, c);
        for (int w = 0; w < n_worker; w++) {
            if (c->status[w] != QR_OK) {
                if (err)
                    *err = c->error[w];
                return c->status[w];
            }
        }
        if (vector && interleave > 0 && c->tensor->type == QR_F32)
            interleave_vector(c->out, c->tensor->n_col, interleave, c->out + c->row_bytes);
        if (s->norm_less_one && vector && c->tensor->type == QR_F32 && strstr(c->tensor->name, "_norm."))
            take_one_off(c->out, c->tensor->n_col);
        QR_TRY(qr_synth_put(file, path, c->out, c->n * c->row_bytes, err));
        s->done += c->n * c->row_bytes;
        if (s->progress && !s->progress(s->ctx, s->done, s->total))
            return qr_fail(err, QR_CANCELLED, "writing was stopped after %llu of %llu bytes",
                           (unsigned long long)s->done, (unsigned long long)s->total);
    }
    return QR_OK;
}

enum qr_status qr_synth_tensor(struct qr_synth *s, const struct qr_source_tensor *tensor, uint32_t interleave,
                               FILE *file, const char *path, struct qr_err *err)
{
    int n_worker = qr_pool_size(s->pool);
    struct chunk c = {.source = s->source,
                      .tensor = tensor,
                      .row_bytes = qr_row_bytes(tensor->type, tensor->n_col),
                      .interleave = interleave};
    uint64_t n_row = CHUNK / c.row_bytes + 1;
    c.out = malloc((n_row + 1) * c.row_bytes);
    c.status = calloc((size_t)n_worker, sizeof(*c.status));
    c.error = calloc((size_t)n_worker, sizeof(*c.error));
    enum qr_status status = c.out && c.status && c.error
                                ? stream(s, &c, n_row, file, path, err)
                                : qr_fail(err, QR_NOMEM, "no memory to write tensor '%s'", tensor->name);
    free(c.out);
    free(c.status);
    free(c.error);
    return status;
}

/* The tensor's name behind its layer; NULL: it is in none. */
static const char *part_of(const char *name)
{
    return strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
}

const struct qr_source_tensor *qr_synth_listed(const struct qr_source *source, uint64_t i, bool gguf,
                                               struct qr_source_tensor *out)
{
    const struct qr_source_tensor *t = qr_source_at(source, i);
    const char *part = part_of(t->name);
    if (qr_source_config(source)->arch != QR_ARCH_PHI3 || !part)
        return t;
    bool qkv = strcmp(part, ".attn_q.weight") == 0;
    if (strcmp(part, ".attn_k.weight") == 0 || strcmp(part, ".attn_v.weight") == 0 ||
        strcmp(part, ".ffn_up.weight") == 0)
        return NULL;
    if (!qkv && strcmp(part, ".ffn_gate.weight") != 0)
        return t;
    *out = *t;
    snprintf(out->name, sizeof out->name, "%.*s.%s.weight", (int)(part - t->name) % 64, t->name,
             qkv    ? "attn_qkv"
             : gguf ? "ffn_up"
                    : "ffn_gate_up");
    for (uint64_t k = 1; k <= (qkv ? 2u : 1u); k++) {
        out->n_row += qr_source_at(source, i + k)->n_row;
        out->bytes += qr_source_at(source, i + k)->bytes;
    }
    return out;
}
