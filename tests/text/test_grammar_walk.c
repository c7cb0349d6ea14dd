/* test_grammar_walk.c - masks against grammars, for tests/conformance/test_grammar.py.
 *
 *     test_grammar_walk TOKENIZER      a tokenizer.json or a GGUF file
 *
 * reads one JSON object a line: {"schema" | "regex" | "choice": ..., "walks": N, "free": N, "seed": N, "accept": [text],
 * "closed": bool, "depth": N} and answers with one: {"error": sentence} or {"texts": [text], "accepted": [null or sentence],
 * and figures}. Without arguments it tries itself on a small vocabulary. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/json.h"
#include "text/gguf_vocab.h"
#include "text/grammar_walk.h"
#include "text/tiny.h"

static enum qr_status compile(const struct qr_grammar_vocab *vocab, const json_t *in, struct qr_grammar **g,
                              struct qr_err *err)
{
    json_t *choice = json_object_get(in, "choice"), *regex = json_object_get(in, "regex");
    struct qr_grammar_limits limits = {.closed_objects = json_is_true(json_object_get(in, "closed")),
                                       .max_depth = (uint32_t)json_integer_value(json_object_get(in, "depth"))};
    size_t n = json_array_size(choice);

    if (choice) {
        const char **text = calloc(n + 1, sizeof *text);
        enum qr_status status;

        for (size_t i = 0; i < n; i++)
            text[i] = json_string_value(json_array_get(choice, i));
        status = qr_grammar_compile_choice(vocab, text, n, &limits, g, err);
        free(text);
        return status;
    }
    if (regex)
        return qr_grammar_compile_regex(vocab, json_string_value(regex), json_string_length(regex), &limits, g, err);
    return qr_grammar_compile_json_schema(vocab, json_object_get(in, "schema"), &limits, g, err);
}

static json_t *draw_texts(struct qr_grammar *g, const json_t *in, struct walk_stats *stats, struct qr_err *err)
{
    json_t *texts = json_array(), *one;
    json_int_t n = json_integer_value(json_object_get(in, "walks"));
    struct walker *w = n ? walker_create(g) : NULL;
    struct qr_buf buf;

    qr_buf_init(&buf, 0);
    for (json_int_t i = 0; texts && i < n; i++) {
        uint64_t seed = (uint64_t)(json_integer_value(json_object_get(in, "seed")) + i);

        qr_buf_clear(&buf);
        if (!walk_text(w, seed, (int)json_integer_value(json_object_get(in, "free")), &buf, stats, err)) {
            fprintf(stderr, "seed %llu: %s, after %.*s\n", (unsigned long long)seed, err->message, (int)buf.len,
                    buf.data ? buf.data : "");
            json_decref(texts);
            texts = NULL;
            break;
        }
        one = json_stringn(buf.data ? buf.data : "", buf.len); /* NULL when it is not UTF-8 */
        if (json_array_append_new(texts, one) != 0) {
            qr_fail(err, QR_INTERNAL, "a text is not well-formed UTF-8");
            json_decref(texts);
            texts = NULL;
        }
    }
    qr_buf_free(&buf);
    if (w)
        walker_destroy(w);
    return texts;
}

/* As the tokenizer writes it, and byte by byte. */
static json_t *check_text(struct qr_grammar *g, const struct qr_tokenizer *tok, const char *s, size_t n)
{
    struct qr_grammar_state *state;
    struct qr_err err = {0};
    int32_t *ids;
    size_t n_id;
    bool ok;

    if (qr_tokenizer_encode(tok, s, n, false, false, &ids, &n_id, &err) != QR_OK)
        return json_string(err.message);
    ok = walk_ids(g, ids, n_id, &err);
    free(ids);
    if (qr_grammar_state_create(g, &state, NULL) != QR_OK)
        return json_string("out of memory");
    if ((qr_grammar_accept_bytes(state, s, n, ok ? &err : NULL) == QR_OK && qr_grammar_may_end(state)) != ok) {
        qr_fail(&err, QR_INTERNAL, "bytes and tokens differ");
        ok = false;
    }
    qr_grammar_state_destroy(state);
    return ok ? json_null() : json_string(err.message);
}

static json_t *answer(const struct qr_grammar_vocab *vocab, const struct qr_tokenizer *tok, const json_t *in)
{
    struct qr_err err = {0};
    struct qr_grammar *g;
    struct walk_stats stats = {0}, warm = {0};
    double start = qr_now_s(), compiled;
    json_t *accepted = json_array(), *texts, *again, *one;
    size_t i;

    if (compile(vocab, in, &g, &err) != QR_OK) {
        json_decref(accepted);
        return json_pack("{s:s,s:f}", "error", err.message, "compile_ms", (qr_now_s() - start) * 1e3);
    }
    compiled = (qr_now_s() - start) * 1e3;
    texts = draw_texts(g, in, &stats, &err);
    again = texts ? draw_texts(g, in, &warm, &err) : NULL; /* masks are kept now, and the texts must be the same */
    json_array_foreach(json_object_get(in, "accept"), i, one)
        json_array_append_new(accepted, check_text(g, tok, json_string_value(one), json_string_length(one)));
    if (texts && !json_equal(texts, again))
        qr_fail(&err, QR_INTERNAL, "the second walk differs from the first");
    json_decref(again);
    one = json_pack("{s:o?,s:o,s:f,s:I,s:I,s:f,s:f,s:f,s:f,s:I}", "texts", texts, "accepted", accepted, "compile_ms",
                    compiled, "masks", (json_int_t)stats.masks, "cold", (json_int_t)stats.cold, "mask_us",
                    stats.masks ? stats.total_us / (double)stats.masks : 0, "worst_us", stats.worst_us, "warm_us",
                    warm.masks ? warm.total_us / (double)warm.masks : 0, "warm_worst_us", warm.worst_us, "bytes",
                    (json_int_t)qr_grammar_bytes(g));
    if (err.message[0])
        json_object_set_new(one, "failed", json_string(err.message));
    qr_grammar_destroy(g);
    return one;
}

static int serve(const struct qr_tokenizer *tok)
{
    struct qr_grammar_vocab *vocab;
    struct qr_err err = {0};
    int32_t end = qr_tokenizer_eos(tok) >= 0 ? qr_tokenizer_eos(tok) : qr_tokenizer_id(tok, "<|im_end|>", 10);
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    double start = qr_now_s();

    if (qr_grammar_vocab_create(tok, 0, &end, end >= 0, &vocab, &err) != QR_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    fprintf(stderr, "vocabulary of %d: trie in %.0f ms, %zu KB\n", qr_tokenizer_n_vocab(tok),
            (qr_now_s() - start) * 1e3, qr_grammar_vocab_bytes(vocab) / 1024);
    while ((n = getline(&line, &room, stdin)) > 0) {
        json_t *in = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        json_t *out = in ? answer(vocab, tok, in) : json_pack("{s:s}", "error", "driver: no JSON");
        char *text = json_dumps(out, JSON_COMPACT | JSON_ENCODE_ANY);

        puts(text ? text : "{\"error\":\"driver: no answer\"}");
        fflush(stdout);
        free(text);
        json_decref(out);
        json_decref(in);
    }
    free(line);
    qr_grammar_vocab_destroy(vocab);
    return 0;
}

static int serve_file(const char *path)
{
    struct qr_tokenizer *tok = NULL;
    struct gguf_vocab *gguf = NULL;
    struct qr_err err = {0};
    int rc = 1;

    if (strlen(path) > 5 && strcmp(path + strlen(path) - 5, ".gguf") == 0) {
        gguf = read_gguf_vocab(path);
        if (gguf && qr_tokenizer_from_spec(&gguf->spec, &tok, &err) == QR_OK)
            rc = serve(tok);
    } else {
        struct qr_map map;

        if (qr_map_open(path, &map, &err) == QR_OK) {
            if (qr_tokenizer_from_json((const char *)map.data, map.size, NULL, 0, &tok, &err) == QR_OK)
                rc = serve(tok);
            qr_map_close(&map);
        }
    }
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    qr_tokenizer_destroy(tok);
    if (gguf)
        free_gguf_vocab(gguf);
    return rc;
}

static void answers_by_itself(void **state)
{
    struct qr_tokenizer *tok = tiny_tokenizer(NULL, 0, NULL, NULL);
    struct qr_grammar_vocab *vocab;
    json_t *in = json_pack("{s:{s:s},s:i,s:i,s:[s,s]}", "schema", "type", "boolean", "walks", 3, "free", 10, "accept",
                           "true", "maybe"),
           *out;

    (void)state;
    assert_int_equal(qr_grammar_vocab_create(tok, 0, NULL, 0, &vocab, NULL), QR_OK);
    out = answer(vocab, tok, in);
    assert_int_equal(json_array_size(json_object_get(out, "texts")), 3);
    assert_true(json_is_null(json_array_get(json_object_get(out, "accepted"), 0)));
    assert_true(json_is_string(json_array_get(json_object_get(out, "accepted"), 1)));
    json_decref(in);
    json_decref(out);
    qr_grammar_vocab_destroy(vocab);
    qr_tokenizer_destroy(tok);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers_by_itself)};

    if (argc > 1)
        return serve_file(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
