/* jinja_parse.c - the parser's token stream, names and entry point. The grammar is that of jinja2/parser.py: statements
 * in jinja_stmt.c, expressions in jinja_expr.c and jinja_operand.c. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/jinja_parse.h"
#include "text/jinja_unicode.h"

void qr_jinja_advance(struct jparse *p)
{
    if (p->has_ahead) {
        p->cur = p->ahead;
        p->has_ahead = false;
    } else {
        qr_jinja_lex_next(&p->lex, &p->cur);
    }
    if (p->lex.failed)
        p->cur.type = JT_EOF;
}

const struct jtok *qr_jinja_peek(struct jparse *p)
{
    if (!p->has_ahead) {
        qr_jinja_lex_next(&p->lex, &p->ahead);
        p->has_ahead = true;
    }
    return &p->ahead;
}

bool qr_jinja_tok_is(const struct jtok *tok, const char *name)
{
    return tok->type == JT_NAME && tok->n == strlen(name) && memcmp(tok->s, name, tok->n) == 0;
}

bool qr_jinja_at_name(const struct jparse *p, const char *name)
{
    return qr_jinja_tok_is(&p->cur, name);
}

bool qr_jinja_skip(struct jparse *p, int type)
{
    if (p->cur.type != type)
        return false;
    qr_jinja_advance(p);
    return true;
}

bool qr_jinja_skip_name(struct jparse *p, const char *name)
{
    if (!qr_jinja_at_name(p, name))
        return false;
    qr_jinja_advance(p);
    return true;
}

static void describe(int type, const struct jtok *tok, char *out, size_t n)
{
    static const struct {
        int type;
        const char *text;
    } names[] = {{JT_EOF, "end of template"},
                 {JT_DATA, "text"},
                 {JT_VAR_BEGIN, "'{{'"},
                 {JT_VAR_END, "'}}'"},
                 {JT_BLOCK_BEGIN, "'{%'"},
                 {JT_BLOCK_END, "'%}'"},
                 {JT_NAME, "a name"},
                 {JT_STRING, "a string"},
                 {JT_INT, "a number"},
                 {JT_FLOAT, "a number"},
                 {JOP_EQ, "'=='"},
                 {JOP_NE, "'!='"},
                 {JOP_LE, "'<='"},
                 {JOP_GE, "'>='"},
                 {JOP_FLOORDIV, "'//'"},
                 {JOP_POW, "'**'"}};
    if (tok && type == JT_NAME) {
        snprintf(out, n, "'%.*s'", (int)(tok->n > 60 ? 60 : tok->n), tok->s);
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].type == type) {
            snprintf(out, n, "%s", names[i].text);
            return;
        }
    }
    snprintf(out, n, "'%c'", (char)type);
}

void qr_jinja_syntax(struct jparse *p, const char *fmt, ...)
{
    char message[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    qr_jinja_lex_fail(&p->lex, QR_FORMAT, p->cur.line, "%s", message);
    p->cur.type = JT_EOF;
}

void qr_jinja_unexpected(struct jparse *p)
{
    char got[80];
    describe(p->cur.type, &p->cur, got, sizeof got);
    qr_jinja_syntax(p, "unexpected %s", got);
}

bool qr_jinja_expect(struct jparse *p, int type)
{
    if (qr_jinja_skip(p, type))
        return true;
    char want[80], got[80];
    describe(type, NULL, want, sizeof want);
    describe(p->cur.type, &p->cur, got, sizeof got);
    qr_jinja_syntax(p, "expected %s, got %s", want, got);
    return false;
}

bool qr_jinja_enter(struct jparse *p)
{
    if (p->depth >= QR_JINJA_DEPTH) {
        qr_jinja_lex_fail(&p->lex, QR_LIMIT, p->cur.line, "it nests deeper than %d levels", QR_JINJA_DEPTH);
        p->cur.type = JT_EOF;
        return false;
    }
    p->depth++;
    return true;
}

static bool grow_names(struct jparse *p)
{
    struct qr_jinja *j = p->jinja;
    int room = j->name_room ? j->name_room * 2 : 64;
    struct jv_str **more = qr_arena_array(j->arena, (size_t)room, sizeof *more);
    if (!more) {
        qr_jinja_lex_fail(&p->lex, QR_NOMEM, p->cur.line, "out of memory");
        return false;
    }
    if (j->n_name)
        memcpy(more, j->name, (size_t)j->n_name * sizeof *more);
    j->name = more;
    j->name_room = room;
    return true;
}

#define MAX_NAMES 4096 /* real templates use some 50; the table is searched one by one */

int qr_jinja_name_id(struct jparse *p, const char *s, size_t n)
{
    struct qr_jinja *j = p->jinja;
    for (int i = 0; i < j->n_name; i++) {
        if (j->name[i]->n == n && memcmp(j->name[i]->s, s, n) == 0)
            return i;
    }
    if (j->n_name == MAX_NAMES) {
        qr_jinja_lex_fail(&p->lex, QR_LIMIT, p->cur.line, "more than %d different names", MAX_NAMES);
        return 0;
    }
    if (j->n_name == j->name_room && !grow_names(p))
        return 0;
    struct jv_str *str = qr_arena_alloc(j->arena, sizeof *str);
    if (!str) {
        qr_jinja_lex_fail(&p->lex, QR_NOMEM, p->cur.line, "out of memory");
        return 0;
    }
    *str = (struct jv_str){.s = s, .n = n, .n_cp = -1};
    qr_jv_str_len(str);
    j->name[j->n_name] = str;
    return j->n_name++;
}

static enum qr_status parse_all(struct qr_jinja *j, const char *text, size_t n, struct qr_err *err)
{
    struct qr_err first = {0};
    struct jparse p = {.jinja = j};
    if (qr_jinja_lex_init(&p.lex, j->arena, text, n, &first)) {
        qr_jinja_advance(&p);
        j->caller_name = qr_jinja_name_id(&p, "caller", 6);
        j->varargs_name = qr_jinja_name_id(&p, "varargs", 7);
        j->kwargs_name = qr_jinja_name_id(&p, "kwargs", 6);
        j->loop_name = qr_jinja_name_id(&p, "loop", 4);
        j->body = qr_jinja_parse_body(&p, NULL, true);
        if (!p.lex.failed && p.cur.type != JT_EOF)
            qr_jinja_unexpected(&p);
    }
    if (p.lex.failed)
        return qr_fail(err, first.status, "%s", first.message);
    return QR_OK;
}

enum qr_status qr_jinja_parse(const char *text, size_t n, struct qr_jinja **jinja, struct qr_err *err)
{
    *jinja = NULL;
    size_t bad_at;
    if (n > QR_JINJA_MAX_TEXT)
        return qr_fail(err, QR_LIMIT, "the chat template has %zu bytes; at most %zu are accepted", n,
                       QR_JINJA_MAX_TEXT);
    if (!qr_u8_valid(text, n, &bad_at))
        return qr_fail(err, QR_FORMAT, "the chat template is not UTF-8: byte %zu is 0x%02x", bad_at,
                       (unsigned char)text[bad_at]);
    struct qr_jinja *j = calloc(1, sizeof *j);
    if (j)
        j->arena = qr_arena_create((size_t)256 << 20);
    if (!j || !j->arena) {
        free(j);
        return qr_fail(err, QR_NOMEM, "out of memory while the chat template was read");
    }
    enum qr_status status = parse_all(j, text, n, err);
    if (status != QR_OK) {
        qr_jinja_free(j);
        return status;
    }
    *jinja = j;
    return QR_OK;
}

void qr_jinja_free(struct qr_jinja *jinja)
{
    if (!jinja)
        return;
    qr_arena_destroy(jinja->arena);
    free(jinja);
}
