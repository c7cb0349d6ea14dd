/* jinja_lex.c - template text to tokens, one at a time, with jinja2's whitespace rules under trim_blocks and
 * lstrip_blocks (jinja2/lexer.py is the reference):
 *   - the last newline of the text is dropped, every newline is \n;
 *   - {%- {{- {#- strip the text before, -%} -}} -#} the text behind;
 *   - otherwise blocks and comments take the blanks before them from the start of their line, unless {%+, and the
 *     newline behind them, unless +%}. Variables take nothing. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "text/jinja_parse.h"
#include "text/jinja_unicode.h"

void qr_jinja_lex_fail(struct jlex *lex, enum qr_status status, int line, const char *fmt, ...)
{
    if (lex->failed)
        return;
    lex->failed = true;
    char message[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    qr_fail(lex->err, status, "chat template, line %d: %s", line, message);
}

bool qr_jinja_lex_init(struct jlex *lex, struct qr_arena *arena, const char *text, size_t n, struct qr_err *err)
{
    memset(lex, 0, sizeof *lex);
    lex->arena = arena;
    lex->err = err;
    lex->line = 1;
    char *src = qr_arena_alloc(arena, n + 1);
    if (!src) {
        qr_jinja_lex_fail(lex, QR_NOMEM, 1, "out of memory");
        return false;
    }
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\r') {
            src[m++] = '\n';
            if (i + 1 < n && text[i + 1] == '\n')
                i++;
        } else {
            src[m++] = text[i];
        }
    }
    if (m > 0 && src[m - 1] == '\n')
        m--;
    lex->src = src;
    lex->n = m;
    return true;
}

static bool at(const struct jlex *lex, size_t pos, const char *s)
{
    size_t k = strlen(s);
    return pos <= lex->n && k <= lex->n - pos && memcmp(lex->src + pos, s, k) == 0;
}

static size_t skip_space(const struct jlex *lex, size_t pos)
{
    while (pos < lex->n) {
        const char *s = lex->src + pos;
        if (!qr_u_is_space(qr_u8_next(&s, lex->src + lex->n)))
            break;
        pos = (size_t)(s - lex->src);
    }
    return pos;
}

/* Moves to pos, counting lines. */
static void move(struct jlex *lex, size_t pos)
{
    for (size_t i = lex->pos; i < pos; i++)
        lex->line += lex->src[i] == '\n';
    lex->pos = pos;
}

/* The end of the text [start, end) once the tag behind it has taken its whitespace; sign: the character behind "{%". */
static size_t strip_before(const struct jlex *lex, size_t start, size_t end, char sign, bool variable)
{
    const char *from = lex->src + start, *to = lex->src + end;
    if (sign == '-') {
        while (to > from) {
            const char *before = to;
            if (!qr_u_is_space(qr_u8_before(from, &before)))
                break;
            to = before;
        }
        return (size_t)(to - lex->src);
    }
    if (sign == '+' || variable)
        return end;
    const char *blank = to;
    while (blank > from) {
        const char *before = blank;
        uint32_t cp = qr_u8_before(from, &before);
        if (cp == '\n')
            return (size_t)(blank - lex->src);
        if (!qr_u_is_space(cp))
            return end;
        blank = before;
    }
    return start == 0 || lex->src[start - 1] == '\n' ? start : end;
}

/* Behind the end of a block or comment whose closing text starts at pos ("-%}", "+%}", "%}"). */
static size_t behind_close(const struct jlex *lex, size_t pos, bool newline)
{
    char sign = lex->src[pos];
    if (sign == '-')
        return skip_space(lex, pos + 3);
    if (sign == '+')
        return pos + 3;
    pos += 2;
    return newline && pos < lex->n && lex->src[pos] == '\n' ? pos + 1 : pos;
}

/* Where "{% raw %}" or "{% endraw %}" at pos ends; 0: it is no such tag. */
static size_t raw_tag(const struct jlex *lex, size_t pos, const char *word, bool opening)
{
    if (!at(lex, pos, "{%"))
        return 0;
    pos += 2;
    if (pos < lex->n && (lex->src[pos] == '-' || lex->src[pos] == '+'))
        pos++;
    pos = skip_space(lex, pos);
    if (!at(lex, pos, word))
        return 0;
    pos = skip_space(lex, pos + strlen(word));
    if (at(lex, pos, "-%}") || at(lex, pos, "%}"))
        return behind_close(lex, pos, !opening);
    return !opening && at(lex, pos, "+%}") ? pos + 3 : 0;
}

static char sign_at(const struct jlex *lex, size_t pos)
{
    char c = pos < lex->n ? lex->src[pos] : 0;
    return c == '-' || c == '+' ? c : 0;
}

static bool data_token(struct jlex *lex, struct jtok *tok, size_t start, size_t end)
{
    if (end <= start)
        return false;
    *tok = (struct jtok){.type = JT_DATA, .line = lex->line, .s = lex->src + start, .n = end - start};
    return true;
}

static bool lex_raw(struct jlex *lex, struct jtok *tok)
{
    size_t start = lex->pos;
    for (size_t p = start; p < lex->n; p++) {
        size_t end = lex->src[p] == '{' ? raw_tag(lex, p, "endraw", false) : 0;
        if (!end)
            continue;
        bool some = data_token(lex, tok, start, strip_before(lex, start, p, sign_at(lex, p + 2), false));
        move(lex, end);
        lex->raw = false;
        return some;
    }
    qr_jinja_lex_fail(lex, QR_FORMAT, lex->line, "{%% raw %%} is never closed: add {%% endraw %%}");
    return false;
}

static void lex_comment(struct jlex *lex, size_t start)
{
    int line = lex->line;
    for (size_t p = start; p < lex->n; p++) {
        if (!at(lex, p, "#}"))
            continue;
        size_t close = p > start && sign_at(lex, p - 1) ? p - 1 : p;
        move(lex, behind_close(lex, close, true));
        return;
    }
    qr_jinja_lex_fail(lex, QR_FORMAT, line, "a comment is never closed: add #}");
}

/* Outside of tags: text up to the next tag, or the tag's opening. false: nothing to hand out yet. */
static bool lex_text(struct jlex *lex, struct jtok *tok)
{
    if (lex->raw)
        return lex_raw(lex, tok);
    size_t start = lex->pos, p = start;
    while (p < lex->n && !(lex->src[p] == '{' && p + 1 < lex->n && strchr("%{#", lex->src[p + 1]) && lex->src[p + 1]))
        p++;
    if (p >= lex->n) {
        bool some = data_token(lex, tok, start, lex->n);
        move(lex, lex->n);
        return some;
    }
    char kind = lex->src[p + 1], sign = sign_at(lex, p + 2);
    size_t end = strip_before(lex, start, p, sign, kind == '{');
    if (data_token(lex, tok, start, end)) {
        move(lex, p);
        return true;
    }
    move(lex, p);
    size_t raw = raw_tag(lex, p, "raw", true);
    if (raw) {
        move(lex, raw);
        lex->raw = true;
        return false;
    }
    if (kind == '#') {
        lex_comment(lex, p + 2 + (sign != 0));
        return false;
    }
    lex->state = kind == '{' ? JT_VAR_BEGIN : JT_BLOCK_BEGIN;
    *tok = (struct jtok){.type = lex->state, .line = lex->line};
    lex->pos = p + 2 + (sign != 0);
    lex->after_dot = false;
    return true;
}

static bool is_name_byte(char c, bool first)
{
    unsigned char u = (unsigned char)c;
    return (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || u == '_' || u >= 0x80 ||
           (!first && u >= '0' && u <= '9');
}

static void lex_string(struct jlex *lex, struct jtok *tok)
{
    char quote = lex->src[lex->pos];
    size_t start = lex->pos + 1, p = start;
    while (p < lex->n && lex->src[p] != quote)
        p += lex->src[p] == '\\' ? 2 : 1;
    if (p >= lex->n) {
        qr_jinja_lex_fail(lex, QR_FORMAT, lex->line, "a string that opens with %c is never closed", quote);
        return;
    }
    char *out = qr_arena_alloc(lex->arena, p - start + 4);
    size_t n = 0;
    if (!out)
        qr_jinja_lex_fail(lex, QR_NOMEM, lex->line, "out of memory");
    else if (!qr_jinja_unescape(lex->src + start, p - start, out, &n))
        qr_jinja_lex_fail(lex, QR_FORMAT, lex->line, "a string has a broken \\x, \\u or \\N escape");
    *tok = (struct jtok){.type = JT_STRING, .line = lex->line, .s = out, .n = n};
    move(lex, p + 1);
}

static size_t digits(const struct jlex *lex, size_t p)
{
    while (p < lex->n && ((lex->src[p] >= '0' && lex->src[p] <= '9') ||
                          (lex->src[p] == '_' && p + 1 < lex->n && lex->src[p + 1] >= '0' && lex->src[p + 1] <= '9')))
        p++;
    return p;
}

static void lex_number(struct jlex *lex, struct jtok *tok)
{
    const char *src = lex->src;
    size_t start = lex->pos, p = digits(lex, start);
    bool real = false;
    *tok = (struct jtok){.type = JT_INT, .line = lex->line};
    if (!lex->after_dot) {
        if (p + 1 < lex->n && src[p] == '.' && src[p + 1] >= '0' && src[p + 1] <= '9') {
            p = digits(lex, p + 1);
            real = true;
        }
        if (p < lex->n && (src[p] | 0x20) == 'e') {
            size_t q = p + 1 + (p + 1 < lex->n && (src[p + 1] == '+' || src[p + 1] == '-'));
            if (q < lex->n && src[q] >= '0' && src[q] <= '9') {
                p = digits(lex, q);
                real = true;
            }
        }
    }
    if (!real && src[start] == '0' && start + 1 < lex->n && strchr("xXoObB", src[start + 1]) && src[start + 1]) {
        p = start + 2;
        while (p < lex->n && is_name_byte(src[p], false))
            p++;
    }
    bool ok;
    if (real) {
        tok->type = JT_FLOAT;
        ok = qr_jv_parse_float(src + start, p - start, &tok->f);
    } else {
        ok = qr_jv_parse_int(src + start, p - start, 0, &tok->i);
    }
    if (!ok)
        qr_jinja_lex_fail(lex, QR_FORMAT, lex->line, "the number %.*s is malformed or beyond 64 bits",
                          (int)(p - start > 40 ? 40 : p - start), src + start);
    move(lex, p);
}

static bool bracket(struct jlex *lex, char c)
{
    if (c == '(' || c == '[' || c == '{') {
        if (lex->n_balance == QR_JINJA_DEPTH) {
            qr_jinja_lex_fail(lex, QR_LIMIT, lex->line, "brackets nest deeper than %d", QR_JINJA_DEPTH);
            return false;
        }
        if (!lex->balance)
            lex->balance = qr_arena_alloc(lex->arena, QR_JINJA_DEPTH);
        if (!lex->balance) {
            qr_jinja_lex_fail(lex, QR_NOMEM, lex->line, "out of memory");
            return false;
        }
        lex->balance[lex->n_balance++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        char want = lex->n_balance ? lex->balance[--lex->n_balance] : 0;
        if (want != c) {
            if (want)
                qr_jinja_lex_fail(lex, QR_FORMAT, lex->line, "unexpected '%c', expected '%c'", c, want);
            else
                qr_jinja_lex_fail(lex, QR_FORMAT, lex->line, "unexpected '%c'", c);
            return false;
        }
    }
    return true;
}

static void lex_operator(struct jlex *lex, struct jtok *tok)
{
    static const struct {
        char s[3];
        int op;
    } two[] = {{"//", JOP_FLOORDIV}, {"**", JOP_POW}, {"==", JOP_EQ}, {"!=", JOP_NE}, {">=", JOP_GE}, {"<=", JOP_LE}};
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++) {
        if (at(lex, lex->pos, two[i].s)) {
            *tok = (struct jtok){.type = two[i].op, .line = lex->line};
            lex->pos += 2;
            return;
        }
    }
    char c = lex->src[lex->pos];
    if (c == 0 || !strchr("+-/*%~[](){}><=.:|,;", c)) {
        qr_jinja_lex_fail(lex, QR_FORMAT, lex->line, "unexpected character '%c' (0x%02x)",
                          c >= 0x20 && c < 0x7f ? c : '?', (unsigned char)c);
        return;
    }
    if (!bracket(lex, c))
        return;
    *tok = (struct jtok){.type = c, .line = lex->line};
    lex->pos++;
}

/* The close of the tag at hand, if it stands here. */
static bool lex_close(struct jlex *lex, struct jtok *tok)
{
    if (lex->n_balance)
        return false;
    size_t p = lex->pos;
    if (lex->state == JT_VAR_BEGIN) {
        bool minus = at(lex, p, "-}}");
        if (!minus && !at(lex, p, "}}"))
            return false;
        *tok = (struct jtok){.type = JT_VAR_END, .line = lex->line};
        move(lex, minus ? skip_space(lex, p + 3) : p + 2);
    } else {
        if (!at(lex, p, "-%}") && !at(lex, p, "+%}") && !at(lex, p, "%}"))
            return false;
        *tok = (struct jtok){.type = JT_BLOCK_END, .line = lex->line};
        move(lex, behind_close(lex, p, true));
    }
    lex->state = 0;
    return true;
}

void qr_jinja_lex_next(struct jlex *lex, struct jtok *tok)
{
    while (!lex->failed && lex->state == 0 && lex->pos < lex->n) {
        if (lex_text(lex, tok))
            return;
    }
    if (!lex->failed && lex->state != 0) {
        if (lex_close(lex, tok))
            return;
        move(lex, skip_space(lex, lex->pos));
        if (lex_close(lex, tok))
            return;
    }
    if (lex->failed || lex->pos >= lex->n) {
        if (!lex->failed && lex->raw)
            lex_raw(lex, tok);
        *tok = (struct jtok){.type = JT_EOF, .line = lex->line};
        return;
    }
    char c = lex->src[lex->pos];
    bool dot = false;
    if (c >= '0' && c <= '9') {
        lex_number(lex, tok);
    } else if (c == '\'' || c == '"') {
        lex_string(lex, tok);
    } else if (is_name_byte(c, true)) {
        size_t p = lex->pos;
        while (p < lex->n && is_name_byte(lex->src[p], false))
            p++;
        *tok = (struct jtok){.type = JT_NAME, .line = lex->line, .s = lex->src + lex->pos, .n = p - lex->pos};
        lex->pos = p;
    } else {
        lex_operator(lex, tok);
        dot = c == '.';
    }
    lex->after_dot = dot;
    if (lex->failed)
        *tok = (struct jtok){.type = JT_EOF, .line = lex->line};
}
