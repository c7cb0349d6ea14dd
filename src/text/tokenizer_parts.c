/* tokenizer_parts.c - the pre-tokenizer and the post-processor of a tokenizer.json. */
#include <string.h>
#include "base/json.h"
#include "text/tokenizer_impl.h"

static enum qr_status read_behavior(const json_t *json, enum qr_split *split, struct qr_err *err)
{
    static const char *const names[] = {
        [QR_SPLIT_ISOLATED] = "Isolated",
        [QR_SPLIT_REMOVED] = "Removed",
        [QR_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [QR_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [QR_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *name = "(none)";

    QR_TRY(qr_json_string(json, "behavior", &name, err));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *split = (enum qr_split)i;
            return QR_OK;
        }
    }
    return qr_fail(err, QR_UNSUPPORTED, "the pre-tokenizer Split has the unknown behavior \"%s\"", name);
}

static enum qr_status read_split(const json_t *json, struct qr_pretok *pretok, struct qr_err *err)
{
    const json_t *pattern = json_object_get(json, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex"), *string = json_object_get(pattern, "String");
    enum qr_split split = QR_SPLIT_ISOLATED;
    bool invert = false;

    QR_TRY(read_behavior(json, &split, err));
    QR_TRY(qr_json_bool(json, "invert", &invert, err));
    if (json_is_string(regex))
        return qr_pretok_add_regex(pretok, json_string_value(regex), json_string_length(regex), split, invert, err);
    if (json_is_string(string))
        return qr_pretok_add_string(pretok, json_string_value(string), json_string_length(string), split, invert, err);
    return qr_fail(err, QR_FORMAT, "the pre-tokenizer Split needs a \"pattern\" with \"Regex\" or \"String\"");
}

static enum qr_status read_bytelevel(const json_t *json, struct qr_pretok *pretok, struct qr_err *err)
{
    bool prefix = true, regex = true; /* the defaults of the tokenizers package */

    QR_TRY(qr_json_bool(json, "add_prefix_space", &prefix, err));
    QR_TRY(qr_json_bool(json, "use_regex", &regex, err));
    if (prefix)
        QR_TRY(qr_pretok_add_step(pretok, QR_STEP_PREFIX, QR_SPLIT_ISOLATED, err));
    return regex ? qr_pretok_add_gpt2(pretok, err) : QR_OK;
}

struct pretok_reader {
    struct qr_pretok *pretok;
    bool bytelevel; /* it was seen */
    bool letters;   /* and steps stand behind it */
    struct qr_err *err;
};

static enum qr_status read_metaspace(const json_t *json, struct qr_pretok *pretok, struct qr_err *err)
{
    static const char *const schemes[] = {
        [QR_PREFIX_NEVER] = "never", [QR_PREFIX_FIRST] = "first", [QR_PREFIX_ALWAYS] = "always"};
    const char *replacement = "\xE2\x96\x81", *scheme = NULL;
    enum qr_prefix prefix = QR_PREFIX_ALWAYS;
    bool add = true, split = true;

    QR_TRY(qr_json_string(json, "replacement", &replacement, err));
    QR_TRY(qr_json_string(json, "prepend_scheme", &scheme, err));
    QR_TRY(qr_json_bool(json, "add_prefix_space", &add, err)); /* of older files */
    QR_TRY(qr_json_bool(json, "split", &split, err));
    if (!replacement[0])
        return qr_fail(err, QR_FORMAT, "the pre-tokenizer Metaspace has no \"replacement\"");
    if (!scheme)
        prefix = add ? QR_PREFIX_ALWAYS : QR_PREFIX_NEVER;
    for (size_t i = 0; scheme; i++) {
        if (i == sizeof schemes / sizeof *schemes)
            return qr_fail(err, QR_UNSUPPORTED, "the pre-tokenizer Metaspace has the unknown prepend_scheme \"%.40s\"",
                           scheme);
        if (strcmp(scheme, schemes[i]) == 0) {
            prefix = (enum qr_prefix)i;
            break;
        }
    }
    return qr_pretok_add_metaspace(pretok, replacement, strlen(replacement), prefix, split, err);
}

/* Any but Sequence and ByteLevel. */
static enum qr_status other_step(struct pretok_reader *reader, const json_t *json, const char *type)
{
    enum qr_split split = QR_SPLIT_ISOLATED;
    bool individual = false;

    if (strcmp(type, "Split") == 0)
        return read_split(json, reader->pretok, reader->err);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(json, reader->pretok, reader->err);
    if (strcmp(type, "Digits") == 0) {
        QR_TRY(qr_json_bool(json, "individual_digits", &individual, reader->err));
        split = individual ? QR_SPLIT_ISOLATED : QR_SPLIT_CONTIGUOUS;
        return qr_pretok_add_step(reader->pretok, QR_STEP_NUMERIC, split, reader->err);
    }
    if (strcmp(type, "Punctuation") == 0) {
        if (json_object_get(json, "behavior"))
            QR_TRY(read_behavior(json, &split, reader->err));
        return qr_pretok_add_step(reader->pretok, QR_STEP_PUNCTUATION, split, reader->err);
    }
    if (strcmp(type, "WhitespaceSplit") == 0)
        return qr_pretok_add_step(reader->pretok, QR_STEP_SPACE, QR_SPLIT_REMOVED, reader->err);
    if (strcmp(type, "Whitespace") == 0) {
        QR_TRY(qr_pretok_add_step(reader->pretok, QR_STEP_WORDS, QR_SPLIT_REMOVED, reader->err));
        reader->pretok->step[reader->pretok->n - 1].invert = true;
        return QR_OK;
    }
    return qr_component_refuse("pre-tokenizer", type,
                               "ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, Metaspace and "
                               "Sequence are",
                               reader->err);
}

static enum qr_status pretok_item(struct pretok_reader *reader, const json_t *json, int depth)
{
    const char *type;
    json_t *list, *item;
    size_t i;

    QR_TRY(qr_component_type(json, "pre-tokenizer", &type, reader->err));
    if (strcmp(type, "Sequence") == 0) {
        QR_TRY(qr_component_list(json, "pre-tokenizer", "pretokenizers", depth, &list, reader->err));
        json_array_foreach(list, i, item) QR_TRY(pretok_item(reader, item, depth + 1));
        return QR_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        if (reader->bytelevel)
            return qr_fail(reader->err, QR_UNSUPPORTED, "the pre-tokenizer has ByteLevel twice");
        reader->bytelevel = true;
        return read_bytelevel(json, reader->pretok, reader->err);
    }
    if (reader->bytelevel && !reader->letters) { /* what follows sees letters in place of bytes */
        QR_TRY(qr_pretok_add_step(reader->pretok, QR_STEP_LETTERS, QR_SPLIT_ISOLATED, reader->err));
        reader->letters = true;
    }
    return other_step(reader, json, type);
}

enum qr_status qr_tokenizer_read_pretok(const json_t *json, struct qr_pretok *pretok, bool *text, struct qr_err *err)
{
    struct pretok_reader reader = {.pretok = pretok, .err = err};

    if (json && !json_is_null(json))
        QR_TRY(pretok_item(&reader, json, 0));
    *text = !reader.bytelevel;
    return QR_OK;
}

/* Ids of a template's special token, put in front of the text or behind it. */
static enum qr_status template_token(const json_t *special_tokens, const json_t *piece, struct qr_tokenizer *tok,
                                     bool behind, struct qr_err *err)
{
    const char *name = "(none)";
    const json_t *ids;
    json_t *item;
    size_t i;

    QR_TRY(qr_json_string(piece, "id", &name, err));
    ids = json_object_get(json_object_get(special_tokens, name), "ids");
    if (!json_is_array(ids))
        return qr_fail(err, QR_FORMAT, "TemplateProcessing: \"%s\" is not among its special tokens", name);
    json_array_foreach((json_t *)ids, i, item)
    {
        json_int_t id = json_integer_value(item);
        int *n = behind ? &tok->n_back : &tok->n_front;

        if (!json_is_integer(item) || id < 0 || id >= (json_int_t)tok->vocab.n)
            return qr_fail(err, QR_FORMAT, "TemplateProcessing: the id of \"%s\" is outside the vocabulary of %zu",
                           name, tok->vocab.n);
        if (*n == QR_MAX_AROUND)
            return qr_fail(err, QR_LIMIT, "TemplateProcessing adds more than %d tokens", QR_MAX_AROUND);
        (behind ? tok->back : tok->front)[(*n)++] = (int32_t)id;
    }
    return QR_OK;
}

/* {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [1]}}} */
static enum qr_status read_template(const json_t *json, struct qr_tokenizer *tok, struct qr_err *err)
{
    json_t *single = json_object_get(json, "single"), *item;
    bool behind = false;
    size_t i;

    if (tok->n_front || tok->n_back)
        return qr_fail(err, QR_UNSUPPORTED, "the post-processor has TemplateProcessing twice");
    if (!json_is_array(single))
        return qr_fail(err, QR_FORMAT, "TemplateProcessing lacks its list \"single\"");
    json_array_foreach(single, i, item)
    {
        const json_t *piece = json_object_get(item, "SpecialToken");

        if (piece) {
            QR_TRY(template_token(json_object_get(json, "special_tokens"), piece, tok, behind, err));
        } else if (json_object_get(item, "Sequence") && !behind) {
            behind = true;
        } else {
            return qr_fail(err, QR_FORMAT, "TemplateProcessing must have one Sequence and special tokens around it");
        }
    }
    return behind ? QR_OK : qr_fail(err, QR_FORMAT, "TemplateProcessing has no Sequence: the text would be lost");
}

static enum qr_status post(const json_t *json, int depth, struct qr_tokenizer *tok, struct qr_err *err)
{
    const char *type;
    json_t *list, *item;
    size_t i;

    QR_TRY(qr_component_type(json, "post-processor", &type, err));
    if (strcmp(type, "ByteLevel") == 0) /* moves offsets only */
        return QR_OK;
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(json, tok, err);
    if (strcmp(type, "Sequence") != 0)
        return qr_component_refuse("post-processor", type, "ByteLevel, TemplateProcessing and Sequence are", err);
    QR_TRY(qr_component_list(json, "post-processor", "processors", depth, &list, err));
    json_array_foreach(list, i, item) QR_TRY(post(item, depth + 1, tok, err));
    return QR_OK;
}

enum qr_status qr_tokenizer_read_post(const json_t *json, struct qr_tokenizer *tok, struct qr_err *err)
{
    return !json || json_is_null(json) ? QR_OK : post(json, 0, tok, err);
}
