/* test_gguf.c - the GGUF reader: what it reads, and every way in which a file may lie (RELIABILITY 1-11). */
#include "model/gguf.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "common/fault.h"
#include "common/tmp.h"
#include "model/make_gguf.h"

static const uint64_t one_row[1] = {8};

/* Writes m and opens it: it must fail with that status and a message that holds `says`. */
static void refused(void **state, struct make_gguf *m, enum qr_status status, const char *says)
{
    struct qr_gguf *gguf;
    struct qr_err err = {0};

    mk_finish(m);
    assert_int_equal(qr_gguf_open(tmp_write(state, "bad.gguf", m->file.data, m->file.len), &gguf, &err), status);
    assert_null(gguf);
    assert_non_null(strstr(err.message, "bad.gguf: "));
    if (!strstr(err.message, says))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
    mk_free(m);
    mk_init(m);
}

static struct qr_gguf *opened(void **state, struct make_gguf *m)
{
    struct qr_gguf *gguf;
    struct qr_err err = {0};

    mk_finish(m);
    if (qr_gguf_open(tmp_write(state, "good.gguf", m->file.data, m->file.len), &gguf, &err) != QR_OK)
        fail_msg("%s", err.message);
    mk_free(m);
    mk_init(m);
    return gguf;
}

static void reads_every_kind_of_value(void **state)
{
    static const char *const words[] = {"alpha", "", "gamma"};
    static const int16_t shorts[] = {-3, 4};
    static const double doubles[] = {1.5, -1e300, NAN};
    struct make_gguf m;
    struct qr_gguf *gguf;
    struct qr_gguf_array array;
    struct qr_str s;
    const struct qr_str *strings;
    struct qr_err err;
    uint64_t n;
    int64_t i;
    double r;
    bool b, found;

    mk_init(&m);
    mk_u8(&m, "u8", 200);
    mk_raw(&m, "i8", 1, "\xFE", 1);
    mk_raw(&m, "u16", 2, "\xFF\xFF", 2);
    mk_raw(&m, "i16", 3, "\x00\x80", 2);
    mk_u32(&m, "u32", 4000000000u);
    mk_raw(&m, "i32", 5, "\xFF\xFF\xFF\xFF", 4);
    mk_f32(&m, "f32", 0.5f);
    mk_bool(&m, "bool", 1);
    mk_str(&m, "string", "text");
    mk_u64(&m, "u64", INT64_MAX);
    mk_u64(&m, "big", (uint64_t)INT64_MAX + 1);
    mk_raw(&m, "i64", 11, "\0\0\0\0\0\0\0\x80", 8);
    mk_f64(&m, "f64", 1e-300);
    mk_strings(&m, "words", words, 3);
    mk_array(&m, "shorts", 3, 2, shorts, sizeof shorts);
    mk_array(&m, "doubles", 12, 3, doubles, sizeof doubles);
    mk_array(&m, "nothing", 8, 0, "", 0);
    gguf = opened(state, &m);

    assert_int_equal(qr_gguf_int(gguf, "u8", &i, NULL, &err), QR_OK);
    assert_int_equal(i, 200);
    assert_int_equal(qr_gguf_int(gguf, "i8", &i, NULL, &err), QR_OK);
    assert_int_equal(i, -2);
    assert_int_equal(qr_gguf_int(gguf, "u16", &i, NULL, &err), QR_OK);
    assert_int_equal(i, 65535);
    assert_int_equal(qr_gguf_int(gguf, "i16", &i, NULL, &err), QR_OK);
    assert_int_equal(i, -32768);
    assert_int_equal(qr_gguf_int(gguf, "u32", &i, &found, &err), QR_OK);
    assert_true(found && i == 4000000000);
    assert_int_equal(qr_gguf_int(gguf, "i32", &i, NULL, &err), QR_OK);
    assert_int_equal(i, -1);
    assert_int_equal(qr_gguf_int(gguf, "u64", &i, NULL, &err), QR_OK);
    assert_true(i == INT64_MAX);
    assert_int_equal(qr_gguf_int(gguf, "i64", &i, NULL, &err), QR_OK);
    assert_true(i == INT64_MIN);
    assert_int_equal(qr_gguf_int(gguf, "big", &i, NULL, &err), QR_FORMAT);
    assert_int_equal(qr_gguf_real(gguf, "f32", &r, NULL, &err), QR_OK);
    assert_true(r == 0.5);
    assert_int_equal(qr_gguf_real(gguf, "f64", &r, NULL, &err), QR_OK);
    assert_true(r == 1e-300);
    assert_int_equal(qr_gguf_bool(gguf, "bool", &b, NULL, &err), QR_OK);
    assert_true(b);
    assert_int_equal(qr_gguf_string(gguf, "string", &s, NULL, &err), QR_OK);
    assert_int_equal(s.n, 4);
    assert_memory_equal(s.s, "text", 4);
    assert_int_equal(qr_gguf_strings(gguf, "words", &strings, &n, NULL, &err), QR_OK);
    assert_int_equal(n, 3);
    assert_int_equal(strings[1].n, 0);
    assert_memory_equal(strings[2].s, "gamma", 5);
    assert_int_equal(qr_gguf_strings(gguf, "nothing", &strings, &n, NULL, &err), QR_OK);
    assert_int_equal(n, 0);
    assert_int_equal(qr_gguf_array(gguf, "shorts", &array, NULL, &err), QR_OK);
    assert_int_equal(array.n, 2);
    assert_int_equal(qr_gguf_array_int(&array, 0), -3);
    assert_true(qr_gguf_array_real(&array, 1) == 4);
    assert_int_equal(qr_gguf_array(gguf, "doubles", &array, NULL, &err), QR_OK);
    assert_true(qr_gguf_array_real(&array, 1) == -1e300);
    assert_int_equal(qr_gguf_array_int(&array, 0), 1);
    assert_true(qr_gguf_array_int(&array, 1) == INT64_MIN);
    assert_int_equal(qr_gguf_array_int(&array, 2), 0);
    qr_gguf_close(gguf);
}

static void says_what_a_key_is_when_it_is_something_else(void **state)
{
    struct make_gguf m;
    struct qr_gguf *gguf;
    struct qr_gguf_array array;
    const struct qr_str *strings;
    struct qr_str s;
    struct qr_err err;
    uint64_t n;
    int64_t i = 7;
    double r;
    bool b, found = true;

    mk_init(&m);
    mk_u32(&m, "number", 1);
    mk_str(&m, "text", "x");
    mk_array(&m, "list", 0, 2, "ab", 2);
    gguf = opened(state, &m);
    assert_int_equal(qr_gguf_int(gguf, "missing", &i, &found, &err), QR_OK);
    assert_false(found);
    assert_int_equal(i, 7);
    assert_int_equal(qr_gguf_int(gguf, "missing", &i, NULL, &err), QR_FORMAT);
    assert_non_null(strstr(err.message, "\"missing\""));
    assert_int_equal(qr_gguf_int(gguf, "text", &i, NULL, &err), QR_FORMAT);
    assert_string_equal(err.message, "GGUF key \"text\" must be an integer but is string");
    assert_int_equal(qr_gguf_int(gguf, "list", &i, NULL, &err), QR_FORMAT);
    assert_string_equal(err.message, "GGUF key \"list\" must be an integer but is an array of u8");
    assert_int_equal(qr_gguf_real(gguf, "number", &r, NULL, &err), QR_FORMAT);
    assert_int_equal(qr_gguf_bool(gguf, "number", &b, NULL, &err), QR_FORMAT);
    assert_int_equal(qr_gguf_string(gguf, "number", &s, NULL, &err), QR_FORMAT);
    assert_int_equal(qr_gguf_strings(gguf, "list", &strings, &n, NULL, &err), QR_FORMAT);
    assert_int_equal(qr_gguf_strings(gguf, "text", &strings, &n, NULL, &err), QR_FORMAT);
    assert_int_equal(qr_gguf_array(gguf, "number", &array, NULL, &err), QR_FORMAT);
    qr_gguf_close(gguf);
}

static void reads_tensors(void **state)
{
    static const float numbers[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {8}};
    static const uint64_t two[2] = {8, 2}, blocks[3] = {256, 3, 2};
    struct make_gguf m;
    struct qr_gguf *gguf;
    const struct qr_gguf_tensor *tensor;

    mk_init(&m);
    mk_u32(&m, "general.alignment", 64);
    m.alignment = 64;
    mk_tensor(&m, "a", 0, 2, two, numbers, sizeof numbers);
    mk_tensor(&m, "b", 12, 3, blocks, NULL, 6 * 144);
    mk_tensor(&m, "c", 16, 1, two, NULL, 0); /* IQ2_XXS: known to ggml only */
    mk_tensor(&m, "d", 9999, 1, two, NULL, 0);
    gguf = opened(state, &m);
    assert_int_equal(qr_gguf_n_tensor(gguf), 4);
    tensor = qr_gguf_find(gguf, "a");
    assert_ptr_equal(tensor, qr_gguf_tensor_at(gguf, 0));
    assert_int_equal(tensor->n_dim, 2);
    assert_int_equal(tensor->dim[0], 8);
    assert_int_equal(tensor->dim[1], 2);
    assert_int_equal(tensor->dim[2], 1);
    assert_int_equal(tensor->bytes, sizeof numbers);
    assert_memory_equal(tensor->data, numbers, sizeof numbers);
    assert_int_equal((tensor->data - qr_gguf_map(gguf)->data) % 64, 0);
    tensor = qr_gguf_find(gguf, "b");
    assert_int_equal(tensor->bytes, 6 * 144);
    assert_int_equal(qr_gguf_find(gguf, "c")->bytes, 0);
    assert_int_equal(qr_gguf_find(gguf, "d")->ggml_type, 9999);
    assert_null(qr_gguf_find(gguf, "aa"));
    assert_null(qr_gguf_find(gguf, ""));
    qr_gguf_close(gguf);
}

static void refuses_what_is_no_gguf(void **state)
{
    struct make_gguf m;
    struct qr_gguf *gguf;
    struct qr_err err;

    mk_init(&m);
    m.version = 1;
    refused(state, &m, QR_UNSUPPORTED, "version 1");
    m.version = 4;
    refused(state, &m, QR_UNSUPPORTED, "version 4");
    m.version = 0x03000000;
    refused(state, &m, QR_UNSUPPORTED, "big endian");
    m.version = 2;
    qr_gguf_close(opened(state, &m));
    assert_int_equal(qr_gguf_open(tmp_write(state, "bad.gguf", "GGML\3\0\0\0", 8), &gguf, &err), QR_FORMAT);
    assert_int_equal(qr_gguf_open(tmp_write(state, "bad.gguf", "", 0), &gguf, &err), QR_FORMAT);
    assert_int_equal(qr_gguf_open(tmp_path(state, "missing"), &gguf, &err), QR_NOTFOUND);
    assert_int_equal(qr_gguf_open(*state, &gguf, &err), QR_IO);
    assert_int_equal(mkfifo(tmp_path(state, "fifo"), 0600), 0);
    assert_int_equal(qr_gguf_open(tmp_path(state, "fifo"), &gguf, &err), QR_IO);
    assert_non_null(strstr(err.message, "FIFO"));
}

static void refuses_a_file_cut_anywhere_in_its_header(void **state)
{
    struct make_gguf m;
    struct qr_gguf *gguf;
    struct qr_err err;
    const char *path;

    mk_init(&m);
    mk_model_keys(&m, "llama");
    mk_model_tensors(&m, "llama");
    mk_finish(&m);
    path = tmp_write(state, "cut.gguf", m.file.data, m.file.len);
    /* in its data: the last tensor does not fit any more */
    assert_int_equal(truncate(path, (off_t)m.file.len - 1), 0);
    assert_int_equal(qr_gguf_open(path, &gguf, &err), QR_FORMAT);
    assert_non_null(strstr(err.message, "output_norm.weight"));
    for (uint64_t n = m.header; n-- > 0;) {
        assert_int_equal(truncate(path, (off_t)n), 0);
        assert_int_equal(qr_gguf_open(path, &gguf, &err), QR_FORMAT);
        assert_null(gguf);
    }
    mk_free(&m);
}

static void refuses_counts_that_the_file_cannot_hold(void **state)
{
    static const uint64_t counts[] = {UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 32, 100};
    struct make_gguf m;

    mk_init(&m);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        mk_u32(&m, "a", 1);
        m.n_key = counts[i];
        refused(state, &m, QR_FORMAT, "keys");
        mk_u32(&m, "a", 1);
        m.n_tensor = counts[i];
        refused(state, &m, QR_FORMAT, "tensors");
    }
    mk_u32(&m, "a", 1);
    m.n_key = 2;
    refused(state, &m, QR_FORMAT, "");
}

static void refuses_strings_and_arrays_longer_than_the_file(void **state)
{
    static const uint64_t lengths[] = {UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 61, 1000};
    struct make_gguf m;

    mk_init(&m);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        mk_raw(&m, "s", 8, &lengths[i], 8);
        refused(state, &m, QR_FORMAT, "\"s\"");
        for (uint32_t kind = 0; kind <= 12; kind++) {
            if (kind == 9)
                continue;
            mk_array(&m, "list", kind, lengths[i], "12345678", 8);
            refused(state, &m, QR_FORMAT, "\"list\"");
        }
    }
    mk_array(&m, "nested", 9, 1, "\4\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0", 16);
    refused(state, &m, QR_UNSUPPORTED, "arrays inside an array");
    mk_raw(&m, "kind", 13, "1234", 4);
    refused(state, &m, QR_FORMAT, "value type 13");
    mk_raw(&m, "kind", UINT32_MAX, "1234", 4);
    refused(state, &m, QR_FORMAT, "value type 4294967295");
    mk_bool(&m, "b", 2);
    refused(state, &m, QR_FORMAT, "boolean");
    mk_u32(&m, "", 1);
    refused(state, &m, QR_FORMAT, "name has 0 bytes");
}

static void refuses_bad_alignments(void **state)
{
    static const uint32_t bad[] = {0, 1, 4, 13, 48, 1u << 21, 1u << 31};
    struct make_gguf m;

    mk_init(&m);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        mk_u32(&m, "general.alignment", bad[i]);
        refused(state, &m, QR_FORMAT, "general.alignment");
    }
    mk_str(&m, "general.alignment", "32");
    refused(state, &m, QR_FORMAT, "general.alignment");
    mk_f32(&m, "general.alignment", 32);
    refused(state, &m, QR_FORMAT, "general.alignment");
    mk_u64(&m, "general.alignment", UINT64_MAX);
    refused(state, &m, QR_FORMAT, "general.alignment");
    for (uint32_t good = 8; good <= 4096; good *= 2) {
        mk_u32(&m, "general.alignment", good);
        m.alignment = good;
        mk_tensor(&m, "a", 0, 1, one_row, NULL, 32);
        mk_tensor(&m, "b", 0, 1, one_row, NULL, 32);
        qr_gguf_close(opened(state, &m));
    }
}

static void refuses_bad_shapes(void **state)
{
    static const uint64_t wrap[4] = {(uint64_t)1 << 32, (uint64_t)1 << 32, 1, 1}, zero[2] = {8, 0},
                          half[2] = {(uint64_t)1 << 31, (uint64_t)1 << 32}, five[5] = {8, 1, 1, 1, 1},
                          many[1] = {(uint64_t)1 << 62}, ragged[2] = {40, 2};
    struct make_gguf m;

    mk_init(&m);
    mk_tensor(&m, "t", 0, 2, wrap, NULL, 64);
    refused(state, &m, QR_FORMAT, "product");
    mk_tensor(&m, "t", 0, 2, half, NULL, 64);
    refused(state, &m, QR_FORMAT, "product");
    mk_tensor(&m, "t", 0, 2, zero, NULL, 64);
    refused(state, &m, QR_FORMAT, "dimension 1 is 0");
    mk_tensor(&m, "t", 0, 5, five, NULL, 64);
    refused(state, &m, QR_FORMAT, "5 dimensions");
    mk_tensor(&m, "t", 0, 0, five, NULL, 64);
    refused(state, &m, QR_FORMAT, "0 dimensions");
    mk_tensor(&m, "t", 0, 1, five, NULL, 64);
    memset(m.tensors.data + 8 + 1, 0xFF, 4); /* the rank stands behind the name and its length */
    refused(state, &m, QR_FORMAT, "4294967295 dimensions");
    mk_tensor(&m, "t", 0, 1, many, NULL, 64); /* 2^62 elements of 4 bytes: the size wraps */
    refused(state, &m, QR_FORMAT, "2^64 bytes");
    mk_tensor(&m, "t", 1, 1, many, NULL, 64); /* 2^63 bytes: does not wrap, does not fit */
    refused(state, &m, QR_FORMAT, "does not fit");
    mk_tensor(&m, "t", 8, 2, ragged, NULL, 128); /* Q8_0 has blocks of 32 */
    refused(state, &m, QR_FORMAT, "no multiple of the 32");
    mk_tensor(&m, "", 0, 1, one_row, NULL, 64);
    refused(state, &m, QR_FORMAT, "name has 0 bytes");
}

static void refuses_withdrawn_and_negative_types(void **state)
{
    static const uint32_t withdrawn[] = {4, 5, 31, 32, 33, 36, 37, 38};
    struct make_gguf m;

    mk_init(&m);
    for (size_t i = 0; i < sizeof withdrawn / sizeof withdrawn[0]; i++) {
        mk_tensor(&m, "t", withdrawn[i], 1, one_row, NULL, 64);
        refused(state, &m, QR_UNSUPPORTED, "withdrawn");
    }
    mk_tensor(&m, "t", (uint32_t)-1, 1, one_row, NULL, 64);
    refused(state, &m, QR_FORMAT, "type is -1");
    mk_tensor(&m, "t", 1u << 31, 1, one_row, NULL, 64);
    refused(state, &m, QR_FORMAT, "type is -2147483648");
}

static void refuses_tensors_outside_or_upon_each_other(void **state)
{
    static const uint64_t offsets[] = {64, 96, (uint64_t)1 << 62, UINT64_MAX - 31};
    struct make_gguf m;

    mk_init(&m);
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        mk_tensor(&m, "t", 0, 1, one_row, NULL, 64);
        mk_entry(&m, "far", 0, 1, one_row, offsets[i]);
        refused(state, &m, QR_FORMAT, "\"far\"");
    }
    mk_entry(&m, "t", 0, 1, one_row, 0); /* no data at all */
    refused(state, &m, QR_FORMAT, "does not fit");
    mk_entry(&m, "t", 9999, 1, one_row, 4096); /* an unknown type does not hide it */
    refused(state, &m, QR_FORMAT, "does not fit");
    mk_tensor(&m, "t", 0, 1, one_row, NULL, 128);
    mk_entry(&m, "odd", 0, 1, one_row, 33);
    refused(state, &m, QR_FORMAT, "no multiple of the alignment 32");
    mk_tensor(&m, "t", 0, 1, one_row, NULL, 128);
    mk_entry(&m, "same", 0, 1, one_row, 0);
    refused(state, &m, QR_FORMAT, "overlap");
    mk_entry(&m, "late", 0, 1, (const uint64_t[]){16}, 32); /* bytes 32..95, then 64..95 */
    mk_tensor(&m, "t", 0, 1, one_row, NULL, 128);
    mk_entry(&m, "inside", 0, 1, one_row, 64);
    refused(state, &m, QR_FORMAT, "overlap");
}

static void refuses_duplicates(void **state)
{
    struct make_gguf m;

    mk_init(&m);
    mk_u32(&m, "key", 1);
    mk_u32(&m, "kez", 1);
    mk_u32(&m, "key", 1);
    refused(state, &m, QR_FORMAT, "\"key\" stands there twice");
    mk_tensor(&m, "x", 0, 1, one_row, NULL, 32);
    mk_tensor(&m, "y", 0, 1, one_row, NULL, 32);
    mk_tensor(&m, "x", 0, 1, one_row, NULL, 32);
    refused(state, &m, QR_FORMAT, "\"x\" stands there twice");
}

/* Counted in time: with a quadratic search this takes minutes. */
static void reads_100000_tensors_and_keys_fast(void **state)
{
    struct make_gguf m;
    struct qr_gguf *gguf;
    double begin = qr_now_s();
    char name[32];
    int64_t value;

    mk_init(&m);
    for (int i = 0; i < 100000; i++) {
        snprintf(name, sizeof name, "tensor.%d", i);
        mk_u32(&m, name, (uint32_t)i);
        mk_tensor(&m, name, 0, 1, one_row, NULL, 32);
    }
    gguf = opened(state, &m);
    for (int i = 0; i < 100000; i += 7) {
        snprintf(name, sizeof name, "tensor.%d", i);
        assert_ptr_equal(qr_gguf_find(gguf, name), qr_gguf_tensor_at(gguf, (uint64_t)i));
        assert_int_equal(qr_gguf_int(gguf, name, &value, NULL, NULL), QR_OK);
        assert_int_equal(value, i);
    }
    qr_gguf_close(gguf);
    assert_true(qr_now_s() - begin < 10);
}

static bool open_and_close(void *path)
{
    struct qr_gguf *gguf;
    struct qr_err err;
    bool ok = qr_gguf_open(path, &gguf, &err) == QR_OK;

    qr_gguf_close(gguf);
    return ok;
}

static void survives_every_failing_call(void **state)
{
    struct make_gguf m;
    char path[4096];

    if (!fault_works())
        skip();
    mk_init(&m);
    mk_model_keys(&m, "qwen3");
    mk_model_tensors(&m, "qwen3");
    mk_finish(&m);
    snprintf(path, sizeof path, "%s", tmp_write(state, "m.gguf", m.file.data, m.file.len));
    mk_free(&m);
    assert_true(fault_torture(open_and_close, path, FAULT_ANY, 0) >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_every_kind_of_value, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(says_what_a_key_is_when_it_is_something_else, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(reads_tensors, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_gguf, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_a_file_cut_anywhere_in_its_header, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_counts_that_the_file_cannot_hold, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_strings_and_arrays_longer_than_the_file, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_bad_alignments, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_bad_shapes, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_withdrawn_and_negative_types, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_tensors_outside_or_upon_each_other, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_duplicates, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(reads_100000_tensors_and_keys_fast, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(survives_every_failing_call, tmp_setup, tmp_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
