/* synth_config.c - config.json and generation_config.json of a Hugging Face directory, from a config struct. */
#include <stdlib.h>
#include <string.h>
#include "model/synth_parts.h"

enum qr_status qr_synth_write_json(const char *dir, const char *name, json_t *value, size_t flags, struct qr_err *err)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path)) {
        json_decref(value);
        return qr_fail(err, QR_INVALID, "the path %s/%s is longer than 4095 bytes", dir, name);
    }
    char *text = value ? json_dumps(value, flags | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(value);
    if (!text)
        return qr_fail(err, QR_NOMEM, "no memory for %s", name);
    enum qr_status status = qr_write_file(path, text, strlen(text), err);
    free(text);
    return status;
}

/* Gives the new reference to the object, which may be NULL; a failure shows in *failed. */
static void set(json_t *object, const char *key, json_t *value, bool *failed)
{
    if (json_object_set_new(object, key, value) != 0)
        *failed = true;
}

static json_t *eos_ids(const struct qr_config *c)
{
    if (c->n_eos == 0)
        return json_null();
    if (c->n_eos == 1)
        return json_integer(c->eos[0]);
    json_t *ids = json_array();
    for (int i = 0; i < c->n_eos; i++) {
        if (json_array_append_new(ids, json_integer(c->eos[i])) != 0) {
            json_decref(ids);
            return NULL;
        }
    }
    return ids;
}

static json_t *rope_scaling(const struct qr_rope *rope)
{
    if (rope->kind == QR_ROPE_LINEAR)
        return json_pack("{s:s, s:f}", "rope_type", "linear", "factor", rope->factor);
    if (rope->kind == QR_ROPE_LLAMA3)
        return json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor", rope->factor, "low_freq_factor",
                         rope->low_freq_factor, "high_freq_factor", rope->high_freq_factor,
                         "original_max_position_embeddings", (int)rope->original_max_len);
    return json_null();
}

static void set_gemma(const struct qr_config *c, json_t *o, bool *failed)
{
    set(o, "hidden_activation", json_string("gelu_pytorch_tanh"), failed);
    set(o, "query_pre_attn_scalar", json_real(qr_synth_tidy(1 / (c->attn_scale * c->attn_scale))), failed);
    set(o, "attn_logit_softcapping", c->attn_cap > 0 ? json_real((double)c->attn_cap) : json_null(), failed);
    set(o, "final_logit_softcapping", c->final_cap > 0 ? json_real((double)c->final_cap) : json_null(), failed);
    if (c->arch != QR_ARCH_GEMMA3)
        return;
    set(o, "rope_local_base_freq", json_real(c->rope_local.theta), failed);
    set(o, "sliding_window_pattern", json_integer(c->window_period), failed);
}

static void set_family(const struct qr_config *c, json_t *o, bool *failed)
{
    static const char *const class_name[QR_N_ARCH][2] = {
        {"LlamaForCausalLM", "llama"},   {"Qwen2ForCausalLM", "qwen2"},        {"Qwen3ForCausalLM", "qwen3"},
        {"Gemma2ForCausalLM", "gemma2"}, {"Gemma3ForCausalLM", "gemma3_text"}, {"Phi3ForCausalLM", "phi3"}};
    bool qwen = c->arch == QR_ARCH_QWEN2 || c->arch == QR_ARCH_QWEN3;
    bool mistral = c->arch == QR_ARCH_LLAMA && c->window > 0;
    set(o, "architectures", json_pack("[s]", mistral ? "MistralForCausalLM" : class_name[c->arch][0]), failed);
    set(o, "model_type", json_string(mistral ? "mistral" : class_name[c->arch][1]), failed);
    if (c->arch != QR_ARCH_QWEN2)
        set(o, "attention_bias", json_boolean(c->qkv_bias), failed);
    if (c->arch == QR_ARCH_LLAMA)
        set(o, "mlp_bias", json_boolean(c->mlp_bias), failed);
    if (c->gelu)
        set_gemma(c, o, failed);
    if (!qwen) {
        if (c->window > 0)
            set(o, "sliding_window", json_integer(c->window), failed);
        return;
    }
    set(o, "use_sliding_window", json_boolean(c->window > 0), failed);
    set(o, "sliding_window", c->window > 0 ? json_integer(c->window) : json_null(), failed);
    set(o, "max_window_layers", json_integer(c->window > 0 ? c->window_from : c->n_layer), failed);
}

static json_t *config_json(const struct qr_synth *s)
{
    const struct qr_config *c = s->config;
    static const char *const torch_name[] = {[QR_F32] = "float32", [QR_F16] = "float16", [QR_BF16] = "bfloat16"};
    const struct {
        const char *key;
        int32_t value;
    } size[] = {
        {"hidden_size", c->n_embd},         {"intermediate_size", c->n_ff},         {"num_hidden_layers", c->n_layer},
        {"num_attention_heads", c->n_head}, {"num_key_value_heads", c->n_kv_head},  {"head_dim", c->head_dim},
        {"vocab_size", c->n_vocab},         {"max_position_embeddings", c->max_len}};
    json_t *o = json_object();
    bool failed = false;
    set_family(c, o, &failed);
    for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++)
        set(o, size[i].key, json_integer(size[i].value), &failed);
    if (!c->gelu)
        set(o, "hidden_act", json_string("silu"), &failed);
    set(o, "rms_norm_eps", json_real(qr_synth_tidy(c->norm_eps)), &failed);
    set(o, "rope_theta", json_real(c->rope.theta), &failed);
    set(o, "rope_scaling", rope_scaling(&c->rope), &failed);
    if (c->rope_dim != 0)
        set(o, "partial_rotary_factor", json_real((double)c->rope_dim / c->head_dim), &failed);
    set(o, "tie_word_embeddings", json_boolean(c->tie_embd), &failed);
    set(o, "bos_token_id", c->bos >= 0 ? json_integer(c->bos) : json_null(), &failed);
    set(o, "eos_token_id", eos_ids(c), &failed);
    set(o, "torch_dtype", json_string(torch_name[s->type]), &failed);
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *generation_json(const struct qr_config *c)
{
    json_t *o = json_object();
    bool failed = false;
    set(o, "bos_token_id", c->bos >= 0 ? json_integer(c->bos) : json_null(), &failed);
    set(o, "eos_token_id", eos_ids(c), &failed);
    set(o, "do_sample", json_boolean(c->gen_temperature > 0), &failed);
    if (c->gen_temperature >= 0)
        set(o, "temperature", json_real(qr_synth_tidy(c->gen_temperature)), &failed);
    if (c->gen_top_p >= 0)
        set(o, "top_p", json_real(qr_synth_tidy(c->gen_top_p)), &failed);
    if (c->gen_top_k >= 0)
        set(o, "top_k", json_integer(c->gen_top_k), &failed);
    if (c->gen_repetition_penalty >= 0)
        set(o, "repetition_penalty", json_real(qr_synth_tidy(c->gen_repetition_penalty)), &failed);
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}

enum qr_status qr_synth_config(const struct qr_synth *s, const char *dir, struct qr_err *err)
{
    QR_TRY(qr_synth_write_json(dir, "config.json", config_json(s), JSON_INDENT(2), err));
    return qr_synth_write_json(dir, "generation_config.json", generation_json(s->config), JSON_INDENT(2), err);
}
