/* quant_pack.c - see quant_pack.h; both orders are told where they are made: base/pack.c and quant.h. */
#include "cuda/quant_pack.h"
#include <string.h>
#include "base/pack.h"
#include "base/pack_words.h"
#include "base/recode.h"

static enum qr_cu_quant type_of(enum qr_dtype type)
{
    if (type == QR_FP8) /* whose panels are F8S's, but its scales fit in bf16 */
        return QR_CU_E4M3;
    switch (qr_recode_type(type)) {
    case QR_Q8_0:
        return QR_CU_Q8_0;
    case QR_Q4_0:
        return QR_CU_Q4_0;
    case QR_Q4_1:
        return QR_CU_Q4_1;
    case QR_Q4_K:
        return QR_CU_Q4_K;
    case QR_Q6_K:
        return QR_CU_Q6_K;
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

/* The 32 codes of a row in a part of 32 columns, as they stand on the device: unsigned. */
static void get_codes(enum qr_cu_quant type, const struct qr_pack_layout *at, const uint8_t *part, int row,
                      uint8_t code[32])
{
    if (type == QR_CU_Q8_0) {
        get_bytes(part + at->low, row, code);
        for (int i = 0; i < 32; i++)
            code[i] ^= 0x80;
        return;
    }
    if (type == QR_CU_E4M3) {
        for (int i = 0; i < 32; i++)
            code[i] = part[at->low + i * 16 + row];
        return;
    }
    get_low(part + at->low, row, code);
    if (type == QR_CU_Q6_K)
        get_high2(part + at->high, row, code);
}

/* Two codes of E4M3 in 16 bits: quant.h. */
static void put_pair(uint8_t a, uint8_t b, uint8_t *to)
{
    const uint16_t both =
        (uint16_t)((a & 0x80) << 8 | (a & 0x7f) << 4 | (b & 0x80) << 4 | (b & 0x70) << 8 | (b & 0x0f));
    memcpy(to, &both, 2);
}

/* A row's block into the unit's codes: quant.h says where. */
static void put_codes(enum qr_cu_quant type, const uint8_t code[32], int block, int row, uint8_t *unit)
{
    for (int t = 0; t < 4; t++) {
        uint8_t *lane = unit + (row / 2 * 4 + t) * 16;
        const uint8_t *c = code + 2 * t;
        if (QR_CU_CODE_BYTES(type) == 512) {
            uint32_t word = 0;
            for (int g = 0; g < 4; g++)
                word |= (uint32_t)c[8 * g] << 4 * g | (uint32_t)c[8 * g + 1] << (16 + 4 * g);
            memcpy(lane + (block * 2 + row % 2) * 4, &word, 4);
            continue;
        }
        for (int tile = 0; tile < 2; tile++, c += 16) {
            uint8_t four[4] = {c[0], c[1], c[8], c[9]};
            if (type == QR_CU_E4M3) {
                put_pair(c[0], c[8], four);
                put_pair(c[1], c[9], four + 2);
            }
            memcpy(lane + block * 512 + (tile * 2 + row % 2) * 4, four, 4);
        }
    }
}

/* The scales of a row's block, or what else stands for them: quant.h. */
static void put_scales(enum qr_cu_quant type, const uint8_t *part, size_t row, uint8_t *to)
{
    switch (type) {
    case QR_CU_Q4_K:
        to[0] = part[row];
        to[1] = part[16 + row];
        return;
    case QR_CU_Q6_K:
        to[0] = part[row] ^ 0x80;
        to[1] = part[16 + row] ^ 0x80;
        return;
    case QR_CU_Q4_1:
        memcpy(to + 2, part + 32 + row * 2, 2);
        memcpy(to, part + row * 2, 2);
        return;
    case QR_CU_E4M3: { /* the upper half of an fp32 number; 120 more in the exponent, unless it is zero */
        uint16_t d;
        memcpy(&d, part + row * 4 + 2, 2);
        d = (uint16_t)(d & 0x7fff ? d + (120 << 7) : d);
        memcpy(to, &d, 2);
        return;
    }
    default:
        memcpy(to, part + row * 2, 2);
    }
}

void qr_cuda_quant_strip(enum qr_cu_quant type, const void *panel, uint32_t n_col, int k, void *strip)
{
    static const enum qr_dtype PANEL[QR_CU_N_QUANT] = {QR_BF16, QR_Q8_0, QR_Q4_0, QR_Q4_1, QR_Q4_K, QR_Q6_K, QR_FP8};
    const struct qr_pack_layout *at = qr_pack_layout(PANEL[type]);
    const size_t code_bytes = QR_CU_CODE_BYTES(type), scale_bytes = QR_CU_SCALE_BYTES(type);
    const size_t n_unit = (size_t)k / QR_CU_UNIT, each = scale_bytes / 32; /* bytes of a row's scale of a block */
    uint8_t *code = strip, *scale = code + n_unit * code_bytes, *super = scale + n_unit * scale_bytes;
    memset(strip, 0, qr_cu_strip_bytes(type, k));
    for (uint32_t c = 0; c < n_col; c += 32) {
        const uint8_t *record = (const uint8_t *)panel + (size_t)(c / at->columns) * at->bytes;
        const uint8_t *part = record + at->head + (size_t)(c % at->columns / 32) * at->part;
        const size_t unit = c / QR_CU_UNIT, block = c % QR_CU_UNIT / 32;
        for (int row = 0; row < 16; row++) {
            uint8_t codes[32];
            get_codes(type, at, part, row, codes);
            put_codes(type, codes, (int)block, row, code + unit * code_bytes);
        }
        for (size_t row = 0; row < 16; row++) {
            put_scales(type, part, row, scale + unit * scale_bytes + row / 2 * 4 * each + (block * 2 + row % 2) * each);
            if (type == QR_CU_Q4_K && c % 256 == 0) {
                memcpy(super + (size_t)(c / 256) * 64 + row * 4, record + row * 2, 2);
                memcpy(super + (size_t)(c / 256) * 64 + row * 4 + 2, record + 32 + row * 2, 2);
            }
            if (type == QR_CU_Q6_K && c % 128 == 0)
                memcpy(super + (size_t)(c / 128) * 32 + row * 2, record + row * 2, 2);
        }
    }
}
