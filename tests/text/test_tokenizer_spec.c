/* test_tokenizer_spec.c - tokenizers of GGUF files: names, token types, and the default model's prompts. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "common/tmp.h"
#include "text/bytelevel.h"
#include "text/gguf_vocab.h"
#include "text/tiny.h"
#include "text/utf8.h"

/* 256 bytes, then these tokens. */
struct vocab {
    struct qr_vocab_piece token[300], merge[8];
    int32_t type[300];
    char letters[256][4];
    struct qr_vocab_spec spec;
};

static void add(struct vocab *v, const char *text, int32_t type)
{
    v->type[v->spec.n_token] = type;
    v->token[v->spec.n_token++] = (struct qr_vocab_piece){text, strlen(text)};
}

static void add_merge(struct vocab *v, const char *text)
{
    v->merge[v->spec.n_merge++] = (struct qr_vocab_piece){text, strlen(text)};
}

static struct vocab *new_vocab(const char *pre)
{
    struct vocab *v = calloc(1, sizeof *v);

    v->spec = (struct qr_vocab_spec){
        .model = "gpt2", .pre = pre, .token = v->token, .type = v->type, .merge = v->merge, .bos = -1, .eos = -1};
    for (int b = 0; b < 256; b++) {
        struct qr_buf letter;

        qr_buf_init(&letter, 0);
        qr_utf8_put(&letter, qr_byte_letter((unsigned char)b));
        memcpy(v->letters[b], letter.data, letter.len);
        qr_buf_free(&letter);
        add(v, v->letters[b], 1);
    }
    return v;
}

static struct qr_tokenizer *load(const struct vocab *v)
{
    struct qr_tokenizer *tok = NULL;
    struct qr_err err = {0};

    if (qr_tokenizer_from_spec(&v->spec, &tok, &err) != QR_OK)
        fail_msg("%s", err.message);
    return tok;
}

static void token_types(void **state)
{
    struct vocab *v = new_vocab("gpt-2");
    struct qr_tokenizer *tok;
    size_t n;

    (void)state;
    add(v, "<ctl>", 3);
    add(v, "<usr>", 4);
    add(v, "<unk>", 2);
    add(v, "[PAD]", 5);
    add(v, "  ", 4); /* plain text, though a merge makes it */
    add_merge(v, "\u0120 \u0120");
    tok = load(v);
    assert_encodes(tok, "<ctl>", TINY_SPECIAL, IDS(256));
    assert_encodes(tok, "<ctl>", TINY_PLAIN, IDS('<', 'c', 't', 'l', '>'));
    assert_encodes(tok, "a<usr>", TINY_PLAIN, IDS('a', 257));
    assert_encodes(tok, "<unk>", TINY_SPECIAL, IDS(258));
    assert_encodes(tok, "[PAD]", TINY_SPECIAL, IDS('[', 'P', 'A', 'D', ']'));
    assert_encodes(tok, "a   b", TINY_PLAIN, IDS('a', 260, ' ', 'b'));
    assert_true(qr_tokenizer_is_special(tok, 256));
    assert_false(qr_tokenizer_is_special(tok, 257));
    assert_memory_equal(qr_tokenizer_bytes(tok, 260, &n), "  ", 2);
    assert_memory_equal(qr_tokenizer_bytes(tok, 0xC3, &n), "\xC3", 1);
    assert_int_equal(n, 1);
    qr_tokenizer_destroy(tok);
    free(v);
}

static void bos_and_eos(void **state)
{
    struct vocab *v = new_vocab("llama-bpe");
    struct qr_tokenizer *tok;

    (void)state;
    add(v, "<bos>", 3);
    add(v, "<eos>", 3);
    v->spec.bos = 256;
    v->spec.eos = 257;
    tok = load(v); /* Llama 3 begins with it unless the file says no */
    assert_encodes(tok, "x", TINY_AROUND, IDS(256, 'x'));
    assert_encodes(tok, "x", TINY_PLAIN, IDS('x'));
    assert_int_equal(qr_tokenizer_bos(tok), 256);
    assert_int_equal(qr_tokenizer_eos(tok), 257);
    qr_tokenizer_destroy(tok);
    v->spec.add_bos_known = true;
    v->spec.add_eos = true;
    tok = load(v);
    assert_encodes(tok, "x", TINY_AROUND, IDS('x', 257));
    qr_tokenizer_destroy(tok);
    v->spec.pre = "qwen2";
    v->spec.add_bos_known = v->spec.add_eos = false;
    tok = load(v);
    assert_encodes(tok, "x", TINY_AROUND, IDS('x'));
    qr_tokenizer_destroy(tok);
    free(v);
}

static void ignore_merges(void **state)
{
    struct vocab *v = new_vocab("llama-bpe");
    struct qr_tokenizer *tok;

    (void)state;
    add(v, "abc", 1);
    tok = load(v);
    assert_encodes(tok, "abc", TINY_PLAIN, IDS(256));
    qr_tokenizer_destroy(tok);
    v->spec.ignore_merges_known = true;
    tok = load(v);
    assert_encodes(tok, "abc", TINY_PLAIN, IDS('a', 'b', 'c'));
    qr_tokenizer_destroy(tok);
    free(v);
}

static void every_known_name(void **state)
{
    static const char *const names[] = {"smollm",         "gpt-2",           "llama-bpe", "llama3",
                                        "llama-v3",       "qwen2",           "qwen35",    "deepseek-llm",
                                        "deepseek-coder", "deepseek-v3",     "falcon",    "starcoder",
                                        "refact",         "command-r",       "tekken",    "dbrx",
                                        "smaug-bpe",      "exaone",          "olmo",      "mpt",
                                        "jina-v2-es",     "bloom",           "viking",    "gpt-4o",
                                        "seed-coder",     "deepseek-r1-qwen"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct vocab *v = new_vocab(names[i]);
        struct qr_tokenizer *tok = load(v);

        assert_encodes(tok, "a b", TINY_PLAIN, IDS('a', ' ', 'b'));
        qr_tokenizer_destroy(tok);
        free(v);
    }
}

static void assert_refused(const struct vocab *v, const char *why)
{
    struct qr_tokenizer *tok;
    struct qr_err err = {0};

    assert_int_not_equal(qr_tokenizer_from_spec(&v->spec, &tok, &err), QR_OK);
    assert_null(tok);
    if (!strstr(err.message, why))
        fail_msg("\"%s\" is not in: %s", why, err.message);
}

static void refused_by_name(void **state)
{
    struct vocab *v = new_vocab("no-such-pre");

    (void)state;
    assert_refused(v, "\"no-such-pre\"");
    assert_refused(v, "smollm"); /* the list of those that are known */
    v->spec.pre = "smol";
    assert_refused(v, "\"smol\"");
    v->spec.pre = "";
    assert_refused(v, "\"\"");
    v->spec.pre = "gpt-2 phi-2";
    assert_refused(v, "is not known");
    v->spec.pre = "default";
    assert_refused(v, "\"default\"");
    v->spec.pre = NULL;
    assert_refused(v, "no tokenizer.ggml.pre");
    v->spec.pre = "gpt-2";
    v->spec.model = "llama";
    assert_refused(v, "\"llama\"");
    free(v);
}

static void refused_contents(void **state)
{
    struct vocab *v = new_vocab("gpt-2");

    (void)state;
    add_merge(v, "a b");
    assert_refused(v, "product");
    v->merge[0] = (struct qr_vocab_piece){"ab", 2};
    assert_refused(v, "space between");
    v->merge[0] = (struct qr_vocab_piece){"", 0};
    assert_refused(v, "space between");
    v->merge[0] = (struct qr_vocab_piece){"a \xFF", 3};
    assert_refused(v, "merge 0");
    v->spec.n_merge = 0;
    add(v, "a", 1);
    assert_refused(v, "twice");
    v->token[256] = (struct qr_vocab_piece){"\xC3", 1};
    assert_refused(v, "UTF-8");
    v->token[256] = (struct qr_vocab_piece){"q", 1};
    v->type[256] = 9;
    assert_refused(v, "is 9");
    v->spec.n_token = 256;
    v->spec.eos = 256;
    assert_refused(v, "256");
    v->spec.eos = -2;
    assert_refused(v, "-2");
    v->spec.eos = -1;
    v->spec.add_bos = true;
    assert_refused(v, "bos");
    v->spec.add_bos = false;
    v->spec.n_token = 0;
    assert_refused(v, "no tokens");
    free(v);
}

/* llama.cpp's ids of the default model's prompts. */
static void default_model_prompts(void **state)
{
    const char *expected = shared_path("expected/smollm2_greedy.json"), *model = default_model_path();
    struct gguf_vocab *vocab;
    struct qr_tokenizer *tok;
    struct qr_err err = {0};
    json_t *root, *item;
    size_t i;

    (void)state;
    if (!expected || !model) {
        print_message("skipped: no outside values or no default model here\n");
        skip();
    }
    vocab = read_gguf_vocab(model);
    assert_int_equal(vocab->spec.n_token, 49152);
    if (qr_tokenizer_from_spec(&vocab->spec, &tok, &err))
        fail_msg("%s", err.message);
    free_gguf_vocab(vocab);
    assert_int_equal(qr_json_file(expected, 1 << 24, &root, &err), QR_OK);
    json_array_foreach(json_object_get(root, "results"), i, item)
    {
        const char *text = json_string_value(json_object_get(item, "prompt_text"));
        const json_t *want = json_object_get(item, "prompt_ids");
        const json_t *answer = json_object_get(item, "output_ids");
        int32_t *ids, *output = malloc((json_array_size(answer) + 1) * sizeof *output);
        size_t n, n_text;
        char *shown;

        assert_int_equal(qr_tokenizer_encode(tok, text, strlen(text), true, true, &ids, &n, &err), QR_OK);
        assert_int_equal(n, json_array_size(want));
        for (size_t k = 0; k < n; k++)
            assert_int_equal(ids[k], json_integer_value(json_array_get(want, k)));
        assert_int_equal(qr_tokenizer_decode(tok, ids, n, false, &shown, &n_text, &err), QR_OK);
        assert_string_equal(shown, text);
        free(shown);
        free(ids);
        for (size_t k = 0; k < json_array_size(answer); k++)
            output[k] = (int32_t)json_integer_value(json_array_get(answer, k));
        assert_int_equal(qr_tokenizer_decode(tok, output, json_array_size(answer), true, &shown, &n_text, &err), QR_OK);
        assert_string_equal(shown, json_string_value(json_object_get(item, "output_text")));
        free(shown);
        free(output);
    }
    assert_true(i > 0);
    json_decref(root);
    qr_tokenizer_destroy(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_types),           cmocka_unit_test(bos_and_eos),     cmocka_unit_test(ignore_merges),
        cmocka_unit_test(every_known_name),      cmocka_unit_test(refused_by_name), cmocka_unit_test(refused_contents),
        cmocka_unit_test(default_model_prompts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
