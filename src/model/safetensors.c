/* safetensors.c - one .safetensors file. Format and its limits: README of huggingface/safetensors. */
#include "model/safetensors.h"
#include <stdlib.h>
#include <string.h>
#include "base/checked.h"
#include "base/json.h"

#define MAX_HEADER 100000000 /* bytes; the format's own limit */
#define MAX_DIM    8

struct qr_safetensors {
    struct qr_map map;
    json_t *header; /* owns the names */
    uint64_t data_at;
    uint64_t n_tensor;
    struct qr_st_tensor *tensor; /* [n_tensor] in the header's order */
};

/* Bits of an element; 0: a type of a later version of the format, an error only when it is used. */
static unsigned dtype_bits(const char *dtype)
{
    static const struct {
        const char *name;
        unsigned bits;
    } table[] = {{"BOOL", 8}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
                 {"U16", 16}, {"F16", 16}, {"BF16", 16}, {"I32", 32},    {"U32", 32},    {"F32", 32},    {"F64", 64},
                 {"I64", 64}, {"U64", 64}, {"C64", 64},  {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}};

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, dtype) == 0)
            return table[i].bits;
    return 0;
}

/* A non-negative integer of the header. */
static bool read_size(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static enum qr_status read_shape(const json_t *entry, struct qr_st_tensor *tensor, uint64_t *n_element,
                                 struct qr_err *err)
{
    const json_t *shape = json_object_get(entry, "shape");
    size_t n = json_array_size(shape);

    if (!json_is_array(shape))
        return qr_fail(err, QR_FORMAT, "it has no \"shape\"");
    if (n > MAX_DIM)
        return qr_fail(err, QR_FORMAT, "it has %zu dimensions; quire reads up to %d", n, MAX_DIM);
    tensor->n_dim = (int)n;
    *n_element = 1;
    for (size_t i = 0; i < n; i++) {
        if (!read_size(json_array_get(shape, i), &tensor->dim[i]))
            return qr_fail(err, QR_FORMAT, "dimension %zu is no size", i);
        if (!qr_mul_u64(*n_element, tensor->dim[i], n_element))
            return qr_fail(err, QR_FORMAT, "the product of its dimensions is over 2^64");
    }
    return QR_OK;
}

static enum qr_status read_tensor(const struct qr_safetensors *st, const json_t *entry, struct qr_st_tensor *tensor,
                                  struct qr_err *err)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    uint64_t begin, end, n_element = 0, n_bit;
    uint64_t room = st->map.size - st->data_at;
    unsigned bits;

    tensor->dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!tensor->dtype)
        return qr_fail(err, QR_FORMAT, "it has no \"dtype\" that is a string");
    QR_TRY(read_shape(entry, tensor, &n_element, err));
    if (json_array_size(offsets) != 2 || !read_size(json_array_get(offsets, 0), &begin) ||
        !read_size(json_array_get(offsets, 1), &end) || begin > end)
        return qr_fail(err, QR_FORMAT, "its \"data_offsets\" are not [begin, end]");
    if (end > room)
        return qr_fail(err, QR_FORMAT, "its data ends at %llu, but the file has %llu bytes of data: it is cut off",
                       (unsigned long long)end, (unsigned long long)room);
    tensor->data = st->map.data + st->data_at + begin;
    tensor->bytes = end - begin;
    bits = dtype_bits(tensor->dtype);
    if (bits == 0)
        return QR_OK;
    if (!qr_mul_u64(n_element, bits, &n_bit) || n_bit % 8 != 0 || n_bit / 8 != tensor->bytes)
        return qr_fail(err, QR_FORMAT, "its %llu elements of %s do not fill the %llu bytes of its \"data_offsets\"",
                       (unsigned long long)n_element, tensor->dtype, (unsigned long long)tensor->bytes);
    return QR_OK;
}

static int by_address(const void *a, const void *b)
{
    const struct qr_st_tensor *x = *(const struct qr_st_tensor *const *)a;
    const struct qr_st_tensor *y = *(const struct qr_st_tensor *const *)b;

    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The format forbids holes: whatever is in the file belongs to one tensor. */
static enum qr_status check_contiguous(const struct qr_safetensors *st, struct qr_err *err)
{
    const uint8_t *end = st->map.data + st->data_at;
    const struct qr_st_tensor **order = calloc(st->n_tensor + 1, sizeof *order);
    enum qr_status status = QR_OK;

    if (!order)
        return qr_fail(err, QR_NOMEM, "out of memory for %llu tensors", (unsigned long long)st->n_tensor);
    for (uint64_t i = 0; i < st->n_tensor; i++)
        order[i] = &st->tensor[i];
    qsort(order, st->n_tensor, sizeof *order, by_address);
    for (uint64_t i = 0; i < st->n_tensor && status == QR_OK; i++) {
        if (order[i]->data != end)
            status = qr_fail(err, QR_FORMAT, "the data of tensor \"%s\" %s", order[i]->name,
                             order[i]->data < end ? "overlaps another tensor's" : "has a hole in front of it");
        end = order[i]->data + order[i]->bytes;
    }
    free(order);
    if (status == QR_OK && end != st->map.data + st->map.size)
        status = qr_fail(err, QR_FORMAT, "%llu bytes follow the data of the last tensor",
                         (unsigned long long)(st->map.data + st->map.size - end));
    return status;
}

static enum qr_status read_tensors(struct qr_safetensors *st, struct qr_err *err)
{
    const char *name;
    json_t *entry;

    if (!json_is_object(st->header))
        return qr_fail(err, QR_FORMAT, "the header is no JSON object");
    st->tensor = calloc(json_object_size(st->header) + 1, sizeof *st->tensor);
    if (!st->tensor)
        return qr_fail(err, QR_NOMEM, "out of memory for %zu tensors", json_object_size(st->header));
    json_object_foreach(st->header, name, entry)
    {
        struct qr_st_tensor *tensor = &st->tensor[st->n_tensor];
        enum qr_status status;

        if (strcmp(name, "__metadata__") == 0)
            continue;
        tensor->name = name;
        status = json_is_object(entry) ? read_tensor(st, entry, tensor, err)
                                       : qr_fail(err, QR_FORMAT, "its entry is no JSON object");
        if (status != QR_OK)
            return qr_err_prefix(err, status, "tensor \"%s\"", name);
        st->n_tensor++;
    }
    return check_contiguous(st, err);
}

struct header_text {
    const struct qr_map *map;
    uint64_t n;
    char *text; /* [n] */
};

/* The header's text, copied out of the mapping: the parser owns memory that a jump out of it would leak. */
static enum qr_status copy_header(void *ctx, struct qr_err *err)
{
    const struct header_text *header = ctx;

    (void)err;
    memcpy(header->text, header->map->data + 8, header->n);
    return QR_OK;
}

/* The length in front. Under the guard. */
static enum qr_status read_start(void *ctx, struct qr_err *err)
{
    struct header_text *header = ctx;
    const struct qr_map *map = header->map;
    const char *mistaken = qr_file_mistaken(map->data, map->size);

    if (mistaken)
        return qr_fail(err, QR_FORMAT, "this is %s", mistaken);
    if (map->size < 8)
        return qr_fail(err, QR_FORMAT, "the file has %llu bytes; a safetensors file has at least 8",
                       (unsigned long long)map->size);
    memcpy(&header->n, map->data, 8);
    if (header->n > MAX_HEADER)
        return qr_fail(err, QR_LIMIT, "the header announces %llu bytes; the format's limit is %d",
                       (unsigned long long)header->n, MAX_HEADER);
    if (header->n > map->size - 8)
        return qr_fail(err, QR_FORMAT, "the header announces %llu bytes, but only %llu follow: the file is cut off",
                       (unsigned long long)header->n, (unsigned long long)map->size - 8);
    if (header->n < 2 || map->data[8] != '{')
        return qr_fail(err, QR_FORMAT, "the header does not begin with '{': this is no safetensors file");
    return QR_OK;
}

static enum qr_status read_header(struct qr_safetensors *st, struct qr_err *err)
{
    struct header_text header = {.map = &st->map};
    enum qr_status status;

    QR_TRY(qr_map_guard(&st->map, read_start, &header, err));
    st->data_at = 8 + header.n;
    header.text = malloc(header.n);
    if (!header.text)
        return qr_fail(err, QR_NOMEM, "out of memory for a header of %llu bytes", (unsigned long long)header.n);
    status = qr_map_guard(&st->map, copy_header, &header, err);
    if (status == QR_OK)
        status = qr_json_parse(header.text, header.n, "header", &st->header, err);
    free(header.text);
    QR_TRY(status);
    return read_tensors(st, err);
}

enum qr_status qr_safetensors_open(const char *path, struct qr_safetensors **out, struct qr_err *err)
{
    struct qr_safetensors *st = calloc(1, sizeof *st);
    enum qr_status status;

    *out = NULL;
    if (!st)
        return qr_fail(err, QR_NOMEM, "out of memory while opening %s", path);
    status = qr_map_open(path, &st->map, err);
    if (status == QR_OK) {
        status = read_header(st, err);
        if (status != QR_OK)
            status = qr_err_prefix(err, status, "%s", path);
    }
    if (status != QR_OK) {
        qr_safetensors_close(st);
        return status;
    }
    *out = st;
    return QR_OK;
}

void qr_safetensors_close(struct qr_safetensors *st)
{
    if (!st)
        return;
    free(st->tensor);
    json_decref(st->header);
    qr_map_close(&st->map);
    free(st);
}

const struct qr_map *qr_safetensors_map(const struct qr_safetensors *st)
{
    return &st->map;
}

uint64_t qr_safetensors_n_tensor(const struct qr_safetensors *st)
{
    return st->n_tensor;
}

const struct qr_st_tensor *qr_safetensors_at(const struct qr_safetensors *st, uint64_t i)
{
    return &st->tensor[i];
}
