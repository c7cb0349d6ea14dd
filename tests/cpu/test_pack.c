/* test_pack.c - a row taken out of a panel is the row that went in, for every type, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/pack.h"
#include "cpu/data.h"

static void check_round_trip(enum qr_dtype type, int n_row, int n_col)
{
    uint8_t *rows = random_rows(type, (uint64_t)type, n_row, n_col);
    uint8_t *panels = pack_rows(type, rows, n_row, n_col);
    uint64_t row_bytes = qr_row_bytes(type, (uint64_t)n_col), panel = qr_panel_bytes(type, (uint64_t)n_col);
    float *want = malloc((size_t)n_col * 4), *got = malloc((size_t)n_col * 4);
    for (int r = 0; r < n_row; r++) {
        qr_dequant(type, rows + (uint64_t)r * row_bytes, want, (uint64_t)n_col);
        qr_unpack_row(type, (uint64_t)n_col, panels + (uint64_t)(r / 16) * panel, r % 16, got);
        assert_memory_equal(want, got, (size_t)n_col * 4);
    }
    for (int r = n_row; r % 16; r++) { /* padding */
        qr_unpack_row(type, (uint64_t)n_col, panels + (uint64_t)(r / 16) * panel, r % 16, got);
        for (int c = 0; c < n_col; c++)
            assert_true(got[c] == 0);
    }
    free(rows);
    free(panels);
    free(want);
    free(got);
}

static void test_round_trip(void **state)
{
    (void)state;
    for (int t = 0; t < QR_N_DTYPE; t++) {
        int block = (int)qr_dtype_info(t)->block;
        check_round_trip(t, 16, block);
        check_round_trip(t, 48, block * 6);
        check_round_trip(t, 1, block * 2);
        check_round_trip(t, 21, block * 3);
    }
    check_round_trip(QR_F32, 20, 37);
    check_round_trip(QR_BF16, 20, 5);
}

static void test_supported(void **state)
{
    (void)state;
    assert_true(qr_pack_supported(QR_F16, 7));
    assert_false(qr_pack_supported(QR_F32, 0));
    assert_true(qr_pack_supported(QR_Q4_1, 576));
    assert_false(qr_pack_supported(QR_Q4_1, 40));
    assert_true(qr_pack_supported(QR_Q4_K, 1536));
    assert_false(qr_pack_supported(QR_Q4_K, 576));
    assert_false(qr_pack_supported(QR_N_DTYPE, 256));
}

/* Packing may cost little: nothing for most types, sub-scales of 8 instead of 6 bits for Q4_K and Q5_K. Types that stand as
 * another one (base/recode.h) and Q2_K cost what docs/FIDELITY.md says, in bits of a weight. */
static void test_bytes(void **state)
{
    (void)state;
    for (int t = 0; t < QR_N_DTYPE; t++) {
        uint64_t file = qr_row_bytes(t, 2048) * 16, panel = qr_panel_bytes(t, 2048);
        uint64_t most = file + file * 3 / 100, n = 2048 * 16;
        switch (t) {
        case QR_Q2_K:
            most = n * 25 / 64; /* 3.125 bits */
            break;
        case QR_Q3_K:
            most = n * 105 / 128; /* 6.5625 */
            break;
        case QR_IQ4_NL:
            most = n * 17 / 16; /* 8.5 */
            break;
        case QR_IQ4_XS:
        case QR_MXFP4:
        case QR_FP8:
            most = n * 9 / 8; /* 9 */
            break;
        default:
            break;
        }
        assert_in_range(panel, file, most);
        assert_int_equal(panel % 64, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_supported),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
