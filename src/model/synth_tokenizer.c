/* synth_tokenizer.c - tokenizer.json (format: huggingface/tokenizers) and tokenizer_config.json (transformers). */
#include <string.h>
#include "model/synth_parts.h"

/* The patterns that Qwen2.5's and Llama 3's own tokenizer.json have. */
static const char qwen_pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                                   " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char llama3_pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                                     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static json_t *byte_level(bool trim_offsets, bool use_regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", trim_offsets,
                     "use_regex", use_regex);
}

static json_t *pre_tokenizer(const struct qr_synth_vocab *v)
{
    if (strcmp(v->pre, "smollm") == 0)
        return json_pack("{s:s, s:[{s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Digits",
                         "individual_digits", 1, byte_level(true, true));
    const char *pattern = strcmp(v->pre, "qwen2") == 0 ? qwen_pattern : llama3_pattern;
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                     "pattern", "Regex", pattern, "behavior", "Isolated", "invert", 0, byte_level(false, false));
}

static json_t *bpe_model(const struct qr_synth_vocab *v)
{
    json_t *vocab = json_object(), *merges = json_array();
    int failed = !vocab || !merges;
    for (int32_t i = 0; i < v->n; i++)
        failed |= json_object_set_new(vocab, v->token[i], json_integer(i));
    for (int i = 0; i < v->n_merge; i++)
        failed |= json_array_append_new(merges, json_string(v->merge[i]));
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                  "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges",
                  strcmp(v->pre, "llama-bpe") == 0, "vocab", vocab, "merges", merges);
    if (failed) {
        json_decref(model);
        return NULL;
    }
    return model;
}

static json_t *special(const char *text)
{
    return json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "content", text, "single_word", 0, "lstrip", 0, "rstrip", 0,
                     "normalized", 0, "special", 1);
}

/* tokenizer.json wants a list with ids, tokenizer_config.json an object by id. */
static bool add_specials(const struct qr_synth_vocab *v, json_t *list, json_t *by_id)
{
    for (int32_t i = 0; i < v->n; i++) {
        if (v->kind[i] != QR_SYNTH_CONTROL)
            continue;
        char id[16];
        snprintf(id, sizeof(id), "%d", i);
        json_t *entry = special(v->token[i]);
        bool good = json_object_set_new(entry, "id", json_integer(i)) == 0;
        good &= json_array_append_new(list, entry) == 0;
        if (!good || json_object_set_new(by_id, id, special(v->token[i])) != 0)
            return false;
    }
    return true;
}

static json_t *tokenizer_json(const struct qr_synth_vocab *v, json_t *added)
{
    json_t *normalizer = strcmp(v->pre, "qwen2") == 0 ? json_pack("{s:s}", "type", "NFC") : json_null();
    return json_pack("{s:s, s:n, s:n, s:O, s:o, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding",
                     "added_tokens", added, "normalizer", normalizer, "pre_tokenizer", pre_tokenizer(v),
                     "post_processor", byte_level(false, false), "decoder", byte_level(false, false), "model",
                     bpe_model(v));
}

static json_t *tokenizer_config(const struct qr_config *c, const struct qr_synth_vocab *v, json_t *by_id)
{
    json_t *bos = c->bos >= 0 && c->bos < v->n ? json_string(v->token[c->bos]) : json_null();
    return json_pack("{s:s, s:b, s:O, s:o, s:s, s:s, s:i, s:b, s:s}", "tokenizer_class",
                     strcmp(v->pre, "qwen2") == 0 ? "Qwen2Tokenizer" : "PreTrainedTokenizerFast", "add_bos_token", 0,
                     "added_tokens_decoder", by_id, "bos_token", bos, "eos_token", v->token[v->im_end], "pad_token",
                     v->token[v->end_of_text], "model_max_length", (int)c->max_len, "clean_up_tokenization_spaces", 0,
                     "chat_template", qr_synth_chat_template);
}

enum qr_status qr_synth_tokenizer(const struct qr_synth *s, const struct qr_synth_vocab *v, const char *dir,
                                  struct qr_err *err)
{
    json_t *list = json_array(), *by_id = json_object();
    enum qr_status status;
    if (list && by_id && add_specials(v, list, by_id)) {
        status = qr_synth_write_json(dir, "tokenizer.json", tokenizer_json(v, list), JSON_INDENT(1), err);
        if (status == QR_OK)
            status = qr_synth_write_json(dir, "tokenizer_config.json", tokenizer_config(s->config, v, by_id),
                                         JSON_INDENT(2), err);
    } else {
        status = qr_fail(err, QR_NOMEM, "no memory for tokenizer.json");
    }
    json_decref(list);
    json_decref(by_id);
    return status;
}
