/* decode.h - the persistent kernel for one decode step of up to 8 sequences: what it is given, and the calls around it.
 *
 * One launch runs all layers and the head on one block per multiprocessor; weights flow through a ring in shared memory
 * from the first layer to the last, and blocks hand one another activations as words that carry a tag. docs/KERNELS.md
 * says how; the values and their rounding are those of the op-by-op kernels, bit for bit. Plain C. */
#ifndef QR_CUDA_DECODE_H
#define QR_CUDA_DECODE_H
#include <cuda_runtime_api.h>
#include <stdint.h>
#include "cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    QR_DECODE_TOKENS = 8,     /* sequences of a step, at most */
    QR_DECODE_MATH = 12,      /* warps that multiply; one more fetches, one more adds */
    QR_DECODE_LIST = 1536,    /* pieces of 4 KB that a block may read of a layer, at most */
    QR_DECODE_LAYERS = 64,    /* at most */
    QR_DECODE_CUT_UNITS = 16, /* units of attention of a block, at most */
    QR_DECODE_UNITS = 192     /* units of all stages but the head of a block, at most */
};
enum qr_decode_stage { QR_DECODE_QKV, QR_DECODE_O, QR_DECODE_UP, QR_DECODE_DOWN, QR_DECODE_HEAD, QR_DECODE_STAGES };

/* A block's part of each stage: units [first, last). A unit of qkv, o and down is a chain (16 rows x a cut of K), cut by
 * cut; of the head 16 rows; of gate and up 8 rows of each; of attention a cut of a KV head of a sequence. */
struct qr_decode_share {
    int32_t unit[QR_DECODE_STAGES][2];
    int32_t attention[2];
};

struct qr_decode_matrix {
    int32_t strips;      /* of 16 rows; gate and up: of gate alone */
    int32_t k16;         /* tiles of a strip */
    int32_t cuts, chain; /* chains, and tiles of one */
};

/* All in 32 bits, so that a block keeps every layer's at hand. */
struct qr_decode_layer {
    uint32_t tile[4]; /* first tile of each matrix, counted from the start of the weights */
    uint32_t bias_qkv, bias_o, bias_down, norm_attention, norm_mlp, norm_q, norm_k; /* floats into vectors, or NONE */
};
#define QR_DECODE_NONE UINT32_MAX

/* Bytes and places of what blocks exchange: words of 16 bytes, two sets of each in turn by layer. */
struct qr_decode_words {
    uint64_t part[4]; /* partial sums of qkv, o, -, down */
    uint64_t x_mid, x_next, y, act, cut, cut_sum;
    uint64_t set;  /* words of one set */
    uint64_t zero; /* words */
};

struct qr_decode_args {
    const struct qr_decode_layer *layer;
    const struct qr_decode_share *share;
    const char *tiles; /* the weights */
    char *kv;
    uint64_t pool; /* bytes of K or V of a layer */
    struct qr_decode_matrix matrix[QR_DECODE_STAGES];
    uint32_t head_tile, embed_tile;
    int32_t embed_row, embed_rows, embed_k; /* first row and rows of the view; padded columns */
    int32_t n_layer, n_block, n_token;      /* n_block: of threads */
    int32_t n_embd, n_head, n_kv_head, n_vocab;
    int32_t group, group_inverse; /* query heads a KV head; 2^16 / group, rounded up */
    float eps, eps_head, scale;
    const float *vectors, *norm_out, *cos, *sin;
    const int32_t *token, *position, *slot, *table, *place, *count; /* count[2]: stride of the table */
    void *words;
    struct qr_decode_words at;
    float *logits;              /* [n_token, n_vocab] */
    uint32_t tag;               /* no word has had tags from here to tag + n_layer yet */
    int32_t stage_k;            /* k of attention's or the MLP's activations that a block holds */
    int32_t n_slot, cap, ahead; /* 4 KB slots of the ring; pieces in flight; pieces fetched to L2 behind a full ring */
    int32_t *status;            /* mapped host memory: set to 1 where a wait took too long */
    long long *profile;         /* [n_block][QR_DECODE_TICKS] cycles of warp 0, or NULL */
};
enum { QR_DECODE_TICKS = 16 };

struct qr_decode_map { /* a CUtensorMap of the weights, halves of tiles */
    unsigned char bytes[128];
} __attribute__((aligned(64)));

int qr_cu_decode_has(int head_dim);
/* Shared memory of a block beside its ring. */
int qr_cu_decode_shared(const struct qr_decode_args *a, int head_dim);
cudaError_t qr_cu_decode_map(const void *tiles, uint64_t bytes, struct qr_decode_map *map);
/* Once; also asks whether a block with `shared` bytes fits a multiprocessor. */
cudaError_t qr_cu_prepare_decode(const struct qr_decode_args *a, int head_dim, int shared, int *blocks);
cudaError_t qr_cu_run_decode(const struct qr_cu_on *on, int head_dim, int shared, const struct qr_decode_map *map,
                             const struct qr_decode_args *a);

#ifdef __cplusplus
}
#endif
#endif
