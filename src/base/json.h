/* json.h - jansson with limits and clear errors; QR_NOMEM where it would crash when memory runs out. */
#ifndef QR_BASE_JSON_H
#define QR_BASE_JSON_H
#include <jansson.h>
#include "base/err.h"

/* Parses n bytes; refuses NUL bytes in keys, duplicate keys, and depth over 200 before jansson sees it. Integers
 * beyond int64 are an error. what: for the message ("config.json"). The caller json_decref()s. The first call puts a hook
 * before jansson's allocator, whichever that is, for good. */
enum qr_status qr_json_parse(const char *data, size_t n, const char *what, json_t **out, struct qr_err *err);
/* For files that Python wrote, whose integers have no end (tokenizer_config.json's model_max_length is 10^30 in many): those
 * beyond int64 become real numbers. A byte order mark is named. */
enum qr_status qr_json_parse_file(const char *data, size_t n, const char *what, json_t **out, struct qr_err *err);
/* For what models write: an object or a list, in which the last of equal keys counts. */
enum qr_status qr_json_parse_lax(const char *data, size_t n, const char *what, json_t **out, struct qr_err *err);
/* qr_json_parse_file for a file of at most cap bytes. */
enum qr_status qr_json_file(const char *path, uint64_t cap, json_t **out, struct qr_err *err);
/* Reads key of an object into *out when present (JSON null counts as absent); an error when it has another type or lies outside
 * [min, max]. *out keeps its value when absent. */
enum qr_status qr_json_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *out,
                           struct qr_err *err);
enum qr_status qr_json_real(const json_t *obj, const char *key, double min, double max, double *out,
                            struct qr_err *err);
enum qr_status qr_json_bool(const json_t *obj, const char *key, bool *out, struct qr_err *err);
enum qr_status qr_json_string(const json_t *obj, const char *key, const char **out, struct qr_err *err);
#endif
