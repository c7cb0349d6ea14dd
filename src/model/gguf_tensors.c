/* gguf_tensors.c - reading the tensor list of a GGUF header and placing each tensor in the file. */
#include <stdlib.h>
#include <string.h>
#include "base/checked.h"
#include "base/dtype.h"
#include "model/gguf_file.h"

#define MAX_NAME_LENGTH 1024

static int shown(const struct qr_gguf_tensor *tensor) /* for %.*s */
{
    return (int)(tensor->name.n > 100 ? 100 : tensor->name.n);
}

/* Formats that ggml once had and took out: their blocks may mean anything by now. */
static bool withdrawn(int ggml_type)
{
    return ggml_type == 4 || ggml_type == 5 || (ggml_type >= 31 && ggml_type <= 33) ||
           (ggml_type >= 36 && ggml_type <= 38);
}

static enum qr_status read_shape(struct qr_gguf_cursor *cursor, struct qr_gguf_tensor *tensor, uint64_t *n_element,
                                 struct qr_err *err)
{
    uint32_t n_dim;

    QR_TRY(qr_gguf_take_u32(cursor, &n_dim, err));
    if (n_dim < 1 || n_dim > 4)
        return qr_fail(err, QR_FORMAT, "it has %u dimensions; 1 to 4 are allowed", n_dim);
    tensor->n_dim = (int)n_dim;
    *n_element = 1;
    for (uint32_t i = 0; i < n_dim; i++) {
        QR_TRY(qr_gguf_take_u64(cursor, &tensor->dim[i], err));
        if (tensor->dim[i] == 0)
            return qr_fail(err, QR_FORMAT, "dimension %u is 0", i);
        if (!qr_mul_u64(*n_element, tensor->dim[i], n_element) || *n_element > INT64_MAX)
            return qr_fail(err, QR_FORMAT, "the product of its dimensions is over 2^63 - 1 (dimension %u is %llu)", i,
                           (unsigned long long)tensor->dim[i]);
    }
    for (uint32_t i = n_dim; i < 4; i++)
        tensor->dim[i] = 1;
    return QR_OK;
}

/* Bytes of a tensor whose type quire knows; others keep 0 and are an error only when they are used. */
static enum qr_status size_tensor(struct qr_gguf_tensor *tensor, uint64_t n_element, struct qr_err *err)
{
    const struct qr_dtype_info *info;
    enum qr_dtype type;

    if (tensor->ggml_type < 0)
        return qr_fail(err, QR_FORMAT, "its type is %d; a type is not negative", tensor->ggml_type);
    if (withdrawn(tensor->ggml_type))
        return qr_fail(err, QR_UNSUPPORTED, "its type %d (%s) was withdrawn from GGUF: convert the model anew",
                       tensor->ggml_type, qr_ggml_type_name(tensor->ggml_type));
    if (!qr_dtype_from_ggml(tensor->ggml_type, &type))
        return QR_OK;
    info = qr_dtype_info(type);
    if (tensor->dim[0] % info->block != 0)
        return qr_fail(err, QR_FORMAT, "its rows have %llu elements, no multiple of the %u in a block of %s",
                       (unsigned long long)tensor->dim[0], info->block, info->name);
    if (!qr_mul_u64(n_element / info->block, info->block_bytes, &tensor->bytes))
        return qr_fail(err, QR_FORMAT, "its %llu elements of %s take more than 2^64 bytes",
                       (unsigned long long)n_element, info->name);
    return QR_OK;
}

static enum qr_status read_tensor(struct qr_gguf *gguf, struct qr_gguf_cursor *cursor, uint64_t i, struct qr_err *err)
{
    struct qr_gguf_tensor *tensor = &gguf->tensor[i];
    uint64_t n_element = 0;
    uint32_t type;
    enum qr_status status;

    QR_TRY(qr_gguf_take_str(cursor, &tensor->name, err));
    if (tensor->name.n == 0 || tensor->name.n > MAX_NAME_LENGTH)
        return qr_fail(err, QR_FORMAT, "its name has %llu bytes; 1 to %d are allowed",
                       (unsigned long long)tensor->name.n, MAX_NAME_LENGTH);
    status = read_shape(cursor, tensor, &n_element, err);
    if (status == QR_OK)
        status = qr_gguf_take_u32(cursor, &type, err);
    if (status == QR_OK)
        status = qr_gguf_take_u64(cursor, &gguf->tensor_offset[i], err);
    if (status == QR_OK) {
        memcpy(&tensor->ggml_type, &type, sizeof type); /* the file has a signed enum there */
        status = size_tensor(tensor, n_element, err);
    }
    if (status != QR_OK)
        return qr_err_prefix(err, status, "\"%.*s\"", shown(tensor), tensor->name.s);
    return QR_OK;
}

/* Points every tensor at its bytes. data_at: where tensor data begins in the file. */
static enum qr_status place_tensors(struct qr_gguf *gguf, uint64_t data_at, struct qr_err *err)
{
    uint64_t room = gguf->map.size > data_at ? gguf->map.size - data_at : 0;

    for (uint64_t i = 0; i < gguf->n_tensor; i++) {
        struct qr_gguf_tensor *tensor = &gguf->tensor[i];
        uint64_t offset = gguf->tensor_offset[i];

        if (offset % gguf->alignment != 0)
            return qr_fail(err, QR_FORMAT, "tensor \"%.*s\" begins at offset %llu, no multiple of the alignment %llu",
                           shown(tensor), tensor->name.s, (unsigned long long)offset,
                           (unsigned long long)gguf->alignment);
        if (!qr_range_fits(offset, tensor->bytes, room))
            return qr_fail(err, QR_FORMAT,
                           "tensor \"%.*s\" (%llu bytes at offset %llu) does not fit in the %llu bytes of data: the "
                           "file is cut off",
                           shown(tensor), tensor->name.s, (unsigned long long)tensor->bytes, (unsigned long long)offset,
                           (unsigned long long)room);
        tensor->data = gguf->map.data + data_at + offset;
        tensor->map = &gguf->map;
    }
    return QR_OK;
}

static int by_address(const void *a, const void *b)
{
    const struct qr_gguf_tensor *x = *(const struct qr_gguf_tensor *const *)a;
    const struct qr_gguf_tensor *y = *(const struct qr_gguf_tensor *const *)b;

    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static enum qr_status check_overlap(struct qr_gguf *gguf, struct qr_err *err)
{
    const struct qr_gguf_tensor **order = qr_arena_array(gguf->arena, gguf->n_tensor, sizeof(void *));

    if (!order)
        return qr_fail(err, QR_NOMEM, "out of memory for %llu tensors", (unsigned long long)gguf->n_tensor);
    for (uint64_t i = 0; i < gguf->n_tensor; i++)
        order[i] = &gguf->tensor[i];
    qsort(order, gguf->n_tensor, sizeof *order, by_address);
    for (uint64_t i = 1; i < gguf->n_tensor; i++) {
        const struct qr_gguf_tensor *a = order[i - 1], *b = order[i];

        if ((uint64_t)(b->data - a->data) < a->bytes)
            return qr_fail(err, QR_FORMAT, "tensors \"%.*s\" and \"%.*s\" overlap", shown(a), a->name.s, shown(b),
                           b->name.s);
    }
    return QR_OK;
}

enum qr_status qr_gguf_read_tensors(struct qr_gguf *gguf, struct qr_gguf_cursor *cursor, struct qr_err *err)
{
    const struct qr_name *twice;
    uint64_t data_at;

    gguf->tensor = qr_arena_array(gguf->arena, gguf->n_tensor, sizeof *gguf->tensor);
    gguf->tensor_offset = qr_arena_array(gguf->arena, gguf->n_tensor, sizeof *gguf->tensor_offset);
    gguf->tensor_name = qr_arena_array(gguf->arena, gguf->n_tensor, sizeof *gguf->tensor_name);
    if (!gguf->tensor || !gguf->tensor_offset || !gguf->tensor_name)
        return qr_fail(err, QR_NOMEM, "out of memory for %llu tensors", (unsigned long long)gguf->n_tensor);
    for (uint64_t i = 0; i < gguf->n_tensor; i++) {
        enum qr_status status = read_tensor(gguf, cursor, i, err);

        if (status != QR_OK)
            return qr_err_prefix(err, status, "tensor %llu of %llu", (unsigned long long)i + 1,
                                 (unsigned long long)gguf->n_tensor);
        gguf->tensor_name[i] = (struct qr_name){gguf->tensor[i].name.s, gguf->tensor[i].name.n, i};
    }
    qr_names_sort(gguf->tensor_name, gguf->n_tensor);
    twice = qr_names_duplicate(gguf->tensor_name, gguf->n_tensor);
    if (twice)
        return qr_fail(err, QR_FORMAT, "tensor \"%.*s\" stands there twice", (int)(twice->n > 100 ? 100 : twice->n),
                       twice->s);
    if (gguf->n_tensor == 0)
        return QR_OK;
    if (!qr_align_u64(cursor->at, gguf->alignment, &data_at))
        return qr_fail(err, QR_FORMAT, "the header is too long");
    QR_TRY(place_tensors(gguf, data_at, err));
    return check_overlap(gguf, err);
}

uint64_t qr_gguf_n_tensor(const struct qr_gguf *gguf)
{
    return gguf->n_tensor;
}

const struct qr_gguf_tensor *qr_gguf_tensor_at(const struct qr_gguf *gguf, uint64_t i)
{
    return &gguf->tensor[i];
}

const struct qr_gguf_tensor *qr_gguf_find(const struct qr_gguf *gguf, const char *name)
{
    const struct qr_name *found = qr_names_find(gguf->tensor_name, gguf->n_tensor, name, strlen(name));

    return found ? &gguf->tensor[found->id] : NULL;
}
