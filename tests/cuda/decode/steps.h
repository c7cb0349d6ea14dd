/* steps.h - decode steps straight to the CUDA executor, for programs that look into the persistent kernel: sequences of random
 * tokens, and the same step as often as wanted, by the kernel or by the plan's ops, to the end or only so far. */
#ifndef TESTS_CUDA_DECODE_STEPS_H
#define TESTS_CUDA_DECODE_STEPS_H
#include "base/pool.h"
#include "cuda/decode_host.h"
#include "quire.h"

enum { STEPS_CHUNK = 512 }; /* tokens of a prompt at once */

/* What the command line says: [MODEL] [--quantization Q] [--context N,N..] [--steps N] [--layer N] [--stage S] [--chunk N] [--convert]. */
struct steps_options {
    const char *model; /* as quire takes it, or "tiny"; NULL: none was named */
    const char *quantization, *stage;
    int context[QR_DECODE_TOKENS], n_seq; /* tokens before the first step, of each sequence */
    int steps, layer;                     /* layer -1: none was named */
    int chunk;                            /* tokens of a prompt at once; 0: STEPS_CHUNK */
    bool convert;                         /* quantised weights become bf16, of the same values */
};
/* Starts from what *options says. Ends the program with a sentence where an argument is none of these. */
void steps_parse(int argc, char **argv, const char *usage, struct steps_options *options);

/* A random model with heads of another size than its shape's, as the kernel takes it. */
struct steps_shape {
    const char *shape; /* "tiny-qwen3" */
    int n_embd, n_head, n_kv_head, head_dim;
    enum qr_dtype type;
};

struct steps {
    struct qr_model *model;
    struct qr_plan *plan; /* with all fusions */
    struct qr_decode_plan found;
    struct qr_pool *pool;
    struct qr_cuda_exec *exec;
    uint8_t *kv_before; /* device: keys and values as steps_keep found them */
    int n_seq, n_page, n_vocab;
    int32_t *table;                                                       /* [n_seq, n_page] */
    bool ended_early;                                                     /* the kernel's last step */
    int length[QR_DECODE_TOKENS];                                         /* of each sequence, before the next step */
    int32_t token[STEPS_CHUNK], position[STEPS_CHUNK], slot[STEPS_CHUNK]; /* of one step */
    int32_t row[QR_DECODE_TOKENS], seq_begin[QR_DECODE_TOKENS + 1], seq_len[QR_DECODE_TOKENS];
};

/* All of these end the program with a sentence where something fails. */
void steps_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* shape: for the model "tiny", else unread. The prompts are done when it returns. */
void steps_open(struct steps *s, const struct steps_options *options, const struct steps_shape *shape);
void steps_close(struct steps *s);
/* Keys and values as they are now; and back to them. */
void steps_keep(struct steps *s);
void steps_restore(struct steps *s);
/* The next step, each sequence's next token: by the first n_op of the plan's ops, launched one by one; by the kernel, in builds with
 * -DQR_DECODE_DEBUG only to the exchange `last`. Logits [n_seq, n_vocab], which are whole only where the step is. */
const float *steps_by_ops(struct steps *s, int n_op);
const float *steps_by_kernel(struct steps *s, int last);
void steps_go_on(struct steps *s); /* the sequences are one token longer */
/* Device to host, malloc'ed. */
void *steps_fetch(const void *from, size_t bytes);
#endif
