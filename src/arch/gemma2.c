/* gemma2.c - Gemma 2.
 *
 * Gemma Team, Gemma 2: Improving Open Language Models at a Practical Size, 2024. Embeddings are scaled by sqrt(n_embd); norms
 * stand in front of and behind attention and MLP; every other layer sees a window; scores and logits are soft-capped;
 * GeGLU (Shazeer, 2020) with the tanh formula of GELU. The 1 of its norms' (1 + w) is added when the file is read. */
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
    qr_rec_gelu_mul(r, in.gate, in.up);
    return qr_rec_linear(r, "down", in.gate, &w->down);
}

int qr_record_gemma2(struct rec *r, const struct qr_weights *w)
{
    int x = qr_rec_embed(r, "x", &w->embd); /* [T, n_embd], the residual stream */
    qr_rec_scale(r, x, r->config->embd_scale);

    for (r->layer = 0; r->layer < r->config->n_layer; r->layer++) {
        const struct qr_layer_weights *layer = &w->layer[r->layer];
        int h = qr_rec_norm(r, "h", x, &layer->attn_norm);
        int y = attention(r, layer, h);
        qr_rec_add(r, x, qr_rec_norm(r, "o_norm", y, &layer->post_attn_norm));
        h = qr_rec_norm(r, "h", x, &layer->ffn_norm);
        y = mlp(r, layer, h);
        qr_rec_add(r, x, qr_rec_norm(r, "down_norm", y, &layer->post_ffn_norm));
    }
    r->layer = -1;

    int last = qr_rec_gather(r, "last", x); /* [R, n_embd] */
    int h = qr_rec_norm(r, "h", last, &w->output_norm);
    int logits = qr_rec_linear(r, "logits", h, &w->head); /* [R, n_vocab] */
    qr_rec_soft_cap(r, logits, r->config->final_cap);
    return logits;
}
