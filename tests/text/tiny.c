/* tiny.c - see tiny.h. */
#include "text/tiny.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "text/bytelevel.h"

static void put_letters(struct qr_buf *out)
{
    for (int b = 0; b < 256; b++) {
        int32_t cp = qr_byte_letter((unsigned char)b);

        qr_buf_printf(out, "%s\"\\u%04x\":%d", b ? "," : "", (unsigned)cp, b);
    }
}

char *tiny_json(const char *const *merge, size_t n_merge, const char *model, const char *more)
{
    struct qr_buf out;

    qr_buf_init(&out, 0);
    qr_buf_puts(&out, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    put_letters(&out);
    for (size_t i = 0; i < n_merge; i++) {
        const char *plus = strchr(merge[i] + 1, '+');

        qr_buf_printf(&out, ",\"%.*s%s\":%zu", (int)(plus - merge[i]), merge[i], plus + 1, 256 + i);
    }
    qr_buf_puts(&out, "},\"merges\":[");
    for (size_t i = 0; i < n_merge; i++) {
        const char *plus = strchr(merge[i] + 1, '+');

        /* both spellings of a merge */
        qr_buf_printf(&out, i % 2 ? "%s[\"%.*s\",\"%s\"]" : "%s\"%.*s %s\"", i ? "," : "", (int)(plus - merge[i]),
                      merge[i], plus + 1);
    }
    qr_buf_printf(&out, "]%s%s},\"decoder\":{\"type\":\"ByteLevel\"}", model ? "," : "", model ? model : "");
    if (!more || !strstr(more, "pre_tokenizer"))
        qr_buf_puts(&out, ",\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}");
    qr_buf_printf(&out, "%s%s}", more ? "," : "", more ? more : "");
    assert_false(out.failed);
    return qr_buf_take(&out, NULL);
}

struct qr_tokenizer *tiny_tokenizer(const char *const *merge, size_t n_merge, const char *model, const char *more)
{
    char *json = tiny_json(merge, n_merge, model, more);
    struct qr_tokenizer *tok = NULL;
    struct qr_err err = {0};

    if (qr_tokenizer_from_json(json, strlen(json), NULL, 0, &tok, &err) != QR_OK)
        fail_msg("%s", err.message);
    free(json);
    return tok;
}

void assert_encodes(const struct qr_tokenizer *tok, const char *text, int flags, const int32_t *ids)
{
    struct qr_err err = {0};
    int32_t *got = NULL;
    size_t n = 0, want = 0;
    bool same;

    while (ids[want] >= 0)
        want++;
    if (qr_tokenizer_encode(tok, text, strlen(text), flags & TINY_SPECIAL, flags & TINY_AROUND, &got, &n, &err))
        fail_msg("%s: %s", text, err.message);
    same = n == want && memcmp(got, ids, n * sizeof *got) == 0;
    if (!same)
        for (size_t i = 0; i < n; i++)
            print_error("%s: id %zu is %d\n", text, i, got[i]);
    free(got);
    assert_true(same);
}
