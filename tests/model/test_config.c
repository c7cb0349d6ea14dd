/* test_config.c - configs out of config.json and GGUF keys: published models' files give the published shapes, and
 * absurd numbers are refused (RELIABILITY 15). */
#include "model/config.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/json.h"
#include "common/tmp.h"
#include "model/make_gguf.h"
#include "model/make_st.h"

/* The sizes of config.json as published on the hub (Qwen/Qwen2.5-1.5B-Instruct, Qwen/Qwen3-0.6B,
 * meta-llama/Llama-3.2-1B-Instruct, mistralai/Mistral-7B-v0.1). */
static const char qwen25[] =
    "{\"architectures\":[\"Qwen2ForCausalLM\"],\"attention_dropout\":0.0,\"bos_token_id\":151643,\"eos_token_id\":"
    "151645,"
    "\"hidden_act\":\"silu\",\"hidden_size\":1536,\"initializer_range\":0.02,\"intermediate_size\":8960,"
    "\"max_position_embeddings\":32768,\"max_window_layers\":21,\"model_type\":\"qwen2\",\"num_attention_heads\":12,"
    "\"num_hidden_layers\":28,\"num_key_value_heads\":2,\"rms_norm_eps\":1e-06,\"rope_theta\":1000000.0,"
    "\"sliding_window\":32768,\"tie_word_embeddings\":true,\"torch_dtype\":\"bfloat16\","
    "\"use_sliding_window\":false,\"vocab_size\":151936}";
static const char qwen25_generation[] =
    "{\"bos_token_id\":151643,\"pad_token_id\":151643,\"do_sample\":true,\"eos_token_id\":[151645,151643],"
    "\"repetition_penalty\":1.1,\"temperature\":0.7,\"top_p\":0.8,\"top_k\":20}";
static const char qwen3[] =
    "{\"architectures\":[\"Qwen3ForCausalLM\"],\"attention_bias\":false,\"bos_token_id\":151643,"
    "\"eos_token_id\":151645,\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":1024,"
    "\"intermediate_size\":3072,\"max_position_embeddings\":40960,\"max_window_layers\":28,\"model_type\":\"qwen3\","
    "\"num_attention_heads\":16,\"num_hidden_layers\":28,\"num_key_value_heads\":8,\"rms_norm_eps\":1e-06,"
    "\"rope_scaling\":null,\"rope_theta\":1000000,\"sliding_window\":null,\"tie_word_embeddings\":true,"
    "\"use_sliding_window\":false,\"vocab_size\":151936}";
static const char llama32[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"attention_bias\":false,\"bos_token_id\":128000,"
    "\"eos_token_id\":[128001,128008,128009],\"head_dim\":64,\"hidden_act\":\"silu\",\"hidden_size\":2048,"
    "\"intermediate_size\":8192,\"max_position_embeddings\":131072,\"mlp_bias\":false,\"model_type\":\"llama\","
    "\"num_attention_heads\":32,\"num_hidden_layers\":16,\"num_key_value_heads\":8,\"pretraining_tp\":1,"
    "\"rms_norm_eps\":1e-05,\"rope_scaling\":{\"factor\":32.0,\"high_freq_factor\":4.0,\"low_freq_factor\":1.0,"
    "\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},\"rope_theta\":500000.0,"
    "\"tie_word_embeddings\":true,\"vocab_size\":128256}";
static const char mistral[] =
    "{\"architectures\":[\"MistralForCausalLM\"],\"bos_token_id\":1,\"eos_token_id\":2,\"hidden_act\":\"silu\","
    "\"hidden_size\":4096,\"intermediate_size\":14336,\"max_position_embeddings\":32768,\"model_type\":\"mistral\","
    "\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":8,\"rms_norm_eps\":1e-05,"
    "\"rope_theta\":10000.0,\"sliding_window\":4096,\"tie_word_embeddings\":false,\"vocab_size\":32000}";

static json_t *parsed(const char *text)
{
    struct qr_err err;
    json_t *value;

    if (qr_json_parse(text, strlen(text), "test", &value, &err) != QR_OK)
        fail_msg("%s", err.message);
    return value;
}

static struct qr_config read_hf(const char *text, const char *generation_text)
{
    json_t *config = parsed(text), *generation = generation_text ? parsed(generation_text) : NULL;
    struct qr_config out;
    struct qr_err err;

    if (qr_config_from_hf(config, generation, &out, &err) != QR_OK)
        fail_msg("%s", err.message);
    json_decref(config);
    json_decref(generation);
    return out;
}

/* base with some keys replaced (a JSON object; a null value with "-key" deletes). */
static json_t *changed(const char *base, const char *changes)
{
    json_t *config = parsed(base), *change = parsed(changes), *value;
    const char *key;

    json_object_foreach(change, key, value)
    {
        if (key[0] == '-')
            json_object_del(config, key + 1);
        else
            json_object_set(config, key, value);
    }
    json_decref(change);
    return config;
}

static struct qr_config read_changed(const char *base, const char *changes)
{
    json_t *config = changed(base, changes);
    char *text = json_dumps(config, 0);
    struct qr_config out = read_hf(text, NULL);

    free(text);
    json_decref(config);
    return out;
}

static void refused(const char *base, const char *changes, const char *says)
{
    json_t *config = changed(base, changes);
    struct qr_config out;
    struct qr_err err = {0};

    if (qr_config_from_hf(config, NULL, &out, &err) == QR_OK)
        fail_msg("%s is accepted", changes);
    if (!strstr(err.message, says))
        fail_msg("%s: \"%s\" does not say \"%s\"", changes, err.message, says);
    json_decref(config);
}

static void same_shape(const struct qr_config *a, const char *shape)
{
    struct qr_config b;
    struct qr_err err;

    assert_int_equal(qr_config_from_shape(shape, &b, &err), QR_OK);
    assert_int_equal(a->arch, b.arch);
    assert_int_equal(a->n_layer, b.n_layer);
    assert_int_equal(a->n_embd, b.n_embd);
    assert_int_equal(a->n_head, b.n_head);
    assert_int_equal(a->n_kv_head, b.n_kv_head);
    assert_int_equal(a->head_dim, b.head_dim);
    assert_int_equal(a->n_ff, b.n_ff);
    assert_int_equal(a->n_vocab, b.n_vocab);
    assert_int_equal(a->max_len, b.max_len);
    assert_true(a->norm_eps == b.norm_eps);
    assert_int_equal(a->tie_embd, b.tie_embd);
    assert_int_equal(a->qkv_bias, b.qkv_bias);
    assert_int_equal(a->o_bias, b.o_bias);
    assert_int_equal(a->mlp_bias, b.mlp_bias);
    assert_int_equal(a->qk_norm, b.qk_norm);
    assert_int_equal(a->window, b.window);
    assert_int_equal(a->rope.kind, b.rope.kind);
    assert_true(a->rope.theta == b.rope.theta);
    assert_true(a->rope.factor == b.rope.factor);
    assert_true(a->rope.low_freq_factor == b.rope.low_freq_factor);
    assert_true(a->rope.high_freq_factor == b.rope.high_freq_factor);
    assert_int_equal(a->rope.original_max_len, b.rope.original_max_len);
}

static void published_configs_have_the_named_shapes(void **state)
{
    struct qr_config c = read_hf(qwen25, qwen25_generation);

    (void)state;
    same_shape(&c, "qwen2.5-1.5b");
    assert_true(c.qkv_bias && !c.o_bias);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos[0], 151645);
    assert_int_equal(c.eos[1], 151643);
    assert_int_equal(c.bos, 151643);
    assert_true(fabsf(c.gen_temperature - 0.7f) < 1e-6f && fabsf(c.gen_top_p - 0.8f) < 1e-6f);
    assert_true(fabsf(c.gen_repetition_penalty - 1.1f) < 1e-6f);
    assert_int_equal(c.gen_top_k, 20);
    c = read_hf(qwen3, NULL);
    same_shape(&c, "qwen3-0.6b");
    assert_true(c.qk_norm && c.gen_temperature < 0 && c.gen_top_k < 0);
    c = read_hf(llama32, NULL);
    same_shape(&c, "llama-3.2-1b");
    assert_int_equal(c.n_eos, 3);
    c = read_hf(mistral, "{}");
    assert_int_equal(c.arch, QR_ARCH_LLAMA);
    assert_int_equal(c.window, 4096);
    assert_int_equal(c.window_from, 0);
    assert_int_equal(c.head_dim, 128);
    assert_int_equal(c.eos[0], 2);
}

static void absent_fields_mean_what_the_class_says(void **state)
{
    struct qr_config c = read_changed(mk_st_config, "{\"-num_key_value_heads\":0,\"-rope_theta\":0,\"-rms_norm_eps\":0,"
                                                    "\"-max_position_embeddings\":0,\"-hidden_act\":0,"
                                                    "\"-tie_word_embeddings\":0,\"-bos_token_id\":0,"
                                                    "\"-eos_token_id\":0}");

    (void)state;
    assert_int_equal(c.n_kv_head, 2);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.max_len, 2048);
    assert_true(c.rope.theta == 10000 && c.norm_eps == 1e-6f);
    assert_false(c.tie_embd);
    assert_int_equal(c.bos, -1);
    assert_int_equal(c.n_eos, 0);
    c = read_changed(mk_st_config, "{\"-architectures\":0}"); /* model_type does as well */
    assert_int_equal(c.arch, QR_ARCH_LLAMA);
    c = read_changed(mk_st_config, "{\"head_dim\":null,\"num_key_value_heads\":null}");
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.n_kv_head, 2);
    c = read_changed(mk_st_config, "{\"head_dim\":64,\"attention_bias\":true,\"mlp_bias\":true}");
    assert_int_equal(c.head_dim, 64);
    assert_true(c.qkv_bias && c.o_bias && c.mlp_bias);
    c = read_changed(qwen3, "{\"-head_dim\":0,\"attention_bias\":true}");
    assert_int_equal(c.head_dim, 128);
    assert_true(c.qkv_bias && c.o_bias && !c.mlp_bias);
    c = read_changed(mistral, "{\"-sliding_window\":0}");
    assert_int_equal(c.window, 4096);
    c = read_changed(mistral, "{\"sliding_window\":null}");
    assert_int_equal(c.window, 0);
    assert_true(read_hf(mk_st_config, "{\"do_sample\":false,\"temperature\":0.6}").gen_temperature == 0);
}

static void windows(void **state)
{
    struct qr_config c = read_changed(qwen25, "{\"use_sliding_window\":true,\"sliding_window\":1000}");

    (void)state;
    assert_int_equal(c.window, 1000);
    assert_int_equal(c.window_from, 21);
    c = read_changed(qwen25, "{\"use_sliding_window\":true,\"sliding_window\":1000,\"-max_window_layers\":0,"
                             "\"num_hidden_layers\":36}");
    assert_int_equal(c.window_from, 28);
    c = read_changed(qwen25, "{\"use_sliding_window\":true,\"sliding_window\":1000,\"max_window_layers\":28}");
    assert_int_equal(c.window, 0); /* no layer is left for it */
    c = read_changed(qwen25, "{\"use_sliding_window\":true}");
    assert_int_equal(c.window, 0); /* as long as the context */
    c = read_changed(mk_st_config, "{\"sliding_window\":16}");
    assert_int_equal(c.window, 0); /* LlamaConfig has no such field */
    c = read_changed(mk_st_config, "{\"architectures\":[\"Qwen2ForCausalLM\"],\"use_sliding_window\":true,"
                                   "\"sliding_window\":9,\"layer_types\":[\"full_attention\",\"sliding_attention\"]}");
    assert_int_equal(c.window, 9);
    assert_int_equal(c.window_from, 1);
    c = read_changed(mk_st_config, "{\"architectures\":[\"Qwen2ForCausalLM\"],\"use_sliding_window\":true,"
                                   "\"sliding_window\":9,\"layer_types\":[\"sliding_attention\",\"full_attention\"]}");
    assert_int_equal(c.window_period, 2);
    assert_true(qr_config_has_window(&c, 0) && !qr_config_has_window(&c, 1));
    refused(mk_st_config,
            "{\"architectures\":[\"Qwen2ForCausalLM\"],\"use_sliding_window\":true,\"sliding_window\":9,"
            "\"num_hidden_layers\":4,\"layer_types\":[\"sliding_attention\",\"full_attention\","
            "\"full_attention\",\"sliding_attention\"]}",
            "layer 2 is the first");
    refused(mk_st_config,
            "{\"architectures\":[\"Qwen2ForCausalLM\"],\"use_sliding_window\":true,\"sliding_window\":9,"
            "\"layer_types\":[\"linear_attention\",\"full_attention\"]}",
            "linear_attention");
}

/* gemma-3-4b-it: the text part leaves out what Gemma3TextConfig has anyway. gemma-2: null caps are none. */
static void gemma(void **state)
{
    struct qr_config c = read_changed(
        "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"model_type\":\"gemma3\",\"eos_token_id\":[1,106],"
        "\"text_config\":{\"hidden_size\":2560,\"intermediate_size\":10240,\"num_hidden_layers\":34,"
        "\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"},\"sliding_window\":1024},\"vision_config\":{}}",
        "{}");

    (void)state;
    assert_int_equal(c.arch, QR_ARCH_GEMMA3);
    assert_true(c.n_head == 8 && c.n_kv_head == 4 && c.head_dim == 256 && c.n_vocab == 262208 && c.max_len == 131072);
    assert_true(c.rope.theta == 1e6 && c.rope.kind == QR_ROPE_LINEAR && c.rope.factor == 8);
    assert_true(c.rope_local.theta == 10000 && c.rope_local.kind == QR_ROPE_DEFAULT);
    assert_true(c.window == 1024 && c.window_period == 6 && c.attn_scale == 1 / 16.0f && c.attn_cap == 0);
    assert_true(c.qk_norm && c.post_norms && c.norm_plus_one && c.gelu && fabsf(c.embd_scale - 50.596443f) < 1e-5f);
    assert_true(c.n_eos == 2 && c.eos[1] == 106);
    for (int i = 0; i < 34; i++)
        assert_int_equal(qr_config_has_window(&c, i), i % 6 != 5);
    c = read_changed(mk_st_config,
                     "{\"architectures\":[\"Gemma2ForCausalLM\"],\"-hidden_act\":0,\"sliding_window\":16}");
    assert_true(c.attn_cap == 50 && c.final_cap == 30 && c.window_period == 2 && !c.qk_norm && c.rope_local.theta == 0);
    c = read_changed(mk_st_config, "{\"architectures\":[\"Gemma2ForCausalLM\"],\"-hidden_act\":0,"
                                   "\"final_logit_softcapping\":null,\"attn_logit_softcapping\":20}");
    assert_true(c.attn_cap == 20 && c.final_cap == 0);
    refused(mk_st_config, "{\"architectures\":[\"Gemma2ForCausalLM\"],\"hidden_act\":\"gelu\"}", "gelu_pytorch_tanh");
    c = read_changed(mk_st_config, "{\"architectures\":[\"Phi3ForCausalLM\"],\"partial_rotary_factor\":0.75}");
    assert_true(c.head_dim == 16 && c.rope_dim == 12 && qr_config_rope_dim(&c) == 12);
    c = read_changed(mk_st_config, "{\"architectures\":[\"Phi3ForCausalLM\"],\"partial_rotary_factor\":1}");
    assert_true(c.rope_dim == 0 && qr_config_rope_dim(&c) == 16);
    refused(mk_st_config, "{\"architectures\":[\"Phi3ForCausalLM\"],\"partial_rotary_factor\":0.7}", "11 numbers");
    refused(mk_st_config, "{\"architectures\":[\"Phi3ForCausalLM\"],\"partial_rotary_factor\":0.1}", "2 or more");
    refused(mk_st_config, "{\"architectures\":[\"Phi3ForCausalLM\"],\"partial_rotary_factor\":1.5}", "1.5");
    refused(mk_st_config, "{\"architectures\":[\"GemmaForCausalLM\"]}", "Gemma2, Gemma3 and Phi3");
}

static void rope_in_every_spelling(void **state)
{
    struct qr_config c =
        read_changed(mk_st_config, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5},\"rope_theta\":7}");

    (void)state;
    assert_int_equal(c.rope.kind, QR_ROPE_LINEAR);
    assert_true(c.rope.factor == 2.5 && c.rope.theta == 7);
    c = read_changed(mk_st_config, "{\"-rope_theta\":0,\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":4,"
                                   "\"rope_theta\":123.5}}");
    assert_int_equal(c.rope.kind, QR_ROPE_LINEAR);
    assert_true(c.rope.factor == 4 && c.rope.theta == 123.5);
    c = read_changed(mk_st_config, "{\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5e5}}");
    assert_int_equal(c.rope.kind, QR_ROPE_DEFAULT);
    assert_true(c.rope.theta == 5e5);
    c = read_changed(mk_st_config, "{\"rope_scaling\":{\"rope_type\":\"default\"}}");
    assert_int_equal(c.rope.kind, QR_ROPE_DEFAULT);
    c = read_changed(mk_st_config, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0}}");
    assert_int_equal(c.rope.kind, QR_ROPE_YARN);
    assert_true(c.rope.factor == 4 && c.rope.beta_fast == 32 && c.rope.beta_slow == 1);
    assert_int_equal(c.max_len, 4 * c.rope.original_max_len); /* it reaches further than the file's context */
    c = read_changed(mk_st_config, "{\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}");
    assert_int_equal(c.rope.kind, QR_ROPE_DYNAMIC);
    refused(mk_st_config, "{\"rope_scaling\":{\"rope_type\":\"longrope\"}}", "short_factor");
    refused(mk_st_config, "{\"rope_scaling\":{\"rope_type\":\"spiral\"}}", "\"spiral\" is not supported");
    refused(mk_st_config, "{\"rope_scaling\":{\"type\":\"linear\"}}", "\"factor\" is missing");
    refused(mk_st_config, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}}", "factor is 0");
    refused(mk_st_config, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":-1}}", "factor");
    refused(mk_st_config, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"2\"}}", "must be a number");
    refused(mk_st_config, "{\"rope_scaling\":[1]}", "no JSON object");
    refused(mk_st_config, "{\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1}}}", "differs by layer");
    refused(mk_st_config, "{\"partial_rotary_factor\":0.5}", "partial_rotary_factor");
    refused(llama32,
            "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4,"
            "\"original_max_position_embeddings\":8192}}",
            "must be below");
    refused(llama32, "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1}}",
            "high_freq_factor");
    refused(llama32,
            "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4}}",
            "original_max_position_embeddings");
}

static void refuses_absurd_numbers(void **state)
{
    static const char *const sizes[] = {
        "hidden_size", "intermediate_size",   "num_hidden_layers", "num_attention_heads",
        "vocab_size",  "num_key_value_heads", "head_dim",          "max_position_embeddings"};
    static const char *const values[] = {"0",   "-1", "2147483648", "2147483647", "9223372036854775807",
                                         "1.5", "{}", "\"8\"",      "true",       "[]"};
    char changes[128];

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
            snprintf(changes, sizeof changes, "{\"%s\":%s}", sizes[i], values[k]);
            refused(mk_st_config, changes, "");
        }
        if (i < 5) {
            snprintf(changes, sizeof changes, "{\"-%s\":0}", sizes[i]);
            refused(mk_st_config, changes, sizes[i]);
        }
    }
    refused(mk_st_config, "{\"num_attention_heads\":3}", "cannot be divided");
    refused(mk_st_config, "{\"num_attention_heads\":4,\"num_key_value_heads\":3}", "cannot be divided among 3");
    refused(mk_st_config, "{\"num_key_value_heads\":4}", "it must be 1 to 2");
    refused(mk_st_config, "{\"head_dim\":15}", "must be even");
    refused(mk_st_config, "{\"head_dim\":514}", "head_dim is 514");
    refused(mk_st_config, "{\"rms_norm_eps\":0}", "rms_norm_eps is 0");
    refused(mk_st_config, "{\"rms_norm_eps\":-1e-6}", "rms_norm_eps");
    refused(mk_st_config, "{\"rms_norm_eps\":1e-300}", "rms_norm_eps is 0"); /* not a float any more */
    refused(mk_st_config, "{\"rope_theta\":0}", "rope_theta is 0");
    refused(mk_st_config, "{\"rope_theta\":-5}", "rope_theta");
    refused(mk_st_config, "{\"rope_theta\":1e-300}", "rope_theta");
    refused(mk_st_config, "{\"rope_theta\":0.5}", "at least 1");
    refused(mk_st_config, "{\"eos_token_id\":40}", "0 to 39");
    refused(mk_st_config, "{\"eos_token_id\":[1,-1]}", "0 to 39");
    refused(mk_st_config, "{\"eos_token_id\":[1,2,3,4,5,6,7,8,9]}", "at most 8");
    refused(mk_st_config, "{\"eos_token_id\":\"</s>\"}", "eos_token_id");
    refused(mk_st_config, "{\"bos_token_id\":40}", "bos_token_id is 40");
}

/* Every real number of every spelling: what no float holds, what is negative, no number. Numbers as files write them, so that
 * what a parser makes of huge exponents is in it. */
static void refuses_numbers_out_of_range(void **state)
{
    static const char *const places[] = {
        "\"rms_norm_eps\":%s",
        "\"rope_theta\":%s",
        "\"partial_rotary_factor\":%s",
        "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":%s}",
        "\"rope_scaling\":{\"type\":\"linear\",\"factor\":%s}",
        "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":%s}",
        "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"attention_factor\":%s}",
        "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":%s}",
        "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"beta_slow\":%s}",
        "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"mscale\":%s,\"mscale_all_dim\":1}",
        "\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[%s],\"long_factor\":[2]}",
        "\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1],\"long_factor\":[%s]}",
        "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":%s,\"low_freq_factor\":1,\"high_freq_factor\":4,"
        "\"original_max_position_embeddings\":64}",
        "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":%s,\"high_freq_factor\":4,"
        "\"original_max_position_embeddings\":64}",
        "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":%s,"
        "\"original_max_position_embeddings\":64}",
        "\"architectures\":[\"Gemma2ForCausalLM\"],\"hidden_act\":\"gelu_pytorch_tanh\",\"query_pre_attn_scalar\":%s",
        "\"architectures\":[\"Gemma2ForCausalLM\"],\"hidden_act\":\"gelu_pytorch_tanh\",\"attn_logit_softcapping\":%s",
        "\"architectures\":[\"Gemma2ForCausalLM\"],\"hidden_act\":\"gelu_pytorch_tanh\",\"final_logit_softcapping\":%s",
    };
    static const char *const numbers[] = {"1e308", "1e39", "-1e39", "-1", "-1e-9", "\"1\"", "[]", "true"};
    static const char *const none[] = {"NaN", "Infinity", "-Infinity", "1e999", "-1e999"};
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char member[300], text[400];
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            snprintf(member, sizeof member, places[i], numbers[k]);
            snprintf(text, sizeof text, "{%s}", member);
            refused(mk_st_config, text, "");
        }
        for (size_t k = 0; k < sizeof none / sizeof *none; k++) {
            json_t *config;
            struct qr_err err;
            snprintf(member, sizeof member, places[i], none[k]);
            int n = snprintf(text, sizeof text, "{%s}", member);
            assert_int_not_equal(qr_json_parse_file(text, (size_t)n, "config.json", &config, &err), QR_OK);
        }
    }
    refused(mk_st_config, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"attention_factor\":1e-300}}",
            "attention_factor");
    refused(mk_st_config,
            "{\"architectures\":[\"Gemma2ForCausalLM\"],\"hidden_act\":\"gelu_pytorch_tanh\",\"attn_logit_"
            "softcapping\":1e-300}",
            "too little for a cap");
    refused(
        mk_st_config,
        "{\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,1,1,1,1,1,1,1],\"long_factor\":[1,1,1,1,1,1,1,1],"
        "\"original_max_position_embeddings\":1}}",
        "longrope wants 2 or more");
}

static void refuses_by_name_what_it_does_not_know(void **state)
{
    (void)state;
    refused(mk_st_config, "{\"architectures\":[\"MixtralForCausalLM\"]}", "MixtralForCausalLM; quire knows Llama");
    refused(mk_st_config, "{\"architectures\":[],\"model_type\":\"gpt2\"}", "gpt2");
    refused(mk_st_config, "{\"-architectures\":0,\"-model_type\":0}", "neither");
    refused(mk_st_config, "{\"hidden_act\":\"gelu\"}", "gelu");
    refused(mk_st_config, "{\"quantization_config\":{\"quant_method\":\"quip\"}}", "\"quip\"");
    refused(mk_st_config, "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":3}}", "3 bits");
    refused(mk_st_config, "{\"quantization_config\":{\"quant_method\":\"awq\",\"version\":\"gemv\"}}", "gemv");
    refused(mk_st_config, "{\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"}}", "e5m2");
    refused(mk_st_config,
            "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\"}}",
            "pack-quantized");
    refused(mk_st_config,
            "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\",\"config_"
            "groups\":{\"g0\":{\"weights\":{\"type\":\"int\",\"num_bits\":8}}}}}",
            "type int with 8 bits");
    refused(mk_st_config,
            "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\",\"config_"
            "groups\":{\"g0\":{\"weights\":{\"type\":\"float\",\"num_bits\":4}}}}}",
            "4 bits");
    refused(
        mk_st_config,
        "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\",\"config_"
        "groups\":{\"g0\":{\"weights\":{\"type\":\"float\",\"strategy\":\"block\",\"block_structure\":[128,16]}}}}}",
        "block_structure");
    refused(mk_st_config,
            "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\",\"config_"
            "groups\":{\"g0\":{\"weights\":{\"type\":\"float\",\"strategy\":\"block\",\"block_structure\":[128,128]}},"
            "\"g1\":{\"weights\":"
            "{\"type\":\"float\",\"strategy\":\"channel\"}}}}}",
            "blocks differ");
    refused(mk_st_config,
            "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\","
            "\"transform_config\":{\"R1\":{}}}}",
            "transform_config");
    refused(mk_st_config, "{\"quantization_config\":{}}", "quantised");
    refused(mk_st_config, "{\"tie_word_embeddings\":1}", "true or false");
    refused(mk_st_config, "{\"layer_types\":[\"full_attention\",\"linear_attention\"]}", "\"linear_attention\"");
    refused(mk_st_config, "{\"layer_types\":[1]}", "layer 0");
    refused(mk_st_config, "{\"use_bidirectional_attention\":true}", "embeddings");
    refused(qwen25, "{\"layer_types\":[\"linear_attention\"]}", "linear_attention"); /* windows are off there */
    refused(qwen25, "{\"use_sliding_window\":\"no\"}", "true or false");
}

/* What compressed-tensors' config may say, and a word of the sentence that refuses it. NULL: it is read. */
static void compressed_tensors_that_are_not_read(void **state)
{
    static const struct {
        const char *top, *weights; /* members of the config, and of a group's weights, both begin with a comma */
        const char *word;
        enum qr_scales scales;
    } all[] = {
        {"", ",\"strategy\":\"tensor\"", NULL, QR_SCALES_ONE},
        {"", ",\"strategy\":\"channel\"", NULL, QR_SCALES_ROWS},
        {"", ",\"strategy\":\"channel\",\"group_size\":-1", NULL, QR_SCALES_ROWS},
        {"", "", NULL, QR_SCALES_ONE},
        {"", ",\"group_size\":-1", NULL, QR_SCALES_ROWS},
        {"", ",\"strategy\":\"block\",\"block_structure\":[16,32]", NULL, QR_SCALES_ANY},
        {",\"sparsity_config\":{\"format\":\"dense\"},\"kv_cache_scheme\":null",
         ",\"group_size\":null,\"dynamic\":false,\"symmetric\":true,\"actorder\":null,\"block_structure\":null", NULL,
         QR_SCALES_ONE},
        {"", ",\"strategy\":\"group\",\"group_size\":128", "strategy group", 0},
        {"", ",\"group_size\":128", "strategy group", 0},
        {"", ",\"strategy\":\"token\"", "strategy token", 0},
        {"", ",\"strategy\":7", "strategy", 0},
        {"", ",\"strategy\":\"channel\",\"group_size\":128", "group_size 128 makes no sense with strategy channel", 0},
        {"", ",\"strategy\":\"tensor\",\"group_size\":-1", "group_size -1", 0},
        {"", ",\"group_size\":-2", "group_size", 0},
        {"", ",\"strategy\":\"block\"", "needs a block_structure", 0},
        {"", ",\"strategy\":\"tensor\",\"block_structure\":[16,32]", "no use for a block_structure", 0},
        {"", ",\"strategy\":\"block\",\"block_structure\":\"16x32\"", "two numbers", 0},
        {"", ",\"symmetric\":false", "zero points", 0},
        {"", ",\"symmetric\":0", "symmetric", 0},
        {"", ",\"dynamic\":true", "dynamic", 0},
        {"", ",\"dynamic\":\"local\"", "dynamic", 0},
        {"", ",\"actorder\":\"group\"", "actorder", 0},
        {",\"sparsity_config\":{\"format\":\"sparse-24-bitmask\"}", "", "sparsity_config", 0},
        {",\"sparsity_config\":[]", "", "sparsity_config must be an object", 0},
        {",\"config_groups\":[1]", NULL, "config_groups must be an object", 0},
        {",\"config_groups\":{\"g\":3}", NULL, "g: it has no weights", 0},
        {",\"config_groups\":{\"g\":{\"weights\":\"float\"}}", NULL, "g: it has no weights", 0},
        {",\"config_groups\":{\"g\":{\"weights\":{\"num_bits\":8}}}", NULL, "type int with 8 bits", 0},
        {",\"config_groups\":{\"g\":{\"weights\":{\"type\":\"float\",\"num_bits\":0}}}", NULL, "num_bits", 0},
        {",\"config_groups\":{\"g\":{\"format\":\"nvfp4-pack-quantized\",\"weights\":{\"type\":\"float\"}}}", NULL,
         "g of format nvfp4-pack-quantized", 0},
        {",\"config_groups\":{}", NULL, NULL, QR_SCALES_ANY},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[600];
        struct qr_config c;
        struct qr_err err;
        int n = snprintf(
            text, sizeof text,
            "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\"%s",
            all[i].top);
        if (all[i].weights)
            n += snprintf(text + n, sizeof text - (size_t)n,
                          ",\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":8,"
                          "\"type\":\"float\"%s}}}",
                          all[i].weights);
        snprintf(text + n, sizeof text - (size_t)n, "}}");
        if (all[i].word) {
            refused(mk_st_config, text, all[i].word);
            continue;
        }
        json_t *config = changed(mk_st_config, text);
        if (qr_config_from_hf(config, NULL, &c, &err) != QR_OK)
            fail_msg("%s: %s", text, err.message);
        json_decref(config);
        assert_int_equal(c.quant.scales, all[i].scales);
        assert_int_equal(c.quant.method, QR_QUANT_FP8);
    }
}

/* Every bit of a config.json flipped and every byte cut off: an error or a config that passes the gate. */
static void survives_every_cut_and_flip(void **state)
{
    char *text = strdup(llama32);
    size_t n = strlen(text);
    struct qr_config c;
    struct qr_err err;
    json_t *config;
    int n_good = 0, n_bad = 0;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        assert_int_not_equal(qr_json_parse(text, i, "cut", &config, &err), QR_OK);
        for (int bit = 0; bit < 8; bit++) {
            text[i] ^= (char)(1 << bit);
            if (qr_json_parse(text, n, "flip", &config, &err) == QR_OK) {
                if (qr_config_from_hf(config, NULL, &c, &err) == QR_OK) {
                    assert_int_equal(qr_config_check(&c, &err), QR_OK);
                    n_good++;
                } else {
                    n_bad++;
                }
                json_decref(config);
            }
            text[i] ^= (char)(1 << bit);
        }
    }
    assert_true(n_good > 100 && n_bad > 100);
    free(text);
}

static void shapes(void **state)
{
    static const char *const names[] = {"qwen2.5-0.5b", "qwen2.5-7b", "qwen3-4b",   "llama-3.1-8b", "smollm2-135m",
                                        "mistral-7b",   "tiny-llama", "tiny-qwen2", "tiny-qwen3",   "tiny-mistral"};
    struct qr_config c;
    struct qr_err err;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(qr_config_from_shape(names[i], &c, &err), QR_OK);
        assert_string_equal(c.name, names[i]);
        assert_true(c.gen_temperature < 0);
    }
    assert_int_equal(qr_config_from_shape("gpt-5", &c, &err), QR_NOTFOUND);
    assert_non_null(strstr(err.message, "gpt-5"));
    assert_non_null(strstr(err.message, "qwen2.5-1.5b"));
    assert_int_equal(qr_config_from_shape("", &c, &err), QR_NOTFOUND);
}

static enum qr_status read_gguf(void **state, struct make_gguf *m, struct qr_config *out, struct qr_err *err)
{
    struct qr_gguf *gguf;
    enum qr_status status;

    mk_finish(m);
    status = qr_gguf_open(tmp_write(state, "m.gguf", m->file.data, m->file.len), &gguf, err);
    if (status == QR_OK)
        status = qr_config_from_gguf(gguf, out, err);
    qr_gguf_close(gguf);
    mk_free(m);
    mk_init(m);
    return status;
}

static void reads_gguf_keys(void **state)
{
    struct make_gguf m;
    struct qr_config c;
    struct qr_err err;

    mk_init(&m);
    mk_model_keys(&m, "llama");
    mk_str(&m, "general.name", "Small Llama");
    mk_f32(&m, "general.sampling.temp", 0.25f);
    mk_raw(&m, "general.sampling.top_k", 5, "\x14\0\0\0", 4);
    mk_model_tensors(&m, "llama");
    assert_int_equal(read_gguf(state, &m, &c, &err), QR_OK);
    assert_string_equal(c.name, "Small Llama");
    assert_int_equal(c.arch, QR_ARCH_LLAMA);
    assert_int_equal(c.n_layer, 2);
    assert_int_equal(c.n_embd, 32);
    assert_int_equal(c.n_head, 2);
    assert_int_equal(c.n_kv_head, 1);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.n_ff, 64);
    assert_int_equal(c.n_vocab, 40);
    assert_int_equal(c.max_len, 128);
    assert_true(c.rope.theta == 50000 && c.norm_eps == 1e-5f);
    assert_true(c.tie_embd && !c.qkv_bias && !c.qk_norm);
    assert_int_equal(c.n_eos, 2); /* the key's, and <|im_end|> by its text */
    assert_int_equal(c.eos[0], 3);
    assert_int_equal(c.eos[1], 39);
    assert_int_equal(c.bos, 1);
    assert_true(c.gen_temperature == 0.25f && c.gen_top_p < 0);
    assert_int_equal(c.gen_top_k, 20);

    mk_model_keys(&m, "qwen3");
    mk_u32(&m, "qwen3.attention.key_length", 16);
    mk_u32(&m, "qwen3.attention.value_length", 16);
    mk_str(&m, "qwen3.rope.scaling.type", "linear");
    mk_f32(&m, "qwen3.rope.scaling.factor", 4);
    mk_model_tensors(&m, "qwen3");
    mk_tensor(&m, "output.weight", 0, 2, (const uint64_t[]){32, 40}, NULL, 32 * 40 * 4);
    assert_int_equal(read_gguf(state, &m, &c, &err), QR_OK);
    assert_int_equal(c.arch, QR_ARCH_QWEN3);
    assert_true(c.qk_norm && !c.tie_embd);
    assert_int_equal(c.rope.kind, QR_ROPE_LINEAR);
    assert_true(c.rope.factor == 4);

    mk_model_keys(&m, "qwen2"); /* a tokenizer alone: the vocabulary is that of its tokens */
    assert_int_equal(read_gguf(state, &m, &c, &err), QR_OK);
    assert_int_equal(c.n_vocab, 40);
    assert_true(c.qkv_bias);
}

static void a_name_is_whole_utf8(void **state)
{
    struct make_gguf m;
    struct qr_config c;
    struct qr_err err;
    char name[300];

    mk_init(&m);
    mk_model_keys(&m, "llama");
    mk_str(&m, "general.name", "a\x01\x7F \xC3\xA9 \xC3 \xED\xA0\x80 \xC0\x80 \xF0\x9F\x99\x82 \xE2\x82");
    assert_int_equal(read_gguf(state, &m, &c, &err), QR_OK);
    assert_string_equal(c.name, "a?? \xC3\xA9 ? ??? ?? \xF0\x9F\x99\x82 ??");
    mk_model_keys(&m, "llama");
    for (int i = 0; i < 299; i++) /* 127 bytes have room: 63 letters of two bytes */
        name[i] = (char)(i % 2 ? 0xA9 : 0xC3);
    name[299] = 0;
    mk_str(&m, "general.name", name);
    assert_int_equal(read_gguf(state, &m, &c, &err), QR_OK);
    assert_int_equal(strlen(c.name), 126);
}

/* One key more or another value in its place is refused with those words. */
static void refused_gguf(void **state, const char *key, uint32_t kind, const void *value, size_t n, const char *says)
{
    struct make_gguf m;
    struct qr_config c;
    struct qr_err err = {0};

    mk_init(&m);
    mk_model_keys(&m, "llama");
    mk_raw(&m, key, kind, value, n);
    mk_model_tensors(&m, "llama");
    assert_int_not_equal(read_gguf(state, &m, &c, &err), QR_OK);
    if (!strstr(err.message, says))
        fail_msg("%s: \"%s\" does not say \"%s\"", key, err.message, says);
}

static void refuses_bad_gguf_keys(void **state)
{
    const float nan_value = NAN, half = 0.5f;
    const uint32_t eight = 8, zero = 0, huge = 1u << 31;

    refused_gguf(state, "llama.rope.scaling.type", 8, "\4\0\0\0\0\0\0\0yarm", 12, "\"yarm\"");
    refused_gguf(state, "llama.expert_count", 4, &eight, 4, "8 experts");
    refused_gguf(state, "split.count", 4, &eight, 4, "-00001-of-00008.gguf");
    refused_gguf(state, "llama.attention.key_length", 4, &eight, 4, "equal"); /* of values: 16 still */
    refused_gguf(state, "llama.attention.key_length", 4, &zero, 4, "");
    refused_gguf(state, "llama.attention.value_length", 4, &eight, 4, "equal");
    refused_gguf(state, "llama.rope.dimension_count", 4, &eight, 4, "whole heads");
    refused_gguf(state, "llama.attention.sliding_window", 4, &huge, 4, "2147483648");
    refused_gguf(state, "llama.attention.clamp_kqv", 6, &half, 4, "clamp_kqv");
    refused_gguf(state, "llama.logit_scale", 6, &half, 4, "logit_scale");
    refused_gguf(state, "general.sampling.temp", 6, &nan_value, 4, "temp");
    refused_gguf(state, "llama.rope.scale_linear", 6, &nan_value, 4, "factor");
}

static void refuses_absurd_gguf_sizes(void **state)
{
    static const char *const names[] = {"block_count",          "context_length",          "embedding_length",
                                        "attention.head_count", "attention.head_count_kv", "feed_forward_length"};
    static const uint32_t values[] = {0, 1u << 31, UINT32_MAX, INT32_MAX};
    struct make_gguf m;
    struct qr_config c;
    struct qr_err err;
    char key[64];

    mk_init(&m);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (size_t k = 0; k <= sizeof values / sizeof values[0]; k++) {
            mk_str(&m, "general.architecture", "llama");
            for (size_t j = 0; j < sizeof names / sizeof names[0]; j++) {
                snprintf(key, sizeof key, "llama.%s", names[j]);
                if (j != i)
                    mk_u32(&m, key, j == 4 ? 1 : 32);
                else if (k < sizeof values / sizeof values[0])
                    mk_u32(&m, key, values[k]);
                else
                    mk_str(&m, key, "32");
            }
            mk_f32(&m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
            mk_strings(&m, "tokenizer.ggml.tokens", (const char *const[]){"a", "b"}, 2);
            if (read_gguf(state, &m, &c, &err) == QR_OK)
                fail_msg("%s %zu is accepted", names[i], k);
            assert_true(err.message[0]);
        }
    }
    mk_str(&m, "general.architecture", "gpt2");
    assert_int_equal(read_gguf(state, &m, &c, &err), QR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "\"gpt2\"; quire knows llama, qwen2, qwen3, gemma2, gemma3 and phi3"));
    assert_int_equal(read_gguf(state, &m, &c, &err), QR_FORMAT);
    assert_non_null(strstr(err.message, "general.architecture"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_configs_have_the_named_shapes),
        cmocka_unit_test(absent_fields_mean_what_the_class_says),
        cmocka_unit_test(windows),
        cmocka_unit_test(gemma),
        cmocka_unit_test(rope_in_every_spelling),
        cmocka_unit_test(refuses_absurd_numbers),
        cmocka_unit_test(refuses_numbers_out_of_range),
        cmocka_unit_test(refuses_by_name_what_it_does_not_know),
        cmocka_unit_test(compressed_tensors_that_are_not_read),
        cmocka_unit_test(survives_every_cut_and_flip),
        cmocka_unit_test(shapes),
        cmocka_unit_test_setup_teardown(reads_gguf_keys, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(a_name_is_whole_utf8, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_bad_gguf_keys, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_absurd_gguf_sizes, tmp_setup, tmp_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
