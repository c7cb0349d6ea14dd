/* checked.h - size arithmetic for numbers that come from a file or a client. All return false on
 * overflow and leave *out alone then. */
#ifndef QR_BASE_CHECKED_H
#define QR_BASE_CHECKED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool qr_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool qr_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Is [offset, offset + n) inside [0, size)? */
static inline bool qr_range_fits(uint64_t offset, uint64_t n, uint64_t size)
{
    return offset <= size && n <= size - offset;
}

/* x rounded up to a multiple of align, a power of two; false when it wraps. */
static inline bool qr_align_u64(uint64_t x, uint64_t align, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(x, align - 1, &r))
        return false;
    *out = r & ~(align - 1);
    return true;
}
#endif
