/* arena.h - many small things that die together. Not thread safe. */
#ifndef QR_BASE_ARENA_H
#define QR_BASE_ARENA_H
#include <stddef.h>

struct qr_arena;

/* cap: the most bytes it may hand out in all; 0: no limit. NULL when out of memory. */
struct qr_arena *qr_arena_create(size_t cap);
void qr_arena_destroy(struct qr_arena *arena); /* NULL is fine */
/* Zeroed, aligned to 16 bytes. NULL when out of memory or over the cap. */
void *qr_arena_alloc(struct qr_arena *arena, size_t n);
/* n * size, checked for overflow. */
void *qr_arena_array(struct qr_arena *arena, size_t n, size_t size);
char *qr_arena_strdup(struct qr_arena *arena, const char *s);
char *qr_arena_memdup(struct qr_arena *arena, const char *s, size_t n); /* NUL added behind */
size_t qr_arena_used(const struct qr_arena *arena);
#endif
