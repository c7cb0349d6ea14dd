/* cuda.h - the CUDA executor: any plan on one NVIDIA GPU of compute capability 8.0 or later.
 *
 * A build without nvcc has the same calls (none.c), and they say so. */
#ifndef QR_CUDA_CUDA_H
#define QR_CUDA_CUDA_H
#include "base/pool.h"
#include "plan/exec.h"

struct qr_cuda_device {
    char name[64];
    int major, minor, n_sm;
    uint64_t memory, available; /* bytes; available: 0 when it was not asked for */
};

bool qr_cuda_built(void);
/* Driver and runtime as in "13.0"; "" when there is none. */
void qr_cuda_versions(char driver[16], char runtime[16]);
/* How many devices this process sees; why none: one sentence in err, and *n is 0. */
enum qr_status qr_cuda_count(int *n, struct qr_err *err);
/* context: also makes a context on the device, to see what memory is available. */
enum qr_status qr_cuda_device_get(int device, bool context, struct qr_cuda_device *out, struct qr_err *err);

struct qr_cuda_options {
    int device;
    bool graphs;  /* graphs for all steps, also those that one kernel could do */
    int few;      /* sequences up to which a decode step is that one kernel; 0: those for which it is faster */
    bool stream;  /* launch every kernel by itself: no graphs */
    bool logits;  /* give logits to the host; else tokens are picked on the device */
    bool serial;  /* no kernel begins while the one before ends */
    bool plain;   /* only kernels that every device has, as on compute capability 8.0 */
    bool convert; /* quantised weights become bf16, of the same values: for comparison */
    /* Called while weights are sent, in the thread that creates; false stops it (QR_CANCELLED). May be NULL. */
    bool (*progress)(void *ctx, uint64_t bytes_done, uint64_t bytes_total);
    void *progress_ctx;
};

/* plan and pool must outlive exec; pool helps to pack the weights. Allocates what qr_cuda_memory says, and says so
 * before it does when that is not there; a step allocates nothing but graphs. */
enum qr_status qr_cuda_exec_create(const struct qr_plan *plan, const struct qr_exec_limits *limits,
                                   const struct qr_cuda_options *options, struct qr_pool *pool, struct qr_exec **exec,
                                   struct qr_err *err);

/* Bytes on the device from after a context is made to the end of any step; but for the last. */
struct qr_cuda_memory {
    uint64_t weights, kv, activations, workspace, tables, step;
    uint64_t graphs;  /* as many as are kept: an estimate */
    uint64_t modules; /* kernels' code and what the driver sets aside for them: an estimate */
    uint64_t total;   /* of all of these */
    uint64_t host;    /* pinned */
};
/* major: of the compute capability. */
enum qr_status qr_cuda_memory(const struct qr_plan *plan, const struct qr_exec_limits *limits, int major,
                              struct qr_cuda_memory *memory, struct qr_err *err);
uint64_t qr_cuda_block_bytes(const struct qr_plan *plan, enum qr_dtype kv_type); /* one block over all layers */

/* Seconds of device time per opcode since it was turned on: from the end of the op before to its own end, so that no op
 * overlaps another, which makes steps slower. */
enum qr_status qr_cuda_profile(struct qr_exec *exec, bool on, struct qr_err *err);
void qr_cuda_profile_read(struct qr_exec *exec, double seconds[QR_N_OPCODE], uint64_t count[QR_N_OPCODE]);
/* Why decode steps of few sequences are not done by one kernel; NULL: they are. */
const char *qr_cuda_no_decode(const struct qr_exec *exec);
/* Kernels launched since creation, by themselves or as nodes of a graph. */
uint64_t qr_cuda_launches(const struct qr_exec *exec);
#endif
