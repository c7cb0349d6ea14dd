/* nfc.c - Normalization Forms C, D, KC and KD (Unicode Standard Annex #15) on utf8proc's tables.
 *
 * utf8proc orders combining marks by bubbling, which is quadratic in a run of them; here a long run is sorted by
 * counting its combining classes, which is stable and linear.
 *
 * The tokenizers package normalizes by Unicode 9. Marks that came later have no combining class there: they neither
 * move nor let a mark behind them reach the letter before. The same is done here, so that ids agree. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include "base/checked.h"
#include "text/utf8.h"

#define SHORT_RUN 16
#define CHUNK     65536 /* bytes */

static bool is_compat(enum qr_normal_form form)
{
    return form == QR_NFKC || form == QR_NFKD;
}

bool qr_normal_certain(enum qr_normal_form form, const char *s, size_t n)
{
    if (form == QR_NFC)
        return qr_nfc_certain(s, n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] >= 0x80)
            return false;
    return true;
}

bool qr_nfc_certain(const char *s, size_t n)
{
    /* nothing below U+0300 (lead byte 0xCC) composes with what stands before it, nor needs another form */
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] >= 0xCC)
            return false;
    return true;
}

/* Code points with a combining class above 0 since Unicode 10 to 15. */
static const struct {
    int32_t first, last;
} later[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
    {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF},
};

/* A mark to utf8proc, but none to Unicode 9. */
static bool is_later_mark(int32_t cp)
{
    if (utf8proc_get_property(cp)->combining_class == 0)
        return false;
    for (size_t i = 0; i < sizeof later / sizeof later[0] && later[i].first <= cp; i++)
        if (cp <= later[i].last)
            return true;
    return false;
}

/* Code points with a decomposition since Unicode 10 to 15. */
static bool is_later_letter(int32_t cp)
{
    return cp >= 0x32FF &&
           (cp == 0x32FF || (cp >= 0xA7F2 && cp <= 0xA7F4) || cp == 0xAB69 || (cp >= 0x10781 && cp <= 0x107BA) ||
            cp == 0x11938 || (cp >= 0x1E030 && cp <= 0x1E06D) || cp == 0x1F16C || (cp >= 0x1FBF0 && cp <= 0x1FBF9));
}

static int combining_class(int32_t cp)
{
    return is_later_mark(cp) ? 0 : utf8proc_get_property(cp)->combining_class;
}

static void sort_short(int32_t *cps, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        int32_t cp = cps[i];
        int ccc = combining_class(cp);
        size_t k = i;

        for (; k > 0 && combining_class(cps[k - 1]) > ccc; k--)
            cps[k] = cps[k - 1];
        cps[k] = cp;
    }
}

static bool sort_long(int32_t *cps, size_t n)
{
    size_t start[257] = {0};
    int32_t *sorted = malloc(n * sizeof *sorted);

    if (!sorted)
        return false;
    for (size_t i = 0; i < n; i++)
        start[combining_class(cps[i]) + 1]++;
    for (int k = 0; k < 256; k++)
        start[k + 1] += start[k];
    for (size_t i = 0; i < n; i++)
        sorted[start[combining_class(cps[i])]++] = cps[i];
    memcpy(cps, sorted, n * sizeof *sorted);
    free(sorted);
    return true;
}

/* Canonical ordering: each run of marks (class above 0) by class. */
static bool order_marks(int32_t *cps, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;

        while (end < n && combining_class(cps[end]) != 0)
            end++;
        if (end - i > SHORT_RUN) {
            if (!sort_long(cps + i, end - i))
                return false;
        } else if (end - i > 1) {
            sort_short(cps + i, end - i);
        }
        i = end + 1;
    }
    return true;
}

/* cps [room] gets the decomposition of s; the number of code points, or -1 when room is too small. */
static utf8proc_ssize_t decompose(enum qr_normal_form form, const char *s, size_t n, int32_t *cps, size_t room)
{
    utf8proc_option_t options = UTF8PROC_DECOMPOSE | (is_compat(form) ? UTF8PROC_COMPAT : 0);
    size_t used = 0;

    for (size_t i = 0, len; i < n; i += len) {
        int32_t cp = qr_utf8_get(s + i, &len);
        utf8proc_ssize_t got;

        if (cp < 0xA0 || is_later_letter(cp)) {
            if (used == room)
                return -1;
            cps[used++] = cp;
            continue;
        }
        got = utf8proc_decompose_char(cp, cps + used, (utf8proc_ssize_t)(room - used), options, NULL);
        if (got < 0 || (size_t)got > room - used)
            return -1;
        used += (size_t)got;
    }
    return (utf8proc_ssize_t)used;
}

/* Composes what lies between marks that Unicode 9 does not know, and appends all. */
static void compose(int32_t *cps, utf8proc_ssize_t n, struct qr_buf *out)
{
    for (utf8proc_ssize_t i = 0, end; i < n; i = end) {
        utf8proc_ssize_t left;

        for (end = i; end < n && !is_later_mark(cps[end]); end++)
            ;
        left = utf8proc_normalize_utf32(cps + i, end - i, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
        for (utf8proc_ssize_t k = 0; k < left; k++)
            qr_utf8_put(out, cps[i + k]);
        if (end < n)
            qr_utf8_put(out, cps[end++]);
    }
}

static void put_all(const int32_t *cps, utf8proc_ssize_t n, struct qr_buf *out)
{
    for (utf8proc_ssize_t i = 0; i < n; i++)
        qr_utf8_put(out, cps[i]);
}

static enum qr_status chunk(enum qr_normal_form form, const char *s, size_t n, struct qr_buf *out, struct qr_err *err)
{
    /* The longest decompositions: canonical, 4 code points of 2 bytes; compatible, 18 of the 3 bytes of U+FDFA. */
    uint64_t bytes;
    size_t room = n * (is_compat(form) ? 6 : 2) + 18;
    utf8proc_ssize_t used;
    int32_t *cps;

    if (n > (SIZE_MAX - 18) / 6 || !qr_mul_u64(room, sizeof *cps, &bytes))
        return qr_fail(err, QR_LIMIT, "a text of %zu bytes is too long to normalize", n);
    cps = malloc(bytes);
    used = cps ? decompose(form, s, n, cps, room) : -1;
    if (used < 0 || !order_marks(cps, (size_t)used)) {
        free(cps);
        return qr_fail(err, QR_NOMEM, "out of memory while normalizing a text of %zu bytes", n);
    }
    qr_buf_reserve(out, n);
    if (form == QR_NFC || form == QR_NFKC)
        compose(cps, used, out);
    else
        put_all(cps, used, out);
    free(cps);
    if (out->failed)
        return qr_fail(err, QR_NOMEM, "out of memory while normalizing a text of %zu bytes", n);
    return QR_OK;
}

enum qr_status qr_normal_form(enum qr_normal_form form, const char *s, size_t n, struct qr_buf *out, struct qr_err *err)
{
    /* nothing before an ASCII character changes with what stands behind it: long texts go through in parts */
    while (n > CHUNK) {
        size_t end = CHUNK;

        while (end < n && (unsigned char)s[end] >= 0x80)
            end++;
        QR_TRY(chunk(form, s, end, out, err));
        s += end;
        n -= end;
    }
    return n > 0 || !out->data ? chunk(form, s, n, out, err) : QR_OK;
}

enum qr_status qr_nfc(const char *s, size_t n, struct qr_buf *out, struct qr_err *err)
{
    return qr_normal_form(QR_NFC, s, n, out, err);
}
