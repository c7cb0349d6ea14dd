/* clock.h - monotonic time. */
#ifndef QR_BASE_CLOCK_H
#define QR_BASE_CLOCK_H
#include <stdint.h>
int64_t qr_now_ns(void); /* monotonic nanoseconds */
double qr_now_s(void);   /* the same in seconds */
#endif
