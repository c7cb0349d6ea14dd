/* test_model.c - models opened whole, in parts and badly, and the engine on the CPU executor: requests at once equal to
 * each alone, teacher-forced log-probabilities equal to generated ones, stop strings, the ledger. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "ask.h"
#include "base/rand.h"
#include "common/tmp.h"
#include "cuda/cuda.h"
#include "engine/core.h"
#include "engine/model.h"
#include "model/synth.h"

enum { N_REQUEST = 24, MAX_PROMPT = 120 };

static struct qr_model *open_model(const char *path, const struct qr_model_options *options)
{
    struct qr_model *model;
    struct qr_err err;
    if (qr_model_open(path, options, &model, &err) != QR_OK)
        fail_msg("%s: %s", path, err.message);
    return model;
}

static struct qr_engine *make_engine(struct qr_model *model, const struct qr_engine_options *options)
{
    struct qr_engine *engine;
    struct qr_err err;
    if (qr_engine_create(model, options, &engine, &err) != QR_OK)
        fail_msg("%s", err.message);
    return engine;
}

/* A random model on disk with a tokenizer whose ids 0..255 are bytes. Returns its path. */
static const char *write_model(void **state, const char *name)
{
    struct qr_config config;
    struct qr_err err;
    const char *path = tmp_path(state, name);
    assert_int_equal(qr_config_from_shape("tiny-llama", &config, &err), QR_OK);
    if (qr_synth_write(&config, 3, QR_F32, path, 0, false, NULL, NULL, &err) != QR_OK)
        fail_msg("%s", err.message);
    return path;
}

static void make_request(struct qr_request *r, int32_t *ids, int i)
{
    int n = 1 + (int)(qr_rand_uniform(1, 2, (uint32_t)i) * (MAX_PROMPT - 1));
    for (int k = 0; k < n; k++)
        ids[k] = (int32_t)(qr_rand_uniform(2, (uint32_t)i, (uint32_t)k) * 256);
    *r = ask_request(ids, (size_t)n, 5 + i);
    r->sampling.temperature = i % 3 ? 0.9f : 0;
    r->sampling.top_p = i % 4 ? 1 : 0.8f;
    r->sampling.has_seed = true;
    r->sampling.seed = (uint64_t)i;
    r->sampling.logprobs = 2;
    r->sampling.prompt_logprobs = i % 5 ? -1 : 1;
    r->sampling.ignore_eos = true;
}

/* Bit for bit, whatever shares the step, however the prompt is cut, with any number of threads. */
static void at_once_equal_alone(void **state)
{
    static const struct qr_engine_options options[] = {
        {.fuse_mask = -1, .n_thread = 2, .max_model_len = 256, .kv_cache_tokens = 320},
        {.fuse_mask = -1, .n_thread = 1, .max_model_len = 256, .max_num_seqs = 3, .max_num_batched_tokens = 7},
        {.fuse_mask = -1, .n_thread = 3, .max_model_len = 256, .max_num_seqs = 24, .max_num_batched_tokens = 64},
    };
    static struct qr_request request[N_REQUEST];
    static int32_t ids[N_REQUEST][MAX_PROMPT];
    static struct answer alone[N_REQUEST], together[N_REQUEST];
    (void)state;
    struct qr_model *model = open_model("dummy:tiny-llama:F32", NULL);
    struct qr_engine *engine = make_engine(model, NULL);
    assert_int_equal(qr_engine_max_len(engine), 2048);
    for (int i = 0; i < N_REQUEST; i++) {
        make_request(&request[i], ids[i], i);
        ask_alone(engine, &request[i], &alone[i]);
        assert_int_equal(alone[i].n, 5 + i);
    }
    qr_engine_destroy(engine);
    for (int o = 0; o < 3; o++) {
        engine = make_engine(model, &options[o]);
        for (int i = 0; i < N_REQUEST; i++)
            together[i] = (struct answer){.request = ask(engine, &request[i])};
        await_answers(engine, together, N_REQUEST);
        for (int i = 0; i < N_REQUEST; i++) {
            assert_same_answer(&alone[i], &together[i]);
            answer_free(&together[i]);
        }
        qr_engine_destroy(engine);
    }
    for (int i = 0; i < N_REQUEST; i++)
        answer_free(&alone[i]);
    qr_model_close(model);
}

/* Generated, then given as a prompt: the same log-probabilities bit for bit. */
static void forced_equals_generated(void **state)
{
    int32_t ids[MAX_PROMPT];
    struct qr_request r;
    struct answer a, b;
    (void)state;
    struct qr_model *model = open_model("dummy:tiny-qwen2:F32", NULL);
    struct qr_engine *engine = make_engine(model, NULL);
    make_request(&r, ids, 4);
    for (int i = 0; i < 40; i++)
        ids[i] = 7 * i;
    r.n_prompt = 40;
    r.sampling.max_tokens = 60;
    r.sampling.logprobs = 0;
    ask_alone(engine, &r, &a);
    assert_int_equal(a.n, 60);
    memcpy(ids + 40, a.id, 60 * sizeof *ids);
    r = ask_request(ids, 100, 0);
    r.sampling.prompt_logprobs = 0;
    ask_alone(engine, &r, &b);
    assert_int_equal(b.n_prompt, 100);
    assert_memory_equal(b.prompt + 40, a.logprob, 60 * sizeof(float));
    answer_free(&a);
    answer_free(&b);
    qr_engine_destroy(engine);
    qr_model_close(model);
}

static void text_and_stop_strings(void **state)
{
    struct qr_model *model = open_model(write_model(state, "m"), NULL);
    struct qr_engine *engine = make_engine(model, NULL);
    struct answer whole, cut;
    struct qr_err err;
    int32_t *ids;
    size_t n, n_text;
    char *text;
    assert_int_equal(qr_tokenize(model, "hello there", 11, false, false, &ids, &n, &err), QR_OK);
    struct qr_request r = ask_request(ids, n, 120);
    struct qr_logit_bias prefer[6];
    for (int i = 0; i < 6; i++)
        prefer[i] = (struct qr_logit_bias){qr_tokenizer_id(model->tok, &"abcdef"[i], 1), 90};
    r.sampling.temperature = 1;
    r.sampling.has_seed = true;
    r.sampling.seed = 2;
    r.sampling.ignore_eos = true;
    ask_alone(engine, &r, &whole);
    assert_int_equal(whole.n, 120);
    assert_int_equal(qr_detokenize(model, whole.id, (size_t)whole.n, true, &text, &n_text, &err), QR_OK);
    assert_int_equal(n_text, whole.text.len);
    assert_string_equal(text, whole.text.data);
    qr_free(text);
    answer_free(&whole);

    r.sampling.logit_bias = prefer; /* letters, so that a stop string can be picked from the middle */
    r.sampling.n_logit_bias = 6;
    ask_alone(engine, &r, &whole);
    assert_true(whole.text.len > 60);
    char stop[4] = {0};
    memcpy(stop, whole.text.data + 40, 3);
    const char *stops[] = {"never there", stop};
    const char *found = strstr(whole.text.data, stop);
    size_t at = (size_t)(found - whole.text.data);
    r.sampling.stop = stops;
    r.sampling.n_stop = 2;
    ask_alone(engine, &r, &cut);
    assert_int_equal(cut.finish, QR_FINISH_STOP);
    assert_int_equal(cut.text.len, at);
    assert_memory_equal(cut.text.data ? cut.text.data : "", whole.text.data, at);
    assert_true(cut.n < whole.n && memcmp(cut.id, whole.id, (size_t)cut.n * sizeof *cut.id) == 0);
    int n_cut = cut.n;
    answer_free(&cut);
    r.sampling.min_tokens = n_cut + 1; /* not yet: the string is passed over */
    ask_alone(engine, &r, &cut);
    assert_true(cut.n > n_cut && cut.text.len > at + 1);
    answer_free(&cut);
    answer_free(&whole);
    r.sampling.min_tokens = 0;
    stops[0] = "";
    uint64_t id;
    assert_int_equal(qr_engine_submit(engine, &r, &id, &err), QR_INVALID);
    assert_non_null(strstr(err.message, "stop[0]"));
    qr_free(ids);
    qr_engine_destroy(engine);
    qr_model_close(model);
}

/* All lines but what the process itself takes, which grows as tests run. */
static uint64_t without_program(const struct qr_ledger *ledger)
{
    uint64_t sum = 0;
    for (int i = 0; i < ledger->n; i++)
        if (strcmp(ledger->line[i].name, "program") != 0)
            sum += ledger->line[i].bytes;
    return sum;
}

static void parts_of_a_model(void **state)
{
    static const char request[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
    struct qr_model_options only_text = {.tokenizer_only = true}, headers = {.config_only = true};
    struct qr_engine *engine;
    struct qr_ledger ledger;
    struct qr_err err;
    char *prompt, *again;
    size_t n, n_again;
    const char *dir = write_model(state, "m");
    const char *gguf = write_model(state, "m.gguf");
    struct qr_model *whole = open_model(dir, NULL), *text, *head;
    assert_int_equal(qr_chat_prompt(whole, request, &prompt, &n, &err), QR_OK);
    assert_non_null(strstr(prompt, "hi"));
    /* tokenizer's files alone */
    assert_int_equal(remove(tmp_path(state, "m/config.json")), 0);
    assert_int_equal(remove(tmp_path(state, "m/model.safetensors")), 0);
    text = open_model(dir, &only_text);
    assert_int_equal(qr_model_vocab_size(text), qr_tokenizer_n_vocab(whole->tok));
    assert_int_equal(qr_chat_prompt(text, request, &again, &n_again, &err), QR_OK);
    assert_string_equal(prompt, again);
    assert_int_equal(qr_engine_create(text, NULL, &engine, &err), QR_INVALID);
    assert_null(engine);
    qr_free(again);
    qr_model_close(text);
    /* the same from a GGUF file */
    text = open_model(gguf, &only_text);
    assert_int_equal(qr_chat_prompt(text, request, &again, &n_again, &err), QR_OK);
    assert_string_equal(prompt, again);
    qr_free(again);
    qr_model_close(text);
    /* from a directory that holds one, as a whole model is opened from there */
    assert_int_equal(mkdir(tmp_path(state, "one"), 0700), 0);
    assert_int_equal(rename(gguf, tmp_path(state, "one/m.gguf")), 0);
    text = open_model(tmp_path(state, "one"), &only_text);
    assert_int_equal(qr_chat_prompt(text, request, &again, &n_again, &err), QR_OK);
    assert_string_equal(prompt, again);
    qr_free(again);
    qr_model_close(text);
    gguf = write_model(state, "one/n.gguf");
    assert_int_equal(qr_model_open(tmp_path(state, "one"), &only_text, &text, &err), QR_INVALID);
    assert_non_null(strstr(err.message, "2 GGUF files"));
    assert_non_null(strstr(err.message, "/one/m.gguf"));
    /* headers: the account is that of the loaded model */
    head = open_model(gguf, &headers);
    assert_int_equal(qr_engine_create(head, NULL, &engine, &err), QR_INVALID);
    assert_int_equal(qr_model_ledger(head, NULL, &ledger, &err), QR_OK);
    uint64_t total = without_program(&ledger);
    struct qr_model *loaded = open_model(gguf, NULL);
    assert_int_equal(qr_model_ledger(loaded, NULL, &ledger, &err), QR_OK);
    uint64_t text_difference = loaded->text_bytes > head->text_bytes ? loaded->text_bytes - head->text_bytes
                                                                     : head->text_bytes - loaded->text_bytes;
    assert_true(total - head->text_bytes == without_program(&ledger) - loaded->text_bytes && text_difference < 100000);
    assert_true(total > loaded->weights->bytes);
    qr_model_close(loaded);
    qr_model_close(head);
    qr_free(prompt);
    qr_model_close(whole);
}

static void chat_templates(void **state)
{
    static const char request[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
    struct qr_model_options o = {.tokenizer_only = true};
    struct qr_model *model;
    struct qr_err err;
    char *prompt;
    size_t n;
    char dir[256];
    snprintf(dir, sizeof dir, "%s", write_model(state, "m"));
    static const char list[] = "{\"chat_template\":[{\"name\":\"other\",\"template\":\"no\"},"
                               "{\"name\":\"default\",\"template\":\"list {{ messages[0].content }}\"}]}";
    tmp_write(state, "m/tokenizer_config.json", list, strlen(list));
    model = open_model(dir, &o);
    assert_int_equal(qr_chat_prompt(model, request, &prompt, &n, &err), QR_OK);
    assert_string_equal(prompt, "list hi");
    qr_free(prompt);
    qr_model_close(model);
    tmp_write(state, "m/chat_template.jinja", "file {{ messages[0].content }}", 30); /* goes before the config */
    model = open_model(dir, &o);
    assert_int_equal(qr_chat_prompt(model, request, &prompt, &n, &err), QR_OK);
    assert_string_equal(prompt, "file hi");
    qr_free(prompt);
    assert_int_equal(qr_chat_prompt(model, "{\"messages\":", &prompt, &n, &err), QR_FORMAT);
    qr_model_close(model);
    char option[256];
    snprintf(option, sizeof option, "%s", tmp_write(state, "t.jinja", "option {{ messages[0].content }}", 32));
    o.chat_template = option;
    model = open_model(dir, &o);
    assert_int_equal(qr_chat_prompt(model, request, &prompt, &n, &err), QR_OK);
    assert_string_equal(prompt, "option hi");
    qr_free(prompt);
    qr_model_close(model);
    tmp_write(state, "t.jinja", "{% if %}", 8); /* named by the caller: an error at once */
    assert_int_not_equal(qr_model_open(dir, &o, &model, &err), QR_OK);
    assert_null(model);
    o.chat_template = "/nowhere/t.jinja";
    assert_int_equal(qr_model_open(dir, &o, &model, &err), QR_NOTFOUND);
    o.chat_template = NULL;
    tmp_write(state, "m/chat_template.jinja", "{% if %}", 8); /* the model's own: an error when it is used */
    model = open_model(dir, &o);
    assert_int_not_equal(qr_chat_prompt(model, request, &prompt, &n, &err), QR_OK);
    assert_null(prompt);
    qr_model_close(model);
    tmp_write(state, "m/tokenizer.json", "{\"version\"", 10); /* broken: an error at once */
    assert_int_equal(qr_model_open(dir, &o, &model, &err), QR_FORMAT);
    assert_non_null(strstr(err.message, "tokenizer.json"));
}

static void without_a_tokenizer(void **state)
{
    struct qr_model *model = open_model("dummy:tiny-qwen3", NULL);
    struct qr_err err;
    int32_t *ids;
    char *text;
    size_t n;
    (void)state;
    assert_int_equal(qr_tokenize(model, "x", 1, true, true, &ids, &n, &err), QR_NOTFOUND);
    assert_non_null(strstr(err.message, "dummy:tiny-qwen3 has no tokenizer"));
    assert_int_equal(qr_detokenize(model, (int32_t[]){1}, 1, true, &text, &n, &err), QR_NOTFOUND);
    assert_int_equal(qr_chat_prompt(model, "{}", &text, &n, &err), QR_NOTFOUND);
    assert_true(qr_model_vocab_size(model) == 320 && qr_model_max_len(model) == 2048);
    assert_string_equal(qr_model_name(model), "tiny-qwen3");
    struct qr_sampling p;
    qr_sampling_defaults(model, &p);
    assert_true(p.temperature == 1 && p.top_p == 1 && p.top_k <= 0 && p.max_tokens == -1 && p.logprobs == -1);
    qr_model_close(model);
}

static bool count_loading(void *ctx, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    ++*(int *)ctx;
    return true;
}

static void options_that_cannot_be(void **state)
{
    struct qr_model *model = open_model("dummy:tiny-llama", NULL), *none;
    struct qr_engine *engine;
    struct qr_err err;
    static const struct {
        struct qr_engine_options o;
        enum qr_status status;
        const char *word;
    } bad[] = {
        {{.device = "cuda"}, QR_UNSUPPORTED, "CUDA"},
        {{.device = "tpu"}, QR_INVALID, "tpu"},
        {{.isa = "sse9"}, QR_INVALID, "sse9"},
        {{.kv_cache_dtype = "q8_0"}, QR_INVALID, "kv_cache_dtype"},
        {{.kv_cache_dtype = "fp8"}, QR_INVALID, "fp8"},
        {{.n_thread = -1}, QR_INVALID, "n_thread"},
        {{.n_thread = 257}, QR_INVALID, "257"},
        {{.max_model_len = -1}, QR_INVALID, "max_model_len"},
        {{.max_model_len = 2049}, QR_INVALID, "2048"},
        {{.max_num_seqs = -1}, QR_INVALID, "max_num_seqs"},
        {{.max_num_seqs = 5000}, QR_INVALID, "4096"},
        {{.max_num_seqs = 32, .max_num_batched_tokens = 16}, QR_INVALID, "max_num_batched_tokens"},
        {{.max_num_batched_tokens = 1 << 30}, QR_INVALID, "65536"},
        {{.kv_cache_tokens = -5}, QR_INVALID, "kv_cache_tokens"},
        {{.kv_cache_tokens = 1000, .max_model_len = 2048}, QR_LIMIT, "max_model_len"},
        {{.kv_cache_tokens = INT64_MAX}, QR_LIMIT, "lower kv_cache_tokens"},
        {{.fuse_mask = 1 << 20}, QR_INVALID, "fuse_mask"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int n_gpu;
        if (i == 0 && qr_cuda_count(&n_gpu, &err) == QR_OK)
            continue; /* it can be */
        assert_int_equal(qr_engine_create(model, &bad[i].o, &engine, &err), bad[i].status);
        assert_null(engine);
        if (!strstr(err.message, bad[i].word))
            fail_msg("'%s' does not name %s", err.message, bad[i].word);
        /* and before any weight is read, where they are known by then */
        int n_read = 0;
        struct qr_model_options early = {.engine = &bad[i].o, .progress = count_loading, .progress_ctx = &n_read};
        assert_int_equal(qr_model_open("dummy:tiny-llama", &early, &none, &err), bad[i].status);
        assert_true(n_read == 0 && strstr(err.message, bad[i].word));
    }
    /* max_model_len left open follows what is asked for the cache */
    struct qr_engine_options o = {.kv_cache_tokens = 1000, .fuse_mask = -1};
    engine = make_engine(model, &o);
    assert_int_equal(qr_engine_max_len(engine), 1008);
    qr_engine_destroy(engine);
    qr_model_close(model);
    assert_int_equal(qr_model_open(NULL, NULL, &none, &err), QR_INVALID);
    assert_int_equal(qr_model_open("", NULL, &none, &err), QR_INVALID);
    assert_int_equal(qr_model_open("/nowhere/x.gguf", NULL, &none, &err), QR_NOTFOUND);
    assert_int_equal(qr_model_open("dummy:gpt-9", NULL, &none, &err), QR_NOTFOUND);
    struct qr_model_options m = {.n_thread = -3};
    assert_int_equal(qr_model_open("dummy:tiny-llama", &m, &none, &err), QR_INVALID);
    m = (struct qr_model_options){.quantization = "q3", .tokenizer_only = true};
    assert_int_equal(qr_model_open("dummy:tiny-llama", &m, &none, &err), QR_INVALID);
    m = (struct qr_model_options){.tokenizer_only = true};
    assert_int_equal(qr_model_open("/nowhere", &m, &none, &err), QR_NOTFOUND);
    assert_null(none);
}

static bool stop_loading(void *ctx, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    ++*(int *)ctx;
    return false;
}

static void loading_can_be_stopped(void **state)
{
    int called = 0;
    struct qr_model_options o = {.progress = stop_loading, .progress_ctx = &called};
    struct qr_model *model;
    struct qr_err err;
    (void)state;
    assert_int_equal(qr_model_open("dummy:tiny-llama", &o, &model, &err), QR_CANCELLED);
    assert_null(model);
    assert_true(called > 0);
}

/* The file loses all its pages between opening and each thing that is read from it. */
static void gguf_text_shrinks_while_mapped(void **state)
{
    const char *path = write_model(state, "short.gguf");
    struct qr_tokenizer *tok;
    struct qr_model empty = {.path = (char *)(uintptr_t)path};
    struct qr_gguf *gguf;
    struct qr_err err;
    assert_int_equal(qr_gguf_open(path, &gguf, &err), QR_OK);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(qr_tokenizer_from_gguf(gguf, &tok, &err), QR_IO);
    assert_null(tok);
    assert_non_null(strstr(err.message, "shorter"));
    assert_int_equal(qr_model_load_text(&empty, NULL, gguf, NULL, true, &err), QR_IO);
    assert_non_null(strstr(empty.chat_error.message, "shorter"));
    assert_null(empty.chat);
    qr_gguf_close(gguf);
}

/* Weights are copied when they are loaded: a model file cut during an answer changes nothing of it. */
static void file_shrinks_during_decode(void **state)
{
    static const char *const names[] = {"cut.gguf", "cut"};
    static const int32_t ids[] = {72, 101, 108, 108, 111};
    for (int i = 0; i < 2; i++) {
        struct answer whole, cut;
        const char *path = write_model(state, names[i]);
        struct qr_model *model = open_model(path, NULL);
        struct qr_engine *engine = make_engine(model, NULL);
        struct qr_request request = ask_request(ids, 5, 40);
        char file[512];
        request.sampling.ignore_eos = true;
        ask_alone(engine, &request, &whole);
        snprintf(file, sizeof file, "%s%s", path, i ? "/model.safetensors" : "");
        assert_int_equal(truncate(file, 0), 0);
        ask_alone(engine, &request, &cut);
        assert_int_equal(cut.n, 40);
        assert_same_answer(&whole, &cut);
        answer_free(&whole);
        answer_free(&cut);
        qr_engine_destroy(engine);
        qr_model_close(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_once_equal_alone),
        cmocka_unit_test(forced_equals_generated),
        cmocka_unit_test_setup_teardown(text_and_stop_strings, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(parts_of_a_model, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(chat_templates, tmp_setup, tmp_teardown),
        cmocka_unit_test(without_a_tokenizer),
        cmocka_unit_test(options_that_cannot_be),
        cmocka_unit_test(loading_can_be_stopped),
        cmocka_unit_test_setup_teardown(gguf_text_shrinks_while_mapped, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(file_shrinks_during_decode, tmp_setup, tmp_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
