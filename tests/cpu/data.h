/* data.h - random numbers, rows of every type and packed weights for the tests of the CPU executor. */
#ifndef TESTS_CPU_DATA_H
#define TESTS_CPU_DATA_H
#include <stddef.h>
#include "base/weight.h"

/* Fills n numbers with deviation 1 from a stream of its own. */
void fill_normal(uint64_t stream, float *dst, size_t n);
/* n_row rows of n_col elements as in a file, of any type: random codes, scales of a sensible size. malloc'ed. */
uint8_t *random_rows(enum qr_dtype type, uint64_t stream, int n_row, int n_col);
/* n_row rows [n_row, n_col] packed into panels, 64-byte aligned; free() it. */
uint8_t *pack_rows(enum qr_dtype type, const uint8_t *rows, int n_row, int n_col);
/* A matrix of one segment of random rows, packed; *dense gets its values as fp32 (malloc'ed). */
struct test_weight {
    struct qr_segment segment;
    struct qr_storage storage;
    struct qr_weight weight;
    float *dense;
};
void test_weight_make(struct test_weight *w, enum qr_dtype type, uint64_t stream, int n_row, int n_col);
void test_weight_free(struct test_weight *w);
#endif
