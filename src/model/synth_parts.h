/* synth_parts.h - private to model/synth*.c. */
#ifndef QR_MODEL_SYNTH_PARTS_H
#define QR_MODEL_SYNTH_PARTS_H
#include <stdio.h>
#include "base/buf.h"
#include "base/pool.h"
#include "model/source.h"

/* What one call of qr_synth_write carries through its parts. */
struct qr_synth {
    const struct qr_config *config;
    const struct qr_source *source; /* dummy:SHAPE's numbers */
    enum qr_dtype type;
    uint64_t shard_bytes;
    struct qr_pool *pool;
    bool (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
    uint64_t done, total; /* bytes of tensors */
    bool norm_less_one;   /* norms are written less one: Gemma's Hugging Face files */
};

/* synth_stream.c */
enum qr_status qr_synth_put(FILE *file, const char *path, const void *data, uint64_t n, struct qr_err *err);
/* The whole tensor, made row by row. interleave: rows of a head (head_dim of them) are written in the order of GGUF's arch
 * llama, first half and second half in turn; 0: as they are. */
enum qr_status qr_synth_tensor(struct qr_synth *synth, const struct qr_source_tensor *tensor, uint32_t interleave,
                               FILE *file, const char *path, struct qr_err *err);
/* Tensor i as a file lists it: Phi-3's files have q, k, v as one matrix and gate, up as another (out gets its name, rows and
 * bytes; the rows are those of the tensors from i on). NULL: it is in the one before. */
const struct qr_source_tensor *qr_synth_listed(const struct qr_source *source, uint64_t i, bool gguf,
                                               struct qr_source_tensor *out);
/* A norm or a bias: one dimension in a file. */
bool qr_synth_is_vector(const struct qr_source_tensor *tensor);
/* The shortest decimal number that reads back as this float: 1e-6f gives 1e-06, not 9.99999997e-07. */
double qr_synth_tidy(float f);

/* synth_hf.c, synth_gguf.c: into a directory or file that is there already, empty, and known to nobody else */
enum qr_status qr_synth_hf(struct qr_synth *synth, const char *dir, struct qr_err *err);
enum qr_status qr_synth_gguf(struct qr_synth *synth, const char *path, struct qr_err *err);
/* synth_config.c: config.json and generation_config.json */
enum qr_status qr_synth_config(const struct qr_synth *synth, const char *dir, struct qr_err *err);
enum qr_status qr_synth_write_json(const char *dir, const char *name, json_t *value, size_t flags, struct qr_err *err);

/* synth_vocab.c: the vocabulary that both formats write. */
enum qr_synth_kind { QR_SYNTH_NORMAL = 1, QR_SYNTH_CONTROL = 3 }; /* numbers of tokenizer.ggml.token_type */
struct qr_synth_vocab {
    int32_t n;
    const char **token;       /* [n] in the byte alphabet of GPT-2, UTF-8 */
    uint8_t *kind;            /* [n] enum qr_synth_kind */
    const char *const *merge; /* [n_merge] "Ġ t" */
    int n_merge;
    int32_t end_of_text, im_start, im_end; /* ids of the special tokens */
    const char *pre;                       /* tokenizer.ggml.pre */
    struct qr_arena *arena;
};
extern const char *const qr_synth_chat_template; /* ChatML */
enum qr_status qr_synth_vocab_make(const struct qr_config *config, struct qr_synth_vocab *vocab, struct qr_err *err);
void qr_synth_vocab_free(struct qr_synth_vocab *vocab);
/* synth_tokenizer.c: tokenizer.json and tokenizer_config.json */
enum qr_status qr_synth_tokenizer(const struct qr_synth *synth, const struct qr_synth_vocab *vocab, const char *dir,
                                  struct qr_err *err);
#endif
