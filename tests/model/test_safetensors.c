/* test_safetensors.c - the safetensors reader: what it reads and what it refuses (RELIABILITY 12). */
#include "model/safetensors.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "common/fault.h"
#include "common/tmp.h"
#include "model/make_st.h"

/* A file with that header and n_data bytes behind it fails with that status and words. */
static void refused_of_length(void **state, const char *header, uint64_t length, uint64_t n_data, enum qr_status status,
                              const char *says)
{
    struct qr_buf file;
    struct qr_safetensors *st;
    struct qr_err err = {0};

    qr_buf_init(&file, 0);
    mk_st(&file, header, length, n_data);
    assert_int_equal(qr_safetensors_open(tmp_write(state, "bad.safetensors", file.data, file.len), &st, &err), status);
    assert_null(st);
    if (!strstr(err.message, says) || !strstr(err.message, "bad.safetensors: "))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
    qr_buf_free(&file);
}

static void refused(void **state, const char *header, uint64_t n_data, const char *says)
{
    refused_of_length(state, header, 0, n_data, QR_FORMAT, says);
}

static struct qr_safetensors *opened(void **state, const char *header, uint64_t n_data)
{
    struct qr_buf file;
    struct qr_safetensors *st;
    struct qr_err err = {0};

    qr_buf_init(&file, 0);
    mk_st(&file, header, 0, n_data);
    if (qr_safetensors_open(tmp_write(state, "good.safetensors", file.data, file.len), &st, &err) != QR_OK)
        fail_msg("%s", err.message);
    qr_buf_free(&file);
    return st;
}

static void reads_tensors(void **state)
{
    struct qr_safetensors *st = opened(state,
                                       "{\"__metadata__\":{\"a\":\"b\"},"
                                       "\"second\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[12,20]},"
                                       "\"first\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
                                       "\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[20,28]},"
                                       "\"none\":{\"dtype\":\"U8\",\"shape\":[0,7],\"data_offsets\":[28,28]},"
                                       "\"later\":{\"dtype\":\"F99\",\"shape\":[3],\"data_offsets\":[28,30]}}   ",
                                       30);
    const struct qr_st_tensor *tensor;

    assert_int_equal(qr_safetensors_n_tensor(st), 5);
    tensor = qr_safetensors_at(st, 1);
    assert_string_equal(tensor->name, "first");
    assert_string_equal(tensor->dtype, "BF16");
    assert_int_equal(tensor->n_dim, 2);
    assert_int_equal(tensor->dim[0], 2);
    assert_int_equal(tensor->dim[1], 3);
    assert_int_equal(tensor->bytes, 12);
    assert_int_equal(tensor->data[11], 11);
    assert_int_equal(qr_safetensors_at(st, 0)->data[0], 12);
    assert_int_equal(qr_safetensors_at(st, 2)->n_dim, 0);
    assert_int_equal(qr_safetensors_map(st)->data + qr_safetensors_map(st)->size - 30 - tensor->data, 0);
    qr_safetensors_close(st);
    st = opened(state, "{}", 0);
    assert_int_equal(qr_safetensors_n_tensor(st), 0);
    qr_safetensors_close(st);
}

static void refuses_bad_header_lengths(void **state)
{
    struct qr_safetensors *st;
    struct qr_err err;

    refused_of_length(state, "{}", (uint64_t)1 << 63, 0, QR_LIMIT, "9223372036854775808 bytes");
    refused_of_length(state, "{}", UINT64_MAX, 0, QR_LIMIT, "limit is 100000000");
    refused_of_length(state, "{}", 100000001, 0, QR_LIMIT, "limit is 100000000");
    refused_of_length(state, "{}", 100000000, 0, QR_FORMAT, "cut off");
    refused_of_length(state, "{}", 3, 0, QR_FORMAT, "cut off");
    refused_of_length(state, "{}", 1, 0, QR_FORMAT, "'{'");
    for (size_t n = 0; n < 8; n++) {
        assert_int_equal(qr_safetensors_open(tmp_write(state, "x", "\2\0\0\0\0\0\0\0", n), &st, &err), QR_FORMAT);
        assert_non_null(strstr(err.message, "at least 8"));
    }
    assert_int_equal(qr_safetensors_open(tmp_write(state, "x", "\0\0\0\0\0\0\0\0", 8), &st, &err), QR_FORMAT);
    assert_int_equal(qr_safetensors_open(tmp_path(state, "missing"), &st, &err), QR_NOTFOUND);
    assert_int_equal(qr_safetensors_open(*state, &st, &err), QR_IO);
}

static void refuses_bad_headers(void **state)
{
    static const struct {
        const char *entry;
        const char *says;
    } bad[] = {
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}", "do not fill"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}", "hole"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}", "4 bytes follow"},
        {"{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}", "ends at 12"},
        {"{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,4]}", "[begin, end]"},
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}", "[begin, end]"},
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}", "[begin, end]"},
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8.0]}", "[begin, end]"},
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9223372036854775807]}", "cut off"},
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9223372036854775808]}", "JSON"},
        {"{\"dtype\":\"F32\",\"shape\":[2]}", "[begin, end]"},
        {"{\"dtype\":\"F32\",\"data_offsets\":[0,8]}", "shape"},
        {"{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}", "shape"},
        {"{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}", "no size"},
        {"{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}", "no size"},
        {"{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,2],\"data_offsets\":[0,8]}", "over 2^64"},
        {"{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,8]}", "do not fill"},
        {"{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}", "9 dimensions"},
        {"{\"dtype\":\"F4\",\"shape\":[15],\"data_offsets\":[0,8]}", "do not fill"},
        {"{\"shape\":[2],\"data_offsets\":[0,8]}", "dtype"},
        {"{\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,8]}", "dtype"},
        {"[]", "no JSON object"},
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"t\":{}", "duplicate"},
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"u\":{\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[4,8]}",
         "overlaps"},
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"u\":{\"dtype\":\"F32\",\"shape\":[2],"
         "\"data_offsets\":[0,8]}",
         "overlaps"},
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]", "JSON"},
    };
    char header[512];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(header, sizeof header, "{\"t\":%s}", bad[i].entry);
        refused(state, header, 8, bad[i].says);
    }
    refused(state, "{}", 1, "1 bytes follow");
    refused(state, " {}", 0, "'{'");
    refused(state, "[1]", 0, "'{'");
}

static void refuses_deep_nesting(void **state)
{
    char header[2001];

    memset(header, '[', 2000);
    memcpy(header, "{\"a\":", 5);
    header[2000] = 0;
    refused_of_length(state, header, 0, 0, QR_LIMIT, "nested");
}

static void reads_100000_tensors_fast(void **state)
{
    struct qr_buf header;
    struct qr_safetensors *st;
    double begin = qr_now_s();

    qr_buf_init(&header, 0);
    for (int i = 0; i < 100000; i++)
        qr_buf_printf(&header, "%c\"t%d\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[%d,%d]}", i ? ',' : '{', i,
                      2 * i, 2 * i + 2);
    qr_buf_putc(&header, '}');
    st = opened(state, header.data, 200000);
    assert_int_equal(qr_safetensors_n_tensor(st), 100000);
    qr_safetensors_close(st);
    qr_buf_free(&header);
    assert_true(qr_now_s() - begin < 10);
}

/* Every bit of a small file's header flipped, and every byte cut off: an error or a file, never a crash. */
static void survives_every_cut_and_flip(void **state)
{
    struct make_st m;
    struct qr_buf file;
    struct qr_safetensors *st;
    struct qr_err err;
    const char *path;
    uint64_t header;
    int n_opened = 0, fd;

    qr_buf_init(&file, 0);
    mk_st_begin(&m);
    mk_st_model(&m, 0, false);
    mk_st_end(&m, &file);
    memcpy(&header, file.data, 8);
    path = tmp_write(state, "flip", file.data, file.len);
    fd = open(path, O_WRONLY);
    for (size_t i = 0; i < 8 + header; i++) {
        for (int bit = 0; bit < 8; bit++) {
            char flipped = file.data[i] ^ (char)(1 << bit);

            assert_int_equal(pwrite(fd, &flipped, 1, (off_t)i), 1);
            if (qr_safetensors_open(path, &st, &err) == QR_OK) {
                n_opened++;
                for (uint64_t k = 0; k < qr_safetensors_n_tensor(st); k++)
                    assert_true(qr_safetensors_at(st, k)->data + qr_safetensors_at(st, k)->bytes <=
                                qr_safetensors_map(st)->data + qr_safetensors_map(st)->size);
                qr_safetensors_close(st);
            } else {
                assert_true(err.message[0]);
            }
        }
        assert_int_equal(pwrite(fd, file.data + i, 1, (off_t)i), 1);
    }
    assert_true(n_opened > 0); /* letters of names */
    for (size_t n = file.len; n-- > 0;) {
        assert_int_equal(ftruncate(fd, (off_t)n), 0);
        assert_int_not_equal(qr_safetensors_open(path, &st, &err), QR_OK);
    }
    close(fd);
    qr_buf_free(&file);
}

static bool open_and_close(void *path)
{
    struct qr_safetensors *st;
    struct qr_err err;
    bool ok = qr_safetensors_open(path, &st, &err) == QR_OK;

    qr_safetensors_close(st);
    return ok;
}

static void survives_every_failing_call(void **state)
{
    struct make_st m;
    struct qr_buf file;
    char path[4096];

    if (!fault_works())
        skip();
    qr_buf_init(&file, 0);
    mk_st_begin(&m);
    mk_st_model(&m, 0, true);
    mk_st_end(&m, &file);
    snprintf(path, sizeof path, "%s", tmp_write(state, "m", file.data, file.len));
    qr_buf_free(&file);
    assert_true(fault_torture(open_and_close, path, FAULT_ANY, 0) >= 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_tensors, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_bad_header_lengths, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_bad_headers, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_deep_nesting, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(reads_100000_tensors_fast, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(survives_every_cut_and_flip, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(survives_every_failing_call, tmp_setup, tmp_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
