/* setup.h - from what a person asks for to what an engine will be: every option checked, every size known, nothing
 * big allocated. The ledger and qr_engine_create both start here, so that they agree. */
#ifndef QR_ENGINE_SETUP_H
#define QR_ENGINE_SETUP_H
#include "cpu/cpu.h"
#include "cuda/cuda.h"
#include "engine/model.h"

#define QR_GPU_SPARE (UINT64_C(64) << 20) /* bytes left on a GPU of which less than the share asked for is available */

struct qr_setup {
    struct qr_plan *plan; /* fused */
    struct qr_exec_limits limits;
    int run_ahead; /* steps in flight while one is planned */
    enum qr_isa isa;
    int n_thread;
    uint64_t block_bytes;  /* of a KV block over all layers */
    uint64_t weight_bytes; /* that a decode step reads */
    struct qr_cpu_memory memory;
    bool cuda; /* runs on gpu, and cuda_memory is the account; else on the CPU, and memory is */
    struct qr_cuda_device gpu;
    uint64_t budget; /* bytes of the GPU that the engine may take */
    struct qr_cuda_memory cuda_memory;
};

/* options NULL: all defaults. */
enum qr_status qr_setup_make(const struct qr_model *model, const struct qr_engine_options *options,
                             struct qr_setup *setup, struct qr_err *err);
/* Before weights are read: what qr_setup_make would refuse, from a model's headers. options NULL: all defaults. */
enum qr_status qr_setup_check(const struct qr_model *headers, const struct qr_engine_options *options,
                              struct qr_err *err);
void qr_setup_free(struct qr_setup *setup); /* a zeroed struct is fine */
#endif
