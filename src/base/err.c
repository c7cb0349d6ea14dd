/* err.c - messages of struct qr_err.
 *
 * Messages quote names out of files that may be hostile, and end up in terminals, logs and JSON: whatever is
 * not printable UTF-8 becomes '?', and one that is too long to be read loses its middle, which is where a name out of a
 * file stands, between what it is about and what is wrong. */
#define QR_DEFINES_ERR
#include "base/err.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the well-formed UTF-8 sequence at s (Unicode 15, table 3-7), 0 when there is none. */
static size_t utf8_length(const unsigned char *s)
{
    unsigned char low = 0x80, high = 0xBF;
    size_t n;

    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xC2 && s[0] <= 0xDF)
        n = 2;
    else if (s[0] >= 0xE0 && s[0] <= 0xEF)
        n = 3;
    else if (s[0] >= 0xF0 && s[0] <= 0xF4)
        n = 4;
    else
        return 0;
    if (s[0] == 0xE0)
        low = 0xA0;
    else if (s[0] == 0xED)
        high = 0x9F;
    else if (s[0] == 0xF0)
        low = 0x90;
    else if (s[0] == 0xF4)
        high = 0x8F;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if (s[i] < 0x80 || s[i] > 0xBF)
            return 0;
    return n;
}

static void make_printable(char *message)
{
    unsigned char *s = (unsigned char *)message;

    while (*s) {
        size_t n = utf8_length(s);
        bool control = n == 1 && (*s < 0x20 || *s == 0x7F);
        bool c1 = n == 2 && s[0] == 0xC2 && s[1] < 0xA0;

        if (n == 0 || control) {
            *s++ = '?';
        } else if (c1) {
            *s++ = '?';
            *s++ = '?';
        } else {
            s += n;
        }
    }
}

enum { LONGEST = 399, ENDING = 140 }; /* bytes of a message; of its end where it is longer */

/* text [n], longer than LONGEST, into message with dots in place of its middle; cut between code points. */
static void copy_ends(char *message, const char *text, size_t n)
{
    const char *end = text + n - ENDING;
    size_t head = LONGEST - ENDING - 3;

    while (head > 0 && ((unsigned char)text[head] & 0xC0) == 0x80)
        head--;
    while (((unsigned char)*end & 0xC0) == 0x80)
        end++;
    memcpy(message, text, head);
    memcpy(message + head, "...", 3);
    memcpy(message + head + 3, end, (size_t)(text + n - end) + 1);
}

static void format_message(struct qr_err *err, const char *fmt, va_list args)
{
    char text[4096];
    int n = vsnprintf(text, sizeof text, fmt, args);

    if (n < 0)
        text[0] = 0;
    make_printable(text);
    n = (int)strlen(text);
    if (n > LONGEST)
        copy_ends(err->message, text, (size_t)n);
    else
        memcpy(err->message, text, (size_t)n + 1);
}

enum qr_status qr_fail(struct qr_err *err, enum qr_status status, const char *fmt, ...)
{
    va_list args;

    if (!err)
        return status;
    err->status = status;
    va_start(args, fmt);
    format_message(err, fmt, args);
    va_end(args);
    return status;
}

enum qr_status qr_fail_errno(struct qr_err *err, const char *fmt, ...)
{
    int number = errno;
    enum qr_status status = number == ENOENT ? QR_NOTFOUND : number == ENOMEM ? QR_NOMEM : QR_IO;
    struct qr_err head = {0};
    char reason[128];
    va_list args;

    if (!err)
        return status;
    va_start(args, fmt);
    format_message(&head, fmt, args);
    va_end(args);
    return qr_fail(err, status, "%s: %s", head.message, strerror_r(number, reason, sizeof reason));
}

enum qr_status qr_err_prefix(struct qr_err *err, enum qr_status status, const char *fmt, ...)
{
    struct qr_err head = {0};
    va_list args;

    if (!err)
        return status;
    va_start(args, fmt);
    format_message(&head, fmt, args);
    va_end(args);
    struct qr_err rest = *err;
    return qr_fail(err, status, "%s: %s", head.message, rest.message);
}
