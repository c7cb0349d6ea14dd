/* arch.c - picks the family and gives the plan what is not an op: sizes and rope frequencies. */
#include "arch/arch.h"
#include "arch/record.h"
#include "plan/check.h"

static int (*const FAMILY[])(struct rec *r, const struct qr_weights *w) = {
    [QR_ARCH_LLAMA] = qr_record_llama,   [QR_ARCH_QWEN2] = qr_record_qwen2,   [QR_ARCH_QWEN3] = qr_record_qwen3,
    [QR_ARCH_GEMMA2] = qr_record_gemma2, [QR_ARCH_GEMMA3] = qr_record_gemma3, [QR_ARCH_PHI3] = qr_record_phi3,
};
#define N_FAMILY (sizeof FAMILY / sizeof FAMILY[0])

enum qr_status qr_arch_set_rope(const struct qr_weights *weights, int32_t context, struct qr_plan *plan,
                                struct qr_err *err)
{
    const struct qr_config *c = weights->config;
    const struct qr_vector *factors = &weights->rope_freq_factors;
    float *inv_freq = qr_arena_array(plan->arena, (size_t)c->head_dim / 2, sizeof *inv_freq);
    float *local = qr_arena_array(plan->arena, (size_t)c->head_dim / 2, sizeof *local);
    if (!inv_freq || !local)
        return qr_fail(err, QR_NOMEM, "out of memory for the plan of %s", c->name);
    if (weights->rope_long.data)
        factors = context > c->rope.original_max_len ? &weights->rope_long : &weights->rope_short;
    plan->inv_freq = inv_freq;
    plan->rope_scale = qr_rope_scale(&c->rope, c->max_len);
    for (int32_t i = 0; i < c->head_dim / 2; i++)
        inv_freq[i] = 0; /* of pairs that stand still */
    QR_TRY(qr_rope_inv_freq(&c->rope, qr_config_rope_dim(c), context, factors, inv_freq, err));
    if (c->rope_local.theta == 0)
        return QR_OK;
    plan->inv_freq_local = local;
    return qr_rope_inv_freq(&c->rope_local, c->head_dim, context, NULL, local, err);
}

static enum qr_status set_sizes(struct qr_plan *plan, const struct qr_weights *weights, struct qr_err *err)
{
    const struct qr_config *c = weights->config;
    plan->n_layer = (uint32_t)c->n_layer;
    plan->n_kv_head = (uint32_t)c->n_kv_head;
    plan->head_dim = (uint32_t)c->head_dim;
    plan->n_vocab = (uint32_t)c->n_vocab;
    plan->n_embd = (uint32_t)c->n_embd;
    return qr_arch_set_rope(weights, c->max_len, plan, err);
}

enum qr_status qr_arch_record(const struct qr_weights *weights, struct qr_plan **plan, struct qr_err *err)
{
    const struct qr_config *config = weights->config;
    *plan = NULL;
    if ((unsigned)config->arch >= N_FAMILY)
        return qr_fail(err, QR_INTERNAL, "no family has number %d; there are %zu", (int)config->arch, N_FAMILY);
    struct rec r = {.config = config, .layer = -1};
    QR_TRY(qr_plan_begin(config->name, &r.recorder, err));
    qr_rec_plan(r.recorder)->logits = FAMILY[config->arch](&r, weights);
    QR_TRY(qr_plan_finish(r.recorder, plan, err));
    enum qr_status status = set_sizes(*plan, weights, err);
    if (!status)
        status = qr_plan_check(*plan, err);
    if (status) {
        qr_plan_free(*plan);
        *plan = NULL;
    }
    return status;
}
