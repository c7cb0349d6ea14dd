/* model_text.c - a model's tokenizer and chat template, from the files of a directory or the keys of a GGUF file. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/json.h"
#include "base/mapfile.h"
#include "engine/model.h"

#define MAX_TOKENIZER_BYTES (256u << 20)
#define MAX_CONFIG_BYTES    (32u << 20)
#define MAX_TEMPLATE_BYTES  (1u << 20)
#define MAX_TEMPLATES       16

struct file {
    char *data; /* NULL: there is none */
    size_t n;
};

/* dir/name; a file that is not there is no error. */
static enum qr_status read_part(const char *dir, const char *name, uint64_t cap, struct file *file, struct qr_err *err)
{
    struct qr_buf path;
    *file = (struct file){0};
    qr_buf_init(&path, 0);
    if (!qr_buf_printf(&path, "%s/%s", dir, name)) {
        qr_buf_free(&path);
        return qr_fail(err, QR_NOMEM, "out of memory for a file name");
    }
    enum qr_status status = qr_read_file(path.data, cap, &file->data, &file->n, err);
    qr_buf_free(&path);
    return status == QR_NOTFOUND ? QR_OK : status;
}

/* ---------------------------------------------------------------- tokenizer */

/* Strings of the file, copied: what a tokenizer is built of must not vanish while it is built. Under the guard: *out is set
 * before the file is read. */
static enum qr_status copy_pieces(const struct qr_gguf *gguf, const char *key, struct qr_vocab_piece **out, size_t *n,
                                  bool *found, struct qr_err *err)
{
    const struct qr_str *all;
    uint64_t count, bytes = 0;
    char *text;
    *out = NULL;
    *n = 0;
    QR_TRY(qr_gguf_strings(gguf, key, &all, &count, found, err));
    if (!*found)
        return QR_OK;
    for (uint64_t i = 0; i < count; i++)
        bytes += all[i].n; /* all of them lie in the file, as do 8 bytes of each: no sum wraps */
    *out = malloc((size_t)((count + 1) * sizeof(**out) + bytes));
    if (!*out)
        return qr_fail(err, QR_NOMEM, "out of memory for the %llu strings of %s", (unsigned long long)count, key);
    text = (char *)(*out + count + 1);
    for (uint64_t i = 0; i < count; i++) {
        memcpy(text, all[i].s, (size_t)all[i].n);
        (*out)[i] = (struct qr_vocab_piece){text, (size_t)all[i].n};
        text += all[i].n;
    }
    *n = (size_t)count;
    return QR_OK;
}

static enum qr_status read_token_types(const struct qr_gguf *gguf, size_t n_token, int32_t **out, struct qr_err *err)
{
    static const char *const key = "tokenizer.ggml.token_type";
    struct qr_gguf_array array;
    bool found;
    QR_TRY(qr_gguf_array(gguf, key, &array, &found, err));
    if (!found)
        return QR_OK;
    if (array.n != n_token)
        return qr_fail(err, QR_FORMAT, "%s has %llu entries but there are %zu tokens: the file is damaged", key,
                       (unsigned long long)array.n, n_token);
    *out = malloc((n_token + 1) * sizeof(**out));
    if (!*out)
        return qr_fail(err, QR_NOMEM, "out of memory for the types of %zu tokens", n_token);
    for (size_t i = 0; i < n_token; i++) {
        int64_t v = qr_gguf_array_int(&array, i);
        (*out)[i] = v >= INT32_MIN && v <= INT32_MAX ? (int32_t)v : 0;
    }
    return QR_OK;
}

static enum qr_status read_id(const struct qr_gguf *gguf, const char *key, int32_t *id, struct qr_err *err)
{
    int64_t v;
    bool found;
    QR_TRY(qr_gguf_int(gguf, key, &v, &found, err));
    *id = found && v >= 0 && v <= INT32_MAX ? (int32_t)v : -1;
    return QR_OK;
}

/* *out: a NUL-terminated copy; NULL when the key is absent. */
static enum qr_status read_text(const struct qr_gguf *gguf, const char *key, char **out, struct qr_err *err)
{
    struct qr_str s;
    bool found;
    *out = NULL;
    QR_TRY(qr_gguf_string(gguf, key, &s, &found, err));
    if (found && !(*out = strndup(s.s, (size_t)s.n)))
        return qr_fail(err, QR_NOMEM, "out of memory for %s", key);
    return QR_OK;
}

struct spec_memory { /* what a qr_vocab_spec points to */
    char *model, *pre;
    struct qr_vocab_piece *token, *merge;
    int32_t *type;
    float *score;
    void *charsmap;
};

struct spec_reader {
    const struct qr_gguf *gguf;
    struct spec_memory memory;
    struct qr_vocab_spec spec;
};

static enum qr_status copy_charsmap(const struct qr_gguf *gguf, struct spec_memory *m, struct qr_vocab_spec *spec,
                                    struct qr_err *err)
{
    static const char *const key = "tokenizer.ggml.precompiled_charsmap";
    struct qr_gguf_array array;
    bool found;
    QR_TRY(qr_gguf_array(gguf, key, &array, &found, err));
    if (!found || array.n == 0)
        return QR_OK;
    if (array.kind != QR_GGUF_U8 && array.kind != QR_GGUF_I8)
        return qr_fail(err, QR_FORMAT, "%s must be an array of bytes", key);
    spec->n_charsmap = (size_t)array.n;
    spec->charsmap = m->charsmap = malloc(spec->n_charsmap);
    if (!m->charsmap)
        return qr_fail(err, QR_NOMEM, "out of memory for the %zu bytes of %s", spec->n_charsmap, key);
    memcpy(m->charsmap, array.data, spec->n_charsmap);
    return QR_OK;
}

/* SentencePiece's: scores, and what is done with spaces. */
static enum qr_status read_scores(const struct qr_gguf *gguf, struct spec_memory *m, struct qr_vocab_spec *spec,
                                  struct qr_err *err)
{
    static const char *const key = "tokenizer.ggml.scores";
    struct qr_gguf_array array;
    bool found;
    QR_TRY(copy_charsmap(gguf, m, spec, err));
    QR_TRY(read_id(gguf, "tokenizer.ggml.unknown_token_id", &spec->unk, err));
    spec->unk_known = spec->unk >= 0;
    QR_TRY(qr_gguf_bool(gguf, "tokenizer.ggml.add_space_prefix", &spec->add_space, &spec->add_space_known, err));
    QR_TRY(qr_gguf_bool(gguf, "tokenizer.ggml.remove_extra_whitespaces", &spec->remove_spaces, &found, err));
    QR_TRY(qr_gguf_array(gguf, key, &array, &found, err));
    if (!found)
        return QR_OK;
    if (array.n != spec->n_token)
        return qr_fail(err, QR_FORMAT, "%s has %llu entries but there are %zu tokens: the file is damaged", key,
                       (unsigned long long)array.n, spec->n_token);
    m->score = malloc((spec->n_token + 1) * sizeof(*m->score));
    if (!m->score)
        return qr_fail(err, QR_NOMEM, "out of memory for the scores of %zu tokens", spec->n_token);
    for (size_t i = 0; i < spec->n_token; i++)
        m->score[i] = (float)qr_gguf_array_real(&array, i);
    spec->score = m->score;
    return QR_OK;
}

static enum qr_status fill_spec(void *ctx, struct qr_err *err)
{
    struct spec_reader *reader = ctx;
    const struct qr_gguf *gguf = reader->gguf;
    struct spec_memory *m = &reader->memory;
    struct qr_vocab_spec *spec = &reader->spec;
    bool found;
    QR_TRY(read_text(gguf, "tokenizer.ggml.model", &m->model, err));
    QR_TRY(read_text(gguf, "tokenizer.ggml.pre", &m->pre, err));
    QR_TRY(copy_pieces(gguf, "tokenizer.ggml.tokens", &m->token, &spec->n_token, &found, err));
    if (!m->model || !found)
        return qr_fail(err, QR_NOTFOUND,
                       "the GGUF file has no tokenizer: give token ids in place of text (--prompt-ids)");
    QR_TRY(read_token_types(gguf, spec->n_token, &m->type, err));
    QR_TRY(copy_pieces(gguf, "tokenizer.ggml.merges", &m->merge, &spec->n_merge, &found, err));
    spec->merges_missing = !found;
    QR_TRY(read_id(gguf, "tokenizer.ggml.bos_token_id", &spec->bos, err));
    QR_TRY(read_id(gguf, "tokenizer.ggml.eos_token_id", &spec->eos, err));
    QR_TRY(qr_gguf_bool(gguf, "tokenizer.ggml.add_bos_token", &spec->add_bos, &spec->add_bos_known, err));
    QR_TRY(qr_gguf_bool(gguf, "tokenizer.ggml.add_eos_token", &spec->add_eos, &spec->add_eos_known, err));
    QR_TRY(qr_gguf_bool(gguf, "tokenizer.ggml.ignore_merges", &spec->ignore_merges, &spec->ignore_merges_known, err));
    if (strcmp(m->model, "gpt2") != 0)
        QR_TRY(read_scores(gguf, m, spec, err));
    spec->model = m->model;
    spec->pre = m->pre;
    spec->token = m->token;
    spec->type = m->type;
    spec->merge = m->merge;
    return QR_OK;
}

enum qr_status qr_tokenizer_from_gguf(const struct qr_gguf *gguf, struct qr_tokenizer **tok, struct qr_err *err)
{
    struct spec_reader reader = {.gguf = gguf};
    const struct spec_memory *m = &reader.memory;
    *tok = NULL;
    enum qr_status status = qr_map_guard(qr_gguf_map(gguf), fill_spec, &reader, err);
    if (status == QR_OK)
        status = qr_tokenizer_from_spec(&reader.spec, tok, err);
    free(m->model);
    free(m->pre);
    free(m->token);
    free(m->type);
    free(m->score);
    free(m->charsmap);
    free(m->merge);
    return status;
}

static enum qr_status no_tokenizer(const char *dir, struct qr_err *err)
{
    char path[4096];
    bool pieces =
        (size_t)snprintf(path, sizeof path, "%s/tokenizer.model", dir) < sizeof path && access(path, R_OK) == 0;
    return qr_fail(
        err, QR_NOTFOUND, "there is no tokenizer.json in %.200s%s: give token ids in place of text (--prompt-ids)", dir,
        pieces ? ", and its tokenizer.model is not read (transformers' AutoTokenizer makes the one from the other)"
               : "");
}

static enum qr_status load_tokenizer(struct qr_model *model, const char *dir, const struct qr_gguf *gguf,
                                     const struct file *config, struct qr_err *err)
{
    struct file json = {0};
    if (dir)
        QR_TRY(read_part(dir, "tokenizer.json", MAX_TOKENIZER_BYTES, &json, err));
    if (json.data) {
        enum qr_status status = qr_tokenizer_from_json(json.data, json.n, config->data, config->n, &model->tok, err);
        free(json.data);
        return status; /* its message names the file */
    }
    if (gguf) {
        enum qr_status status = qr_tokenizer_from_gguf(gguf, &model->tok, err);
        return status == QR_OK ? QR_OK : qr_err_prefix(err, status, "%.200s", model->path);
    }
    if (dir)
        return no_tokenizer(dir, err);
    return qr_fail(err, QR_NOTFOUND, "%.200s has no tokenizer: give token ids in place of text (--prompt-ids)",
                   model->path);
}

/* ---------------------------------------------------------------- chat template */

struct templates {
    int n;
    struct qr_chat_template item[MAX_TEMPLATES];
    struct file file, tool_use; /* what the items point into when they came from files */
    char *copy[2];              /* what the items point to when they came from a GGUF file */
    const struct qr_gguf *gguf;
};

static void add_template(struct templates *t, const char *name, const char *text, size_t n)
{
    if (t->n < MAX_TEMPLATES)
        t->item[t->n++] = (struct qr_chat_template){name, text, n};
}

/* tokenizer_config.json: "chat_template" is a string, or a list of {"name", "template"}; "default" goes first. */
static void templates_of_config(const json_t *config, struct templates *t)
{
    const json_t *value = json_object_get(config, "chat_template");
    if (json_is_string(value)) {
        add_template(t, "default", json_string_value(value), json_string_length(value));
        return;
    }
    for (int others = 0; others < 2; others++)
        for (size_t i = 0; i < json_array_size(value); i++) {
            const json_t *one = json_array_get(value, i), *text = json_object_get(one, "template");
            const char *name = json_string_value(json_object_get(one, "name"));
            if (name && json_is_string(text) && (strcmp(name, "default") != 0) == others)
                add_template(t, name, json_string_value(text), json_string_length(text));
        }
}

/* Under the guard. */
static enum qr_status templates_of_gguf(void *ctx, struct qr_err *err)
{
    static const char *const keys[] = {"tokenizer.chat_template", "tokenizer.chat_template.tool_use"};
    static const char *const names[] = {"default", "tool_use"};
    struct templates *t = ctx;
    for (int i = 0; i < 2; i++) {
        struct qr_str text;
        bool found;
        QR_TRY(qr_gguf_string(t->gguf, keys[i], &text, &found, err));
        if (!found)
            break;
        t->copy[i] = malloc((size_t)text.n + 1);
        if (!t->copy[i])
            return qr_fail(err, QR_NOMEM, "out of memory for %s", keys[i]);
        memcpy(t->copy[i], text.s, (size_t)text.n);
        add_template(t, names[i], t->copy[i], (size_t)text.n);
    }
    return QR_OK;
}

static enum qr_status find_templates(const char *dir, const struct qr_gguf *gguf, const char *path,
                                     const json_t *config, struct templates *t, struct qr_err *err)
{
    if (path)
        QR_TRY(qr_read_file(path, MAX_TEMPLATE_BYTES, &t->file.data, &t->file.n, err));
    else if (dir)
        QR_TRY(read_part(dir, "chat_template.jinja", MAX_TEMPLATE_BYTES, &t->file, err));
    if (t->file.data)
        add_template(t, "default", t->file.data, t->file.n);
    if (t->file.data && !path)
        QR_TRY(read_part(dir, "additional_chat_templates/tool_use.jinja", MAX_TEMPLATE_BYTES, &t->tool_use, err));
    if (t->tool_use.data)
        add_template(t, "tool_use", t->tool_use.data, t->tool_use.n);
    if (t->n == 0 && config)
        templates_of_config(config, t);
    if (t->n > 0 && strcmp(t->item[0].name, "default") != 0)
        return qr_fail(
            err, QR_NOTFOUND,
            "tokenizer_config.json has chat templates, the first named \"%.60s\", and none is the default: give "
            "one with chat_template",
            t->item[0].name);
    t->gguf = gguf;
    return t->n == 0 && gguf ? qr_map_guard(qr_gguf_map(gguf), templates_of_gguf, t, err) : QR_OK;
}

/* A token's text, malloc'ed; NULL for no token. */
static char *token_text(const struct qr_tokenizer *tok, int32_t id)
{
    size_t n = 0;
    const char *bytes = tok && id >= 0 ? qr_tokenizer_bytes(tok, id, &n) : NULL;
    return bytes ? strndup(bytes, n) : NULL;
}

static enum qr_status load_chat(struct qr_model *model, const char *dir, const struct qr_gguf *gguf,
                                const char *template_path, const struct file *config, struct qr_err *err)
{
    struct templates t = {0};
    json_t *json = NULL;
    enum qr_status status = QR_OK;
    if (config->data)
        status = qr_json_parse_file(config->data, config->n, "tokenizer_config.json", &json, err);
    if (status == QR_OK)
        status = find_templates(dir, gguf, template_path, json, &t, err);
    if (status == QR_OK && t.n == 0)
        status =
            qr_fail(err, QR_NOTFOUND,
                    "%.200s has no chat template: give one with chat_template, or continue plain text", model->path);
    if (status == QR_OK) {
        char *bos = token_text(model->tok, model->tok ? qr_tokenizer_bos(model->tok) : -1);
        char *eos = token_text(model->tok, model->tok ? qr_tokenizer_eos(model->tok) : -1);
        status = qr_chat_create(t.item, (size_t)t.n, bos, eos, &model->chat, err);
        free(bos);
        free(eos);
    }
    if (status == QR_OK && json)
        status = qr_chat_set_tokens(model->chat, json, err);
    json_decref(json);
    free(t.file.data);
    free(t.tool_use.data);
    free(t.copy[0]);
    free(t.copy[1]);
    return status;
}

/* ---------------------------------------------------------------- both */

static uint64_t malloced(void)
{
    struct mallinfo2 info = mallinfo2();
    return (uint64_t)info.uordblks + (uint64_t)info.hblkhd;
}

enum qr_status qr_model_load_text(struct qr_model *model, const char *dir, const struct qr_gguf *gguf,
                                  const char *template_path, bool strict, struct qr_err *err)
{
    struct file config = {0};
    uint64_t before = malloced();
    if (dir)
        QR_TRY(read_part(dir, "tokenizer_config.json", MAX_CONFIG_BYTES, &config, err));
    enum qr_status tok = load_tokenizer(model, dir, gguf, &config, &model->tok_error);
    /* A template that quire cannot read is an error for those who chat; one that the caller named, for everyone. */
    enum qr_status chat = load_chat(model, dir, gguf, template_path, &config, &model->chat_error);
    free(config.data);
    uint64_t after = malloced();
    model->text_bytes = after > before ? after - before : 0;
    if (strict && tok != QR_OK && tok != QR_NOTFOUND)
        return qr_fail(err, tok, "%s", model->tok_error.message);
    if (chat != QR_OK && template_path)
        return qr_fail(err, chat, "%s", model->chat_error.message);
    return QR_OK;
}
