/* safetensors.h - one .safetensors file: an 8-byte little-endian header length, a JSON header {name: {dtype,
 * shape, data_offsets}}, data (format: huggingface/safetensors README). Mapped, every size checked; holes,
 * overlaps and trailing bytes are refused. */
#ifndef QR_MODEL_SAFETENSORS_H
#define QR_MODEL_SAFETENSORS_H
#include "base/mapfile.h"

struct qr_st_tensor {
    const char *name;
    const char *dtype; /* "BF16", as in the file */
    int n_dim;         /* 0 .. 8 */
    uint64_t dim[8];   /* outermost first: [n_row, n_col] */
    const uint8_t *data;
    uint64_t bytes;
};

struct qr_safetensors;
enum qr_status qr_safetensors_open(const char *path, struct qr_safetensors **st, struct qr_err *err);
void qr_safetensors_close(struct qr_safetensors *st);
const struct qr_map *qr_safetensors_map(const struct qr_safetensors *st);
uint64_t qr_safetensors_n_tensor(const struct qr_safetensors *st);
const struct qr_st_tensor *qr_safetensors_at(const struct qr_safetensors *st, uint64_t i);
#endif
