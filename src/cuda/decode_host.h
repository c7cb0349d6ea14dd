/* decode_host.h - the persistent kernel's host side: for which plans and steps it is there, how its work is shared out, and
 * its launches. Everything else goes on with graphs. */
#ifndef QR_CUDA_DECODE_HOST_H
#define QR_CUDA_DECODE_HOST_H
#include "cuda/decode.h"
#include "cuda/exec.h"

/* What a plan is to the kernel: its ops in each layer, found by qr_decode_match. */
struct qr_decode_plan {
    int n_layer, first; /* op of layer l, counted from its qkv: first + 7 l + enum below */
    int embed, head, norm_out;
};
enum {
    QR_DECODE_OP_QKV,
    QR_DECODE_OP_ROPE,
    QR_DECODE_OP_ATTENTION,
    QR_DECODE_OP_O,
    QR_DECODE_OP_NORM,
    QR_DECODE_OP_UP,
    QR_DECODE_OP_SILU,
    QR_DECODE_OP_DOWN,
    QR_DECODE_OP_NEXT,
    QR_DECODE_OPS
};

struct qr_cuda_decode {
    struct qr_decode_args args;
    int head_dim, max_units, few; /* few: sequences of a step, at most */
    uint32_t tag;
    uint8_t *memory;                                 /* device */
    struct qr_decode_share *share[QR_MAX_AHEAD + 2]; /* pinned, in turn */
    struct qr_decode_share *now, *share_device;      /* now: the last ones made */
    int turn, units;                                 /* units of attention that they are for */
    bool fits, sent;                                 /* to every block; to the device */
    int32_t *status;                                 /* pinned, [QR_MAX_AHEAD + 1]: of each step in flight */
    bool failed;                                     /* one waited for too long */
};

/* Is the plan one for the kernel? No: one sentence in err names the first op that is not. */
enum qr_status qr_decode_match(const struct qr_plan *plan, struct qr_decode_plan *out, struct qr_err *err);
/* Strips so that blocks read equally many bytes of a layer; `units` of attention, each of cut_bytes. False: a part does not fit
 * what a block holds. */
bool qr_decode_share_out(const struct qr_decode_args *args, int units, double cut_bytes, struct qr_decode_share *share);
/* Blocks that the kernel runs on, and what one holds at most. */
void qr_decode_size(struct qr_decode_args *args, int n_sm);

/* exec->decode is set where the kernel is to be had; else exec->no_decode says why. */
enum qr_status qr_cuda_decode_create(struct qr_cuda_exec *exec, struct qr_err *err);
void qr_cuda_decode_free(struct qr_cuda_exec *exec);
bool qr_cuda_decode_takes(const struct qr_cuda_exec *exec, const struct qr_step *step);
/* slot: of the step among those in flight. */
enum qr_status qr_cuda_decode_launch(struct qr_cuda_exec *exec, const struct qr_cuda_shape *shape,
                                     const struct qr_step *step, int slot, struct qr_err *err);
/* After a step: did the kernel wait for too long? From then on there are graphs. */
enum qr_status qr_cuda_decode_status(struct qr_cuda_exec *exec, int slot, struct qr_err *err);
/* Bytes on the device beside the executor's, at most, whatever the device; 0 where there is no kernel for the plan. */
uint64_t qr_cuda_decode_bytes(const struct qr_plan *plan, const struct qr_exec_limits *limits,
                              const struct qr_cuda_sizes *sizes);
#endif
