/* test_pretok.c - cutting text: the behaviours as the tokenizers package documents them, what a pattern is rewritten
 * to, what is refused, and that no pattern runs without end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "text/pretok.h"

static enum qr_status add_word(void *ctx, const char *word, size_t n, struct qr_err *err)
{
    (void)err;
    qr_buf_putc(ctx, '[');
    qr_buf_append(ctx, word, n);
    qr_buf_putc(ctx, ']');
    return QR_OK;
}

/* Words in brackets. */
static void assert_cuts(const struct qr_pretok *pretok, const char *text, const char *want)
{
    struct qr_regex_state regex;
    struct qr_buf out;
    struct qr_err err = {0};

    qr_buf_init(&out, 0);
    assert_int_equal(qr_regex_state_init(&regex, 1000000, NULL), QR_OK);
    if (qr_pretok_run(pretok, text, strlen(text), true, &regex, add_word, &out, &err))
        fail_msg("%s", err.message);
    assert_string_equal(out.data ? out.data : "", want);
    qr_regex_state_free(&regex);
    qr_buf_free(&out);
}

static void cut(const char *pattern, enum qr_split split, bool invert, const char *text, const char *want)
{
    struct qr_pretok pretok = {0};
    struct qr_err err = {0};

    if (qr_pretok_add_regex(&pretok, pattern, strlen(pattern), split, invert, &err))
        fail_msg("%s", err.message);
    assert_cuts(&pretok, text, want);
    qr_pretok_free(&pretok);
}

static void behaviours(void **state)
{
    /* SplitDelimiterBehavior in the documentation of tokenizers */
    static const char *const want[] = {
        [QR_SPLIT_ISOLATED] = "[the][-][final][-][-][countdown]",
        [QR_SPLIT_REMOVED] = "[the][final][countdown]",
        [QR_SPLIT_MERGED_WITH_PREVIOUS] = "[the-][final-][-][countdown]",
        [QR_SPLIT_MERGED_WITH_NEXT] = "[the][-final][-][-countdown]",
        [QR_SPLIT_CONTIGUOUS] = "[the][-][final][--][countdown]",
    };
    static const char *const inverted[] = {
        [QR_SPLIT_ISOLATED] = "[the][-][final][--][countdown]",
        [QR_SPLIT_REMOVED] = "[the][final][countdown]",
        [QR_SPLIT_MERGED_WITH_PREVIOUS] = "[the-][final--][countdown]",
        [QR_SPLIT_MERGED_WITH_NEXT] = "[the][-final][--countdown]",
        [QR_SPLIT_CONTIGUOUS] = "[the][-][final][--][countdown]",
    };

    (void)state;
    for (int split = QR_SPLIT_ISOLATED; split <= QR_SPLIT_CONTIGUOUS; split++) {
        struct qr_pretok pretok = {0};

        cut("-", (enum qr_split)split, false, "the-final--countdown", want[split]);
        /* both characters of "--" between two words are one match then */
        cut("[a-z]+", (enum qr_split)split, true, "the-final--countdown", inverted[split]);
        assert_int_equal(qr_pretok_add_string(&pretok, "-", 1, (enum qr_split)split, false, NULL), QR_OK);
        assert_cuts(&pretok, "the-final--countdown", want[split]);
        qr_pretok_free(&pretok);
    }
}

static void steps_follow_each_other(void **state)
{
    struct qr_pretok pretok = {0};

    (void)state;
    assert_int_equal(qr_pretok_add_step(&pretok, QR_STEP_NUMERIC, QR_SPLIT_ISOLATED, NULL), QR_OK);
    assert_int_equal(qr_pretok_add_gpt2(&pretok, NULL), QR_OK);
    assert_cuts(&pretok, "I've 12 apples\n\n  and", "[I]['ve][ ][1][2][ apples][\n\n ][ and]");
    assert_cuts(&pretok, "x\u00B2\u0663y", "[x][\u00B2][\u0663][y]");
    qr_pretok_free(&pretok);
    assert_int_equal(qr_pretok_add_step(&pretok, QR_STEP_PREFIX, QR_SPLIT_ISOLATED, NULL), QR_OK);
    assert_cuts(&pretok, "x", "[ x]");
    assert_cuts(&pretok, " x", "[ x]");
    assert_cuts(&pretok, "", "");
    qr_pretok_free(&pretok);
    /* letters: byte B2 of the two that are U+00B2 is the letter U+00B2, a number (so it is in Falcon's tokenizer) */
    assert_int_equal(qr_pretok_add_step(&pretok, QR_STEP_LETTERS, QR_SPLIT_ISOLATED, NULL), QR_OK);
    assert_int_equal(qr_pretok_add_step(&pretok, QR_STEP_NUMERIC, QR_SPLIT_CONTIGUOUS, NULL), QR_OK);
    assert_cuts(&pretok, "a\u00B2", "[a\xC2][\xB2]");
    qr_pretok_free(&pretok);
}

static void means_what_oniguruma_means(void **state)
{
    (void)state;
    /* checked with tokenizers.Regex, which is Oniguruma */
    cut("\\d{1,3}+", QR_SPLIT_ISOLATED, false, "12345x", "[12345][x]"); /* repeats; PCRE2 would be possessive */
    cut("\\d{2}?", QR_SPLIT_ISOLATED, false, "123x",
        "[12][3][x]"); /* optional, not lazy: it matches the empty text, too */
    cut("\\d{,2}x", QR_SPLIT_ISOLATED, false, "123x", "[1][23x]");
    cut("a{", QR_SPLIT_ISOLATED, false, "a{b", "[a{][b]");
    cut("\\h+", QR_SPLIT_ISOLATED, false, "xbeefx", "[x][beef][x]"); /* hexadecimal digits */
    cut("\\s+", QR_SPLIT_ISOLATED, false, "a\u180Eb\u3000c", "[a\u180Eb][\u3000][c]");
    cut("\\w+", QR_SPLIT_ISOLATED, false, "e\u0301-\u24B6.", "[e\u0301][-][\u24B6][.]");
    cut("[^\\S]+", QR_SPLIT_ISOLATED, false, "a b", "[a][ ][b]");
    cut("[\\S&]+", QR_SPLIT_ISOLATED, false, "a b", "[a][ ][b]");
    cut("[^\\W_]+", QR_SPLIT_ISOLATED, false, "a_b", "[a][_][b]");
    cut("[^(\\s|[.,])]+", QR_SPLIT_ISOLATED, false, "ab(c.d", "[ab][(][c][.][d]"); /* a class in a class */
    cut("(?:a|b?)+c", QR_SPLIT_ISOLATED, false, "xabacb", "[x][abac][b]");         /* an empty turn ends the loop */
    cut("a\\b.+", QR_SPLIT_ISOLATED, false, "xa-b", "[x][a-b]");
    cut("(?i:s|t)+", QR_SPLIT_ISOLATED, false, "xSsTx", "[x][SsT][x]");
    cut("a.b", QR_SPLIT_ISOLATED, false, "xa\nbx", "[xa\nbx]");
    cut("x$", QR_SPLIT_ISOLATED, false, "ax\nbx", "[a][x][\nb][x]");
    cut("\\bfoo\\b", QR_SPLIT_ISOLATED, false, "foo foo\u0301 foo", "[foo][ foo\u0301 ][foo]");
    cut("(?i:'s)", QR_SPLIT_ISOLATED, false, "a'S'\u017F", "[a]['S]['\u017F]");
    cut("[!-&]|[\\&&a]|[b\\&\\&]", QR_SPLIT_ISOLATED, false, "%&ab-", "[%][&][a][b][-]"); /* no intersections */
    cut("\\p{^L}", QR_SPLIT_ISOLATED, false, "a1", "[a][1]");
    cut("\\p{L}+", QR_SPLIT_ISOLATED, false, "-\U00031350-", "[-][\U00031350][-]"); /* a letter since Unicode 15 */
    cut("\\x41|\\x{42}|\\u0043", QR_SPLIT_ISOLATED, false, "xABCx", "[x][A][B][C][x]");
}

static void refused_by_name(void **state)
{
    static const char *const cases[][2] = {
        {"(a", "closing )"},
        {"a)", "closes nothing"},
        {"*a", "behind nothing"},
        {"(*ACCEPT)", "behind nothing"},
        {"[a", "closing ]"},
        {"[]", "closing ]"},
        {"[z-a]", "U+007A-U+0061"},
        {"[a&&b]", "&&"},
        {"[&&b]", "&&"},
        {"[a&&]", "&&"},
        {"[^a&&b]", "&&"},
        {"[!-&&a]", "&&"},
        {"[a-z&&[^b]]", "&&"},
        {"[a[b&&c]]", "&&"},
        {"[[:alpha:]]", "[:name:]"},
        {"\\p{Foo}", "\\p{Foo}"},
        {"\\pL", "braces"},
        {"a\\", "backslash"},
        {"\\K", "\\K"},
        {"(a)\\1", "\\1"},
        {"(?<n>a)", "(?<"},
        {"(?x)a", "(?x"},
        {"a(?i)b", "very start"},
        {"\\xFF", "\\x"},
        {"\\x{D800}", "\\x"},
        {"a{70000}", "number too big"},
        {"a{3,2}", "{3,2}"},
        {"a**", "behind a quantifier"},
        {"a{2}{2}", "behind a quantifier"},
        {"(?m)a.b", "(?m"},
        {"(?i:a[b\\p{Lu}])", "in a class under (?i)"},
        {"(?i:[a[b]])", "in a class under (?i)"},
        {"(?i:[a-\u00e9])", "U+00E9 under (?i)"},
        {"(?i)\u00df", "U+00DF under (?i)"},
        {"(?i:'Ss)", "ss under (?i)"},
        {"(?i:f\\x69)", "fi under (?i)"},
        {"[a[^b\\D]]", "in a [^...] that stands in a class"},
        {"[a[^b[^c]]]", "in a [^...] that stands in a class"},
        {"(?:a*){2}", "{2} behind what may match nothing"},
        {"(?:a|(?:b|c*?)){,3}", "{,3} behind what may match nothing"},
        {"(?:(?=a)|b){2,}", "{2,} behind what may match nothing"},
        {"\\b{2}", "{2} behind what may match nothing"},
        {"\\b.*", ".* behind \\b"},
        {"a|(?=b)(?:.{2,}c)", ".{2,} behind \\b"},
        {"(?:\\b|a).+", ".+ behind \\b"},
        {"(?i)\\p{Ll}", "\\p{Ll} under"},
        {"((((((((((a{1000}){1000}){1000}){1000}){1000}){1000}){1000}){1000}){1000}){1000})", "too large"},
        {"\xFF", "UTF-8"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct qr_err err = {0};
        struct qr_regex *regex;

        assert_int_not_equal(qr_regex_compile(cases[i][0], strlen(cases[i][0]), &regex, &err), QR_OK);
        assert_null(regex);
        if (!strstr(err.message, cases[i][1]))
            fail_msg("%s: %s", cases[i][0], err.message);
    }
}

/* Patterns that backtrack exponentially or quadratically end with an error after a fixed amount of work. */
static void bounded(void **state)
{
    static const char *const pattern[] = {
        "(a+)+[bc]", "(a|aa)+[bc]", "(a*)*[bc]", "\\s+$", "a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a{15}[bc]", "a*a*a*a*a*[bc]"};
    size_t n = 1 << 20;
    char *text = malloc(n);

    (void)state;
    for (size_t i = 0; i < sizeof pattern / sizeof pattern[0]; i++) {
        struct qr_pretok pretok = {0};
        struct qr_regex_state regex;
        struct qr_err err = {0};
        struct qr_buf out;
        clock_t start = clock();

        memset(text, pattern[i][0] == '\\' ? ' ' : 'a', n);
        text[n - 1] = 'x';
        qr_buf_init(&out, 0);
        assert_int_equal(qr_pretok_add_regex(&pretok, pattern[i], strlen(pattern[i]), QR_SPLIT_ISOLATED, false, NULL),
                         QR_OK);
        assert_int_equal(qr_regex_state_init(&regex, 20000000, NULL), QR_OK);
        assert_int_equal(qr_pretok_run(&pretok, text, n, true, &regex, add_word, &out, &err), QR_LIMIT);
        assert_non_null(strstr(err.message, "more steps than allowed"));
        assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 10);
        qr_regex_state_free(&regex);
        qr_pretok_free(&pretok);
        qr_buf_free(&out);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behaviours),      cmocka_unit_test(steps_follow_each_other),
        cmocka_unit_test(refused_by_name), cmocka_unit_test(means_what_oniguruma_means),
        cmocka_unit_test(bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
