/* tokenizer_added.c - added tokens of tokenizer.json and tokenizer_config.json, and the latter's bos and eos. */
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "text/tokenizer_impl.h"

/* Adds what {"content", "special", "lstrip", ...} describes. */
static enum qr_status read_token(const json_t *json, int64_t id, struct qr_tokenizer *tok, struct qr_err *err)
{
    const json_t *content = json_object_get(json, "content");
    struct qr_added_token how = {.id = (int32_t)id};

    if (!json_is_string(content))
        return qr_fail(err, QR_FORMAT, "an added token lacks its \"content\"");
    QR_TRY(qr_json_bool(json, "special", &how.special, err));
    how.normalized = !how.special; /* AddedToken's default */
    QR_TRY(qr_json_bool(json, "normalized", &how.normalized, err));
    QR_TRY(qr_json_bool(json, "lstrip", &how.lstrip, err));
    QR_TRY(qr_json_bool(json, "rstrip", &how.rstrip, err));
    QR_TRY(qr_json_bool(json, "single_word", &how.single_word, err));
    return qr_tokenizer_add_token(tok, &how, json_string_value(content), json_string_length(content), false, err);
}

enum qr_status qr_tokenizer_read_added(const json_t *list, struct qr_tokenizer *tok, struct qr_err *err)
{
    json_t *item;
    size_t i;

    if (!list || json_is_null(list))
        return QR_OK;
    if (!json_is_array(list))
        return qr_fail(err, QR_FORMAT, "\"added_tokens\" must be a list");
    json_array_foreach((json_t *)list, i, item)
    {
        int64_t id = -1;

        QR_TRY(qr_json_int(item, "id", 0, QR_MAX_VOCAB - 1, &id, err));
        if (id < 0)
            return qr_fail(err, QR_FORMAT, "an added token lacks its \"id\"");
        QR_TRY(read_token(item, id, tok, err));
    }
    return QR_OK;
}

/* {"151643": {"content": ...}}: transformers lets these options win. */
static enum qr_status read_added_decoder(const json_t *map, struct qr_tokenizer *tok, struct qr_err *err)
{
    const char *key;
    json_t *item;

    if (!map || json_is_null(map))
        return QR_OK;
    if (!json_is_object(map))
        return qr_fail(err, QR_FORMAT, "\"added_tokens_decoder\" must be an object");
    json_object_foreach((json_t *)map, key, item)
    {
        char *end;
        long id = strtol(key, &end, 10);

        if (key[0] < '0' || key[0] > '9' || *end || id >= QR_MAX_VOCAB)
            return qr_fail(err, QR_FORMAT, "\"added_tokens_decoder\" has the id \"%s\", which must be 0 to %d", key,
                           QR_MAX_VOCAB - 1);
        QR_TRY(read_token(item, id, tok, err));
    }
    return QR_OK;
}

/* "bos_token": "<s>", or {"content": "<s>"}, or null. */
static enum qr_status named_token(const json_t *config, const char *key, const struct qr_tokenizer *tok, int32_t *id,
                                  struct qr_err *err)
{
    const json_t *value = json_object_get(config, key);

    if (json_is_object(value))
        value = json_object_get(value, "content");
    if (!value || json_is_null(value))
        return QR_OK;
    if (!json_is_string(value))
        return qr_fail(err, QR_FORMAT, "\"%s\" must be a string or an added token", key);
    /* a name that no token has is left alone: many files name tokens that nothing uses */
    *id = qr_tokenizer_id(tok, json_string_value(value), json_string_length(value));
    return QR_OK;
}

/* add_bos_token or add_eos_token, where the file has it: as transformers rebuilds the template from them. */
static enum qr_status around(const json_t *config, const char *key, int32_t id, bool front, struct qr_tokenizer *tok,
                             struct qr_err *err)
{
    int32_t *list = front ? tok->front : tok->back;
    int *n = front ? &tok->n_front : &tok->n_back;
    bool wanted = false, has;
    int at;

    QR_TRY(qr_json_bool(config, key, &wanted, err));
    if (json_is_null(json_object_get(config, key)) || !json_object_get(config, key))
        return QR_OK;
    if (wanted && id < 0)
        return qr_fail(err, QR_FORMAT, "\"%s\" is true, but the file names no such token of the vocabulary", key);
    at = front ? 0 : *n - 1;
    has = *n > 0 && id >= 0 && list[at] == id;
    if (wanted && !has) {
        if (*n == QR_MAX_AROUND)
            return qr_fail(err, QR_LIMIT, "more than %d tokens around the text", QR_MAX_AROUND);
        if (front)
            memmove(list + 1, list, (size_t)*n * sizeof *list);
        list[front ? 0 : *n] = id;
        ++*n;
    } else if (!wanted && has) {
        --*n;
        if (front)
            memmove(list, list + 1, (size_t)*n * sizeof *list);
    }
    return QR_OK;
}

enum qr_status qr_tokenizer_read_config(const json_t *config, struct qr_tokenizer *tok, struct qr_err *err)
{
    if (!json_is_object(config))
        return qr_fail(err, QR_FORMAT, "it must be an object");
    QR_TRY(read_added_decoder(json_object_get(config, "added_tokens_decoder"), tok, err));
    QR_TRY(named_token(config, "bos_token", tok, &tok->bos, err));
    QR_TRY(named_token(config, "eos_token", tok, &tok->eos, err));
    QR_TRY(around(config, "add_bos_token", tok->bos, true, tok, err));
    return around(config, "add_eos_token", tok->eos, false, tok, err);
}
