/* charsmap.c - the double array of a precompiled map of characters.
 *
 * A unit of the array (32 bits, as darts-clone packs them): bits 0 to 7 the byte that leads to it, bit 8 set where a key
 * ends, bit 9 and bits 10 to 30 the distance to its children; or, with bit 31, a value. From the unit at place p, byte c
 * leads to the unit at p ^ distance ^ c, if that bears the label c; the value of a key stands at p ^ distance. */
#include "text/charsmap.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "text/grapheme.h"
#include "text/utf8.h"

#define MAX_BYTES   ((size_t)1 << 28)
#define MAX_TEXT    1024 /* bytes in place of one character: the longest real one is 33 */
#define MAX_CLUSTER 6    /* bytes from which on a cluster is not looked up as a whole */

struct qr_charsmap {
    uint32_t *unit; /* [n_unit] */
    size_t n_unit;
    char *text; /* [n_text] and a zero byte */
    size_t n_text;
    bool begins[256]; /* a key begins with this byte */
};

static size_t distance(uint32_t unit)
{
    return (size_t)(unit >> 10) << (unit & 0x200 ? 8 : 0);
}

/* The texts of all keys, and of units that no key leads to: they are counted with the rest. */
static enum qr_status check_texts(const struct qr_charsmap *map, struct qr_err *err)
{
    if (qr_utf8_valid(map->text, map->n_text) < map->n_text)
        return qr_fail(err, QR_FORMAT, "the texts of the precompiled charsmap are not well-formed UTF-8");
    for (size_t i = 0; i < map->n_unit; i++) {
        uint32_t unit = map->unit[i];
        size_t at = i ^ distance(unit), value, left;

        if (unit >> 31 || !(unit & 0x100))
            continue;
        value = at < map->n_unit ? map->unit[at] & 0x7FFFFFFF : SIZE_MAX;
        if (value > map->n_text || ((unsigned char)map->text[value] & 0xC0) == 0x80)
            return qr_fail(err, QR_FORMAT, "the precompiled charsmap is damaged: unit %zu leads to no text", i);
        left = map->n_text - value;
        if (left > MAX_TEXT && !memchr(map->text + value, 0, MAX_TEXT + 1))
            return qr_fail(err, QR_LIMIT, "the precompiled charsmap has a text of more than %d bytes for one character",
                           MAX_TEXT);
    }
    return QR_OK;
}

/* The unit that byte c leads to from at, whose distance is taken already; SIZE_MAX: none. */
static size_t child(const struct qr_charsmap *map, size_t at, uint8_t c)
{
    size_t next = at ^ c;

    if (c == 0 || next >= map->n_unit || (map->unit[next] & 0x800000FF) != c)
        return SIZE_MAX;
    return next;
}

enum qr_status qr_charsmap_read(const void *data, size_t n, struct qr_charsmap **map, struct qr_err *err)
{
    const unsigned char *bytes = data;
    struct qr_charsmap *m;
    enum qr_status status;
    size_t size;

    *map = NULL;
    if (n > MAX_BYTES)
        return qr_fail(err, QR_LIMIT, "the precompiled charsmap has %zu bytes, more than the limit of %zu", n,
                       MAX_BYTES);
    size = n < 4 ? 0 : bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (size_t)bytes[3] << 24;
    if (n < 4 || size < 4 || size % 4 != 0 || size > n - 4)
        return qr_fail(
            err, QR_FORMAT,
            "the precompiled charsmap of %zu bytes says that its trie has %zu, which must be a multiple of 4 "
            "that fits",
            n, size);
    m = calloc(1, sizeof *m);
    if (m) {
        m->n_unit = size / 4;
        m->n_text = n - 4 - size;
        m->unit = calloc(m->n_unit, sizeof *m->unit);
        m->text = malloc(m->n_text + 1);
    }
    if (!m || !m->unit || !m->text) {
        qr_charsmap_free(m);
        return qr_fail(err, QR_NOMEM, "out of memory for a precompiled charsmap of %zu bytes", n);
    }
    for (size_t i = 0; i < m->n_unit; i++, bytes += 4)
        m->unit[i] = bytes[4] | (uint32_t)bytes[5] << 8 | (uint32_t)bytes[6] << 16 | (uint32_t)bytes[7] << 24;
    memcpy(m->text, bytes + 4, m->n_text);
    m->text[m->n_text] = 0;
    for (int c = 1; c < 256; c++)
        m->begins[c] = child(m, distance(m->unit[0]), (uint8_t)c) != SIZE_MAX;
    status = check_texts(m, err);
    if (status == QR_OK)
        *map = m;
    else
        qr_charsmap_free(m);
    return status;
}

void qr_charsmap_free(struct qr_charsmap *map)
{
    if (!map)
        return;
    free(map->unit);
    free(map->text);
    free(map);
}

/* The text of the shortest key that s [n] begins with; NULL: none. */
static const char *find(const struct qr_charsmap *map, const char *s, size_t n)
{
    size_t at = distance(map->unit[0]);

    for (size_t i = 0; i < n; i++) {
        size_t next = child(map, at, (uint8_t)s[i]);

        if (next == SIZE_MAX)
            return NULL;
        at = next ^ distance(map->unit[next]);
        if (map->unit[next] & 0x100)
            return map->text + (map->unit[at] & 0x7FFFFFFF);
    }
    return NULL;
}

bool qr_charsmap_idle(const struct qr_charsmap *map, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (map->begins[(unsigned char)s[i]])
            return false;
    return true;
}

/* Bytes of s [n] that stay and stand by themselves: ASCII that begins no key, with ASCII behind it. */
static size_t count_plain(const struct qr_charsmap *map, const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && (unsigned char)s[i] < 0x80 && !map->begins[(unsigned char)s[i]])
        i++;
    return i > 0 && i < n && (unsigned char)s[i] >= 0x80 ? i - 1 : i;
}

bool qr_charsmap_apply(const struct qr_charsmap *map, const char *s, size_t n, struct qr_buf *out)
{
    const char *text;
    size_t i = 0, len;

    qr_buf_reserve(out, n);
    while (i < n) {
        size_t plain = count_plain(map, s + i, n - i), cluster;

        qr_buf_append(out, s + i, plain);
        i += plain;
        if (i == n)
            break;
        cluster = qr_grapheme(s + i, n - i);
        text = cluster < MAX_CLUSTER ? find(map, s + i, cluster) : NULL;
        if (text) {
            qr_buf_puts(out, text);
            i += cluster;
            continue;
        }
        for (size_t end = i + cluster; i < end; i += len) {
            qr_utf8_get(s + i, &len);
            text = find(map, s + i, len);
            if (text)
                qr_buf_puts(out, text);
            else
                qr_buf_append(out, s + i, len);
        }
    }
    return !out->failed;
}
