/* config_hf.c - struct qr_config out of a Hugging Face config.json and generation_config.json. What an absent field
 * means is what the class of that architecture in transformers (configuration_*.py) takes for it; the rope part is in
 * config_rope.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/json.h"
#include "model/config_parts.h"

#define MAX_SIZE INT32_MAX /* qr_config_check has the real caps */

struct family {
    const char *class_name; /* in "architectures" */
    const char *model_type;
    enum qr_arch arch;
    bool has_window;  /* sliding_window counts without use_sliding_window */
    int32_t kv_heads; /* when the key is absent; 0: as many as heads */
    int32_t max_len;  /* when absent */
    int32_t window;   /* when absent; 0: none */
    int32_t head_dim; /* when absent; 0: hidden_size / heads */
};

static const struct family families[] = {
    {"LlamaForCausalLM", "llama", QR_ARCH_LLAMA, false, 0, 2048, 0, 0},
    {"MistralForCausalLM", "mistral", QR_ARCH_LLAMA, true, 8, 131072, 4096, 0},
    {"Qwen2ForCausalLM", "qwen2", QR_ARCH_QWEN2, false, 32, 32768, 4096, 0},
    {"Qwen3ForCausalLM", "qwen3", QR_ARCH_QWEN3, false, 32, 32768, 4096, 128},
    {"Gemma2ForCausalLM", "gemma2", QR_ARCH_GEMMA2, true, 4, 8192, 4096, 256},
    {"Gemma3ForCausalLM", "gemma3_text", QR_ARCH_GEMMA3, true, 4, 131072, 4096, 256},
    {"Gemma3ForConditionalGeneration", "gemma3", QR_ARCH_GEMMA3, true, 4, 131072, 4096, 256}, /* its text part */
    {"Phi3ForCausalLM", "phi3", QR_ARCH_PHI3, true, 0, 4096, 0, 0},
};
#define N_FAMILY (sizeof families / sizeof families[0])

static enum qr_status find_family(const json_t *config, const struct family **out, struct qr_err *err)
{
    const json_t *classes = json_object_get(config, "architectures");
    const char *class_name = json_string_value(json_array_get(classes, 0));
    const char *model_type = NULL;

    QR_TRY(qr_json_string(config, "model_type", &model_type, err));
    for (size_t i = 0; i < N_FAMILY; i++) {
        *out = &families[i];
        if (class_name ? strcmp(class_name, families[i].class_name) == 0
                       : model_type && strcmp(model_type, families[i].model_type) == 0)
            return QR_OK;
    }
    if (!class_name && !model_type)
        return qr_fail(err, QR_FORMAT, "it names neither \"architectures\" nor \"model_type\"");
    return qr_fail(err, QR_UNSUPPORTED,
                   "the architecture is %.60s; quire knows Llama, Mistral, Qwen2, Qwen3, Gemma2, Gemma3 and "
                   "Phi3ForCausalLM, and the text of Gemma3ForConditionalGeneration",
                   class_name ? class_name : model_type);
}

static bool present(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);

    return value && !json_is_null(value);
}

/* A size that may be absent: *out keeps its value then. */
static enum qr_status read_size(const json_t *config, const char *key, int64_t min, int32_t *out, struct qr_err *err)
{
    int64_t value = *out;

    QR_TRY(qr_json_int(config, key, min, MAX_SIZE, &value, err));
    *out = (int32_t)value;
    return QR_OK;
}

static enum qr_status need_size(const json_t *config, const char *key, int32_t *out, struct qr_err *err)
{
    if (!present(config, key))
        return qr_fail(err, QR_FORMAT, "there is no \"%s\"", key);
    return read_size(config, key, 1, out, err);
}

static enum qr_status read_sizes(const json_t *config, const struct family *family, struct qr_config *out,
                                 struct qr_err *err)
{
    double eps = out->arch == QR_ARCH_PHI3 ? 1e-5 : 1e-6;

    QR_TRY(need_size(config, "num_hidden_layers", &out->n_layer, err));
    QR_TRY(need_size(config, "hidden_size", &out->n_embd, err));
    if (out->arch == QR_ARCH_GEMMA3) { /* Gemma3TextConfig's: files of the larger ones leave them out */
        out->n_head = 8;
        out->n_vocab = 262208;
        QR_TRY(read_size(config, "num_attention_heads", 1, &out->n_head, err));
        QR_TRY(read_size(config, "vocab_size", 1, &out->n_vocab, err));
    } else {
        QR_TRY(need_size(config, "num_attention_heads", &out->n_head, err));
        QR_TRY(need_size(config, "vocab_size", &out->n_vocab, err));
    }
    QR_TRY(need_size(config, "intermediate_size", &out->n_ff, err));
    /* null means one key-value head a head; only an absent key has the class's default */
    out->n_kv_head =
        family->kv_heads && !json_object_get(config, "num_key_value_heads") ? family->kv_heads : out->n_head;
    QR_TRY(read_size(config, "num_key_value_heads", 1, &out->n_kv_head, err));
    out->max_len = family->max_len;
    QR_TRY(read_size(config, "max_position_embeddings", 1, &out->max_len, err));
    if (present(config, "head_dim"))
        QR_TRY(read_size(config, "head_dim", 1, &out->head_dim, err));
    else if (family->head_dim)
        out->head_dim = family->head_dim;
    else if (out->n_embd % out->n_head == 0)
        out->head_dim = out->n_embd / out->n_head;
    else
        return qr_fail(err, QR_INVALID,
                       "hidden_size %d cannot be divided by num_attention_heads %d, and there is no "
                       "head_dim",
                       out->n_embd, out->n_head);
    QR_TRY(qr_json_real(config, "rms_norm_eps", 0, 1, &eps, err));
    out->norm_eps = (float)eps;
    return QR_OK;
}

/* A cap of logits; 0: none, so one that only a double holds must not become that. */
static enum qr_status read_cap(const json_t *config, const char *key, double *cap, struct qr_err *err)
{
    QR_TRY(qr_json_real(config, key, 0, 1e6, cap, err));
    if (*cap != 0 && (float)*cap == 0)
        return qr_fail(err, QR_INVALID, "\"%s\" is %g, too little for a cap", key, *cap);
    return QR_OK;
}

/* What Gemma2Config and Gemma3TextConfig say beyond the others; null caps are none. */
static enum qr_status read_gemma(const json_t *config, struct qr_config *out, struct qr_err *err)
{
    double scalar = 256, attn_cap = 0, final_cap = 0;

    qr_config_set_gemma(out);
    if (out->arch == QR_ARCH_GEMMA2 && !json_object_get(config, "attn_logit_softcapping"))
        attn_cap = 50;
    if (out->arch == QR_ARCH_GEMMA2 && !json_object_get(config, "final_logit_softcapping"))
        final_cap = 30;
    QR_TRY(qr_json_real(config, "query_pre_attn_scalar", 0, 1e9, &scalar, err));
    QR_TRY(read_cap(config, "attn_logit_softcapping", &attn_cap, err));
    QR_TRY(read_cap(config, "final_logit_softcapping", &final_cap, err));
    if (!(scalar > 0))
        return qr_fail(err, QR_INVALID, "\"query_pre_attn_scalar\" is %g; it must be above 0", scalar);
    out->attn_scale = (float)(1 / sqrt(scalar));
    out->attn_cap = (float)attn_cap;
    out->final_cap = (float)final_cap;
    out->norm_plus_one = true;
    QR_TRY(read_size(config, "sliding_window_pattern", 1, &out->window_period, err));
    return read_size(config, "_sliding_window_pattern", 1, &out->window_period, err);
}

static enum qr_status read_switches(const json_t *config, struct qr_config *out, struct qr_err *err)
{
    bool attention_bias = false, mlp_bias = false, both_ways = false;
    bool gemma = out->arch == QR_ARCH_GEMMA2 || out->arch == QR_ARCH_GEMMA3;
    const char *act = gemma ? "gelu_pytorch_tanh" : "silu", *known = act;

    QR_TRY(qr_json_string(config, "hidden_act", &act, err));
    QR_TRY(qr_json_string(config, "hidden_activation", &act, err)); /* Gemma's; the newer one wins */
    if (strcmp(act, known) != 0)
        return qr_fail(err, QR_UNSUPPORTED, "hidden_act is %s; quire knows %s for %s models", act, known,
                       qr_arch_name(out->arch));
    QR_TRY(qr_json_bool(config, "use_bidirectional_attention", &both_ways, err)); /* EmbeddingGemma */
    if (both_ways)
        return qr_fail(err, QR_UNSUPPORTED,
                       "\"use_bidirectional_attention\" is true: the model makes embeddings, and quire generates text");
    QR_TRY(qr_json_bool(config, "tie_word_embeddings", &out->tie_embd, err));
    QR_TRY(qr_json_bool(config, "attention_bias", &attention_bias, err));
    QR_TRY(qr_json_bool(config, "mlp_bias", &mlp_bias, err));
    /* Qwen2's q, k and v have a bias and its o has none, whatever config.json says */
    out->qkv_bias = out->arch == QR_ARCH_QWEN2 || attention_bias;
    out->o_bias = out->arch != QR_ARCH_QWEN2 && attention_bias;
    out->mlp_bias = out->arch == QR_ARCH_LLAMA && mlp_bias;
    out->qk_norm = out->arch == QR_ARCH_QWEN3;
    return gemma ? read_gemma(config, out, err) : QR_OK;
}

/* Kinds of attention that quire does not know are refused even where the config has no windows: a hybrid under a known
 * name. */
static enum qr_status check_layer_types(const json_t *types, struct qr_err *err)
{
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));

        if (!type || (strcmp(type, "full_attention") != 0 && strcmp(type, "sliding_attention") != 0))
            return qr_fail(err, QR_UNSUPPORTED,
                           "layer %zu has attention \"%.60s\"; quire knows full_attention and sliding_attention", i,
                           type ? type : "?");
    }
    return QR_OK;
}

/* "layer_types" says it layer by layer; the plan wants full attention up to a layer and then windows, or a window in all
 * but the last of each so many layers. */
static enum qr_status read_layer_types(const json_t *types, struct qr_config *out, struct qr_err *err)
{
    int32_t from = out->n_layer, full = -1; /* first with a window; first full one behind it */

    if (!json_is_array(types) || json_array_size(types) < (size_t)out->n_layer)
        return qr_fail(err, QR_FORMAT, "\"layer_types\" must name the attention of each of the %d layers",
                       out->n_layer);
    for (int32_t i = 0; i < out->n_layer; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        bool sliding = strcmp(type, "sliding_attention") == 0; /* check_layer_types has seen it */

        if (sliding && from == out->n_layer)
            from = i;
        if (!sliding && from < i && full < 0)
            full = i;
    }
    out->window_from = from;
    out->window_period = full >= 0 ? full + 1 : 0;
    for (int32_t i = 0; i < out->n_layer; i++) {
        bool sliding = strcmp(json_string_value(json_array_get(types, (size_t)i)), "sliding_attention") == 0;

        if (sliding != (i >= from && (full < 0 || (i + 1) % (full + 1) != 0)))
            return qr_fail(err, QR_UNSUPPORTED,
                           "the windows of \"layer_types\" follow no pattern that quire knows: layer %d is the first "
                           "that is not as it should be",
                           i);
    }
    if (from == out->n_layer)
        out->window = 0;
    return QR_OK;
}

static enum qr_status read_window(const json_t *config, const struct family *family, struct qr_config *out,
                                  struct qr_err *err)
{
    bool use = family->has_window;
    const json_t *value = json_object_get(config, "sliding_window");

    QR_TRY(check_layer_types(json_object_get(config, "layer_types"), err));
    if (!family->has_window)
        QR_TRY(qr_json_bool(config, "use_sliding_window", &use, err));
    if (!use || json_is_null(value)) /* for Llama sliding_window means nothing */
        return QR_OK;
    if (out->arch == QR_ARCH_LLAMA && !family->has_window)
        return QR_OK;
    out->window = family->window;
    QR_TRY(read_size(config, "sliding_window", 1, &out->window, err));
    if (!family->has_window) {
        out->window_from = 28; /* Qwen2Config, Qwen3Config */
        QR_TRY(read_size(config, "max_window_layers", 0, &out->window_from, err));
    }
    if (present(config, "layer_types"))
        QR_TRY(read_layer_types(json_object_get(config, "layer_types"), out, err));
    /* a window over all the context is none, but where it decides on the rotation too */
    if ((out->window >= out->max_len && out->rope_local.theta == 0) || out->window_from >= out->n_layer) {
        out->window = 0;
        out->window_from = out->window_period = 0;
    }
    return QR_OK;
}

/* An id or a list of ids; null and absent leave what stands there. */
static enum qr_status read_eos(const json_t *object, struct qr_config *out, struct qr_err *err)
{
    const size_t room = sizeof out->eos / sizeof out->eos[0];
    const json_t *value = json_object_get(object, "eos_token_id");
    size_t n = json_is_array(value) ? json_array_size(value) : 1;

    if (!value || json_is_null(value))
        return QR_OK;
    if (n > room)
        return qr_fail(err, QR_LIMIT, "\"eos_token_id\" lists %zu ids; quire takes at most %zu", n, room);
    out->n_eos = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;

        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= out->n_vocab)
            return qr_fail(err, QR_INVALID, "\"eos_token_id\" must be ids from 0 to %d", out->n_vocab - 1);
        out->eos[out->n_eos++] = (int32_t)json_integer_value(id);
    }
    return QR_OK;
}

static enum qr_status read_generation(const json_t *generation, struct qr_config *out, struct qr_err *err)
{
    double temperature = -1, top_p = -1, penalty = -1;
    int64_t top_k = -1;
    bool sample = true;

    if (!json_is_object(generation))
        return qr_fail(err, QR_FORMAT, "it is no JSON object");
    QR_TRY(read_eos(generation, out, err));
    QR_TRY(qr_json_real(generation, "temperature", 0, 100, &temperature, err));
    QR_TRY(qr_json_real(generation, "top_p", 0, 1, &top_p, err));
    QR_TRY(qr_json_real(generation, "repetition_penalty", 0, 100, &penalty, err));
    QR_TRY(qr_json_int(generation, "top_k", -1, MAX_SIZE, &top_k, err)); /* -1: no limit, as vLLM writes it */
    QR_TRY(qr_json_bool(generation, "do_sample", &sample, err));
    out->gen_temperature = sample ? (float)temperature : 0;
    out->gen_top_p = (float)top_p;
    out->gen_repetition_penalty = (float)penalty;
    out->gen_top_k = (int)top_k;
    return QR_OK;
}

static enum qr_status read_config(const json_t *config, struct qr_config *out, struct qr_err *err)
{
    const struct family *family;
    const json_t *text;

    if (!json_is_object(config))
        return qr_fail(err, QR_FORMAT, "it is no JSON object");
    QR_TRY(find_family(config, &family, err));
    out->arch = family->arch;
    QR_TRY(qr_config_quant_from_hf(config, out, err));
    text = json_object_get(config, "text_config"); /* of models that see, too */
    if (!json_is_object(text))
        text = config;
    QR_TRY(read_sizes(text, family, out, err));
    QR_TRY(read_switches(text, out, err));
    QR_TRY(read_window(text, family, out, err));
    QR_TRY(qr_config_rope_from_hf(text, out, err));
    QR_TRY(read_eos(text, out, err));
    QR_TRY(read_eos(config, out, err));
    return read_size(config, "bos_token_id", 0, &out->bos, err);
}

enum qr_status qr_config_from_hf(const json_t *config, const json_t *generation, struct qr_config *out,
                                 struct qr_err *err)
{
    enum qr_status status;

    qr_config_clear(out);
    status = read_config(config, out, err);
    if (status != QR_OK)
        return qr_err_prefix(err, status, "config.json");
    status = generation ? read_generation(generation, out, err) : QR_OK;
    if (status != QR_OK)
        return qr_err_prefix(err, status, "generation_config.json");
    return qr_config_check(out, err);
}
