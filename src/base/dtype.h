/* dtype.h - element types: sizes, names, and conversion to fp32. Block formats are those of GGUF (ggml-common.h
 * of llama.cpp and gguf-py's quants.py describe them); the values of enum qr_dtype are quire's own. */
#ifndef QR_BASE_DTYPE_H
#define QR_BASE_DTYPE_H
#include <stdbool.h>
#include <stdint.h>

enum qr_dtype {
    QR_F32,
    QR_F16,
    QR_BF16,
    QR_Q8_0,
    QR_Q4_0,
    QR_Q4_1,
    QR_Q5_0,
    QR_Q5_1,
    QR_Q4_K,
    QR_Q5_K,
    QR_Q6_K,
    QR_Q2_K,
    QR_Q3_K,
    QR_IQ4_NL,
    QR_IQ4_XS,
    QR_MXFP4,
    QR_I8S, /* of no file: f32 scale, int8[32]: what GPTQ and AWQ become at load */
    QR_F8S, /* of no file: f32 scale, E4M3[32]: what F8_E4M3 with its scales becomes at load */
    QR_FP8, /* of no file: bf16 scale, E4M3[32]: what --quantization fp8 makes, and F8_E4M3 whose scales bf16 holds. The
             * scale's magnitude is 0 or within QR_FP8_LEAST and QR_FP8_MOST */
    QR_N_DTYPE
};

/* The GPU's kernels keep a scale times 2^120 in bf16. */
#define QR_FP8_LEAST 0x1p-100f
#define QR_FP8_MOST  255.0f

struct qr_dtype_info {
    const char *name;     /* "Q4_1" */
    int ggml_type;        /* number in a GGUF file; -1: no file has it */
    uint32_t block;       /* elements in a block */
    uint32_t block_bytes; /* bytes of a block as stored in a file */
};

const struct qr_dtype_info *qr_dtype_info(enum qr_dtype type);
bool qr_dtype_from_ggml(int ggml_type, enum qr_dtype *type);           /* false: unknown or not supported */
const char *qr_ggml_type_name(int ggml_type);                          /* also of types not supported; NULL: unknown */
bool qr_dtype_from_safetensors(const char *name, enum qr_dtype *type); /* "F32" "F16" "BF16" */
bool qr_dtype_from_name(const char *name, enum qr_dtype *type);        /* case-blind: "q4_1", "bf16" */
/* Bytes of a row of n elements; n must be a multiple of the block. */
uint64_t qr_row_bytes(enum qr_dtype type, uint64_t n);
/* n elements, a multiple of the block; plain C, the reference for every kernel. Bit-equal to gguf-py's. The NaN of E4M3
 * stays NaN. */
void qr_dequant(enum qr_dtype type, const void *src, float *dst, uint64_t n);
/* The reverse for the types that synth writes: F32 F16 BF16 Q8_0 Q4_0 Q4_1; and for FP8, where no number may be larger than
 * 448 QR_FP8_MOST. False for others. */
bool qr_quant(enum qr_dtype type, const float *src, void *dst, uint64_t n);
/* To FP8, where the squared errors of columns count by importance [n] (NULL: all alike). */
bool qr_quant_fp8(const float *src, const float *importance, void *dst, uint64_t n);
#endif
