/* utf8.h - well-formed UTF-8 and the few properties of code points that tokenizers ask for. */
#ifndef QR_TEXT_UTF8_H
#define QR_TEXT_UTF8_H
#include "base/buf.h"
#include "base/err.h"

/* Looks at the start of s[0, n), n >= 1. Returns the bytes of a well-formed sequence and sets *cp; for an ill-formed
 * one returns the length of its maximal subpart (Unicode, section 3.9) and sets *cp to -1. A sequence that is right so
 * far but cut by the end returns 0 when more may follow, else counts as ill-formed. */
size_t qr_utf8_step(const char *s, size_t n, bool more, int32_t *cp);
/* Where the first ill-formed sequence starts; n when there is none. */
size_t qr_utf8_valid(const char *s, size_t n);
/* Appends s with U+FFFD for each maximal ill-formed subpart, as Python's errors="replace". */
bool qr_utf8_repair(const char *s, size_t n, struct qr_buf *out);
bool qr_utf8_put(struct qr_buf *out, int32_t cp);

/* Well-formed text only: the code point at s, and the bytes it takes. */
static inline int32_t qr_utf8_get(const char *s, size_t *len)
{
    const unsigned char *u = (const unsigned char *)s;

    if (u[0] < 0x80) {
        *len = 1;
        return u[0];
    }
    if (u[0] < 0xE0) {
        *len = 2;
        return (u[0] & 0x1F) << 6 | (u[1] & 0x3F);
    }
    if (u[0] < 0xF0) {
        *len = 3;
        return (u[0] & 0x0F) << 12 | (u[1] & 0x3F) << 6 | (u[2] & 0x3F);
    }
    *len = 4;
    return (u[0] & 0x07) << 18 | (u[1] & 0x3F) << 12 | (u[2] & 0x3F) << 6 | (u[3] & 0x3F);
}

/* Properties as Rust's standard library and regex crate have them (Unicode 16), which tokenizers is written in. */
bool qr_cp_is_space(int32_t cp);       /* White_Space */
bool qr_cp_is_word(int32_t cp);        /* \w of UTS #18: Alphabetic, M, Nd, Pc, Join_Control */
bool qr_cp_is_numeric(int32_t cp);     /* Nd, Nl, No */
bool qr_cp_is_punctuation(int32_t cp); /* of Punctuation: ASCII's, and P as of Unicode 8 */
/* Appends the character in lower case: one code point, but for U+0130. */
bool qr_utf8_put_lower(struct qr_buf *out, int32_t cp);

enum qr_normal_form { QR_NFC, QR_NFD, QR_NFKC, QR_NFKD };
/* Appends the text in a normal form. Linear in n. */
enum qr_status qr_normal_form(enum qr_normal_form form, const char *s, size_t n, struct qr_buf *out,
                              struct qr_err *err);
/* True when a quick look says that s[0, n) is in that form already. */
bool qr_normal_certain(enum qr_normal_form form, const char *s, size_t n);
/* Text in NFC. Linear in n whatever the text: runs of combining marks are sorted by counting. */
enum qr_status qr_nfc(const char *s, size_t n, struct qr_buf *out, struct qr_err *err);
/* True when a quick look says that s[0, n) is in NFC already. */
bool qr_nfc_certain(const char *s, size_t n);
#endif
