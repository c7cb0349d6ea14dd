/* err.h - filling a struct qr_err.
 * Contract: err may be NULL everywhere. The message is one sentence with the value and the limit. */
#ifndef QR_BASE_ERR_H
#define QR_BASE_ERR_H
#include "quire.h"

/* Sets status and message (printf format), returns status: `return qr_fail(err, QR_FORMAT, "...", ...);` */
enum qr_status qr_fail(struct qr_err *err, enum qr_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with strerror(errno) appended; QR_NOTFOUND for ENOENT, QR_NOMEM for ENOMEM, else QR_IO. */
enum qr_status qr_fail_errno(struct qr_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts "prefix: " before a message that stands there already; returns its status. */
enum qr_status qr_err_prefix(struct qr_err *err, enum qr_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* clang-tidy does not know that these never return QR_OK, and would warn of what follows QR_TRY. */
#if defined(__clang_analyzer__) && !defined(QR_DEFINES_ERR)
#define qr_fail(err, status, ...)       (qr_fail(err, status, __VA_ARGS__), status)
#define qr_fail_errno(...)              (qr_fail_errno(__VA_ARGS__), QR_IO)
#define qr_err_prefix(err, status, ...) (qr_err_prefix(err, status, __VA_ARGS__), status)
#endif

/* The only macro that hides control flow: returns from the caller when a call fails. */
#define QR_TRY(call)                                                                                                   \
    do {                                                                                                               \
        enum qr_status qr_try_status_ = (call);                                                                        \
        if (qr_try_status_ != QR_OK)                                                                                   \
            return qr_try_status_;                                                                                     \
    } while (0)
#endif
