/* parts_cut.c - a call {"name": .., "parameters": ..} that ends in its midst, as the token limit left it. */
#include <string.h>
#include "base/json.h"
#include "server/parts.h"

/* Behind white space and a word; 0: the text ends before, or something else stands there. */
static size_t past(const char *text, size_t n, size_t at, const char *word)
{
    size_t length = strlen(word);
    while (at < n && strchr(" \n\t\r", text[at]))
        at++;
    return n - at >= length && memcmp(text + at, word, length) == 0 ? at + length : 0;
}

static size_t past_words(const char *text, size_t n, size_t at, const char *const *word)
{
    while (*word && (at = past(text, n, at, *word)) > 0)
        word++;
    return at;
}

/* Behind the quote that ends a string; at: within it. */
static size_t past_string(const char *text, size_t n, size_t at)
{
    while (at < n && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
    return at < n ? at + 1 : 0;
}

enum qr_status qr_parts_cut_call(const char *text, size_t n, json_t **call, size_t *arguments)
{
    static const char *const to_name[] = {"{", "\"name\"", ":", "\"", NULL};
    static const char *const to_arguments[] = {",", "\"parameters\"", ":", "", NULL};
    size_t at = past_words(text, n, 0, to_name);
    struct qr_buf head;
    at = at ? past_string(text, n, at) : 0;
    *call = NULL;
    if (at == 0)
        return QR_OK;
    qr_buf_init(&head, 0);
    qr_buf_append(&head, text, at);
    qr_buf_putc(&head, '}');
    enum qr_status status = head.failed ? QR_NOMEM : qr_json_parse_lax(head.data, head.len, "a call", call, NULL);
    qr_buf_free(&head);
    at = past_words(text, n, at, to_arguments);
    *arguments = at ? at : n;
    return status == QR_NOMEM ? QR_NOMEM : QR_OK;
}
