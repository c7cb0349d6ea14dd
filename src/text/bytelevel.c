/* bytelevel.c - bytes and their letters. */
#include "text/bytelevel.h"
#include "text/utf8.h"

#define FIRST_HIGH 256 /* letters of bytes that are not printable */

static bool printable(int b)
{
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
}

int32_t qr_byte_letter(unsigned char byte)
{
    if (printable(byte))
        return byte;
    /* the bytes that are not printable, in order: 00-20, 7F-A0, AD */
    if (byte <= 0x20)
        return FIRST_HIGH + byte;
    if (byte <= 0xA0)
        return FIRST_HIGH + 0x21 + (byte - 0x7F);
    return FIRST_HIGH + 0x21 + 0x22;
}

int qr_letter_byte(int32_t cp)
{
    if (cp < FIRST_HIGH)
        return printable(cp) ? cp : -1;
    cp -= FIRST_HIGH;
    if (cp <= 0x20)
        return cp;
    if (cp < 0x21 + 0x22)
        return cp - 0x21 + 0x7F;
    return cp == 0x21 + 0x22 ? 0xAD : -1;
}

bool qr_letters_to_bytes(const char *s, size_t n, char *out, size_t *n_out)
{
    *n_out = 0;
    for (size_t i = 0, len; i < n; i += len) {
        int byte = qr_letter_byte(qr_utf8_get(s + i, &len));

        if (byte < 0)
            return false;
        out[(*n_out)++] = (char)byte;
    }
    return true;
}

bool qr_bytes_to_letters(const char *s, size_t n, struct qr_buf *out)
{
    for (size_t i = 0; i < n; i++)
        qr_utf8_put(out, qr_byte_letter((unsigned char)s[i]));
    return !out->failed;
}
