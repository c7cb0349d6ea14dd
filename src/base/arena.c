/* arena.c - chunks of zeroed memory, cut from the front. Under AddressSanitizer, what was not handed out is
 * poisoned, so that running over the end of one allocation is seen. */
#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define RED_ZONE        ALIGNMENT
#define POISON(at, n)   ASAN_POISON_MEMORY_REGION(at, n)
#define UNPOISON(at, n) ASAN_UNPOISON_MEMORY_REGION(at, n)
#else
#define RED_ZONE        0
#define POISON(at, n)   ((void)(at), (void)(n))
#define UNPOISON(at, n) ((void)(at), (void)(n))
#endif

#define ALIGNMENT   16
#define FIRST_CHUNK ((size_t)4096)
#define LARGE_CHUNK ((size_t)1 << 20)

struct chunk {
    struct chunk *next;
    size_t size; /* bytes behind this header */
    size_t used;
    size_t pad; /* keeps what follows aligned */
};

struct qr_arena {
    struct chunk *chunk; /* newest first */
    size_t next_size;    /* of the next ordinary chunk: doubles up to LARGE_CHUNK */
    size_t used;         /* handed out, with rounding */
    size_t cap;          /* SIZE_MAX: no limit */
};

_Static_assert(sizeof(struct chunk) % ALIGNMENT == 0, "what follows the header is aligned");

struct qr_arena *qr_arena_create(size_t cap)
{
    struct qr_arena *arena = calloc(1, sizeof *arena);

    if (!arena)
        return NULL;
    arena->next_size = FIRST_CHUNK;
    arena->cap = cap ? cap : SIZE_MAX;
    return arena;
}

void qr_arena_destroy(struct qr_arena *arena)
{
    if (!arena)
        return;
    for (struct chunk *chunk = arena->chunk, *next; chunk; chunk = next) {
        next = chunk->next;
        UNPOISON(chunk + 1, chunk->size);
        free(chunk);
    }
    free(arena);
}

/* A chunk with room for n. One that is made for a single large allocation goes behind the newest, so that
 * the room left there is not lost. */
static struct chunk *chunk_for(struct qr_arena *arena, size_t n)
{
    struct chunk *chunk = arena->chunk;
    bool alone = n > arena->next_size / 2;
    size_t size = alone ? n : arena->next_size;

    if (chunk && n <= chunk->size - chunk->used)
        return chunk;
    if (size > SIZE_MAX - sizeof *chunk)
        return NULL;
    chunk = calloc(1, sizeof *chunk + size);
    if (!chunk)
        return NULL;
    chunk->size = size;
    POISON(chunk + 1, size);
    if (alone && arena->chunk) {
        chunk->next = arena->chunk->next;
        arena->chunk->next = chunk;
    } else {
        chunk->next = arena->chunk;
        arena->chunk = chunk;
    }
    if (!alone && arena->next_size < LARGE_CHUNK)
        arena->next_size *= 2;
    return chunk;
}

void *qr_arena_alloc(struct qr_arena *arena, size_t n)
{
    struct chunk *chunk;
    size_t rounded;
    char *at;

    if (n == 0)
        n = 1;
    if (n > SIZE_MAX - ALIGNMENT - RED_ZONE)
        return NULL;
    rounded = (n + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (rounded > arena->cap - arena->used)
        return NULL;
    chunk = chunk_for(arena, rounded + RED_ZONE);
    if (!chunk)
        return NULL;
    at = (char *)(chunk + 1) + chunk->used;
    chunk->used += rounded + RED_ZONE;
    arena->used += rounded;
    UNPOISON(at, n);
    return at;
}

void *qr_arena_array(struct qr_arena *arena, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return qr_arena_alloc(arena, bytes);
}

char *qr_arena_memdup(struct qr_arena *arena, const char *s, size_t n)
{
    char *copy;

    if (n == SIZE_MAX)
        return NULL;
    copy = qr_arena_alloc(arena, n + 1);
    if (copy && n)
        memcpy(copy, s, n);
    return copy;
}

char *qr_arena_strdup(struct qr_arena *arena, const char *s)
{
    return qr_arena_memdup(arena, s, strlen(s));
}

size_t qr_arena_used(const struct qr_arena *arena)
{
    return arena->used;
}
