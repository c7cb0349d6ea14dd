/* open_weights.h - sources and weights for tests; any error fails the test with its message. */
#ifndef TESTS_MODEL_OPEN_WEIGHTS_H
#define TESTS_MODEL_OPEN_WEIGHTS_H
#include "model/weights.h"

struct qr_config shape_config(const char *shape);
struct qr_source *random_source(const struct qr_config *config, enum qr_dtype type); /* seed 3 */
struct qr_source *open_source(const char *path);
struct qr_weights *load(const struct qr_source *source, bool headers_only, int n_thread);
#endif
