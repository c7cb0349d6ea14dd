/* fault.h - makes the k-th fallible call of the process fail, and counts such calls.
 *
 * The test program defines malloc, open, mmap ... itself and passes on to the next definition, the C
 * library's or a sanitizer's; so calls from libraries are seen as well. Unarmed it only counts.
 *
 *     long n = fault_torture(parse_something, ctx, FAULT_ALLOC | FAULT_FILE);
 *
 * runs the function with the first call failing, then the second ..., until a run meets no failure. The
 * function must cope with each: return, leak nothing (checked by AddressSanitizer's leak check at exit and,
 * without it, by fault_live() staying equal), leave no descriptor open. */
#ifndef TESTS_COMMON_FAULT_H
#define TESTS_COMMON_FAULT_H
#include <stdbool.h>

enum {
    FAULT_ALLOC = 1,  /* malloc calloc realloc aligned_alloc posix_memalign strdup: NULL, ENOMEM */
    FAULT_MAP = 2,    /* mmap: MAP_FAILED, ENOMEM */
    FAULT_FILE = 4,   /* open fopen: EMFILE; read write fsync rename: EIO */
    FAULT_THREAD = 8, /* pthread_create: EAGAIN */
    FAULT_ANY = 15,
    FAULT_EVERYWHERE = 16 /* under AddressSanitizer too by any thread: only while no thread starts */
};

/* Does a failure asked for arrive? False where something else took the place of these definitions: a test
 * that needs them skips. Under ThreadSanitizer it is false. */
bool fault_works(void);

/* The k-th call (from 1) of these kinds fails once; by any thread, under AddressSanitizer by this one only, unless
 * FAULT_EVERYWHERE is among them. */
void fault_arm(long k, unsigned kinds);
/* Back to normal; true when the failure happened. */
bool fault_disarm(void);

/* Calls of FAULT_ALLOC since the program began, by all threads: equal before and after a piece of code that
 * must allocate nothing. */
long fault_allocations(void);
/* Blocks allocated and not freed. Not kept (always 0) under a sanitizer. */
long fault_live(void);

/* See above. fn returns true when it succeeded; a success while the failure fired is fine, a failure without
 * it is not (the test fails). Returns the number of fault points; at most `most` are tried (0: all). */
long fault_torture(bool (*fn)(void *ctx), void *ctx, unsigned kinds, long most);
#endif
