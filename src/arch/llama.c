/* llama.c - Llama 2 and 3, Mistral, SmolLM2.
 *
 * Touvron et al., Llama 2, 2023; Grattafiori et al., The Llama 3 Herd of Models, 2024; Jiang et al., Mistral 7B, 2023
 * (the sliding window). A pre-norm transformer: RMSNorm, rotary positions, grouped-query attention (Ainslie et al.,
 * 2023), SwiGLU (Shazeer, 2020), no biases. */
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

int qr_record_llama(struct rec *r, const struct qr_weights *w)
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

    int last = qr_rec_gather(r, "last", x); /* [R, n_embd]: only rows that want logits go through the head */
    int h = qr_rec_norm(r, "h", last, &w->output_norm);
    return qr_rec_linear(r, "logits", h, &w->head); /* [R, n_vocab] */
}
