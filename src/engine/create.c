/* create.c - an engine made from a model and options, and the account of the memory that it takes. */
#include <stdio.h>
#include <string.h>
#include "base/recode.h"
#include "engine/core.h"
#include "engine/setup.h"

enum qr_status qr_engine_create(struct qr_model *model, const struct qr_engine_options *options,
                                struct qr_engine **engine, struct qr_err *err)
{
    struct qr_setup setup;
    struct qr_pool *pool = NULL;
    struct qr_exec *exec = NULL;
    struct qr_cuda_options cuda = {0};
    *engine = NULL;
    if (model->headers_only)
        return qr_fail(err, QR_INVALID, "the model was opened for its headers only: open it with its weights");
    QR_TRY(qr_setup_make(model, options, &setup, err));
    if (options) {
        cuda.progress = options->progress;
        cuda.progress_ctx = options->progress_ctx;
    }
    enum qr_status status = qr_pool_create(setup.n_thread, &pool, err);
    if (status == QR_OK)
        status = setup.cuda ? qr_cuda_exec_create(setup.plan, &setup.limits, &cuda, pool, &exec, err)
                            : qr_cpu_exec_create(setup.plan, &setup.limits, setup.isa, pool, &exec, err);
    if (status == QR_OK) {
        struct qr_engine_parts parts = {
            .exec = exec,
            .limits = setup.limits,
            .run_ahead = setup.run_ahead,
            .pool = pool,
            .plan = setup.plan,
            .n_vocab = model->config.n_vocab,
            .eos = model->eos,
            .n_eos = model->n_eos,
            .tok = model->tok,
            .device = setup.cuda ? "cuda" : qr_isa_name(setup.isa),
            .weight_bytes = setup.weight_bytes,
            .kv_token_bytes = setup.block_bytes / QR_PAGE,
            .no_prefix_cache = options && options->no_prefix_cache,
        };
        status = qr_engine_start(&parts, engine, err);
    }
    if (status != QR_OK) {
        qr_exec_destroy(exec);
        qr_pool_destroy(pool);
        qr_setup_free(&setup);
    }
    return status;
}

static void add_weights(const struct qr_weights *weights, struct qr_ledger *ledger)
{
    uint64_t rest = weights->bytes;
    for (int t = 0; t < QR_N_DTYPE; t++) {
        char name[64];
        if (weights->bytes_by_type[t] == 0)
            continue;
        snprintf(name, sizeof(name), "weights %s", qr_dtype_info((enum qr_dtype)t)->name);
        enum qr_dtype as = qr_recode_type((enum qr_dtype)t);
        if (as == (enum qr_dtype)t)
            qr_ledger_add(ledger, weights->bytes_by_type[t], name, NULL);
        else
            qr_ledger_add(ledger, weights->bytes_by_type[t], name, "held as %s", qr_dtype_info(as)->name);
        rest -= weights->bytes_by_type[t] < rest ? weights->bytes_by_type[t] : rest;
    }
    if (rest > 0)
        qr_ledger_add(ledger, rest, "weights, padding", NULL);
}

/* What lies on the GPU; frees the setup. */
static enum qr_status cuda_ledger(struct qr_setup *s, struct qr_ledger *ledger)
{
    const struct qr_exec_limits *l = &s->limits;
    const struct qr_cuda_memory *m = &s->cuda_memory;
    ledger->room = s->budget;
    qr_ledger_add(ledger, m->weights, "weights on the GPU", "bf16, or packed where they are quantised");
    qr_ledger_add(ledger, m->kv, "KV cache", "%d blocks of %d tokens, %s: %.1f sequences of %d tokens", l->n_block,
                  QR_PAGE, l->kv_type == QR_F8S ? "FP8" : qr_dtype_info(l->kv_type)->name,
                  (double)l->n_block / (double)qr_blocks_for(l->max_len), l->max_len);
    qr_ledger_add(ledger, m->activations, "activations", "%d tokens a step", l->max_token);
    qr_ledger_add(ledger, m->workspace, "workspace", "partial sums of %d tokens a step", l->max_token);
    qr_ledger_add(ledger, m->tables, "cos and sin", "%d positions", l->max_len);
    qr_ledger_add(ledger, m->step, "step", "%d sequences, %d rows that want logits", l->max_seq, l->max_row);
    qr_ledger_add(ledger, m->graphs, "graphs", "of steps with few tokens, an estimate");
    qr_ledger_add(ledger, m->modules, "kernels", "code, an estimate");
    qr_setup_free(s);
    return QR_OK;
}

enum qr_status qr_model_ledger(const struct qr_model *model, const struct qr_engine_options *options,
                               struct qr_ledger *ledger, struct qr_err *err)
{
    struct qr_setup s;
    memset(ledger, 0, sizeof(*ledger));
    QR_TRY(qr_setup_make(model, options, &s, err));
    const struct qr_exec_limits *l = &s.limits;
    if (s.cuda)
        return cuda_ledger(&s, ledger);
    ledger->room = qr_memory_available();
    add_weights(model->weights, ledger);
    qr_ledger_add(ledger, s.memory.kv, "KV cache", "%d blocks of %d tokens, %s: one sequence of %d tokens or several",
                  l->n_block, QR_PAGE, qr_dtype_info(l->kv_type)->name, l->max_len);
    qr_ledger_add(ledger, s.memory.activations, "activations", "%d tokens a step", l->max_token);
    qr_ledger_add(ledger, s.memory.workspace, "workspace", "%d threads", s.n_thread);
    qr_ledger_add(ledger, s.memory.tables, "cos and sin", "%d positions", l->max_len);
    uint64_t sampling = qr_sampler_bytes(model->config.n_vocab) * (uint64_t)s.n_thread +
                        (sizeof(struct qr_pick) + sizeof(struct qr_picked)) * (uint64_t)l->max_row;
    qr_ledger_add(ledger, s.memory.step, "step", "%d rows that want logits", l->max_row);
    qr_ledger_add(ledger, sampling, "sampling", "%d threads", s.n_thread);
    uint64_t scheduling =
        qr_batch_bytes(l->max_token, l->max_seq, l->max_row, qr_blocks_for(l->max_len)) + qr_blocks_bytes(l->n_block);
    qr_ledger_add(ledger, scheduling, "scheduling", "%d sequences, %d blocks", l->max_seq, l->n_block);
    qr_ledger_add(ledger, model->text_bytes, "tokenizer", NULL);
    qr_ledger_add(ledger, qr_memory_of_files(), "program", "code, libraries, headers of the model file");
    qr_setup_free(&s);
    return QR_OK;
}

void qr_model_bench_facts(const struct qr_model *model, struct qr_engine *engine, struct qr_bench_facts *facts)
{
    int most = QR_F32;
    for (int t = 0; model->weights && t < QR_N_DTYPE; t++)
        if (model->weights->bytes_by_type[t] > model->weights->bytes_by_type[most])
            most = t;
    *facts = (struct qr_bench_facts){
        .device = engine->parts.device,
        .dtype = qr_dtype_info((enum qr_dtype)most)->name,
        .weight_bytes_per_step = engine->parts.weight_bytes,
        .kv_bytes_per_token = engine->parts.kv_token_bytes,
        .no_decode = strcmp(engine->parts.device, "cuda") == 0 ? qr_cuda_no_decode(engine->parts.exec) : NULL,
    };
}
