/* check.h - what every fuzz target holds quire to. */
#ifndef TESTS_FUZZ_CHECK_H
#define TESTS_FUZZ_CHECK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* An error is one sentence under 400 characters, of a kind that a bad file or field may cause; else the program ends. With FUZZ_SHOW in
 * the environment it is printed. */
void check_error(enum qr_status status, const struct qr_err *err);
/* Ends the program with these words unless ok. */
void check(bool ok, const char *what);

/* An input of two parts, a NUL byte between: the first, and the rest (NULL: there is none). Both malloc'ed, of exactly
 * their size, so that a read past the end is seen. */
struct parts {
    char *first, *rest;
    size_t n_first, n_rest;
};
struct parts parts_of(const uint8_t *data, size_t n);
void parts_free(struct parts *parts);
#endif
