/* model.h - what a model is made of, for the engine and for commands that look inside (info, plan, bench). */
#ifndef QR_ENGINE_MODEL_H
#define QR_ENGINE_MODEL_H
#include <pthread.h>
#include "arch/arch.h"
#include "engine/memory.h"
#include "model/ledger.h"
#include "model/source.h"
#include "model/weights.h"
#include "text/chat.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

#define QR_MAX_EOS 16

struct qr_model {
    char *path;
    struct qr_config config;    /* only the name and eos when opened for the tokenizer only */
    struct qr_source *source;   /* NULL when opened for the tokenizer only */
    struct qr_weights *weights; /* NULL likewise; shapes without data when headers_only */
    struct qr_plan *plan;       /* canonical, unfused; NULL likewise */
    bool headers_only;

    struct qr_tokenizer *tok; /* NULL: tok_error says why */
    struct qr_err tok_error;
    struct qr_chat *chat; /* NULL: chat_error says why */
    struct qr_err chat_error;
    uint64_t text_bytes;     /* that tokenizer and template take, as malloc counted them */
    pthread_mutex_t grammar_mutex; /* guards grammar_vocab, which the first constraint makes */
    struct qr_grammar_vocab *grammar_vocab;
    int32_t eos[QR_MAX_EOS]; /* of the configuration and the tokenizer */
    int n_eos;
};

/* Where the text parts come from: dir and gguf may be NULL. Fills tok, chat and the errors that say why one is
 * missing; fails only where the files that are there are broken and strict is set. */
enum qr_status qr_model_load_text(struct qr_model *model, const char *dir, const struct qr_gguf *gguf,
                                  const char *template_path, bool strict, struct qr_err *err);
enum qr_status qr_tokenizer_from_gguf(const struct qr_gguf *gguf, struct qr_tokenizer **tok, struct qr_err *err);

/* The whole account of an engine on this model with these options (NULL: defaults), from headers alone: weights by
 * type, activations, workspace, KV blocks, tables, sampling, tokenizer. */
enum qr_status qr_model_ledger(const struct qr_model *model, const struct qr_engine_options *options,
                               struct qr_ledger *ledger, struct qr_err *err);

/* What a benchmark says beside its figures. */
struct qr_bench_facts {
    const char *device;             /* "avx512": the CPU executor's instruction set */
    const char *dtype;              /* the type that most of the weights' bytes have */
    uint64_t weight_bytes_per_step; /* that a decode step reads */
    uint64_t kv_bytes_per_token;    /* of context, over all layers */
    const char *no_decode; /* why decode steps of few sequences are not one kernel on the GPU; NULL: they are, or no GPU */
};
void qr_model_bench_facts(const struct qr_model *model, struct qr_engine *engine, struct qr_bench_facts *facts);
#endif
