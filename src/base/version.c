/* version.c - the version, the names of the status codes, and qr_free. */
#include "quire.h"
#include <stdlib.h>

#ifndef QR_COMMIT
#define QR_COMMIT "unknown"
#endif

const char *qr_version(void)
{
    return "0.1.0 (commit " QR_COMMIT ")";
}

const char *qr_status_name(enum qr_status status)
{
    switch (status) {
    case QR_OK:
        return "ok";
    case QR_NOMEM:
        return "out of memory";
    case QR_IO:
        return "input/output error";
    case QR_FORMAT:
        return "bad format";
    case QR_UNSUPPORTED:
        return "unsupported";
    case QR_INVALID:
        return "invalid";
    case QR_LIMIT:
        return "limit exceeded";
    case QR_NOTFOUND:
        return "not found";
    case QR_BUSY:
        return "busy";
    case QR_CANCELLED:
        return "cancelled";
    case QR_INTERNAL:
        return "internal error";
    }
    return "unknown status";
}

void qr_free(void *p)
{
    free(p);
}
