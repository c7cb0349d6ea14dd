/* weights_build.h - private to model/weights*.c: what describing a model leaves for loading it. */
#ifndef QR_MODEL_WEIGHTS_BUILD_H
#define QR_MODEL_WEIGHTS_BUILD_H
#include "base/arena.h"
#include "model/weights.h"

/* A tensor and where its rows go: panels at `offset` of the block of matrices, or floats at `offset` of the vectors. */
struct qr_weights_item {
    const struct qr_source_tensor *tensor;
    uint64_t offset; /* bytes for a matrix, floats for a vector */
    uint32_t n_pair; /* rows per head when the file has them in another order, else 0 */
    bool vector;
    const struct qr_vector *norm; /* whose result the matrix multiplies, [n_col]; NULL: not known */
};

/* A pointer that can be set only once memory is there. */
struct qr_weights_patch {
    struct qr_segment *segment; /* data = block + offset */
    const float **vector;       /* *vector = vectors + offset */
    uint64_t offset;
};

struct qr_weights_build {
    struct qr_weights weights; /* first: qr_weights_free gets its address */
    const struct qr_source *source;
    struct qr_arena *arena; /* owns this struct too */
    uint8_t *block;         /* all matrices, 64-byte aligned */
    uint64_t block_bytes;
    float *vectors; /* all norms and biases */
    uint64_t n_float;
    bool block_mapped; /* by mmap, else by aligned_alloc */
    struct qr_weights_item *item;
    struct qr_weights_patch *patch;
    int n_item, n_patch, room; /* room: of both arrays */
};

/* weights_fill.c: memory for the block, then every item read, checked and packed. */
enum qr_status qr_weights_alloc(struct qr_weights_build *build, bool headers_only, struct qr_err *err);
enum qr_status qr_weights_fill(struct qr_weights_build *build, struct qr_pool *pool,
                               bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
                               struct qr_err *err);
/* Row of the file that becomes `row` in half-half order; n_pair as above. Of a head that turns in part, the pairs that
 * turn stand in front in both halves; those behind have frequency 0. */
uint64_t qr_weights_file_row(const struct qr_weights_build *build, const struct qr_weights_item *item, uint64_t row);

/* weights_finite.c: n elements of that type hold no NaN or infinity (blocks: their scales don't). */
bool qr_weights_finite(enum qr_dtype type, const void *data, uint64_t n);
#endif
