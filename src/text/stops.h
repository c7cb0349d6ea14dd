/* stops.h - an automaton that finds any of several strings in a text that comes byte by byte. */
#ifndef QR_TEXT_STOPS_H
#define QR_TEXT_STOPS_H
#include <stdint.h>
#include "base/err.h"

#define QR_MAX_STOPS      4096
#define QR_MAX_STOP_BYTES 65536 /* of all together */

struct qr_stops;
/* Empty strings and ill-formed UTF-8 are refused (QR_INVALID), too many too (QR_LIMIT). */
enum qr_status qr_stops_create(const char *const *stop, size_t n, struct qr_stops **stops, struct qr_err *err);
void qr_stops_destroy(struct qr_stops *stops);
/* The state behind one more byte; it starts as 0. Amortized constant time. */
uint32_t qr_stops_step(const struct qr_stops *stops, uint32_t state, uint8_t byte);
/* Length of the longest stop string that ends here, 0: none. */
size_t qr_stops_match(const struct qr_stops *stops, uint32_t state);
/* How many bytes at the end may become part of one. */
size_t qr_stops_depth(const struct qr_stops *stops, uint32_t state);
#endif
