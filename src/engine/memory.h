/* memory.h - how much memory this process may still take. */
#ifndef QR_ENGINE_MEMORY_H
#define QR_ENGINE_MEMORY_H
#include <stdint.h>

/* Bytes: what the system has available, at most what the control group leaves; 0: not known. */
uint64_t qr_memory_available(void);
/* Bytes of file pages that are resident in this process now: code, libraries, headers of a mapped model. */
uint64_t qr_memory_of_files(void);
#endif
