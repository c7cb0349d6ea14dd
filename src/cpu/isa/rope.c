/* rope.c - head norms of q and k, rotation by position (Su et al., RoFormer, 2021; first half of a head with
 * its second half), and keys and values into their pages. */
#include <math.h>
#include "cpu/isa/kernels.h"

/* As rows.c does it: the same bits whether fused or not. */
static void norm_head(float *x, const float *scale, float eps, uint32_t n)
{
    struct qr_rows_job job = {.t1 = 1, .x = x, .y = x, .cols = n, .width = n, .scale = scale, .eps = eps};
    QR_NAME(qr_k_rmsnorm)(&job);
}

static void rotate_head(float *x, const float *cos, const float *sin, uint32_t half)
{
    for (uint32_t c = 0; c < half; c += 16) {
        int n = v_count((int)(half - c));
        vf a = v_load_n(x + c, n), b = v_load_n(x + half + c, n);
        vf s = v_load_n(sin + c, n), k = v_load_n(cos + c, n);
        v_store_n(x + c, v_sub(v_mul(a, k), v_mul(b, s)), n);
        v_store_n(x + half + c, v_add(v_mul(b, k), v_mul(a, s)), n);
    }
}

QR_INLINE void store_halves(enum qr_dtype type, uint16_t *dst, vf x)
{
    if (type == QR_F16)
        v_store_f16(dst, x);
    else
        v_store_bf16(dst, x);
}

/* K goes into lane `place` of each of head_dim vectors, V into row `place`. */
static void store_head(const struct qr_kv *kv, uint8_t *page, uint32_t place, const float *k, const float *v)
{
    uint8_t *v_page = page + kv->v_offset;
    uint16_t half[16];
    for (uint32_t c = 0; c < kv->head_dim; c += 16) {
        int n = v_count((int)(kv->head_dim - c));
        if (kv->type == QR_F32) {
            for (int i = 0; i < n; i++)
                memcpy(page + ((c + (uint32_t)i) * 16 + place) * 4, k + c + i, 4);
            memcpy(v_page + (place * kv->v_stride + c) * 4, v + c, (size_t)n * 4);
            continue;
        }
        store_halves(kv->type, half, v_load_n(k + c, n));
        for (int i = 0; i < n; i++)
            memcpy(page + ((c + (uint32_t)i) * 16 + place) * 2, half + i, 2);
        store_halves(kv->type, half, v_load_n(v + c, n));
        memcpy(v_page + (place * kv->v_stride + c) * 2, half, (size_t)n * 2);
    }
}

static void turn_heads(const struct qr_rope_job *job, float *x, uint32_t n_head, const float *norm, int32_t position)
{
    uint32_t half = job->head_dim / 2;
    const float *cos = job->cos + (size_t)position * half, *sin = job->sin + (size_t)position * half;
    for (uint32_t h = 0; h < n_head; h++, x += job->head_dim) {
        if (norm)
            norm_head(x, norm, job->eps, job->head_dim);
        if (job->rotate)
            rotate_head(x, cos, sin, half);
    }
}

void QR_NAME(qr_k_rope_store)(const struct qr_rope_job *job)
{
    for (int t = job->t0; t < job->t1; t++) {
        int32_t position = job->rotate ? job->position[t] : 0;
        if (job->q)
            turn_heads(job, job->q + (size_t)t * job->q_stride, job->n_head, job->q_norm, position);
        if (!job->k)
            continue;
        float *k = job->k + (size_t)t * job->k_stride;
        turn_heads(job, k, job->n_kv_head, job->k_norm, position);
        if (!job->store || job->slot[t] < 0)
            continue;
        const float *v = job->v + (size_t)t * job->v_stride;
        uint32_t slot = (uint32_t)job->slot[t];
        uint8_t *page = job->kv->data + slot / QR_PAGE * job->kv->block_bytes + job->layer_offset;
        for (uint32_t h = 0; h < job->n_kv_head; h++, page += job->kv->head_bytes)
            store_head(job->kv, page, slot % QR_PAGE, k + h * job->head_dim, v + h * job->head_dim);
    }
}
