/* test_tokenizer_json.c - what a tokenizer.json says: added tokens, templates, refusals by name, hostile files. The
 * ids of real tokenizers are compared in tests/conformance/test_tokenizer.py. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "text/tiny.h"

static struct qr_tokenizer *with_tokens(const char *tokens)
{
    char more[1024];

    snprintf(more, sizeof more, "\"added_tokens\":[%s]", tokens);
    return tiny_tokenizer(NULL, 0, NULL, more);
}

/* Expected ids from the tokenizers package 0.23.3 with the same tokens. */
static void added_tokens(void **state)
{
    struct qr_tokenizer *tok =
        with_tokens("{\"id\":256,\"content\":\"<a>\",\"special\":true,\"normalized\":false},"
                    "{\"id\":257,\"content\":\"<ab>\",\"special\":false,\"normalized\":false},"
                    "{\"id\":258,\"content\":\"wo\",\"single_word\":true,\"special\":false,\"normalized\":true},"
                    "{\"id\":259,\"content\":\"L!\",\"lstrip\":true,\"special\":false,\"normalized\":false},"
                    "{\"id\":260,\"content\":\"R!\",\"rstrip\":true,\"special\":false,\"normalized\":false},"
                    "{\"id\":261,\"content\":\"<a><a>\",\"special\":false,\"normalized\":false},"
                    "{\"id\":262,\"content\":\"\\n\\n\",\"special\":false,\"normalized\":false}");
    int32_t decoded[] = {256, 'x', 257};
    char *text;
    size_t n;

    (void)state;
    assert_encodes(tok, "x<a>y", TINY_SPECIAL, IDS('x', 256, 'y'));
    assert_encodes(tok, "x<a>y", TINY_PLAIN, IDS('x', '<', 'a', '>', 'y'));
    assert_encodes(tok, "x<ab>y", TINY_PLAIN, IDS('x', 257, 'y'));
    assert_encodes(tok, "<a><a><a>", TINY_SPECIAL, IDS(261, 256)); /* the longest of the leftmost */
    assert_encodes(tok, "wo", TINY_PLAIN, IDS(258));
    assert_encodes(tok, "two wo, wo_", TINY_PLAIN, IDS('t', 'w', 'o', ' ', 258, ',', ' ', 'w', 'o', '_'));
    assert_encodes(tok, "a \n\u3000L! b", TINY_PLAIN, IDS('a', 259, ' ', 'b'));
    assert_encodes(tok, "a R! \tb", TINY_PLAIN, IDS('a', ' ', 260, 'b'));
    assert_encodes(tok, "R! L!", TINY_PLAIN, IDS(260, 259));
    assert_encodes(tok, "R!\n\nx", TINY_PLAIN, IDS(260, 262, 'x')); /* taken along, and a token all the same */
    assert_encodes(tok, "", TINY_SPECIAL, IDS(-1));

    assert_int_equal(qr_tokenizer_n_vocab(tok), 263);
    assert_int_equal(qr_tokenizer_id(tok, "<ab>", 4), 257);
    assert_int_equal(qr_tokenizer_id(tok, "q", 1), 'q');
    assert_int_equal(qr_tokenizer_id(tok, "qq", 2), -1);
    assert_true(qr_tokenizer_is_special(tok, 256));
    assert_false(qr_tokenizer_is_special(tok, 257));
    assert_int_equal(qr_tokenizer_decode(tok, decoded, 3, true, &text, &n, NULL), QR_OK);
    assert_string_equal(text, "x<ab>");
    free(text);
    assert_int_equal(qr_tokenizer_decode(tok, decoded, 3, false, &text, &n, NULL), QR_OK);
    assert_string_equal(text, "<a>x<ab>");
    free(text);
    decoded[1] = 263;
    assert_int_equal(qr_tokenizer_decode(tok, decoded, 3, false, &text, &n, NULL), QR_INVALID);
    assert_null(text);
    qr_tokenizer_destroy(tok);
}

#define ADDED_S                                                                                                        \
    "\"added_tokens\":[{\"id\":256,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"                        \
    "{\"id\":257,\"content\":\"</s>\",\"special\":true,\"normalized\":false}]"
#define TEMPLATE                                                                                                       \
    ",\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},"                             \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"                  \
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],"                                                        \
    "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[256],\"tokens\":[\"<s>\"]}}}]}"

static void assert_around(const char *more, const char *config, int32_t front, int32_t back)
{
    char *json = tiny_json(NULL, 0, NULL, more);
    struct qr_tokenizer *tok;
    struct qr_err err = {0};
    int32_t *ids;
    size_t n, at = 0;

    if (qr_tokenizer_from_json(json, strlen(json), config, config ? strlen(config) : 0, &tok, &err))
        fail_msg("%s", err.message);
    assert_int_equal(qr_tokenizer_encode(tok, "x", 1, true, true, &ids, &n, NULL), QR_OK);
    if (front >= 0)
        assert_int_equal(ids[at++], front);
    assert_int_equal(ids[at++], 'x');
    if (back >= 0)
        assert_int_equal(ids[at++], back);
    assert_int_equal(n, at);
    free(ids);
    assert_encodes(tok, "x", TINY_SPECIAL, IDS('x'));
    qr_tokenizer_destroy(tok);
    free(json);
}

static void tokens_around_the_text(void **state)
{
    (void)state;
    assert_around(ADDED_S, NULL, -1, -1);
    assert_around(ADDED_S TEMPLATE, NULL, 256, -1);
    assert_around(ADDED_S TEMPLATE, "{\"bos_token\":\"<s>\"}", 256, -1);
    assert_around(ADDED_S TEMPLATE, "{\"bos_token\":\"<s>\",\"add_bos_token\":true}", 256, -1);
    assert_around(ADDED_S TEMPLATE, "{\"bos_token\":\"<s>\",\"add_bos_token\":false}", -1, -1);
    assert_around(ADDED_S, "{\"bos_token\":{\"content\":\"<s>\"},\"add_bos_token\":true}", 256, -1);
    assert_around(ADDED_S, "{\"eos_token\":\"</s>\",\"add_eos_token\":true,\"add_bos_token\":null}", -1, 257);
    assert_around(ADDED_S, "{\"bos_token\":null,\"eos_token\":\"no such\"}", -1, -1);
}

static void config_adds_tokens(void **state)
{
    static const char config[] = "{\"added_tokens_decoder\":{\"300\":{\"content\":\"<new>\",\"special\":true},"
                                 "\"257\":{\"content\":\"</s>\",\"special\":false}},\"eos_token\":\"<new>\"}";
    char *json = tiny_json(NULL, 0, NULL, ADDED_S);
    struct qr_tokenizer *tok;
    size_t n;

    (void)state;
    assert_int_equal(qr_tokenizer_from_json(json, strlen(json), config, strlen(config), &tok, NULL), QR_OK);
    assert_encodes(tok, "<new></s>", TINY_SPECIAL, IDS(300, 257));
    assert_encodes(tok, "</s>", TINY_PLAIN, IDS(257)); /* no longer special */
    assert_int_equal(qr_tokenizer_eos(tok), 300);
    assert_int_equal(qr_tokenizer_bos(tok), -1);
    assert_int_equal(qr_tokenizer_n_vocab(tok), 301);
    assert_null(qr_tokenizer_bytes(tok, 299, &n)); /* a hole */
    assert_int_equal(n, 0);
    qr_tokenizer_destroy(tok);
    free(json);
}

static void assert_refused(const char *json, size_t n, const char *config, const char *why)
{
    struct qr_tokenizer *tok;
    struct qr_err err = {0};

    if (qr_tokenizer_from_json(json, n, config, config ? strlen(config) : 0, &tok, &err) == QR_OK)
        fail_msg("accepted: %.*s", (int)(n < 200 ? n : 200), json);
    assert_null(tok);
    if (!strstr(err.message, why))
        fail_msg("\"%s\" is not in: %s", why, err.message);
}

static void refused_parts(void **state)
{
    static const char *const cases[][3] = {
        /* members of the model, other members, what the error names */
        {"\"dropout\":0.1", NULL, "dropout"},
        {"\"byte_fallback\":true", NULL, "byte_fallback"},
        {"\"end_of_word_suffix\":\"</w>\"", NULL, "end_of_word_suffix"},
        {"\"continuing_subword_prefix\":\"##\"", NULL, "continuing_subword_prefix"},
        {"\"unk_token\":\"<unk>\"", NULL, "<unk>"},
        {"\"ignore_merges\":1", NULL, "ignore_merges"},
        {NULL, "\"normalizer\":{\"type\":\"Nmt\"}", "Nmt"},
        {NULL, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"StripAccents\"}]}", "StripAccents"},
        {NULL, "\"normalizer\":{}", "\"type\""},
        {NULL, "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}", "BertPreTokenizer"},
        {NULL, "\"pre_tokenizer\":null", "ByteLevel"},
        {NULL, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}",
         "closing"},
        {NULL, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Foo\"}", "Foo"},
        {NULL, "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Removed\"}", "pattern"},
        {NULL, "\"post_processor\":{\"type\":\"BertProcessing\"}", "BertProcessing"},
        {NULL, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}", "Sequence"},
        {NULL, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"q\"}}]}",
         "\"q\""},
        {NULL,
         "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"q\"}}],"
         "\"special_tokens\":{\"q\":{\"ids\":[256]}}}",
         "outside the vocabulary"},
        {NULL, "\"added_tokens\":[{\"content\":\"x\"}]", "\"id\""},
        {NULL, "\"added_tokens\":[{\"id\":300}]", "content"},
        {NULL, "\"added_tokens\":[{\"id\":-1,\"content\":\"x\"}]", "-1"},
        {NULL, "\"added_tokens\":[{\"id\":2147483647,\"content\":\"<x>\"}]", "2147483647"},
        {NULL, "\"added_tokens\":[{\"id\":5,\"content\":\"a\"}]", "97"},
        {NULL, "\"added_tokens\":[{\"id\":97,\"content\":\"<x>\"}]", "same id 97"},
        {NULL, "\"added_tokens\":[{\"id\":300,\"content\":\"<x>\"},{\"id\":301,\"content\":\"<x>\"}]", "<x>"},
        {NULL, "\"added_tokens\":{}", "list"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *json = tiny_json(NULL, 0, cases[i][0], cases[i][1]);

        assert_refused(json, strlen(json), NULL, cases[i][2]);
        free(json);
    }
}

#define REST                                                                                                           \
    "},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"                     \
    "\"decoder\":{\"type\":\"ByteLevel\"}}"

static void refused_files(void **state)
{
    static const char *const cases[][2] = {
        {"", "JSON"},
        {"[]", "object"},
        {"{}", "model"},
        {"{\"model\":{\"type\":\"WordPiece\"}}", "WordPiece"},
        {"{\"model\":{\"type\":\"Unigram\"}}", "Unigram"},
        {"{\"model\":{\"type\":\"Unigram\"" REST, "Unigram"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "vocab"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "token 0"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]}}", "unk_id"},
        {"{\"model\":{\"type\":\"BPE\"" REST, "vocab"},
        {"{\"model\":{\"vocab\":{},\"merges\":[]" REST, "no tokens"},
        {"{\"model\":{\"vocab\":[],\"merges\":[]" REST, "vocab"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":\"a a\"" REST, "no list"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":{\"a\":\"a\"}" REST, "no list"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":5" REST, "no list"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]" REST, "twice"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"\\u0061\":1},\"merges\":[]" REST, "twice"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]" REST, "same id 0"},
        {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]" REST, "-1"},
        {"{\"model\":{\"vocab\":{\"a\":4194304},\"merges\":[]" REST, "4194304"},
        {"{\"model\":{\"vocab\":{\"a\":99999999999999999999999},\"merges\":[]" REST, "must be 0 to"},
        {"{\"model\":{\"vocab\":{\"a\":1.5},\"merges\":[]" REST, "integer"},
        {"{\"model\":{\"vocab\":{\"a\":\"1\"},\"merges\":[]" REST, "integer"},
        {"{\"model\":{\"vocab\":{\"a\":01},\"merges\":[]" REST, "integer"},
        {"{\"model\":{\"vocab\":{\"a\" 1},\"merges\":[]" REST, "colon"},
        {"{\"model\":{\"vocab\":{\"\\ud800\":1},\"merges\":[]" REST, "escape"},
        {"{\"model\":{\"vocab\":{\"\\q\":1},\"merges\":[]" REST, "escape"},
        {"{\"model\":{\"vocab\":{\"\xFF\":1},\"merges\":[]" REST, "UTF-8"},
        {"{\"model\":{\"vocab\":{\"a\nb\":1},\"merges\":[]" REST, "control character"},
        {"{\"model\":{\"vocab\":{\"a\":0,},\"merges\":[]" REST, "string was expected"},
        {"{\"model\":{\"vocab\":{\"a\":0} \"merges\":[]" REST, "JSON"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]" REST, "product"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"ab\":1},\"merges\":[\"a b\"]" REST, "right part"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]" REST, "one space"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b c\"]" REST, "one space"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]" REST, "two parts"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"b\",\"c\"]]" REST, "two parts"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[1]" REST, "string was expected"},
        {"{\"model\":{\"vocab\":{\"\":0,\"a\":1},\"merges\":[[\"\",\"a\"]]" REST, "empty part"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(cases[i][0], strlen(cases[i][0]), NULL, cases[i][1]);
}

static void refused_configs(void **state)
{
    static const char *const cases[][2] = {
        {"[]", "object"},
        {"{", "tokenizer_config.json"},
        {"{\"bos_token\":5}", "bos_token"},
        {"{\"add_bos_token\":true}", "add_bos_token"},
        {"{\"added_tokens_decoder\":{\"-1\":{\"content\":\"x\"}}}", "-1"},
        {"{\"added_tokens_decoder\":{\"99999999999999999999\":{\"content\":\"x\"}}}", "99999999999999999999"},
        {"{\"added_tokens_decoder\":{\"300\":{\"content\":\"a\"}}}", "97"},
        {"{\"added_tokens_decoder\":[]}", "added_tokens_decoder"},
    };
    char *json = tiny_json(NULL, 0, NULL, NULL);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(json, strlen(json), cases[i][0], cases[i][1]);
    free(json);
}

/* A token of 1 MB in the vocabulary is fine; as an added token it is refused, an empty one is left out. */
static void huge_and_empty_tokens(void **state)
{
    size_t n = 1 << 20;
    char *json = malloc(n + 1024);
    struct qr_tokenizer *tok;
    int at = sprintf(json, "{\"model\":{\"vocab\":{\"a\":0,\"");

    (void)state;
    memset(json + at, 'a', n);
    strcpy(json + at + n, "\":1},\"merges\":[]" REST);
    assert_int_equal(qr_tokenizer_from_json(json, strlen(json), NULL, 0, &tok, NULL), QR_OK);
    assert_encodes(tok, "aa", TINY_PLAIN, IDS(0, 0));
    qr_tokenizer_destroy(tok);

    at = sprintf(json, "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":[{\"id\":1,\"content\":\"");
    memset(json + at, 'a', n);
    strcpy(json + at + n, "\"}],\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"decoder\":{\"type\":\"ByteLevel\"}}");
    assert_refused(json, strlen(json), NULL, "limit of 1024");
    free(json);

    tok = with_tokens("{\"id\":300,\"content\":\"\"}");
    assert_encodes(tok, "a", TINY_PLAIN, IDS('a'));
    assert_int_equal(qr_tokenizer_n_vocab(tok), 256);
    qr_tokenizer_destroy(tok);
}

/* The worst text for added tokens: all but the last character of a long one again and again. */
static void matching_is_bounded(void **state)
{
    char token[1100], more[1300], *text;
    struct qr_tokenizer *tok;
    size_t n = 1 << 17, n_ids;
    clock_t start;
    int32_t *ids;

    (void)state;
    memset(token, 'a', 1023);
    strcpy(token + 1023, "b");
    snprintf(more, sizeof more, "\"added_tokens\":[{\"id\":300,\"content\":\"%s\"}]", token);
    tok = tiny_tokenizer(NULL, 0, NULL, more);
    text = malloc(n);
    memset(text, 'a', n);
    text[n - 1] = 'b';
    start = clock();
    assert_int_equal(qr_tokenizer_encode(tok, text, n, true, false, &ids, &n_ids, NULL), QR_OK);
    assert_int_equal(n_ids, n - 1024 + 1);
    assert_int_equal(ids[n_ids - 1], 300);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 30);
    free(ids);
    free(text);
    qr_tokenizer_destroy(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(added_tokens),          cmocka_unit_test(tokens_around_the_text),
        cmocka_unit_test(config_adds_tokens),    cmocka_unit_test(refused_parts),
        cmocka_unit_test(refused_files),         cmocka_unit_test(refused_configs),
        cmocka_unit_test(huge_and_empty_tokens), cmocka_unit_test(matching_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
