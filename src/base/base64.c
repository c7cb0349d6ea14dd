/* base64.c - see base64.h. */
#include "base/base64.h"
#include <stdint.h>

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool qr_base64_decode(const char *s, size_t n, struct qr_buf *out)
{
    if (n % 4 != 0 || !qr_buf_reserve(out, n / 4 * 3))
        return false;
    for (size_t i = 0; i < n; i += 4) {
        uint32_t bits = 0;
        int pad = 0;

        if (i + 4 == n)
            pad = s[i + 3] != '=' ? 0 : s[i + 2] != '=' ? 1 : 2;
        for (int k = 0; k < 4; k++) {
            int d = k < 4 - pad ? digit(s[i + (size_t)k]) : 0;

            if (d < 0)
                return false;
            bits = bits << 6 | (uint32_t)d;
        }
        if ((pad == 1 && (bits & 0xFF)) || (pad == 2 && (bits & 0xFFFF)))
            return false; /* bits that no byte holds */
        for (int k = 0; k < 3 - pad; k++)
            qr_buf_putc(out, (char)(bits >> (16 - 8 * k)));
    }
    return !out->failed;
}
