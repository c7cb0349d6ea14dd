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
#include "cuda/quant.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    QR_DECODE_TOKENS = 8,  /* sequences of a step, at most */
    QR_DECODE_MATH = 12,   /* warps that multiply */
    QR_DECODE_WARPS = 16,  /* two more fetch, one adds; where contexts are long one merges */
    QR_DECODE_PIECE = 16,  /* tiles of a slot of the ring, 8 KB */
    QR_DECODE_STEP = 32,   /* bytes: places of weights are counted in these where some are quantised */
    QR_DECODE_LIST = 512,  /* pieces that a block may read of a layer, at most */
    QR_DECODE_LAYERS = 64, /* at most */
    QR_DECODE_COPIES =
        2, /* of x, as words: every block reads all of it at once, and 96 lines are too few places for that */
    QR_DECODE_CUT_UNITS = 16, /* units of attention of a block, at most */
    QR_DECODE_SETS = 4        /* of words without a tag */
};
enum qr_decode_stage { QR_DECODE_QKV, QR_DECODE_O, QR_DECODE_UP, QR_DECODE_DOWN, QR_DECODE_HEAD, QR_DECODE_STAGES };

/* A block's part of each stage: strips [first, last) of 16 rows with all of K, of gate and up pairs of one of each; of attention
 * cuts of a KV head of a sequence. */
struct qr_decode_share {
    int32_t strip[QR_DECODE_STAGES][2];
    int32_t attention[2];
    int16_t unit[QR_DECODE_CUT_UNITS]; /* as many units as attention has, others where contexts are long */
};

struct qr_decode_matrix {
    int32_t strips;      /* of 16 rows; gate and up: of gate alone */
    int32_t k16;         /* tiles of a strip */
    int32_t cuts, chain; /* chains, and tiles of one */
    /* Only of a model with quantised matrices: */
    int32_t type;  /* enum qr_cu_quant */
    int32_t strip; /* bytes of 16 rows */
    int32_t quads; /* of a piece, at most: QR_DECODE_QUADS or less, so that a chain's pieces are equally large */
};
/* A quad is four tiles, 64 k: a unit of quant.h. How many fill a slot of the ring, with their scales and the super blocks that they touch. */
#define QR_DECODE_QUADS(type)                                                                                          \
    ((type) == QR_CU_NO_QUANT ? 4                                                                                      \
     : (type) == QR_CU_Q4_0   ? 14                                                                                     \
     : (type) == QR_CU_Q4_K   ? 13                                                                                     \
     : (type) == QR_CU_Q4_1   ? 12                                                                                     \
                              : 7)

/* When a bound on pieces in flight holds: blocks exchange words meanwhile; the stage that is being multiplied needs the piece; that
 * stage is gate and up, and the piece is for a later one; the head. */
enum qr_decode_cap {
    QR_DECODE_CAP_EXCHANGE,
    QR_DECODE_CAP_NOW,
    QR_DECODE_CAP_LATER,
    QR_DECODE_CAP_HEAD,
    QR_DECODE_CAPS
};

/* All in 32 bits, so that a block keeps every layer's at hand. */
struct qr_decode_layer {
    uint32_t
        tile[4]; /* first tile of each matrix, counted from the start of the weights; packed: first QR_DECODE_STEP */
    uint32_t bias_qkv, bias_o, bias_down, norm_attention, norm_mlp, norm_q, norm_k; /* floats into vectors, or NONE */
};
#define QR_DECODE_NONE UINT32_MAX

/* Bytes and places of what blocks exchange: words of 16 bytes, two sets of each in turn by layer. */
struct qr_decode_words {
    uint64_t qkv, x_mid, x_next, y, act, cut, cut_sum;
    uint64_t set;  /* words of one set */
    uint64_t zero; /* words */
};

/* Of several sequences with weights in bf16, without a tag (decode_many.cuh): four sets in turn by layer. */
struct qr_decode_many {
    uint64_t x_mid, x_next, y, act; /* words of 16 bytes in a set */
    uint64_t set;
    uint32_t first; /* the set of this step's layer 0 */
};

struct qr_decode_args {
    const struct qr_decode_layer *layer;
    const struct qr_decode_share *share;
    const char *tiles; /* the weights */
    char *kv;
    uint64_t pool; /* bytes of K or V of a layer */
    struct qr_decode_matrix matrix[QR_DECODE_STAGES];
    int32_t packed; /* some matrices are quantised: places are counted in QR_DECODE_STEPs, not in tiles */
    int32_t embed_type, embed_strip; /* then: as in qr_decode_matrix */
    uint32_t head_tile, embed_tile;
    int32_t embed_row, embed_rows, embed_k; /* first row and rows of the view; padded columns */
    int32_t n_layer, n_block, n_token;      /* n_block: of threads */
    int32_t is_long; /* some sequence has so many cuts that two warps a block merge them, all at once */
    int32_t n_embd, n_head, n_kv_head, n_vocab;
    int32_t group; /* query heads a KV head */
    float eps, eps_head, scale;
    const float *vectors, *norm_out, *cos, *sin;
    const int32_t *token, *position, *slot, *table, *place, *count; /* count[2]: stride of the table */
    void *words;
    struct qr_decode_words at;
    float *logits;                 /* [n_token, n_vocab] */
    uint32_t tag;                  /* no word has had tags from here to tag + n_layer yet */
    int32_t stage_k;               /* k of attention's or the MLP's activations that a block's warps hold together */
    int32_t max_units, max_strips; /* of a block: of any stage but the head; of o or down */
    int32_t n_slot;                /* 8 KB slots of the ring */
    int32_t cap[QR_DECODE_CAPS];   /* pieces in flight */
    int32_t ahead, quiet;          /* pieces brought to L2 behind the ring, while at most `quiet` are in flight */
    int32_t *status;               /* mapped host memory: set to 1 where a wait took too long */
    int32_t last;       /* -DQR_DECODE_DEBUG: the exchange behind which it ends, layer * QR_DECODE_EXCHANGES + which */
    long long *profile; /* [n_block][QR_DECODE_WARPS][QR_DECODE_MARKS] cycles, or NULL: when each warp was where */
    int32_t profile_layer; /* in this layer */
    void *many_words;
    struct qr_decode_many many;
};

/* What blocks hand one another in a layer, in this order. x of layer n_layer is the result; what comes behind it are the logits. */
enum qr_decode_exchange {
    QR_DECODE_GIVES_X,
    QR_DECODE_GIVES_QKV,
    QR_DECODE_GIVES_Y, /* attention's result; the step's own keys and values are in their pages */
    QR_DECODE_GIVES_X_MID,
    QR_DECODE_GIVES_ACT,
    QR_DECODE_EXCHANGES
};

/* Where a warp is: it has what it waited for, or is done. */
enum qr_decode_mark {
    QR_DECODE_AT_X,
    QR_DECODE_AT_NORM,
    QR_DECODE_AT_QKV,
    QR_DECODE_AT_HEADS, /* attention: q, k and v of its KV head are there */
    QR_DECODE_AT_QUERY,
    QR_DECODE_AT_SCORES,
    QR_DECODE_AT_WEIGHTS,
    QR_DECODE_AT_VALUES,
    QR_DECODE_AT_Y,
    QR_DECODE_AT_O,
    QR_DECODE_AT_X_MID,
    QR_DECODE_AT_NORM_MID,
    QR_DECODE_AT_UP,
    QR_DECODE_AT_GATED,
    QR_DECODE_AT_ACT,
    QR_DECODE_AT_DOWN,
    QR_DECODE_AT_ADD, /* the warp that adds: sums are there; words are out; of qkv, o, down */
    QR_DECODE_AT_FIRST_UP = QR_DECODE_AT_ADD + 6, /* the first piece of gate or up */
    QR_DECODE_AT_MERGED,                          /* many cuts of attention, to a word of y */
    QR_DECODE_AT_CUTS,                            /* all of them are there */
    QR_DECODE_MARKS
};

int qr_cu_decode_has(int head_dim);
/* Shared memory of a block beside its ring. */
int qr_cu_decode_shared(const struct qr_decode_args *a, int head_dim);
/* Once; also asks whether a block with `shared` bytes fits a multiprocessor. */
cudaError_t qr_cu_prepare_decode(int head_dim, int packed, int shared, int *blocks);
cudaError_t qr_cu_run_decode(const struct qr_cu_on *on, int head_dim, int shared, const struct qr_decode_args *a);

#ifdef __cplusplus
}
#endif
#endif
