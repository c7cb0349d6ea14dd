/* data.c - see data.h. */
#include "cpu/data.h"
#include <stdlib.h>
#include <string.h>
#include "base/half.h"
#include "base/pack.h"
#include "base/rand.h"

void fill_normal(uint64_t stream, float *dst, size_t n)
{
    qr_rand_normal(7, stream, 1.0f, dst, n);
}

static void put_f16(uint8_t *dst, float x)
{
    uint16_t h = qr_f32_to_f16(x);
    memcpy(dst, &h, 2);
}

/* Where a block keeps its f16 scales: all other bytes may be anything. */
static void put_scales(enum qr_dtype type, uint8_t *block, float d, float m)
{
    switch (type) {
    case QR_Q8_0:
        put_f16(block, d * 0.1f);
        break;
    case QR_Q4_0:
    case QR_Q5_0:
        put_f16(block, d);
        break;
    case QR_Q4_1:
    case QR_Q5_1:
        put_f16(block, d);
        put_f16(block + 2, m);
        break;
    case QR_Q4_K:
    case QR_Q5_K:
        put_f16(block, d * 0.03f);
        put_f16(block + 2, m * 0.03f);
        break;
    case QR_Q6_K:
        put_f16(block + 208, d * 0.01f);
        break;
    case QR_Q2_K:
        put_f16(block + 80, d);
        put_f16(block + 82, m * 0.1f);
        break;
    case QR_Q3_K:
        put_f16(block + 108, d * 0.1f);
        break;
    case QR_IQ4_NL:
        put_f16(block, d * 0.1f);
        break;
    case QR_IQ4_XS:
        put_f16(block, d * 0.01f);
        break;
    case QR_MXFP4:
        block[0] = (uint8_t)(120 + block[0] % 8);
        break;
    case QR_I8S:
        d *= 0.01f;
        memcpy(block, &d, 4);
        break;
    case QR_F8S:
        d *= 0.1f;
        memcpy(block, &d, 4);
        for (int i = 4; i < 36; i++)
            block[i] &= 0xf7; /* up to 416, and no NaN */
        break;
    case QR_FP8: {
        uint16_t scale = qr_f32_to_bf16(d * 0.1f);
        memcpy(block, &scale, 2);
        for (int i = 2; i < 34; i++)
            block[i] &= 0xf7;
        break;
    }
    default:
        break;
    }
}

uint8_t *random_rows(enum qr_dtype type, uint64_t stream, int n_row, int n_col)
{
    size_t n = (size_t)n_row * (size_t)n_col, bytes = (size_t)n_row * qr_row_bytes(type, (uint64_t)n_col);
    const struct qr_dtype_info *info = qr_dtype_info(type);
    uint8_t *rows = malloc(bytes);
    float *x = malloc(n * 4 + 64);
    fill_normal(stream, x, n);
    if (info->block == 1) {
        qr_quant(type, x, rows, n);
    } else {
        uint32_t out[4];
        for (size_t i = 0; i < bytes; i++) {
            if (i % 16 == 0)
                qr_philox((const uint32_t[4]){(uint32_t)(i / 16), 1, 2, (uint32_t)stream}, (const uint32_t[2]){3, 4},
                          out);
            rows[i] = (uint8_t)(out[i % 16 / 4] >> (i % 4) * 8);
        }
        for (size_t b = 0; b < n / info->block; b++)
            put_scales(type, rows + b * info->block_bytes, 0.1f * x[2 * b % n], 0.3f * x[(2 * b + 1) % n]);
    }
    free(x);
    return rows;
}

uint8_t *pack_rows(enum qr_dtype type, const uint8_t *rows, int n_row, int n_col)
{
    uint64_t panel = qr_panel_bytes(type, (uint64_t)n_col), row = qr_row_bytes(type, (uint64_t)n_col);
    int n_panel = (n_row + QR_PANEL_ROWS - 1) / QR_PANEL_ROWS;
    uint8_t *data = aligned_alloc(64, ((uint64_t)n_panel * panel + 63) & ~(uint64_t)63);
    for (int p = 0; p < n_panel; p++) {
        int left = n_row - p * QR_PANEL_ROWS;
        qr_pack_panel(type, (uint64_t)n_col, rows + (uint64_t)p * QR_PANEL_ROWS * row, left < 16 ? left : 16,
                      data + (uint64_t)p * panel);
    }
    return data;
}

void test_weight_make(struct test_weight *w, enum qr_dtype type, uint64_t stream, int n_row, int n_col)
{
    uint8_t *rows = random_rows(type, stream, n_row, n_col);
    int n_panel = (n_row + QR_PANEL_ROWS - 1) / QR_PANEL_ROWS;
    w->dense = malloc((size_t)n_row * (size_t)n_col * 4);
    qr_dequant(type, rows, w->dense, (uint64_t)n_row * (uint64_t)n_col);
    w->segment = (struct qr_segment){.type = type,
                                     .packing = QR_PANEL16,
                                     .n_row = (uint32_t)n_row,
                                     .data = pack_rows(type, rows, n_row, n_col),
                                     .bytes = (uint64_t)n_panel * qr_panel_bytes(type, (uint64_t)n_col)};
    w->storage = (struct qr_storage){
        .name = "w", .n_row = (uint32_t)n_row, .n_col = (uint32_t)n_col, .n_segment = 1, .segment = &w->segment};
    w->weight =
        (struct qr_weight){.name = "w", .storage = &w->storage, .n_row = (uint32_t)n_row, .n_col = (uint32_t)n_col};
    free(rows);
}

void test_weight_free(struct test_weight *w)
{
    free((void *)(uintptr_t)w->segment.data);
    free(w->dense);
}
