/* tensor_names.c - the canonical names of tensors, and what Hugging Face files call them (modeling_llama.py,
 * modeling_qwen2.py, modeling_qwen3.py, modeling_gemma2.py, modeling_gemma3.py, modeling_phi3.py of transformers; the right column is GGUF's). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model/source_parts.h"

struct pair {
    const char *hf;
    const char *own;
    bool bias; /* may have one */
};

static const struct pair outside[] = {
    {"model.embed_tokens", "token_embd", false},
    {"model.norm", "output_norm", false},
    {"lm_head", "output", false},
    {NULL, "rope_freqs", false},
    {NULL, "rope_factors_long", false},
    {NULL, "rope_factors_short", false},
};

static const struct pair inside[] = {
    {"input_layernorm", "attn_norm", false},
    {"self_attn.q_proj", "attn_q", true},
    {"self_attn.k_proj", "attn_k", true},
    {"self_attn.v_proj", "attn_v", true},
    {"self_attn.o_proj", "attn_output", true},
    {"self_attn.q_norm", "attn_q_norm", false},
    {"self_attn.k_norm", "attn_k_norm", false},
    {"post_attention_layernorm", "ffn_norm", false},
    {"mlp.gate_proj", "ffn_gate", true},
    {"mlp.up_proj", "ffn_up", true},
    {"mlp.down_proj", "ffn_down", true},
    {"self_attn.qkv_proj", "attn_qkv", false},
    {"mlp.gate_up_proj", "ffn_gate_up", false},
    {NULL, "post_attention_norm", false},
    {NULL, "post_ffw_norm", false},
};

/* Where norms stand behind attention and MLP too, the second of Llama's names has another meaning. */
static const struct pair inside_gemma[] = {
    {"post_attention_layernorm", "post_attention_norm", false},
    {"pre_feedforward_layernorm", "ffn_norm", false},
    {"post_feedforward_layernorm", "post_ffw_norm", false},
};

#define N(array) (sizeof(array) / sizeof(array)[0])

/* Does s say stem + ".weight", or + ".bias" where that may be? Returns the part behind the stem, else NULL. */
static const char *kind_of(const char *s, const char *stem, bool bias)
{
    size_t n = stem ? strlen(stem) : 0;

    if (!stem || strncmp(s, stem, n) != 0)
        return NULL;
    if (strcmp(s + n, ".weight") == 0 || (bias && strcmp(s + n, ".bias") == 0))
        return s + n;
    return NULL;
}

/* "12.attn_q.weight" -> 12 and "attn_q.weight"; NULL when there is no such number. One spelling only: no sign, no
 * zeros in front. */
static const char *layer_of(const char *s, int64_t *layer)
{
    char *end;

    if (s[0] < '0' || s[0] > '9' || (s[0] == '0' && s[1] != '.'))
        return NULL;
    *layer = strtol(s, &end, 10);
    return *end == '.' && end - s < 10 ? end + 1 : NULL;
}

bool qr_tensor_name_known(const char *name, int64_t *layer)
{
    const char *rest;

    *layer = -1;
    for (size_t i = 0; i < N(outside); i++)
        if (kind_of(name, outside[i].own, outside[i].bias))
            return true;
    if (strncmp(name, "blk.", 4) != 0 || !(rest = layer_of(name + 4, layer)))
        return false;
    for (size_t i = 0; i < N(inside); i++)
        if (kind_of(rest, inside[i].own, inside[i].bias))
            return true;
    return false;
}

/* The text part of a model that sees, too, has a word in front of all its names. */
static const char *text_part(const char *hf)
{
    static const char front[] = "language_model.";

    return strncmp(hf, front, sizeof front - 1) == 0 ? hf + sizeof front - 1 : hf;
}

static const char *kind_in_layer(const char *rest, bool gemma, const char **own)
{
    const char *kind;

    for (size_t i = 0; gemma && i < N(inside_gemma); i++)
        if ((kind = kind_of(rest, inside_gemma[i].hf, inside_gemma[i].bias))) {
            *own = inside_gemma[i].own;
            return kind;
        }
    for (size_t i = 0; i < N(inside); i++)
        if ((kind = kind_of(rest, inside[i].hf, inside[i].bias))) {
            *own = inside[i].own;
            return kind;
        }
    return NULL;
}

bool qr_tensor_name_from_hf(enum qr_arch arch, const char *hf, char *out, size_t room, bool *ignored)
{
    static const char in_layers[] = "model.layers.";
    bool gemma = arch == QR_ARCH_GEMMA2 || arch == QR_ARCH_GEMMA3;
    const char *kind, *rest, *own;
    char inner[160];
    int64_t layer;

    *ignored = strstr(hf, "rotary_emb.inv_freq") != NULL;
    if (arch == QR_ARCH_GEMMA3) {
        hf = text_part(hf);
        if (strncmp(hf, "model.language_model.", 21) == 0 && /* the same in files of transformers 5 */
            (size_t)snprintf(inner, sizeof inner, "model.%s", hf + 21) < sizeof inner)
            hf = inner;
        *ignored |= strstr(hf, "vision_tower.") || strstr(hf, "multi_modal_projector.");
    }
    for (size_t i = 0; i < N(outside); i++)
        if ((kind = kind_of(hf, outside[i].hf, outside[i].bias)))
            return (size_t)snprintf(out, room, "%s%s", outside[i].own, kind) < room;
    if (strncmp(hf, in_layers, sizeof in_layers - 1) != 0 || !(rest = layer_of(hf + sizeof in_layers - 1, &layer)))
        return false;
    kind = kind_in_layer(rest, gemma, &own);
    return kind && (size_t)snprintf(out, room, "blk.%lld.%s%s", (long long)layer, own, kind) < room;
}

const char *qr_tensor_name_to_hf(enum qr_arch arch, const char *name, char *out, size_t room)
{
    static const struct pair merged[] = {{"self_attn.qkv_proj", "attn_q", false},
                                         {"self_attn.qkv_proj", "attn_k", false},
                                         {"self_attn.qkv_proj", "attn_v", false},
                                         {"mlp.gate_up_proj", "ffn_gate", false},
                                         {"mlp.gate_up_proj", "ffn_up", false}};
    bool gemma = arch == QR_ARCH_GEMMA2 || arch == QR_ARCH_GEMMA3;
    const struct {
        const struct pair *pair;
        size_t n;
    } lists[] = {{merged, arch == QR_ARCH_PHI3 ? N(merged) : 0},
                 {inside_gemma, gemma ? N(inside_gemma) : 0},
                 {inside, N(inside)}};
    const char *kind, *rest;
    int64_t layer;

    for (size_t i = 0; i < N(outside); i++)
        if (outside[i].hf && (kind = kind_of(name, outside[i].own, outside[i].bias))) {
            snprintf(out, room, "%s%s", outside[i].hf, kind);
            return out;
        }
    if (strncmp(name, "blk.", 4) != 0 || !(rest = layer_of(name + 4, &layer)))
        return name;
    for (size_t k = 0; k < N(lists); k++)
        for (size_t i = 0; i < lists[k].n; i++)
            if (lists[k].pair[i].hf && (kind = kind_of(rest, lists[k].pair[i].own, lists[k].pair[i].bias))) {
                snprintf(out, room, "model.layers.%lld.%s%s", (long long)layer, lists[k].pair[i].hf, kind);
                return out;
            }
    return name;
}
