/* dtype.c - the table of element types: names, numbers in files, block sizes. */
#include "base/dtype.h"
#include <string.h>
#include <strings.h>

/* Block sizes: ggml-common.h of llama.cpp; GGML_QUANT_SIZES of gguf-py says the same. */
static const struct qr_dtype_info table[QR_N_DTYPE] = {
    [QR_F32] = {"F32", 0, 1, 4},        [QR_F16] = {"F16", 1, 1, 2},          [QR_BF16] = {"BF16", 30, 1, 2},
    [QR_Q8_0] = {"Q8_0", 8, 32, 34},    [QR_Q4_0] = {"Q4_0", 2, 32, 18},      [QR_Q4_1] = {"Q4_1", 3, 32, 20},
    [QR_Q5_0] = {"Q5_0", 6, 32, 22},    [QR_Q5_1] = {"Q5_1", 7, 32, 24},      [QR_Q4_K] = {"Q4_K", 12, 256, 144},
    [QR_Q5_K] = {"Q5_K", 13, 256, 176}, [QR_Q6_K] = {"Q6_K", 14, 256, 210},   [QR_Q2_K] = {"Q2_K", 10, 256, 84},
    [QR_Q3_K] = {"Q3_K", 11, 256, 110}, [QR_IQ4_NL] = {"IQ4_NL", 20, 32, 18}, [QR_IQ4_XS] = {"IQ4_XS", 23, 256, 136},
    [QR_MXFP4] = {"MXFP4", 39, 32, 17}, [QR_I8S] = {"I8S", -1, 32, 36},       [QR_F8S] = {"F8S", -1, 32, 36},
    [QR_FP8] = {"FP8", -1, 32, 34},
};

/* Every number that enum ggml_type gave out, the withdrawn ones included: an error can then say what the file holds. */
static const char *const ggml_name[] = {
    [0] = "F32",         [1] = "F16",         [2] = "Q4_0",        [3] = "Q4_1",      [4] = "Q4_2",     [5] = "Q4_3",
    [6] = "Q5_0",        [7] = "Q5_1",        [8] = "Q8_0",        [9] = "Q8_1",      [10] = "Q2_K",    [11] = "Q3_K",
    [12] = "Q4_K",       [13] = "Q5_K",       [14] = "Q6_K",       [15] = "Q8_K",     [16] = "IQ2_XXS", [17] = "IQ2_XS",
    [18] = "IQ3_XXS",    [19] = "IQ1_S",      [20] = "IQ4_NL",     [21] = "IQ3_S",    [22] = "IQ2_S",   [23] = "IQ4_XS",
    [24] = "I8",         [25] = "I16",        [26] = "I32",        [27] = "I64",      [28] = "F64",     [29] = "IQ1_M",
    [30] = "BF16",       [31] = "Q4_0_4_4",   [32] = "Q4_0_4_8",   [33] = "Q4_0_8_8", [34] = "TQ1_0",   [35] = "TQ2_0",
    [36] = "IQ4_NL_4_4", [37] = "IQ4_NL_4_8", [38] = "IQ4_NL_8_8", [39] = "MXFP4",    [40] = "NVFP4",   [41] = "Q1_0",
};

const struct qr_dtype_info *qr_dtype_info(enum qr_dtype type)
{
    return &table[type];
}

bool qr_dtype_from_ggml(int ggml_type, enum qr_dtype *type)
{
    for (int i = 0; i < QR_N_DTYPE; i++) {
        if (table[i].ggml_type == ggml_type && ggml_type >= 0) {
            *type = (enum qr_dtype)i;
            return true;
        }
    }
    return false;
}

const char *qr_ggml_type_name(int ggml_type)
{
    if (ggml_type < 0 || (size_t)ggml_type >= sizeof(ggml_name) / sizeof(ggml_name[0]))
        return NULL;
    return ggml_name[ggml_type];
}

bool qr_dtype_from_safetensors(const char *name, enum qr_dtype *type)
{
    for (int i = QR_F32; i <= QR_BF16; i++) {
        if (strcmp(table[i].name, name) == 0) {
            *type = (enum qr_dtype)i;
            return true;
        }
    }
    return false;
}

bool qr_dtype_from_name(const char *name, enum qr_dtype *type)
{
    for (int i = 0; i < QR_N_DTYPE; i++) {
        if (strcasecmp(table[i].name, name) == 0) {
            *type = (enum qr_dtype)i;
            return true;
        }
    }
    return false;
}

uint64_t qr_row_bytes(enum qr_dtype type, uint64_t n)
{
    return n / table[type].block * table[type].block_bytes;
}
