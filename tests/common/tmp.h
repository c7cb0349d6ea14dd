/* tmp.h - a folder for one test, gone afterwards, and where the test data of the checkout are. */
#ifndef TESTS_COMMON_TMP_H
#define TESTS_COMMON_TMP_H
#include <stddef.h>

/* For cmocka_unit_test_setup_teardown: *state is the folder's path (char *), made and removed with all in it. */
int tmp_setup(void **state);
int tmp_teardown(void **state);

/* "dir/name", in one of a few static buffers that are reused in turn: for use at once. */
const char *tmp_path(void *const *state, const char *name);
/* Writes a file there and returns its path as tmp_path does. */
const char *tmp_write(void *const *state, const char *name, const void *data, size_t n);

/* A file below $QUIRE_SHARED (default ../shared), or NULL when it is not there: then the test skips. */
const char *shared_path(const char *name);
/* The default model's file ($QUIRE_MODEL, else in the cache directory), or NULL when it is not there. */
const char *default_model_path(void);
#endif
