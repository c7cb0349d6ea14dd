// quant_rows.cuh - random rows of quantised types, as files have them, for tests of src/cuda/quant.h.
#pragma once
#include <cmath>
#include <cstring>
#include <random>

extern "C" {
#include "base/dtype.h"
#include "base/half.h"
#include "base/pack.h"
#include "cuda/quant.h"
void qr_cuda_quant_strip(enum qr_cu_quant type, const void *panel, uint32_t n_col, int k, void *strip);
}

static const struct {
    qr_dtype file;
    qr_cu_quant type;
} TYPES[] = {{QR_Q8_0, QR_CU_Q8_0}, {QR_Q4_0, QR_CU_Q4_0}, {QR_Q4_1, QR_CU_Q4_1},
             {QR_Q4_K, QR_CU_Q4_K}, {QR_Q6_K, QR_CU_Q6_K}, {QR_FP8, QR_CU_E4M3}};
constexpr int N_TYPE = sizeof TYPES / sizeof *TYPES;

// Any bytes, but scales that are finite and of many sizes, some negative, some zero.
static void random_row(qr_dtype type, int n_col, uint64_t seed, uint8_t *row)
{
    std::mt19937_64 random(seed);
    const struct qr_dtype_info *info = qr_dtype_info(type);
    auto scale = [&](float size) {
        uint64_t r = random();
        float v = r % 17 == 0 ? 0 : size * (1 + (float)(r >> 40) * 0x1p-24f) * std::ldexp(1.0f, (int)(r >> 8 & 7) - 6);
        return qr_f32_to_f16(r >> 16 & 1 ? v : -v);
    };
    for (int b = 0; b < n_col / (int)info->block; b++, row += info->block_bytes) {
        for (uint32_t i = 0; i < info->block_bytes; i++)
            row[i] = (uint8_t)random();
        if (type == QR_FP8) { // every code but NaN; a scale that is no power of two
            uint16_t d = qr_f32_to_bf16(qr_f16_to_f32(scale(1e-2f)));
            memcpy(row, &d, 2);
            for (int i = 2; i < 34; i++)
                row[i] = (row[i] & 0x7f) == 0x7f ? 0x7e : row[i];
            continue;
        }
        uint16_t d = scale(type == QR_Q8_0   ? 1e-3f
                           : type == QR_Q4_K ? 3e-4f
                           : type == QR_Q6_K ? 1e-5f
                                             : 1e-2f),
                 m = scale(type == QR_Q4_K ? 2e-3f : 8e-2f);
        memcpy(row + (type == QR_Q6_K ? 208 : 0), &d, 2);
        if (type == QR_Q4_1 || type == QR_Q4_K)
            memcpy(row + 2, &m, 2);
    }
}
