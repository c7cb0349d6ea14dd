/* test_jinja_hostile.c - templates that want too much (RELIABILITY 25-30): each must end in an error sentence, quickly, with
 * nothing leaked and nothing left in the output; then random templates, which may do anything but crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/rand.h"
#include "common/fault.h"
#include "text/jinja.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool sanitized = true; /* frames are several times as large */
#else
static const bool sanitized = false;
#endif

static json_t *context(void)
{
    return json_pack("{s:[{s:s,s:s},{s:s,s:s}],s:s,s:{s:i,s:s},s:[i,i,i],s:n,s:b,s:s,s:f}", "messages", "role", "user",
                     "content", "Hi there", "role", "assistant", "content", "<think>\nx\n</think>\n\nyo", "name",
                     "W\xc3\xb6rld", "d", "a", 1, "b", "two", "nums", 3, 1, 2, "tools", "add_generation_prompt", 1, "s",
                     "abc", "f", 1.5);
}

static enum qr_status run(const char *template, size_t n, const struct qr_jinja_budget *budget, struct qr_buf *out,
                          struct qr_err *err)
{
    struct qr_jinja *jinja = NULL;
    enum qr_status status = qr_jinja_parse(template, n, &jinja, err);
    if (status == QR_OK) {
        json_t *vars = context();
        status = vars ? qr_jinja_render(jinja, vars, budget, out, err) : QR_NOMEM;
        json_decref(vars);
    }
    qr_jinja_free(jinja);
    return status;
}

/* The template fails with that status and those words, in under ten seconds even under sanitizers, and writes nothing. */
static void refuses_n(const char *template, size_t n, const struct qr_jinja_budget *budget, enum qr_status want,
                      const char *words)
{
    struct qr_buf out;
    struct qr_err err = {0};
    int64_t start = qr_now_ns();
    qr_buf_init(&out, 0);
    assert_true(qr_buf_puts(&out, "before"));
    enum qr_status status = run(template, n, budget, &out, &err);
    if (status != want || !strstr(err.message, words))
        fail_msg("'%.60s': status %d, '%s' (wanted '%s')", template, (int)status, err.message, words);
    assert_int_equal(out.len, 6);
    assert_string_equal(out.data, "before");
    assert_true(qr_now_ns() - start < (int64_t)10 * 1000000000);
    qr_buf_free(&out);
}

static void refuses(const char *template, enum qr_status want, const char *words)
{
    refuses_n(template, strlen(template), NULL, want, words);
}

static void gives(const char *template, const char *text)
{
    struct qr_buf out;
    struct qr_err err = {0};
    qr_buf_init(&out, 0);
    if (run(template, strlen(template), NULL, &out, &err) != QR_OK)
        fail_msg("'%s': %s", template, err.message);
    assert_string_equal(out.data ? out.data : "", text);
    qr_buf_free(&out);
}

static void test_25_ranges(void **state)
{
    (void)state;
    refuses("{% for a in range(1000000000) %}{% for b in range(1000000000) %}x{% endfor %}{% endfor %}", QR_LIMIT,
            "range too big");
    refuses("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", QR_LIMIT,
            "1000000 steps");
    refuses("{{ range(-9223372036854775807, 9223372036854775807) }}", QR_LIMIT, "range too big");
    refuses("{% for a in range(99999) %}{% set x = range(99999)|list %}{% endfor %}", QR_LIMIT, "steps");
    refuses("{% for a in range(99) %}{{ range(99999)|sort|sum }}{{ nums * 99999 }}{% endfor %}", QR_LIMIT, "more than");
    refuses("{{ nums * 9000000000000000000 }}", QR_LIMIT, "steps");
    refuses("{{ range(10)|batch(9000000000000000000, 'x')|list }}", QR_LIMIT, "");
    refuses("{{ range(10)|slice(9000000000000000000)|list }}", QR_LIMIT, "");
}

static void test_26_strings(void **state)
{
    (void)state;
    refuses("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", QR_LIMIT,
            "16777216 bytes");
    refuses("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", QR_LIMIT,
            "16777216 bytes");
    refuses(
        "{% set ns = namespace(s='xy') %}{% for i in range(99) %}{% set ns.s = ns.s|replace('x', ns.s) %}{% endfor %}",
        QR_LIMIT, "16777216 bytes");
    refuses(
        "{% set ns = namespace(s=['x']) %}{% for i in range(99) %}{% set ns.s = [ns.s|join, ns.s|join] %}{% endfor %}",
        QR_LIMIT, "16777216 bytes");
    refuses("{% set ns = namespace(s=['x']) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
            QR_LIMIT, "more than");
    refuses("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% "
            "endfor %}",
            QR_LIMIT, "16777216 bytes");
    refuses("{{ 'x' * 9000000000000000000 }}", QR_LIMIT, "16777216 bytes");
    refuses("{{ 'xx' * 9223372036854775807 }}", QR_LIMIT, "16777216 bytes");
    refuses("{{ '%99999999999d' % 1 }}", QR_LIMIT, "16777216 bytes");
    refuses("{{ '{:>999999999}'.format(1) }}", QR_LIMIT, "16777216 bytes");
    refuses("{{ 'x'|center(9000000000000000000) }}", QR_LIMIT, "16777216 bytes");
    refuses("{{ 'x'.ljust(9000000000) }}", QR_LIMIT, "16777216 bytes");
    refuses("{{ '1'.zfill(9000000000) }}", QR_LIMIT, "16777216 bytes");
    refuses("{{ '\\t'.expandtabs(9000000000) }}", QR_LIMIT, "16777216 bytes");
    refuses("{{ 'a\\nb'|indent(9000000000) }}", QR_LIMIT, "16777216 bytes");
    refuses("{{ nums|tojson(indent=9000000000) }}", QR_LIMIT, "16777216 bytes");
    refuses("{% for i in range(20) %}{{ 'x' * 1000000 }}{% endfor %}", QR_LIMIT, "16777216 bytes");
    refuses("{{ ('x' * 3000000)|list }}", QR_LIMIT, "more than");
    refuses("{{ 9223372036854775807 + 1 }}", QR_LIMIT, "64 bits");
    refuses("{{ 2 ** 9000 }}", QR_LIMIT, "64 bits");
    refuses("{{ 1e300|int }}", QR_LIMIT, "64 bits");
    gives("{{ (-9223372036854775807 - 1) // -1 if false else 'x' }}{{ (-9223372036854775807 - 1) % -1 }}", "x0");
    refuses("{{ (-9223372036854775807 - 1) // -1 }}", QR_LIMIT, "64 bits");
}

static void test_27_recursion(void **state)
{
    (void)state;
    refuses("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", QR_LIMIT, "nest");
    refuses("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", QR_LIMIT, "nest");
    refuses("{% macro m(x) %}{{ m(m(x)) }}{% endmacro %}{{ m(1) }}", QR_LIMIT, "nest");
    refuses("{% macro m() %}{% call m() %}{% endcall %}{{ caller }}{% endmacro %}{{ m() }}", QR_LIMIT, "nest");
    refuses("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", QR_LIMIT, "nest");
    refuses("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", QR_LIMIT, "nests");
    refuses("{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
            QR_LIMIT, "nests");
    refuses(
        "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|tojson }}",
        QR_LIMIT, "nests");
    refuses("{% set ns = namespace(x=[], y=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] "
            "%}{% endfor %}"
            "{{ ns.x == ns.y }}",
            QR_LIMIT, "nest");
    refuses("{% set ns = namespace(x=[], y=[1]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% set ns.y = "
            "[ns.y] %}{% endfor %}"
            "{{ [ns.x, ns.y]|sort }}",
            QR_LIMIT, "nest");
    gives("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}.{% endmacro %}{{ m(150)|length }}", "151");
}

/* The deepest recursion that the limits allow, on a small stack: 200 calls, each some 19 levels of the tree down. */
static void *deepest(void *arg)
{
    const char *template = "{% macro m(n) %}{% if n %}{% if n %}{% if n %}{{ [[[[[[[[(m(n - 1) ~ "
                           "'x')|trim]]]]]]]][0][0] }}{% endif %}{% endif %}"
                           "{% endif %}{% endmacro %}{{ m(180)|length }}";
    struct qr_buf out;
    struct qr_err err = {0};
    qr_buf_init(&out, 0);
    *(enum qr_status *)arg = run(template, strlen(template), NULL, &out, &err);
    qr_buf_free(&out);
    return NULL;
}

static void test_27_stack(void **state)
{
    enum qr_status status = QR_INTERNAL;
    pthread_attr_t attr;
    pthread_t thread;
    size_t bytes = sanitized ? (size_t)16 << 20 : (size_t)4 << 20;
    (void)state;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, bytes), 0);
    assert_int_equal(pthread_create(&thread, &attr, deepest, &status), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    assert_true(status == QR_OK || status == QR_LIMIT);
}

static void test_28_empty_separators(void **state)
{
    (void)state;
    refuses("{{ 'abc'.split('') }}", QR_INVALID, "empty separator");
    refuses("{{ 'abc'.rsplit('') }}", QR_INVALID, "empty separator");
    refuses("{{ 'abc'.partition('') }}", QR_INVALID, "empty separator");
    gives("{{ 'abc'.replace('', '') }}", "abc");
    gives("{{ 'abc'|replace('', '-') }}", "-a-b-c-");
    gives("{{ 'abc'.count('') }} {{ 'abc'.find('') }} {{ '' in 'abc' }}", "4 0 True");
    refuses("{{ ('x' * 9000000).replace('', 'yy') }}", QR_LIMIT, "16777216 bytes");
}

/* s repeated n times, then e */
static char *repeated(const char *s, size_t n, const char *e, size_t m, size_t *len)
{
    size_t a = strlen(s), b = strlen(e);
    char *text = malloc(a * n + b * m + 1);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        memcpy(text + a * i, s, a);
    for (size_t i = 0; i < m; i++)
        memcpy(text + a * n + b * i, e, b);
    *len = a * n + b * m;
    text[*len] = 0;
    return text;
}

static void test_29_deep_text(void **state)
{
    static const char *const deep[][2] = {
        {"{{ (", ") }}"},
        {"{{ ((((((((((", "))))))))))"},
        {"{{ [", "] }}"},
        {"{{ {1:", "} }}"},
        {"{{ - - - -", "1"},
        {"{{ not ", "1"},
        {"{% if 1 %}", "{% endif %}"},
        {"{% for x in y %}", "{% endfor %}"},
        {"{{ x[", "] }}"},
        {"{{ f(", ") }}"},
        {"{{ a if b else ", "1"},
        {"{% macro m() %}", "{% endmacro %}"},
        {"{% set x %}", "{% endset %}"},
    };
    size_t n;
    (void)state;
    for (size_t i = 0; i < sizeof deep / sizeof deep[0]; i++) {
        const char *inner = strncmp(deep[i][0], "{{ ", 3) == 0 ? deep[i][0] + 3 : deep[i][0];
        char *text = repeated(inner, 100000 / strlen(inner), deep[i][1], 1, &n), *whole = malloc(n + 8);
        assert_non_null(whole);
        n = (size_t)sprintf(whole, "%s%s", inner == deep[i][0] ? "" : "{{ ", text);
        refuses_n(whole, n, NULL, QR_LIMIT, "deeper than 200");
        free(whole);
        free(text);
    }
    /* Long, but flat or left-leaning. */
    char *text = repeated("|upper", 1000, " }}", 1, &n), *whole = malloc(n + 8);
    assert_non_null(whole);
    n = (size_t)sprintf(whole, "{{ 1%s", text);
    refuses_n(whole, n, NULL, QR_LIMIT, "deeper than 200");
    free(text);
    free(whole);
    text = repeated(" + 1", 100000, " }}", 1, &n);
    whole = malloc(n + 8);
    assert_non_null(whole);
    n = (size_t)sprintf(whole, "{{ 1%s", text);
    gives(whole, "100001");
    free(text);
    free(whole);
    text = repeated("{", 300000, "", 0, &n);
    refuses_n(text, n, NULL, QR_LIMIT, "deeper than 200");
    free(text);
    text = repeated("x", ((size_t)1 << 20) + 1, "", 0, &n);
    refuses_n(text, n, NULL, QR_LIMIT, "1048576");
    free(text);
}

static void test_30_sandbox(void **state)
{
    (void)state;
    refuses("{{ ''.__class__.__mro__ }}", QR_INVALID, "access to attribute '__class__' of 'str' object is unsafe");
    refuses("{{ d.__init__.__globals__ }}", QR_INVALID, "unsafe");
    refuses("{{ messages.append(1) }}", QR_INVALID, "access to attribute 'append' of 'list' object is unsafe");
    refuses("{{ d.pop('a') }}", QR_INVALID, "unsafe");
    refuses("{{ '{0.__class__.__init__}'.format(1) }}", QR_INVALID, "unsafe");
    refuses("{{ d['__class__']['x'] }}", QR_INVALID, "unsafe");
    refuses("{{ (d|attr('__class__')).x }}", QR_INVALID, "unsafe");
    refuses("{{ nums|map(attribute='__class__.__mro__')|list }}", QR_INVALID, "unsafe");
    gives("{{ ''.__class__ }}|{{ d.__class__ is defined }}|{{ d.update }}|{{ range.__globals__ }}", "|False||");
}

static void test_budgets(void **state)
{
    struct qr_jinja_budget steps = {.steps = 100}, bytes = {.output_bytes = 100}, depth = {.depth = 5};
    const char *loop = "{% for i in range(1000) %}{{ i }}{% endfor %}";
    (void)state;
    refuses_n(loop, strlen(loop), &steps, QR_LIMIT, "more than 100 steps");
    refuses_n(loop, strlen(loop), &bytes, QR_LIMIT, "more than 100 bytes");
    loop = "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}";
    refuses_n(loop, strlen(loop), &depth, QR_LIMIT, "deeper than 5");
    /* A text built piece by piece costs its length, not its square. */
    gives("{% set ns = namespace(s='') %}{% for i in range(20000) %}{% set ns.s = ns.s + "
          "'0123456789012345678901234567890123456789' %}"
          "{% endfor %}{{ ns.s|length }}",
          "800000");
    struct qr_buf small;
    struct qr_err err = {0};
    qr_buf_init(&small, 10);
    assert_int_equal(run("{{ 'x' * 11 }}", 14, NULL, &small, &err), QR_LIMIT);
    assert_int_equal(small.len, 0);
    qr_buf_free(&small);
}

static void test_bad_text(void **state)
{
    (void)state;
    refuses_n("a\xff", 2, NULL, QR_FORMAT, "not UTF-8: byte 1 is 0xff");
    refuses_n("\xed\xa0\x80", 3, NULL, QR_FORMAT, "not UTF-8");
    refuses("{{ 'a' }}\n{{ x y }}", QR_FORMAT, "line 2");
    refuses("a\n\n{{ missing.x }}", QR_INVALID, "line 3: 'missing' is undefined");
    refuses("{% for m in messages %}\n{{ m.nope.x }}{% endfor %}", QR_INVALID,
            "line 2: 'dict object' has no attribute 'nope'");
    refuses_n("{{ \0 }}", 7, NULL, QR_FORMAT, "unexpected character");
    refuses("{{ 1|frobnicate }}", QR_FORMAT, "no filter named 'frobnicate'");
}

/* Every allocation failing in turn: an error or the right text, no leak. */
static bool render_something(void *ctx)
{
    const char *template = ctx;
    struct qr_buf out;
    struct qr_err err = {0};
    qr_buf_init(&out, 0);
    bool ok = run(template, strlen(template), NULL, &out, &err) == QR_OK;
    if (ok)
        assert_true(out.len > 0);
    qr_buf_free(&out);
    return ok;
}

static void test_torture(void **state)
{
    char template[] =
        "{% macro m(a, b='x') %}{{ a ~ b }}{% endmacro %}{% for m2 in messages if m2.role %}{{ m(m2.content|trim) }}"
        "{{ m2|tojson(indent=2) }}{% set x %}{{ '%s' % name }}{% endset %}{{ x.split('r')|join('-') }}{% endfor %}"
        "{{ range(20)|batch(3)|map('join', ',')|list }}{{ dict(d, c=[1.5, none])|dictsort }}{{ 'a{}'.format(1)|upper "
        "}}";
    (void)state;
    if (!fault_works())
        skip();
    long n = fault_torture(render_something, template, FAULT_ALLOC, 0);
    print_message("%ld fault points\n", n);
    assert_true(n > 50);
}

/* Pieces of templates put together at random, with bytes changed: whatever comes out, no crash, no leak, no loop. */
static const char *const pieces[] = {
    "{{ ",
    " }}",
    "{% ",
    " %}",
    "{%- ",
    " -%}",
    "{#",
    "#}",
    "{% for m in messages %}",
    "{% endfor %}",
    "{% if ",
    "{% else %}",
    "{% elif 1 %}",
    "{% endif %}",
    "{% set x = ",
    "{% set x %}",
    "{% endset %}",
    "{% macro m(a, b=1) %}",
    "{% endmacro %}",
    "{{ m(1) }}",
    "{% call m() %}",
    "{% endcall %}",
    "{% raw %}",
    "{% endraw %}",
    "{% filter upper %}",
    "{% endfilter %}",
    "{% break %}",
    "{% continue %}",
    "messages",
    "m.content",
    "m['role']",
    "loop.last",
    "loop.nextitem",
    "loop.length",
    "namespace(a=1)",
    "ns.a",
    "nums",
    "d",
    "name",
    "s",
    "f",
    "missing",
    "none",
    "true",
    "1",
    "0",
    "-1",
    "2.5",
    "99999999999",
    "'str'",
    "\"q\\n\"",
    "'\\u00e9'",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    ".",
    "|",
    "~",
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "==",
    "!=",
    "<",
    ">=",
    "=",
    " in ",
    " not in ",
    " is ",
    " and ",
    " or ",
    " not ",
    " if ",
    " else ",
    "|tojson",
    "|length",
    "|join(',')",
    "|map(attribute='role')",
    "|map('upper')",
    "|selectattr('role')",
    "|list",
    "|first",
    "|last",
    "|sort",
    "|reverse",
    "|unique",
    "|groupby('role')",
    "|batch(2)",
    "|default('x')",
    "|int",
    "|float",
    "|round",
    "|replace('a', '')",
    "|indent(2)",
    "|trim",
    "|string",
    "|dictsort",
    "|items",
    "|sum",
    "|format(1)",
    "|truncate(5)",
    "|urlencode",
    "|title",
    "|min",
    "|slice(2)",
    ".split()",
    ".split('a', 1)",
    ".strip()",
    ".items()",
    ".get('a')",
    ".upper()",
    ".replace('', 'x')",
    ".format(1, 2)",
    ".startswith('a')",
    ".rsplit('b')",
    "[::-1]",
    "[1:]",
    "[0]",
    "[-1]",
    "['a']",
    "is defined",
    "is string",
    "is mapping",
    "is odd",
    "is sameas 1",
    "range(5)",
    "range(3, 0, -1)",
    "dict(a=1)",
    "cycler('a', 'b')",
    "joiner()",
    "caller()",
    "varargs",
    "kwargs",
    "x",
    "m(2)",
    "*",
    "**d",
    "{% with a=1 %}",
    "{% endwith %}",
    "{% generation %}",
    "{% endgeneration %}",
    " recursive %}",
    "loop(x)",
    "\n",
    "  ",
    "\xc3\xa9",
    "\xf0\x9f\x98\x80",
    "'%s' % x",
    "'%5.2f' % f",
    "'{:>5}'",
    "text",
    "%}",
    "}}",
};

static uint32_t draw(uint64_t seed, uint32_t *counter, uint32_t below)
{
    return (uint32_t)(qr_rand_uniform(seed, 0, (*counter)++) * (float)below) % below;
}

static size_t make_template(uint64_t seed, char *text, size_t room)
{
    uint32_t counter = 0, n = 1 + draw(seed, &counter, 30);
    size_t len = 0;
    bool tag = draw(seed, &counter, 2);
    for (uint32_t i = 0; i < n; i++) {
        const char *piece = pieces[draw(seed, &counter, sizeof pieces / sizeof pieces[0])];
        const char *open = tag && draw(seed, &counter, 3) == 0 ? "{{ name" : "", *close = *open ? " }}" : "";
        if (len + strlen(piece) + 12 > room)
            break;
        len += (size_t)sprintf(text + len, "%s%s%s", open, piece, close);
    }
    for (uint32_t k = draw(seed, &counter, 3); k > 0 && len > 1; k--)
        text[draw(seed, &counter, (uint32_t)len)] = (char)(32 + draw(seed, &counter, 95));
    return len;
}

static void test_random_templates(void **state)
{
    struct qr_jinja_budget budget = {.steps = 20000, .output_bytes = 100000, .depth = 50};
    int count = getenv("QUIRE_LONG") ? 1000000 : 20000, good = 0, parsed = 0;
    char text[2048];
    json_t *vars = context();
    (void)state;
    for (int i = 0; i < count; i++) {
        struct qr_jinja *jinja = NULL;
        struct qr_buf out;
        struct qr_err err = {0};
        size_t n = make_template((uint64_t)i, text, sizeof text);
        enum qr_status status = qr_jinja_parse(text, n, &jinja, &err);
        qr_buf_init(&out, 0);
        if (status == QR_OK) {
            parsed++;
            status = qr_jinja_render(jinja, vars, &budget, &out, &err);
        }
        good += status == QR_OK;
        if (status != QR_OK && !err.message[0])
            fail_msg("an error without words: %.*s", (int)n, text);
        qr_buf_free(&out);
        qr_jinja_free(jinja);
    }
    print_message("%d templates, %d parsed, %d rendered\n", count, parsed, good);
    assert_true(good > count / 50);
    json_decref(vars);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_25_ranges),
        cmocka_unit_test(test_26_strings),
        cmocka_unit_test(test_27_recursion),
        cmocka_unit_test(test_27_stack),
        cmocka_unit_test(test_28_empty_separators),
        cmocka_unit_test(test_29_deep_text),
        cmocka_unit_test(test_30_sandbox),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_torture),
        cmocka_unit_test(test_random_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
