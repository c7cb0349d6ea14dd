/* open_weights.c - see open_weights.h. */
#include "model/open_weights.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

struct qr_config shape_config(const char *shape)
{
    struct qr_config config;
    struct qr_err err;
    assert_int_equal(qr_config_from_shape(shape, &config, &err), QR_OK);
    return config;
}

struct qr_source *random_source(const struct qr_config *config, enum qr_dtype type)
{
    struct qr_source *source;
    struct qr_err err;
    if (qr_source_random(config, 3, type, &source, &err) != QR_OK)
        fail_msg("%s", err.message);
    return source;
}

struct qr_source *open_source(const char *path)
{
    struct qr_source *source;
    struct qr_err err;
    if (qr_source_open(path, 0, &source, &err) != QR_OK)
        fail_msg("%s", err.message);
    return source;
}

struct qr_weights *load(const struct qr_source *source, bool headers_only, int n_thread)
{
    struct qr_weights *weights;
    struct qr_pool *pool;
    struct qr_err err;
    assert_int_equal(qr_pool_create(n_thread, &pool, &err), QR_OK);
    if (qr_weights_load(source, headers_only, pool, NULL, NULL, &weights, &err) != QR_OK)
        fail_msg("%s", err.message);
    qr_pool_destroy(pool);
    return weights;
}
