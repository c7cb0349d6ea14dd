/* pack.c - panels of 16 rows; the layout of each type.
 *
 * F32, F16, BF16: [n_col][16] elements, a column of the 16 rows after the other.
 *
 * Block types: records of 32 columns (K types: 256) one after the other, so that a kernel reads a panel as one
 * stream. A part covers 32 columns and holds, in the order in which a kernel
 * that keeps nothing back reads it,
 *   scales  f16 d [16], and m [16] for Q4_1 and Q5_1; K types: 8-bit sub-scales [16] and sub-mins [16]
 *           (Q6_K: two sub-scales [16], one for each 16 columns), and in front of a record d [16] (dmin [16])
 *   high    the 5th bit: word (row): bit j of byte i is column 4j + i.
 *           Q6_K's bits 5 and 6: word (h, row), h = column / 16: field j (2 bits) of byte i is column 16h + 4j + i.
 *   low     4 bits of each code. 32-bit word (g, row), g = column / 8: byte i has column 8g + i in its low nibble and
 *           column 8g + 4 + i in the high one. A shift by 0 or 4 and a mask leave four columns as four bytes: a factor of
 *           VPDPBUSD; a shift by 0, 8, 4 or 12 two of them as int16, columns c and c + 2: a factor of VPMADDWD.
 * Q8_0 keeps code + 128 in bytes: word (g, row), g = column / 4: the four columns in order.
 * I8S does too, behind f32 d [16]. F8S has f32 d [16] and then its bytes column by column, [32][16].
 * Q2_K has two sub-scales [16] and two sub-mins [16], one for each 16 columns, and no low bits: its codes stand where
 * Q6_K has bits 5 and 6, and count sixteen times.
 * Q3_K is packed as Q6_K, IQ4_NL as Q8_0, IQ4_XS and MXFP4 as I8S (recode.h).
 *
 * Codes are stored as in the file (unsigned, with the type's offset), so nothing is rounded: a row taken out again is
 * the row that went in. Sub-scales of Q4_K and Q5_K take 8 bits instead of 6: 2.8% and 2.3% more bytes. */
#include "base/pack.h"
#include <string.h>
#include "base/pack_words.h"
#include "base/recode.h"

#define NONE 0xffff

static const struct qr_pack_layout layouts[QR_N_DTYPE] = {
    [QR_Q8_0] = {32, 544, 544, 0, 0, 32, NONE},
    [QR_Q4_0] = {32, 288, 288, 0, 0, 32, NONE},
    [QR_Q4_1] = {32, 320, 320, 0, 0, 64, NONE},
    [QR_Q5_0] = {32, 352, 352, 0, 0, 96, 32},
    [QR_Q5_1] = {32, 384, 384, 0, 0, 128, 64},
    [QR_Q4_K] = {256, 64 + 8 * 288, 288, 64, 0, 32, NONE},
    [QR_Q5_K] = {256, 64 + 8 * 352, 352, 64, 0, 96, 32},
    [QR_Q6_K] = {256, 32 + 8 * 416, 416, 32, 0, 160, 32},
    [QR_Q2_K] = {256, 64 + 8 * 192, 192, 64, 0, NONE, 64},
    [QR_I8S] = {32, 576, 576, 0, 0, 64, NONE},
    [QR_F8S] = {32, 576, 576, 0, 0, 64, NONE},
};

const struct qr_pack_layout *qr_pack_layout(enum qr_dtype type)
{
    return &layouts[qr_recode_type(type)];
}

static bool is_float(enum qr_dtype type)
{
    return type == QR_F32 || type == QR_F16 || type == QR_BF16;
}

bool qr_pack_supported(enum qr_dtype type, uint64_t n_col)
{
    if ((unsigned)type >= QR_N_DTYPE || n_col == 0)
        return false;
    return is_float(type) || n_col % qr_dtype_info(type)->block == 0;
}

uint64_t qr_panel_bytes(enum qr_dtype type, uint64_t n_col)
{
    if (is_float(type))
        return n_col * QR_PANEL_ROWS * (type == QR_F32 ? 4 : 2);
    const struct qr_pack_layout *at = qr_pack_layout(type);
    return (n_col / at->columns * at->bytes + 63) & ~(uint64_t)63;
}

/* ------------------------------------------------------- blocks of 32 columns */

/* In the file Q4_0, Q4_1, Q5_0 and Q5_1 keep code i in the low and code i + 16 in the high nibble of byte i. */
static void pack_block32(enum qr_dtype type, const uint8_t *src, int row, uint8_t *rec)
{
    const struct qr_pack_layout *at = &layouts[type];
    uint8_t code[32];
    if (type == QR_I8S || type == QR_F8S) {
        memcpy(rec + row * 4, src, 4);
        if (type == QR_I8S)
            put_bytes(src + 4, row, rec + at->low);
        for (int i = 0; type == QR_F8S && i < 32; i++)
            rec[at->low + i * QR_PANEL_ROWS + row] = src[4 + i];
        return;
    }
    memcpy(rec + row * 2, src, 2);
    src += 2;
    if (type == QR_Q8_0) {
        put_bytes(src, row, rec + at->low);
        return;
    }
    if (type == QR_Q4_1 || type == QR_Q5_1) {
        memcpy(rec + 32 + row * 2, src, 2);
        src += 2;
    }
    uint32_t high = 0;
    if (type == QR_Q5_0 || type == QR_Q5_1) {
        memcpy(&high, src, 4);
        src += 4;
    }
    for (int i = 0; i < 16; i++) {
        code[i] = (uint8_t)((src[i] & 0xf) | (high >> i & 1) << 4);
        code[i + 16] = (uint8_t)(src[i] >> 4 | (high >> (i + 16) & 1) << 4);
    }
    put_low(code, row, rec + at->low);
    if (at->high != NONE)
        put_high1(code, row, rec + at->high);
}

static void unpack_block32(enum qr_dtype type, const uint8_t *rec, int row, uint8_t *dst)
{
    const struct qr_pack_layout *at = &layouts[type];
    uint8_t code[32];
    if (type == QR_I8S || type == QR_F8S) {
        memcpy(dst, rec + row * 4, 4);
        if (type == QR_I8S)
            get_bytes(rec + at->low, row, dst + 4);
        for (int i = 0; type == QR_F8S && i < 32; i++)
            dst[4 + i] = rec[at->low + i * QR_PANEL_ROWS + row];
        return;
    }
    memcpy(dst, rec + row * 2, 2);
    dst += 2;
    if (type == QR_Q8_0) {
        get_bytes(rec + at->low, row, dst);
        return;
    }
    if (type == QR_Q4_1 || type == QR_Q5_1) {
        memcpy(dst, rec + 32 + row * 2, 2);
        dst += 2;
    }
    get_low(rec + at->low, row, code);
    if (at->high != NONE) {
        get_high1(rec + at->high, row, code);
        uint32_t high = 0;
        for (int i = 0; i < 32; i++)
            high |= (uint32_t)(code[i] >> 4) << i;
        memcpy(dst, &high, 4);
        dst += 4;
    }
    for (int i = 0; i < 16; i++)
        dst[i] = (uint8_t)((code[i] & 0xf) | (code[i + 16] & 0xf) << 4);
}

/* --------------------------------------------------------- K blocks of 256 */

/* Q4_K and Q5_K keep 8 scales and 8 mins of 6 bits in 12 bytes: those of sub-blocks 0..3 in the low 6 bits of bytes
 * 0..3 and 4..7; of sub-blocks 4..7 the low 4 bits in bytes 8..11 and the high 2 bits on top of bytes 0..7. */
static void get_k_scale(const uint8_t s[12], int j, uint8_t *scale, uint8_t *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (uint8_t)((s[j + 4] & 0xf) | s[j - 4] >> 6 << 4);
        *min = (uint8_t)(s[j + 4] >> 4 | s[j] >> 6 << 4);
    }
}

static void put_k_scale(uint8_t s[12], int j, uint8_t scale, uint8_t min)
{
    if (j < 4) {
        s[j] |= scale;
        s[j + 4] |= min;
    } else {
        s[j + 4] = (uint8_t)((scale & 0xf) | (min & 0xf) << 4);
        s[j - 4] |= (uint8_t)(scale >> 4 << 6);
        s[j] |= (uint8_t)(min >> 4 << 6);
    }
}

/* Block in the file: d, dmin, scales [12], (Q5_K: fifth bits [32]), nibbles [128]: of each 64 codes the first 32 in
 * the low nibbles of 32 bytes, the others in the high ones; bit j of fifth-bit byte i belongs to code 32j + i. */
static void pack_q45_k(enum qr_dtype type, const uint8_t *src, int row, uint8_t *rec)
{
    const struct qr_pack_layout *at = &layouts[type];
    memcpy(rec + row * 2, src, 2);
    memcpy(rec + 32 + row * 2, src + 2, 2);
    const uint8_t *fifth = type == QR_Q5_K ? src + 16 : NULL;
    const uint8_t *nibble = src + (fifth ? 48 : 16);
    for (int j = 0; j < 8; j++) {
        uint8_t *part = rec + at->head + j * at->part, code[32];
        get_k_scale(src + 4, j, part + row, part + 16 + row);
        for (int i = 0; i < 32; i++) {
            code[i] = (uint8_t)(nibble[j / 2 * 32 + i] >> (j & 1) * 4 & 0xf);
            if (fifth)
                code[i] |= (uint8_t)((fifth[i] >> j & 1) << 4);
        }
        put_low(code, row, part + at->low);
        if (fifth)
            put_high1(code, row, part + at->high);
    }
}

static void unpack_q45_k(enum qr_dtype type, const uint8_t *rec, int row, uint8_t *dst)
{
    const struct qr_pack_layout *at = &layouts[type];
    memcpy(dst, rec + row * 2, 2);
    memcpy(dst + 2, rec + 32 + row * 2, 2);
    uint8_t *fifth = type == QR_Q5_K ? dst + 16 : NULL;
    uint8_t *nibble = dst + (fifth ? 48 : 16);
    for (int j = 0; j < 8; j++) {
        const uint8_t *part = rec + at->head + j * at->part;
        uint8_t code[32];
        put_k_scale(dst + 4, j, part[row], part[16 + row]);
        get_low(part + at->low, row, code);
        if (fifth)
            get_high1(part + at->high, row, code);
        for (int i = 0; i < 32; i++) {
            nibble[j / 2 * 32 + i] |= (uint8_t)((code[i] & 0xf) << (j & 1) * 4);
            if (fifth)
                fifth[i] |= (uint8_t)(code[i] >> 4 << j);
        }
    }
}

/* Where code i (0..255) of a Q6_K block stands: byte and shift of its 4 bits and of its 2 bits. */
static void q6_k_place(int i, int *low, int *low_shift, int *high, int *high_shift)
{
    int half = i / 128, quarter = i % 128 / 32, l = i % 32;
    *low = half * 64 + (quarter & 1) * 32 + l;
    *low_shift = quarter / 2 * 4;
    *high = half * 32 + l;
    *high_shift = quarter * 2;
}

/* Block in the file: low nibbles [128], high bits [64], int8 scales [16], d. */
static void pack_q6_k(const uint8_t *src, int row, uint8_t *rec)
{
    const struct qr_pack_layout *at = &layouts[QR_Q6_K];
    memcpy(rec + row * 2, src + 208, 2);
    for (int j = 0; j < 8; j++) {
        uint8_t *part = rec + at->head + j * at->part, code[32];
        part[row] = src[192 + 2 * j];
        part[16 + row] = src[192 + 2 * j + 1];
        for (int i = 0; i < 32; i++) {
            int low, low_shift, high, high_shift;
            q6_k_place(j * 32 + i, &low, &low_shift, &high, &high_shift);
            code[i] = (uint8_t)((src[low] >> low_shift & 0xf) | (src[128 + high] >> high_shift & 3) << 4);
        }
        put_low(code, row, part + at->low);
        put_high2(code, row, part + at->high);
    }
}

static void unpack_q6_k(const uint8_t *rec, int row, uint8_t *dst)
{
    const struct qr_pack_layout *at = &layouts[QR_Q6_K];
    memcpy(dst + 208, rec + row * 2, 2);
    for (int j = 0; j < 8; j++) {
        const uint8_t *part = rec + at->head + j * at->part;
        uint8_t code[32];
        dst[192 + 2 * j] = part[row];
        dst[192 + 2 * j + 1] = part[16 + row];
        get_low(part + at->low, row, code);
        get_high2(part + at->high, row, code);
        for (int i = 0; i < 32; i++) {
            int low, low_shift, high, high_shift;
            q6_k_place(j * 32 + i, &low, &low_shift, &high, &high_shift);
            dst[low] |= (uint8_t)((code[i] & 0xf) << low_shift);
            dst[128 + high] |= (uint8_t)(code[i] >> 4 << high_shift);
        }
    }
}

/* Block in the file: scale and minimum in a nibble each [16], codes of 2 bits [64], d, dmin. */
static void pack_q2_k(const uint8_t *src, int row, uint8_t *rec)
{
    const struct qr_pack_layout *at = &layouts[QR_Q2_K];
    memcpy(rec + row * 2, src + 80, 2);
    memcpy(rec + 32 + row * 2, src + 82, 2);
    for (int j = 0; j < 8; j++) {
        uint8_t *part = rec + at->head + j * at->part, code[32];
        for (int h = 0; h < 2; h++) {
            part[16 * h + row] = src[2 * j + h] & 15;
            part[32 + 16 * h + row] = src[2 * j + h] >> 4;
        }
        for (int i = 0; i < 32; i++)
            code[i] = (uint8_t)((src[16 + 32 * (j / 4) + i] >> 2 * (j % 4) & 3) << 4);
        put_high2(code, row, part + at->high);
    }
}

static void unpack_q2_k(const uint8_t *rec, int row, uint8_t *dst)
{
    const struct qr_pack_layout *at = &layouts[QR_Q2_K];
    memcpy(dst + 80, rec + row * 2, 2);
    memcpy(dst + 82, rec + 32 + row * 2, 2);
    for (int j = 0; j < 8; j++) {
        const uint8_t *part = rec + at->head + j * at->part;
        uint8_t code[32] = {0};
        for (int h = 0; h < 2; h++)
            dst[2 * j + h] = (uint8_t)(part[16 * h + row] | part[32 + 16 * h + row] << 4);
        get_high2(part + at->high, row, code);
        for (int i = 0; i < 32; i++)
            dst[16 + 32 * (j / 4) + i] |= (uint8_t)(code[i] >> 4 << 2 * (j % 4));
    }
}

/* ---------------------------------------------------------------- panels */

/* Columns outside, rows inside: the 16 elements of a column are written together. */
static void pack_float(int size, uint64_t n_col, const uint8_t *rows, int n_row, uint8_t *panel)
{
    uint64_t stride = n_col * (uint64_t)size;
    for (uint64_t c = 0; c < n_col; c++)
        for (int r = 0; r < n_row; r++)
            memcpy(panel + (c * QR_PANEL_ROWS + (uint64_t)r) * (uint64_t)size,
                   rows + (uint64_t)r * stride + c * (uint64_t)size, (size_t)size);
}

/* A block of a type that has a layout of its own; rec: the record that holds it. */
static void pack_block(enum qr_dtype type, const uint8_t *block, int row, uint8_t *rec)
{
    if (type == QR_Q6_K)
        pack_q6_k(block, row, rec);
    else if (type == QR_Q2_K)
        pack_q2_k(block, row, rec);
    else if (layouts[type].columns == 256)
        pack_q45_k(type, block, row, rec);
    else
        pack_block32(type, block, row, rec);
}

void qr_pack_panel(enum qr_dtype type, uint64_t n_col, const void *rows, int n_row, void *panel)
{
    const uint8_t *src = rows;
    uint8_t *dst = panel;
    if (n_row < QR_PANEL_ROWS || !is_float(type))
        memset(dst, 0, qr_panel_bytes(type, n_col));
    if (type == QR_F32) {
        pack_float(4, n_col, src, n_row, dst);
        return;
    }
    if (is_float(type)) {
        pack_float(2, n_col, src, n_row, dst);
        return;
    }
    enum qr_dtype as = qr_recode_type(type);
    const struct qr_pack_layout *at = &layouts[as];
    const struct qr_dtype_info *info = qr_dtype_info(type);
    uint64_t n_block = n_col / info->block, as_bytes = qr_dtype_info(as)->block_bytes;
    uint32_t n_record = info->block / at->columns; /* in a block: 8 of I8S in one of IQ4_XS */
    for (uint64_t b = 0; b < n_block; b++, dst += n_record * at->bytes) {
        for (int r = 0; r < n_row; r++) {
            const uint8_t *block = src + ((uint64_t)r * n_block + b) * info->block_bytes;
            uint8_t recoded[QR_RECODE_BYTES];
            if (as != type) {
                qr_recode(type, block, recoded);
                block = recoded;
            }
            for (uint32_t k = 0; k < n_record; k++)
                pack_block(as, block + k * as_bytes, r, dst + k * at->bytes);
        }
    }
}

void qr_unpack_row(enum qr_dtype type, uint64_t n_col, const void *panel, int row, float *dst)
{
    const uint8_t *src = panel;
    if (is_float(type)) {
        uint64_t size = type == QR_F32 ? 4 : 2;
        for (uint64_t c = 0; c < n_col; c++)
            qr_dequant(type, src + (c * QR_PANEL_ROWS + (uint64_t)row) * size, dst + c, 1);
        return;
    }
    type = qr_recode_type(type);
    const struct qr_pack_layout *at = &layouts[type];
    for (uint64_t c = 0; c < n_col; c += at->columns, src += at->bytes) {
        uint8_t block[256] = {0}; /* the largest, Q6_K's, is 210 bytes */
        if (type == QR_Q6_K)
            unpack_q6_k(src, row, block);
        else if (type == QR_Q2_K)
            unpack_q2_k(src, row, block);
        else if (at->columns == 256)
            unpack_q45_k(type, src, row, block);
        else
            unpack_block32(type, src, row, block);
        qr_dequant(type, block, dst + c, at->columns);
    }
}
