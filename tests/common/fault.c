/* fault.c - see fault.h. */
#include "common/fault.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <setjmp.h>
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static atomic_long left; /* calls until the failure; 0: not armed, or it happened */
static atomic_bool fired;
static atomic_uint armed_kinds;
static atomic_long n_allocation;
static atomic_long n_live;
#ifdef __SANITIZE_ADDRESS__ /* it allocates itself when a thread starts, and ends the program when that fails */
#define ONE_THREAD 1
#else
#define ONE_THREAD 0
#endif
static _Thread_local bool armed_here;

#ifndef __SANITIZE_THREAD__ /* its runtime allocates before it can run code that it instruments */
/* Is this call the one? */
static bool due(unsigned kind)
{
    if (kind == FAULT_ALLOC)
        atomic_fetch_add_explicit(&n_allocation, 1, memory_order_relaxed);
    unsigned armed = atomic_load_explicit(&armed_kinds, memory_order_relaxed);
    if (!(armed & kind) || (ONE_THREAD && !armed_here && !(armed & FAULT_EVERYWHERE)))
        return false;
    if (atomic_fetch_sub(&left, 1) != 1)
        return false;
    atomic_store(&fired, true);
    return true;
}

static void *keep(void *p)
{
    if (p && !SANITIZED)
        atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return p;
}

/* The definition that this one hides. The static pointer makes the look-up happen once; a race only does it
 * twice. */
#define NEXT(type, name)                                                                                               \
    static type(*_Atomic next);                                                                                        \
    if (!next)                                                                                                         \
    next = (type(*))(uintptr_t)dlsym(RTLD_NEXT, name)

typedef void *malloc_fn(size_t);
typedef void *calloc_fn(size_t, size_t);
typedef void *realloc_fn(void *, size_t);
typedef void free_fn(void *);
typedef int memalign_fn(void **, size_t, size_t);
typedef void *mmap_fn(void *, size_t, int, int, int, off_t);
typedef int open_fn(const char *, int, ...);
typedef FILE *fopen_fn(const char *, const char *);
typedef ssize_t read_fn(int, void *, size_t);
typedef ssize_t write_fn(int, const void *, size_t);
typedef int fsync_fn(int);
typedef int rename_fn(const char *, const char *);
typedef int thread_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

void *malloc(size_t n)
{
    NEXT(malloc_fn, "malloc");
    if (due(FAULT_ALLOC)) {
        errno = ENOMEM;
        return NULL;
    }
    return keep(next(n));
}

void *calloc(size_t n, size_t size)
{
    NEXT(calloc_fn, "calloc");
    if (due(FAULT_ALLOC)) {
        errno = ENOMEM;
        return NULL;
    }
    return keep(next(n, size));
}

void *realloc(void *old, size_t n)
{
    NEXT(realloc_fn, "realloc");
    if (due(FAULT_ALLOC)) {
        errno = ENOMEM;
        return NULL;
    }
    return old ? next(old, n) : keep(next(NULL, n));
}

void *aligned_alloc(size_t alignment, size_t n)
{
    NEXT(calloc_fn, "aligned_alloc");
    if (due(FAULT_ALLOC)) {
        errno = ENOMEM;
        return NULL;
    }
    return keep(next(alignment, n));
}

int posix_memalign(void **out, size_t alignment, size_t n)
{
    NEXT(memalign_fn, "posix_memalign");
    int error;

    if (due(FAULT_ALLOC))
        return ENOMEM;
    error = next(out, alignment, n);
    if (!error)
        keep(*out);
    return error;
}

#if !SANITIZED /* a sanitizer's own strdup calls no malloc that could be seen, so neither does its free */
void free(void *p)
{
    NEXT(free_fn, "free");
    if (p)
        atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    next(p);
}
#endif

char *strndup(const char *s, size_t most)
{
    size_t n = strnlen(s, most);
    char *copy = malloc(n + 1);

    if (copy) {
        memcpy(copy, s, n);
        copy[n] = 0;
    }
    return copy;
}

char *strdup(const char *s)
{
    return strndup(s, strlen(s));
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    NEXT(mmap_fn, "mmap");
    if (due(FAULT_MAP)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return next(at, n, protection, flags, fd, offset);
}

int open(const char *path, int flags, ...)
{
    NEXT(open_fn, "open");
    mode_t mode = 0;
    va_list args;

    if (flags & (O_CREAT | O_TMPFILE)) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    if (due(FAULT_FILE)) {
        errno = EMFILE;
        return -1;
    }
    return next(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    NEXT(fopen_fn, "fopen");
    if (due(FAULT_FILE)) {
        errno = EMFILE;
        return NULL;
    }
    return next(path, mode);
}

ssize_t read(int fd, void *data, size_t n)
{
    NEXT(read_fn, "read");
    if (due(FAULT_FILE)) {
        errno = EIO;
        return -1;
    }
    return next(fd, data, n);
}

ssize_t write(int fd, const void *data, size_t n)
{
    NEXT(write_fn, "write");
    if (due(FAULT_FILE)) {
        errno = EIO;
        return -1;
    }
    return next(fd, data, n);
}

int fsync(int fd)
{
    NEXT(fsync_fn, "fsync");
    if (due(FAULT_FILE)) {
        errno = EIO;
        return -1;
    }
    return next(fd);
}

int rename(const char *from, const char *to)
{
    NEXT(rename_fn, "rename");
    if (due(FAULT_FILE)) {
        errno = EIO;
        return -1;
    }
    return next(from, to);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *ctx)
{
    NEXT(thread_fn, "pthread_create");
    if (due(FAULT_THREAD))
        return EAGAIN;
    return next(thread, attributes, fn, ctx);
}

#endif

void fault_arm(long k, unsigned kinds)
{
    atomic_store(&armed_kinds, 0);
    atomic_store(&fired, false);
    atomic_store(&left, k);
    armed_here = true;
    atomic_store(&armed_kinds, kinds);
}

bool fault_disarm(void)
{
    atomic_store(&armed_kinds, 0);
    return atomic_load(&fired);
}

bool fault_works(void)
{
    void *(*volatile allocate)(size_t) = malloc; /* volatile: the compiler may drop a malloc whose block is unused */
    void *p;

    fault_arm(1, FAULT_ALLOC);
    p = allocate(16);
    if (!fault_disarm() || p) {
        free(p);
        return false;
    }
    return true;
}

long fault_allocations(void)
{
    return atomic_load(&n_allocation);
}

long fault_live(void)
{
    return atomic_load(&n_live);
}

long fault_torture(bool (*fn)(void *ctx), void *ctx, unsigned kinds, long most)
{
    long live;

    if (!fn(ctx)) /* also fills what libraries keep for good, so that the count below holds still */
        fail_msg("the function fails without any fault");
    live = fault_live();
    for (long k = 1; most == 0 || k <= most; k++) {
        bool ok, met;

        fault_arm(k, kinds);
        ok = fn(ctx);
        met = fault_disarm();
        if (!met && !ok)
            fail_msg("fault point %ld: the function fails although nothing was made to fail", k);
        if (fault_live() != live)
            fail_msg("fault point %ld: %ld blocks more than before", k, fault_live() - live);
        if (!met)
            return k - 1;
    }
    return most;
}
