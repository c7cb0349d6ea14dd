/* phi3.c - Phi-3, Phi-3.5 and Phi-4, dense.
 *
 * Abdin et al., Phi-3 Technical Report, 2024. Llama's transformer; its files keep q, k, v as one matrix and gate, up as
 * another, which loading takes apart into the views that are merged here anyway. Long contexts by LongRoPE (Ding et al.,
 * 2024). */
#include "arch/record.h"

static int attention(struct rec *r, const struct qr_layer_weights *w, int h)
{
    struct qr_rec_qkv in = qr_rec_qkv(r, h, w);
    qr_rec_rope(r, in.q);
    qr_rec_rope(r, in.k);
    qr_rec_kv_store(r, in.k, in.v);
    int attn = qr_rec_attention(r, in.q);
    return qr_rec_linear(r, "o", attn, &w->o);
}

static int mlp(struct rec *r, const struct qr_layer_weights *w, int h)
{
    struct qr_rec_gate_up in = qr_rec_gate_up(r, h, w);
    qr_rec_silu_mul(r, in.gate, in.up);
    return qr_rec_linear(r, "down", in.gate, &w->down);
}

int qr_record_phi3(struct rec *r, const struct qr_weights *w)
{
    int x = qr_rec_embed(r, "x", &w->embd); /* [T, n_embd], the residual stream */

    for (r->layer = 0; r->layer < r->config->n_layer; r->layer++) {
        const struct qr_layer_weights *layer = &w->layer[r->layer];
        int h = qr_rec_norm(r, "h", x, &layer->attn_norm);
        qr_rec_add(r, x, attention(r, layer, h));
        h = qr_rec_norm(r, "h", x, &layer->ffn_norm);
        qr_rec_add(r, x, mlp(r, layer, h));
    }
    r->layer = -1;

    int last = qr_rec_gather(r, "last", x); /* [R, n_embd] */
    int h = qr_rec_norm(r, "h", last, &w->output_norm);
    return qr_rec_linear(r, "logits", h, &w->head); /* [R, n_vocab] */
}
