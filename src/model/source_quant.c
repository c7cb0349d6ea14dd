/* source_quant.c - matrices of quantised safetensors, which stand there as several tensors: rows of them are made while
 * they are read, in types that hold the same numbers.
 *   fp8   X.weight F8_E4M3 [out, in] times X.weight_scale_inv (a scale for a block of rows and columns) or X.weight_scale
 *         (one for all, or one a row) -> FP8 where bf16 holds all scales, else F8S
 *   gptq  (Frantar et al., 2022; files of AutoGPTQ) X.qweight [in/8, out]: nibble k of a word is input 8 i + k;
 *         X.qzeros [groups, out/8], one less than the zero; X.scales [groups, out]; X.g_idx [in], the group of an input.
 *         scale * (q - zero) -> I8S; F16, as AutoGPTQ computes, where inputs of a group lie apart (desc_act)
 *   awq   (Lin et al., 2023; AutoAWQ's gemm) X.qweight [in, out/8], X.qzeros [groups, out/8]: nibble k of a word is output
 *         0 2 4 6 1 3 5 7 [k]; X.scales [groups, out] -> I8S */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/half.h"
#include "model/source_parts.h"

struct qr_derived {
    struct qr_quant quant;
    enum qr_dtype type; /* of the rows */
    uint64_t n_row, n_col;
    const struct qr_st_tensor *main, *scale, *zero, *index; /* index: g_idx or NULL */
    const struct qr_map *map[4];
    uint64_t scale_rows, scale_cols; /* fp8: [1, 1], [n_row, 1] or a grid of blocks */
};

/* ---------------------------------------------------------------- reading rows */

static uint32_t word_at(const struct qr_st_tensor *tensor, uint64_t i)
{
    uint32_t word;

    memcpy(&word, tensor->data + 4 * i, 4);
    return word;
}

static float scale_at(const struct qr_derived *d, uint64_t i)
{
    enum qr_dtype type = QR_F32;
    float scale;

    qr_dtype_from_safetensors(d->scale->dtype, &type);
    qr_dequant(type, d->scale->data + i * qr_row_bytes(type, 1), &scale, 1);
    return scale;
}

static void fp8_row(const struct qr_derived *d, uint64_t row, uint8_t *dst)
{
    const uint8_t *src = d->main->data + row * d->n_col;
    bool single = d->scale_rows == 1 && d->scale_cols == 1, blocks = !single && d->quant.block_rows > 0;
    uint64_t first = single ? 0 : blocks ? row / (uint64_t)d->quant.block_rows * d->scale_cols : row;

    for (uint64_t c = 0; c < d->n_col; c += 32) {
        float scale = scale_at(d, first + (blocks ? c / (uint64_t)d->quant.block_cols : 0));
        uint16_t upper = qr_f32_to_bf16(scale);

        if (d->type == QR_FP8)
            memcpy(dst, &upper, 2);
        else
            memcpy(dst, &scale, 4);
        dst += d->type == QR_FP8 ? 2 : 4;
        memcpy(dst, src + c, 32);
        dst += 32;
    }
}

static uint64_t group_of(const struct qr_derived *d, uint64_t col)
{
    if (d->index && d->quant.act_order)
        return word_at(d->index, col);
    return d->quant.group ? col / (uint64_t)d->quant.group : 0;
}

/* Nibble of output `row` in a word of 8 outputs. */
static int shift_of(const struct qr_derived *d, uint64_t row)
{
    static const uint8_t awq[8] = {0, 4, 1, 5, 2, 6, 3, 7};

    return 4 * (d->quant.method == QR_QUANT_AWQ ? awq[row % 8] : (int)(row % 8));
}

static int code_at(const struct qr_derived *d, uint64_t row, uint64_t col)
{
    if (d->quant.method == QR_QUANT_AWQ)
        return (int)(word_at(d->main, col * (d->n_row / 8) + row / 8) >> shift_of(d, row) & 15);
    return (int)(word_at(d->main, col / 8 * d->n_row + row) >> 4 * (col % 8) & 15);
}

/* The zero of a GPTQ file is stored less one, which of 0 makes 15. */
static int zero_at(const struct qr_derived *d, uint64_t row, uint64_t group)
{
    int zero = (int)(word_at(d->zero, group * (d->n_row / 8) + row / 8) >> shift_of(d, row) & 15);

    return d->quant.method == QR_QUANT_GPTQ && !d->quant.zeros_as_they_are ? (zero + 1) & 15 : zero;
}

static void four_bit_row(const struct qr_derived *d, uint64_t row, uint8_t *dst)
{
    for (uint64_t c = 0; c < d->n_col; c += 32, dst += 36) { /* groups are multiples of 32 columns */
        uint64_t group = group_of(d, c);
        float scale = scale_at(d, group * d->n_row + row);
        int zero = zero_at(d, row, group);

        memcpy(dst, &scale, 4);
        for (uint64_t i = 0; i < 32; i++)
            dst[4 + i] = (uint8_t)(code_at(d, row, c + i) - zero);
    }
}

/* The groups are looked at again: the file may have been written to since check_groups. */
static enum qr_status scattered_row(const struct qr_derived *d, uint64_t row, uint8_t *dst, struct qr_err *err)
{
    for (uint64_t c = 0; c < d->n_col; c++) {
        uint64_t group = group_of(d, c);
        uint16_t half;
        float w;

        if (group >= d->scale->dim[0])
            return qr_fail(err, QR_FORMAT, "tensor \"%s\" was changed while it was read", d->index->name);
        w = scale_at(d, group * d->n_row + row) * (float)(code_at(d, row, c) - zero_at(d, row, group));
        half = qr_f32_to_f16(w);
        memcpy(dst + 2 * c, &half, 2);
    }
    return QR_OK;
}

struct reading {
    const struct qr_derived *d;
    uint64_t row, n;
    uint8_t *dst;
    int depth; /* maps that are guarded already */
};

/* Every file that the rows come from is guarded, one inside the other. */
static enum qr_status read_guarded(void *ctx, struct qr_err *err)
{
    struct reading *r = ctx;
    uint64_t row_bytes = qr_row_bytes(r->d->type, r->d->n_col);

    while (r->depth < 4) {
        const struct qr_map *map = r->d->map[r->depth++];

        if (map)
            return qr_map_guard(map, read_guarded, r, err);
    }
    for (uint64_t i = 0; i < r->n; i++) {
        uint8_t *dst = r->dst + i * row_bytes;

        if (r->d->quant.method == QR_QUANT_FP8)
            fp8_row(r->d, r->row + i, dst);
        else if (r->d->type == QR_F16)
            QR_TRY(scattered_row(r->d, r->row + i, dst, err));
        else
            four_bit_row(r->d, r->row + i, dst);
    }
    return QR_OK;
}

enum qr_status qr_source_derived_rows(const struct qr_source *source, const struct qr_source_tensor *tensor,
                                      uint64_t row, uint64_t n, void *dst, struct qr_err *err)
{
    struct reading reading = {&source->derived[tensor->derived - 1], tensor->derived_row + row, n, dst, 0};

    return read_guarded(&reading, err);
}

/* ---------------------------------------------------------------- opening */

static bool ends(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n > m && strcmp(name + n - m, end) == 0;
}

bool qr_source_is_side_tensor(const struct qr_source *source, const char *name)
{
    static const char *const fp8[] = {".weight_scale_inv", ".weight_scale", ".input_scale", ".k_scale", ".v_scale"};
    static const char *const four_bit[] = {".qzeros", ".scales", ".g_idx"};

    for (size_t i = 0; source->config.quant.method == QR_QUANT_FP8 && i < sizeof fp8 / sizeof fp8[0]; i++)
        if (ends(name, fp8[i]))
            return true;
    for (size_t i = 0; source->config.quant.method > QR_QUANT_FP8 && i < 3; i++)
        if (ends(name, four_bit[i]))
            return true;
    return false;
}

bool qr_source_is_derived(const struct qr_source *source, const struct qr_st_tensor *tensor)
{
    if (source->config.quant.method == QR_QUANT_FP8)
        return strcmp(tensor->dtype, "F8_E4M3") == 0 && ends(tensor->name, ".weight");
    return source->config.quant.method != QR_QUANT_NONE && ends(tensor->name, ".qweight");
}

/* The tensor that has the main one's name with another end; NULL: there is none. A walk over all names: some thousand
 * matrices of some thousand names each. */
static const struct qr_st_tensor *beside(const struct qr_source *source, const struct qr_st_tensor *main,
                                         const char *end, const struct qr_map **map)
{
    size_t stem = (size_t)(strrchr(main->name, '.') - main->name);

    for (uint64_t i = 0; i < source->n_st; i++)
        for (uint64_t k = 0; k < qr_safetensors_n_tensor(source->st[i]); k++) {
            const struct qr_st_tensor *tensor = qr_safetensors_at(source->st[i], k);

            if (strncmp(tensor->name, main->name, stem) == 0 && strcmp(tensor->name + stem, end) == 0) {
                *map = qr_safetensors_map(source->st[i]);
                return tensor;
            }
        }
    return NULL;
}

static enum qr_status bad_shape(const struct qr_st_tensor *tensor, const char *wanted, struct qr_err *err)
{
    return qr_fail(err, QR_FORMAT, "tensor \"%s\" (%s, %d dimensions, the first %llu) is not %s", tensor->name,
                   tensor->dtype, tensor->n_dim, (unsigned long long)(tensor->n_dim ? tensor->dim[0] : 1), wanted);
}

static bool is_matrix(const struct qr_st_tensor *t, const char *dtype, uint64_t n_row, uint64_t n_col)
{
    return t->n_dim == 2 && t->dim[0] == n_row && t->dim[1] == n_col && strcmp(t->dtype, dtype) == 0;
}

static uint64_t pieces(uint64_t n, int32_t size)
{
    return (n + (uint64_t)size - 1) / (uint64_t)size;
}

/* As FP8 a matrix takes less, and stays as it is on a GPU. */
static enum qr_status choose_fp8(void *ctx, struct qr_err *err)
{
    struct qr_derived *d = ctx;
    bool fit = true;

    (void)err;
    for (uint64_t i = 0; fit && i < d->scale_rows * d->scale_cols; i++) {
        float scale = scale_at(d, i), size = fabsf(scale);

        fit = (size == 0 || (size >= QR_FP8_LEAST && size <= QR_FP8_MOST)) &&
              qr_bf16_to_f32(qr_f32_to_bf16(scale)) == scale;
    }
    d->type = fit ? QR_FP8 : QR_F8S;
    return QR_OK;
}

static enum qr_status make_fp8(const struct qr_source *source, struct qr_derived *d, struct qr_err *err)
{
    const struct qr_quant *quant = &d->quant;
    enum qr_dtype type;

    if (d->main->n_dim != 2)
        return bad_shape(d->main, "a matrix", err);
    d->n_row = d->main->dim[0];
    d->n_col = d->main->dim[1];
    d->scale = beside(source, d->main, ".weight_scale_inv", &d->map[1]);
    if (!d->scale)
        d->scale = beside(source, d->main, ".weight_scale", &d->map[1]);
    if (!d->scale)
        return qr_fail(err, QR_FORMAT,
                       "tensor \"%s\" is F8_E4M3, but neither weight_scale_inv nor weight_scale stands "
                       "beside it",
                       d->main->name);
    d->scale_rows = d->scale->n_dim > 0 ? d->scale->dim[0] : 1;
    d->scale_cols = d->scale->n_dim > 1 ? d->scale->dim[1] : 1;
    if (!qr_dtype_from_safetensors(d->scale->dtype, &type) || d->scale->n_dim > 2)
        return bad_shape(d->scale, "of type F32, F16 or BF16 with up to two dimensions", err);
    bool single = d->scale_rows == 1 && d->scale_cols == 1;
    if (!single && quant->block_rows == 0 && (d->scale_rows != d->n_row || d->scale_cols != 1))
        return bad_shape(d->scale, "one scale, or one a row", err);
    if ((quant->scales == QR_SCALES_ONE && !single) ||
        (quant->scales == QR_SCALES_ROWS && (d->scale_rows != d->n_row || d->scale_cols != 1)))
        return bad_shape(d->scale,
                         quant->scales == QR_SCALES_ONE ? "one scale, as strategy tensor has it"
                                                        : "one scale a row, as strategy channel has it",
                         err);
    if (!single && quant->block_rows > 0 &&
        (d->scale_rows != pieces(d->n_row, quant->block_rows) || d->scale_cols != pieces(d->n_col, quant->block_cols)))
        return bad_shape(d->scale, "a scale for each block of weight_block_size", err);
    return qr_map_guard(d->map[1], choose_fp8, d, err);
}

/* Every input's group, read once: desc_act must have told the truth, and no group may be outside the scales. */
static enum qr_status check_groups(void *ctx, struct qr_err *err)
{
    const struct qr_derived *d = ctx;
    uint64_t n_group = d->scale->dim[0];

    for (uint64_t c = 0; c < d->n_col; c++) {
        uint64_t group = word_at(d->index, c), in_order = d->quant.group ? c / (uint64_t)d->quant.group : 0;

        if (group >= n_group)
            return qr_fail(err, QR_FORMAT, "tensor \"%s\" puts input %llu into group %llu of %llu", d->index->name,
                           (unsigned long long)c, (unsigned long long)group, (unsigned long long)n_group);
        if (!d->quant.act_order && group != in_order)
            return qr_fail(err, QR_FORMAT, "tensor \"%s\" puts input %llu into group %llu, though desc_act is false",
                           d->index->name, (unsigned long long)c, (unsigned long long)group);
    }
    return QR_OK;
}

static enum qr_status make_four_bit(const struct qr_source *source, struct qr_derived *d, struct qr_err *err)
{
    bool awq = d->quant.method == QR_QUANT_AWQ;
    uint64_t n_group;

    if (d->main->n_dim != 2 || strcmp(d->main->dtype, "I32") != 0)
        return bad_shape(d->main, "a matrix of I32", err);
    d->n_row = awq ? d->main->dim[1] * 8 : d->main->dim[1];
    d->n_col = awq ? d->main->dim[0] : d->main->dim[0] * 8;
    d->type = d->quant.act_order ? QR_F16 : QR_I8S;
    d->scale = beside(source, d->main, ".scales", &d->map[1]);
    d->zero = beside(source, d->main, ".qzeros", &d->map[2]);
    d->index = awq ? NULL : beside(source, d->main, ".g_idx", &d->map[3]);
    if (!d->scale || !d->zero || (d->quant.act_order && !d->index))
        return qr_fail(err, QR_FORMAT, "beside tensor \"%s\" there is no %s", d->main->name,
                       !d->scale  ? "scales"
                       : !d->zero ? "qzeros"
                                  : "g_idx");
    n_group = d->quant.group ? pieces(d->n_col, d->quant.group) : 1;
    if (!is_matrix(d->scale, "F16", n_group, d->n_row) && !is_matrix(d->scale, "BF16", n_group, d->n_row) &&
        !is_matrix(d->scale, "F32", n_group, d->n_row))
        return bad_shape(d->scale, "a scale for each group and output", err);
    if (d->n_row % 8 != 0 || !is_matrix(d->zero, "I32", n_group, d->n_row / 8))
        return bad_shape(d->zero, "a matrix of I32 with a zero for each group and output", err);
    if (!d->index)
        return QR_OK;
    if (d->index->n_dim != 1 || d->index->dim[0] != d->n_col || strcmp(d->index->dtype, "I32") != 0)
        return bad_shape(d->index, "the group of every input, in I32", err);
    return qr_map_guard(d->map[3], check_groups, d, err);
}

enum qr_status qr_source_derive(struct qr_source *source, const struct qr_st_tensor *main, const struct qr_map *map,
                                struct qr_source_tensor *out, struct qr_err *err)
{
    struct qr_derived d = {.quant = source->config.quant, .main = main, .map = {map}};
    struct qr_derived *all = realloc(source->derived, (source->n_derived + 1) * sizeof d);

    if (!all)
        return qr_fail(err, QR_NOMEM, "out of memory for %llu quantised matrices",
                       (unsigned long long)source->n_derived + 1);
    source->derived = all;
    QR_TRY(d.quant.method == QR_QUANT_FP8 ? make_fp8(source, &d, err) : make_four_bit(source, &d, err));
    if (d.n_row == 0 || d.n_col == 0)
        return qr_fail(err, QR_FORMAT, "tensor \"%s\" is empty", main->name);
    all[source->n_derived++] = d;
    out->type = d.type;
    out->n_row = d.n_row;
    out->n_col = d.n_col;
    out->data = main->data;
    out->derived = (uint32_t)source->n_derived;
    return QR_OK;
}

static enum qr_status all_zero(void *ctx, struct qr_err *err)
{
    struct qr_st_tensor *tensor = ctx;
    uint8_t any = 0;

    (void)err;
    for (uint64_t i = 0; i < tensor->bytes; i++)
        any |= tensor->data[i];
    tensor->bytes = any ? 1 : 0;
    return QR_OK;
}

enum qr_status qr_source_empty_bias(const struct qr_source *source, const char *name, const struct qr_st_tensor *tensor,
                                    const struct qr_map *map, bool *empty, struct qr_err *err)
{
    struct qr_st_tensor copy = *tensor;

    *empty = false;
    if (source->config.quant.method != QR_QUANT_GPTQ || !ends(name, ".bias") || !qr_source_denied(source, name))
        return QR_OK;
    QR_TRY(qr_map_guard(map, all_zero, &copy, err));
    *empty = copy.bytes == 0;
    return QR_OK;
}
