/* quant.h - weights that stay quantised on the device: their order there, and the calls on them.
 *
 * A weight is strips of 16 rows, each a contiguous piece: codes, then scales, then (Q4_K) the scales of scales. In units
 * of 64 columns (K is padded to them), which are the four tiles of 16 x 16 that packed.cuh would have:
 *   codes   Q4_0, Q4_1, Q4_K: 4 bits [lane 32][block 2][row 2]: lane 4g + t has rows 2g and 2g + 1 of both blocks of 32 columns, a word each.
 *           Nibble i of the word's lower half is column 8i + 2t of the block, of the upper half column 8i + 2t + 1.
 *           Q8_0 (code + 128), Q6_K (6 bits in 8): 8 bits [block 2][lane 32][tile 2][row 2]: bytes are columns 2t, 2t + 1, 2t + 8, 2t + 9 of the tile
 *           FP8: the same bytes, but columns 2t and 2t + 8 share 16 bits, so do 2t + 1 and 2t + 9: the former's bits where bf16 has its sign
 *           and the lowest bits of its exponent and the highest of its fraction (15, 10 .. 4), the latter's sign in bit 11, the others in 14 .. 12, 3 .. 0
 *   scales  [g 8][block 2][row 2] of: FP8 d bf16 times 2^120; Q8_0, Q4_0 d f16; Q4_1 d, m f16; Q4_K scale and minimum, 8 bits each; Q6_K the scales of both
 *           tiles, + 128, 8 bits each
 *   supers  Q4_K, for each 256 columns: [g 8][row 2] of d, dmin f16; Q6_K, for each 128: [g 8][row 2] of d f16
 * So a lane's loads of codes are 16 bytes, a warp's contiguous, and the four lanes of a row read one scale.
 *
 * The value of a weight is what conversion at load would give: the fp32 number of base/dequant.c, rounded to bf16. Sums
 * are those of docs/LAYOUT.md, so a matrix gives the same bits packed and converted. */
#ifndef QR_CUDA_QUANT_H
#define QR_CUDA_QUANT_H
#include "cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum qr_cu_quant {
    QR_CU_NO_QUANT,
    QR_CU_Q8_0,
    QR_CU_Q4_0,
    QR_CU_Q4_1,
    QR_CU_Q4_K,
    QR_CU_Q6_K,
    QR_CU_E4M3,
    QR_CU_N_QUANT
};

enum { QR_CU_UNIT = 64 }; /* columns */
/* Bytes of a unit's codes and scales, and of a super block; units of that. */
#define QR_CU_CODE_BYTES(type)  ((type) == QR_CU_Q8_0 || (type) == QR_CU_Q6_K || (type) == QR_CU_E4M3 ? 1024 : 512)
#define QR_CU_SCALE_BYTES(type) ((type) == QR_CU_Q4_1 ? 128 : 64)
#define QR_CU_SUPER_BYTES(type) ((type) == QR_CU_Q4_K ? 64 : (type) == QR_CU_Q6_K ? 32 : 0)
#define QR_CU_SUPER_UNITS(type) ((type) == QR_CU_Q6_K ? 2 : 4)

/* Bytes of a strip of 16 rows; k: a multiple of 64 below 2^31. */
static inline uint64_t qr_cu_strip_bytes(enum qr_cu_quant type, int k)
{
    uint64_t units = (uint64_t)k / QR_CU_UNIT;
    if (type == QR_CU_NO_QUANT)
        return (uint64_t)k * 32;
    return units * (uint64_t)(QR_CU_CODE_BYTES(type) + QR_CU_SCALE_BYTES(type)) +
           (units + QR_CU_SUPER_UNITS(type) - 1) / QR_CU_SUPER_UNITS(type) * (uint64_t)QR_CU_SUPER_BYTES(type);
}

/* LINEAR on such a weight: linear.tiles are its strips. For few tokens they are read as they are; for more, some rows at a
 * time become bf16 tiles in `expanded`, on which the kernels of bf16 run. */
struct qr_cu_quant_linear {
    struct qr_cu_linear linear;
    enum qr_cu_quant type;
    void *expanded; /* bf16 tiles: qr_cu_quant_rows rows */
    float *y_part;  /* [n, qr_cu_quant_rows], where those are fewer than all */
};
/* How many rows are expanded at a time. */
int qr_cu_quant_rows(int rows, int k);
cudaError_t qr_cu_run_linear_quant(const struct qr_cu_on *on, const struct qr_cu_quant_linear *a);
cudaError_t qr_cu_run_embed_quant(const struct qr_cu_on *on, const struct qr_cu_embed *a, enum qr_cu_quant type);
cudaError_t qr_cu_run_expand(const struct qr_cu_on *on, enum qr_cu_quant type, const void *strips, int rows, int k,
                             void *tiles);
cudaError_t qr_cu_prepare_quant(const struct qr_cu_on *on);

#ifdef __cplusplus
}
#endif
#endif
