/* weights.h - a source's tensors put into the slots that arch/ uses, merged, permuted and packed at load.
 *
 * q, k, v of a layer are views of one storage, so are gate and up; rows of q and k (with biases and norm weights) are permuted to the half-half
 * rope order where the file has them interleaved. Everything is immutable after load. */
#ifndef QR_MODEL_WEIGHTS_H
#define QR_MODEL_WEIGHTS_H
#include "base/pool.h"
#include "base/weight.h"
#include "model/source.h"

struct qr_layer_weights {
    struct qr_vector attn_norm;      /* [n_embd] */
    struct qr_weight q, k, v;        /* [n_head*head_dim | n_kv_head*head_dim .., n_embd]: views of one storage */
    struct qr_vector q_norm, k_norm; /* [head_dim]; data NULL: none */
    struct qr_weight o;              /* [n_embd, n_head*head_dim] */
    struct qr_vector ffn_norm;       /* [n_embd] */
    struct qr_vector post_attn_norm, post_ffn_norm; /* [n_embd]; data NULL: none */
    struct qr_weight gate, up;                      /* [n_ff, n_embd]: views of one storage */
    struct qr_weight down;                          /* [n_embd, n_ff] */
};

struct qr_weights {
    const struct qr_config *config;
    struct qr_weight embd;                  /* [n_vocab, n_embd] */
    struct qr_weight head;                  /* [n_vocab, n_embd]; the storage of embd when tied */
    struct qr_vector output_norm;           /* [n_embd] */
    struct qr_vector rope_freq_factors;     /* [head_dim/2] from the GGUF's rope_freqs; data NULL: none */
    struct qr_vector rope_long, rope_short; /* the same of longrope; data NULL: none */
    struct qr_layer_weights *layer;         /* [n_layer] */
    uint64_t bytes;                         /* all that was allocated for storage */
    uint64_t bytes_by_type[QR_N_DTYPE];
};

/* What loading will take, from headers alone: the same sums as load's. headers_only gives a struct whose storages have
 * shapes, types and sizes but data NULL: good for recording and printing a plan and for the ledger. */
enum qr_status qr_weights_load(const struct qr_source *source, bool headers_only, struct qr_pool *pool,
                               bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
                               struct qr_weights **weights, struct qr_err *err);
void qr_weights_free(struct qr_weights *weights);
#endif
