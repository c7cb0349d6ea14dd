/* make_st.h - safetensors files and Hugging Face directories for tests, right or deliberately wrong. */
#ifndef TESTS_MODEL_MAKE_ST_H
#define TESTS_MODEL_MAKE_ST_H
#include <stdint.h>
#include "base/buf.h"

/* Header text and data into file: the length in front is the header's unless length says otherwise (not 0). */
void mk_st(struct qr_buf *file, const char *header, uint64_t length, uint64_t n_data);

/* Builds a right file tensor by tensor. */
struct make_st {
    struct qr_buf header, data;
};
void mk_st_begin(struct make_st *m);
/* Byte i of a row is the row's number + 1. n_row 0: a vector of n_col. dtype: "F32", "BF16", "F16", "I32", "F8_E4M3". */
void mk_st_tensor(struct make_st *m, const char *name, const char *dtype, uint64_t n_row, uint64_t n_col);
void mk_st_end(struct make_st *m, struct qr_buf *file);

/* The tensors of a layer, or of what stands outside the layers (layer -1), of a small Llama: 32 wide, 2 heads of 16, 1
 * key-value head, 64 inside, 40 tokens, BF16. head: lm_head too. */
void mk_st_model(struct make_st *m, int layer, bool head);
extern const char mk_st_config[]; /* its config.json, 2 layers */
#endif
