/* clock.c - monotonic time. */
#include "base/clock.h"
#include <time.h>

int64_t qr_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double qr_now_s(void)
{
    return (double)qr_now_ns() * 1e-9;
}
