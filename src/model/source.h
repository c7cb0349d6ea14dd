/* source.h - where a model's tensors come from: a GGUF file, a Hugging Face directory (one or many safetensors
 * files), or random numbers. One face: canonical names, a type, rows.
 *
 * Canonical names are those of GGUF: token_embd, output_norm, output, blk.N.attn_norm, blk.N.attn_q (and _k _v
 * _output), blk.N.attn_q_norm, blk.N.attn_k_norm, blk.N.ffn_norm, blk.N.ffn_gate (_up _down), rope_freqs; each with
 * ".weight" or ".bias". */
#ifndef QR_MODEL_SOURCE_H
#define QR_MODEL_SOURCE_H
#include "base/dtype.h"
#include "model/config.h"

struct qr_source_tensor {
    char name[96];
    enum qr_dtype type;
    enum qr_dtype as;      /* what its rows become at load: type, unless qr_source_quantise says otherwise */
    uint64_t n_row, n_col; /* a vector has n_row 1 */
    const uint8_t *data;   /* rows as in the file, on any address (memcpy, never a cast); NULL for random sources:
                            * use qr_source_rows */
    uint64_t bytes;
    uint32_t derived; /* 0, or 1 + its number among the matrices that are made of several tensors of a quantised file:
                       * data is then no rows, qr_source_rows makes them */
    uint64_t derived_row;  /* of that matrix: where this tensor's rows begin */
    bool interleaved_rope; /* rows of q and k pair (0,1),(2,3).. : GGUF files of arch llama */
};

struct qr_source;

/* Opens files and headers only. path as for qr_model_open: a directory, a .gguf, Org/Name in the Hugging Face cache,
 * dummy:SHAPE or dummy:SHAPE:TYPE (TYPE as for qr_source_random, BF16 when left out). */
enum qr_status qr_source_open(const char *path, uint64_t seed, struct qr_source **source, struct qr_err *err);
/* Random numbers for a config made by hand: what dummy:SHAPE opens. type: one that qr_quant writes; norm vectors and
 * biases are F32 whatever it is. config is copied. */
enum qr_status qr_source_random(const struct qr_config *config, uint64_t seed, enum qr_dtype type,
                                struct qr_source **source, struct qr_err *err);
void qr_source_close(struct qr_source *source);
/* Matrices become FP8 at load, the embedding among them. how: "fp8"; NULL or "none": they stay as they are. QR_INVALID: another
 * word; QR_UNSUPPORTED: they are quantised already, or their rows are no multiple of a block. */
enum qr_status qr_source_quantise(struct qr_source *source, const char *how, struct qr_err *err);
enum qr_status qr_quantise_check(const char *how, struct qr_err *err); /* the word alone */
/* *path: the GGUF file that a directory without safetensors holds, malloc'ed; NULL where it holds none. Several, other
 * than the parts of one: QR_INVALID. */
enum qr_status qr_source_gguf_inside(const char *dir, char **path, struct qr_err *err);
const struct qr_config *qr_source_config(const struct qr_source *source);
const struct qr_gguf *qr_source_gguf(const struct qr_source *source); /* NULL when it is none */
const char *qr_source_dir(const struct qr_source *source);            /* the directory; NULL when it is none */
uint64_t qr_source_n_tensor(const struct qr_source *source);
const struct qr_source_tensor *qr_source_at(const struct qr_source *source, uint64_t i);
/* QR_NOTFOUND names the tensor. Checks the shape against [n_row, n_col]. */
enum qr_status qr_source_find(const struct qr_source *source, const char *name, uint64_t n_row, uint64_t n_col,
                              const struct qr_source_tensor **out, struct qr_err *err);
/* Copies rows [row, row + n) in the tensor's own type to dst (row bytes each). Random sources make them here: the
 * numbers depend on (seed, name, row) only. */
enum qr_status qr_source_rows(const struct qr_source *source, const struct qr_source_tensor *tensor, uint64_t row,
                              uint64_t n, void *dst, struct qr_err *err);
/* Tells the system that the pages of this tensor are no longer needed. */
void qr_source_forget(const struct qr_source *source, const struct qr_source_tensor *tensor);
#endif
