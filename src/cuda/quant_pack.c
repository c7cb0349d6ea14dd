/* quant_pack.c - see quant_pack.h; both orders are told where they are made: base/pack.c and quant.h. */
#include "cuda/quant_pack.h"
#include <string.h>
#include "base/pack.h"
#include "base/recode.h"

static enum qr_cu_quant type_of(enum qr_dtype type)
{
    switch (qr_recode_type(type)) {
    case QR_Q8_0:
        return QR_CU_Q8_0;
    case QR_Q4_0:
        return QR_CU_Q4_0;
    case QR_Q4_1:
        return QR_CU_Q4_1;
    case QR_Q4_K:
        return QR_CU_Q4_K;
    default:
        return QR_CU_NO_QUANT;
    }
}

enum qr_cu_quant qr_cuda_quant_type(const struct qr_storage *storage)
{
    enum qr_cu_quant type = type_of(storage->segment[0].type);
    for (int i = 1; i < storage->n_segment; i++)
        if (type_of(storage->segment[i].type) != type)
            return QR_CU_NO_QUANT;
    return type;
}

/* Four words of a row, 8 columns each: nibble i of word j, in either half, becomes nibble j of word i. */
static void transpose_nibbles(const uint32_t from[4], uint32_t to[4])
{
    for (int i = 0; i < 4; i++) {
        to[i] = 0;
        for (int j = 0; j < 4; j++)
            to[i] |= (from[j] >> 4 * i & 0x000f000f) << 4 * j;
    }
}

/* low: [column / 8][row] words of a panel. */
static void put_nibbles(const uint8_t *low, int block, uint8_t *code)
{
    for (int row = 0; row < 16; row++) {
        uint32_t from[4], to[4];
        for (int g = 0; g < 4; g++)
            memcpy(&from[g], low + g * 64 + row * 4, 4);
        transpose_nibbles(from, to);
        for (int t = 0; t < 4; t++)
            memcpy(code + (row / 2 * 4 + t) * 16 + (block * 2 + row % 2) * 4, &to[t], 4);
    }
}

/* low: [column / 4][row] of columns 0, 2, 1, 3. */
static void put_bytes(const uint8_t *low, int block, uint8_t *code)
{
    for (int row = 0; row < 16; row++)
        for (int tile = 0; tile < 2; tile++)
            for (int t = 0; t < 4; t++) {
                uint8_t *to = code + block * 512 + (row / 2 * 4 + t) * 16 + (tile * 2 + row % 2) * 4;
                for (int half = 0; half < 2; half++) {
                    const uint8_t *word = low + (tile * 4 + half * 2 + t / 2) * 64 + row * 4 + t % 2;
                    to[half * 2] = word[0];
                    to[half * 2 + 1] = word[2];
                }
            }
}

void qr_cuda_quant_strip(enum qr_cu_quant type, const void *panel, uint32_t n_col, int k, void *strip)
{
    static const enum qr_dtype PANEL[QR_CU_N_QUANT] = {QR_BF16, QR_Q8_0, QR_Q4_0, QR_Q4_1, QR_Q4_K};
    const struct qr_pack_layout *at = qr_pack_layout(PANEL[type]);
    const size_t code_bytes = QR_CU_CODE_BYTES(type), scale_bytes = QR_CU_SCALE_BYTES(type);
    const size_t n_unit = (size_t)k / QR_CU_UNIT, each = scale_bytes / 32; /* bytes of a row's scale of a block */
    uint8_t *code = strip, *scale = code + n_unit * code_bytes, *super = scale + n_unit * scale_bytes;
    memset(strip, 0, qr_cu_strip_bytes(type, k));
    for (uint32_t c = 0; c < n_col; c += 32) {
        const uint8_t *record = (const uint8_t *)panel + (size_t)(c / at->columns) * at->bytes;
        const uint8_t *part = record + at->head + (size_t)(c % at->columns / 32) * at->part;
        const size_t unit = c / QR_CU_UNIT, block = c % QR_CU_UNIT / 32;
        if (type == QR_CU_Q8_0)
            put_bytes(part + at->low, (int)block, code + unit * code_bytes);
        else
            put_nibbles(part + at->low, (int)block, code + unit * code_bytes);
        for (size_t row = 0; row < 16; row++) {
            const size_t half = type == QR_CU_Q4_K ? 1 : 2; /* bytes of a scale; of a minimum, where there is one */
            uint8_t *to = scale + unit * scale_bytes + row / 2 * 4 * each + (block * 2 + row % 2) * each;
            memcpy(to, part + row * half, half);
            if (each > half)
                memcpy(to + half, part + (16 + row) * half, half);
            if (type == QR_CU_Q4_K && c % 256 == 0) {
                uint8_t *of_all = super + (size_t)(c / 256) * QR_CU_SUPER_BYTES(QR_CU_Q4_K) + row * 4;
                memcpy(of_all, record + row * 2, 2);
                memcpy(of_all + 2, record + 32 + row * 2, 2);
            }
        }
    }
}
