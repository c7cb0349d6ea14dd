/* record.h - the words in which a family's forward pass is written; private to arch/. Each call appends its ops to
 * the plan and returns the value that holds the result. All values are [T, columns] until qr_rec_gather. */
#ifndef QR_ARCH_RECORD_H
#define QR_ARCH_RECORD_H
#include "arch/arch.h"

struct rec {
    struct qr_recorder *recorder;
    const struct qr_config *config;
    int layer; /* of the ops that follow; -1: outside the layers */
};

/* One function a family, in a file of its own. Returns the logits [R, n_vocab]. */
int qr_record_llama(struct rec *r, const struct qr_weights *w);
int qr_record_qwen2(struct rec *r, const struct qr_weights *w);
int qr_record_qwen3(struct rec *r, const struct qr_weights *w);
int qr_record_gemma2(struct rec *r, const struct qr_weights *w);
int qr_record_gemma3(struct rec *r, const struct qr_weights *w);
int qr_record_phi3(struct rec *r, const struct qr_weights *w);

/* q, k, v side by side in one value "qkv", as their weights are in one storage: a merged LINEAR writes all three. */
struct qr_rec_qkv {
    int q; /* [T, n_head * head_dim] */
    int k; /* [T, n_kv_head * head_dim] */
    int v; /* [T, n_kv_head * head_dim] */
};
/* gate, up side by side in one value "gate_up". */
struct qr_rec_gate_up {
    int gate, up; /* [T, n_ff] each */
};

/* x = weight[token] */
int qr_rec_embed(struct rec *r, const char *name, const struct qr_weight *weight);
/* y = x / sqrt(mean(x^2) + eps) * weight, over groups of weight->n columns. RMSNorm: Zhang and Sennrich 2019. */
int qr_rec_norm(struct rec *r, const char *name, int x, const struct qr_vector *weight);
/* The same written back to x: the norms of each q and k head. */
void qr_rec_head_norm(struct rec *r, int x, const struct qr_vector *weight);
/* y = x weight^T (+ bias where the weight has one) */
int qr_rec_linear(struct rec *r, const char *name, int x, const struct qr_weight *weight);
struct qr_rec_qkv qr_rec_qkv(struct rec *r, int x, const struct qr_layer_weights *w);
struct qr_rec_gate_up qr_rec_gate_up(struct rec *r, int x, const struct qr_layer_weights *w);
/* Rotates every head of x by its token's position, in place, by the layer's frequencies. Su et al., RoFormer, 2021. */
void qr_rec_rope(struct rec *r, int x);
void qr_rec_kv_store(struct rec *r, int k, int v);
/* softmax(q k^T * scale) v over the layer's pages, with the config's scale and cap and the layer's window; [T, n_head * head_dim] */
int qr_rec_attention(struct rec *r, int q);
void qr_rec_add(struct rec *r, int x, int y);          /* x += y */
void qr_rec_silu_mul(struct rec *r, int x, int y);     /* x = silu(x) * y */
void qr_rec_gelu_mul(struct rec *r, int x, int y);     /* x = gelu(x) * y */
void qr_rec_scale(struct rec *r, int x, float factor); /* x *= factor; 0 and 1: nothing is recorded */
void qr_rec_soft_cap(struct rec *r, int x, float cap); /* x = cap tanh(x / cap); 0: nothing is recorded */
/* The rows of x that want logits: [R, columns]. */
int qr_rec_gather(struct rec *r, const char *name, int x);

/* rope.c: frequencies of a head, for sequences of up to `context` tokens (longrope), divided by factors where there are any
 * (NULL or data NULL: none); and what cos and sin are multiplied by, max_len being the model's. */
enum qr_status qr_rope_inv_freq(const struct qr_rope *rope, int32_t dim, int32_t context,
                                const struct qr_vector *factors, float *inv_freq, struct qr_err *err);
float qr_rope_scale(const struct qr_rope *rope, int32_t max_len);
#endif
