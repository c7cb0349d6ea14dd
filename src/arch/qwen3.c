/* qwen3.c - Qwen3, dense.
 *
 * Yang et al., Qwen3 Technical Report, 2025. As Qwen2 without biases, but every head of q and k goes through an RMSNorm of
 * its own (one weight of head_dim for all heads) before it is rotated; head_dim is not n_embd / n_head. */
#include "arch/record.h"

static int attention(struct rec *r, const struct qr_layer_weights *w, int h)
{
    struct rec_qkv in = rec_qkv(r, h, w);
    rec_head_norm(r, in.q, &w->q_norm);
    rec_head_norm(r, in.k, &w->k_norm);
    rec_rope(r, in.q);
    rec_rope(r, in.k);
    rec_kv_store(r, in.k, in.v);
    int attn = rec_attention(r, in.q);
    return rec_linear(r, "o", attn, &w->o);
}

static int mlp(struct rec *r, const struct qr_layer_weights *w, int h)
{
    struct rec_gate_up in = rec_gate_up(r, h, w);
    rec_silu_mul(r, in.gate, in.up);
    return rec_linear(r, "down", in.gate, &w->down);
}

int qr_record_qwen3(struct rec *r, const struct qr_weights *w)
{
    int x = rec_embed(r, "x", &w->embd); /* [T, n_embd], the residual stream */

    for (r->layer = 0; r->layer < r->config->n_layer; r->layer++) {
        const struct qr_layer_weights *layer = &w->layer[r->layer];
        int h = rec_norm(r, "h", x, &layer->attn_norm);
        rec_add(r, x, attention(r, layer, h));
        h = rec_norm(r, "h", x, &layer->ffn_norm);
        rec_add(r, x, mlp(r, layer, h));
    }
    r->layer = -1;

    int last = rec_gather(r, "last", x); /* [R, n_embd] */
    int h = rec_norm(r, "h", last, &w->output_norm);
    return rec_linear(r, "logits", h, &w->head); /* [R, n_vocab] */
}
