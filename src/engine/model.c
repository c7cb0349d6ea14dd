/* model.c - opening a model: source, weights, recorded plan, tokenizer and chat template under one roof. */
#include "engine/model.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/json.h"
#include "engine/setup.h"
#include "model/hub.h"

static void add_eos(struct qr_model *model, int32_t id)
{
    for (int i = 0; i < model->n_eos; i++)
        if (model->eos[i] == id)
            return;
    if (id >= 0 && model->n_eos < QR_MAX_EOS)
        model->eos[model->n_eos++] = id;
}

static void gather_eos(struct qr_model *model)
{
    for (int i = 0; i < model->config.n_eos; i++)
        add_eos(model, model->config.eos[i]);
    if (model->tok)
        add_eos(model, qr_tokenizer_eos(model->tok));
}

static void name_after_path(struct qr_model *model)
{
    size_t n = strlen(model->path);
    while (n > 1 && model->path[n - 1] == '/')
        n--;
    size_t from = n;
    while (from > 0 && model->path[from - 1] != '/')
        from--;
    n = n - from < sizeof(model->config.name) ? n - from : sizeof(model->config.name) - 1;
    memcpy(model->config.name, model->path + from, n);
    model->config.name[n] = '\0';
}

static enum qr_status text_of_gguf(struct qr_model *model, const char *path, const char *template_path,
                                   struct qr_err *err)
{
    struct qr_gguf *gguf;
    QR_TRY(qr_gguf_open(path, &gguf, err));
    enum qr_status status = qr_model_load_text(model, NULL, gguf, template_path, true, err);
    qr_gguf_close(gguf);
    return status;
}

static enum qr_status text_of_dir(struct qr_model *model, const char *dir, const char *template_path,
                                  struct qr_err *err)
{
    char *path;
    QR_TRY(qr_source_gguf_inside(dir, &path, err));
    enum qr_status status = path ? text_of_gguf(model, path, template_path, err)
                                 : qr_model_load_text(model, dir, NULL, template_path, true, err);
    free(path);
    return status;
}

/* A directory needs nothing but its tokenizer's files here, a GGUF file no tensors. */
static enum qr_status open_text_only(struct qr_model *model, const char *path, const struct qr_model_options *o,
                                     struct qr_err *err)
{
    struct stat st;
    QR_TRY(qr_quantise_check(o->quantization, err));
    name_after_path(model);
    if (strncmp(path, "dummy:", 6) == 0)
        return qr_model_load_text(model, NULL, NULL, o->chat_template, true, err);
    if (stat(path, &st) != 0) {
        if (errno != ENOENT || !qr_hub_is_repo(path))
            return qr_fail_errno(err, "cannot open model %s", path);
        char *dir;
        QR_TRY(qr_hub_find(path, &dir, err));
        enum qr_status status = text_of_dir(model, dir, o->chat_template, err);
        free(dir);
        return status;
    }
    if (S_ISDIR(st.st_mode))
        return text_of_dir(model, path, o->chat_template, err);
    return text_of_gguf(model, path, o->chat_template, err);
}

/* The model as its headers tell it, for as long as it takes to see whether the engine could be made and would fit. */
static enum qr_status check_engine(struct qr_model *model, const struct qr_engine_options *engine, struct qr_err *err)
{
    struct qr_model headers = {
        .path = model->path, .config = model->config, .source = model->source, .headers_only = true};
    enum qr_status status = qr_weights_load(headers.source, true, NULL, NULL, NULL, &headers.weights, err);
    if (status == QR_OK)
        status = qr_arch_record(headers.weights, &headers.plan, err);
    if (status == QR_OK)
        status = qr_setup_check(&headers, engine, err);
    qr_plan_free(headers.plan);
    qr_weights_free(headers.weights);
    return status;
}

static enum qr_status open_whole(struct qr_model *model, const char *path, const struct qr_model_options *o,
                                 struct qr_err *err)
{
    struct qr_pool *pool = NULL;
    QR_TRY(qr_source_open(path, o->seed, &model->source, err));
    QR_TRY(qr_source_quantise(model->source, o->quantization, err));
    model->config = *qr_source_config(model->source);
    model->headers_only = o->config_only;
    if (o->engine && !o->config_only)
        QR_TRY(check_engine(model, o->engine, err));
    /* Before the weights: a tokenizer that quire cannot read is said at once, not after a minute of loading. */
    QR_TRY(qr_model_load_text(model, qr_source_dir(model->source), qr_source_gguf(model->source), o->chat_template,
                              !o->config_only, err));
    if (!o->config_only)
        QR_TRY(qr_pool_create(o->n_thread, &pool, err));
    enum qr_status status =
        qr_weights_load(model->source, o->config_only, pool, o->progress, o->progress_ctx, &model->weights, err);
    qr_pool_destroy(pool);
    QR_TRY(status);
    return qr_arch_record(model->weights, &model->plan, err);
}

enum qr_status qr_model_open(const char *path, const struct qr_model_options *options, struct qr_model **model,
                             struct qr_err *err)
{
    static const struct qr_model_options defaults;
    const struct qr_model_options *o = options ? options : &defaults;
    *model = NULL;
    if (!path || !*path)
        return qr_fail(err, QR_INVALID, "no model was named: give a directory, a .gguf file, Org/Name or dummy:SHAPE");
    if (o->n_thread < 0 || o->n_thread > 256)
        return qr_fail(err, QR_INVALID, "n_thread is %d: it must lie within 1 and 256, or be 0 for all CPUs",
                       o->n_thread);
    struct qr_model *m = calloc(1, sizeof(*m));
    if (m)
        m->path = strdup(path);
    if (!m || !m->path) {
        free(m);
        return qr_fail(err, QR_NOMEM, "out of memory while opening %.200s", path);
    }
    pthread_mutex_init(&m->grammar_mutex, NULL);
    enum qr_status status = o->tokenizer_only ? open_text_only(m, path, o, err) : open_whole(m, path, o, err);
    if (status != QR_OK) {
        qr_model_close(m);
        return status;
    }
    gather_eos(m);
    *model = m;
    return QR_OK;
}

void qr_model_close(struct qr_model *model)
{
    if (!model)
        return;
    qr_plan_free(model->plan);
    qr_weights_free(model->weights);
    qr_source_close(model->source);
    qr_chat_destroy(model->chat);
    qr_grammar_vocab_destroy(model->grammar_vocab);
    pthread_mutex_destroy(&model->grammar_mutex);
    qr_tokenizer_destroy(model->tok);
    free(model->path);
    free(model);
}

int qr_model_vocab_size(const struct qr_model *model)
{
    return model->config.n_vocab > 0 ? model->config.n_vocab : model->tok ? qr_tokenizer_n_vocab(model->tok) : 0;
}

int qr_model_max_len(const struct qr_model *model)
{
    return model->config.max_len;
}

const char *qr_model_name(const struct qr_model *model)
{
    return model->config.name;
}

/* ---------------------------------------------------------------- text */

static enum qr_status needs_tokenizer(const struct qr_model *model, struct qr_err *err)
{
    return model->tok ? QR_OK : qr_fail(err, model->tok_error.status, "%s", model->tok_error.message);
}

enum qr_status qr_tokenize(const struct qr_model *model, const char *text, size_t n_text, bool parse_special,
                           bool add_special, int32_t **ids, size_t *n_ids, struct qr_err *err)
{
    *ids = NULL;
    *n_ids = 0;
    QR_TRY(needs_tokenizer(model, err));
    return qr_tokenizer_encode(model->tok, text, n_text, parse_special, add_special, ids, n_ids, err);
}

enum qr_status qr_detokenize(const struct qr_model *model, const int32_t *ids, size_t n_ids, bool skip_special,
                             char **text, size_t *n_text, struct qr_err *err)
{
    *text = NULL;
    *n_text = 0;
    QR_TRY(needs_tokenizer(model, err));
    return qr_tokenizer_decode(model->tok, ids, n_ids, skip_special, text, n_text, err);
}

enum qr_status qr_chat_prompt(const struct qr_model *model, const char *request_json, char **prompt, size_t *n_prompt,
                              struct qr_err *err)
{
    json_t *request;
    struct qr_buf out;
    *prompt = NULL;
    *n_prompt = 0;
    if (!model->chat)
        return qr_fail(err, model->chat_error.status, "%s", model->chat_error.message);
    QR_TRY(qr_json_parse(request_json, strlen(request_json), "the chat request", &request, err));
    qr_buf_init(&out, 0);
    enum qr_status status = qr_chat_render(model->chat, request, &out, err);
    json_decref(request);
    if (status == QR_OK && !(*prompt = qr_buf_take(&out, n_prompt)))
        status = qr_fail(err, QR_NOMEM, "out of memory for the prompt's text");
    qr_buf_free(&out);
    return status;
}
