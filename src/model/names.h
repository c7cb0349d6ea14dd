/* names.h - names out of a file, sorted once and found by bisection.
 *
 * Sorted rather than hashed: a file that its author made to collide costs no more than any other, and equal names
 * stand side by side. */
#ifndef QR_MODEL_NAMES_H
#define QR_MODEL_NAMES_H
#include <stddef.h>
#include <stdint.h>

struct qr_name {
    const char *s; /* n bytes, not NUL-terminated; whoever owns them must live as long */
    uint64_t n;
    uint64_t id; /* what the owner wants to find: an index into its own array */
};

void qr_names_sort(struct qr_name *names, uint64_t n_name);
/* Of sorted names: one that stands there twice, or NULL. */
const struct qr_name *qr_names_duplicate(const struct qr_name *names, uint64_t n_name);
/* Of sorted names without duplicates; NULL when there is none. */
const struct qr_name *qr_names_find(const struct qr_name *names, uint64_t n_name, const char *s, uint64_t n);
/* Copies text out of a file to dst[room]: whole code points, '?' for bytes that are no UTF-8 and for control characters,
 * NUL behind the last. */
void qr_name_copy(char *dst, size_t room, const char *s, uint64_t n);
#endif
