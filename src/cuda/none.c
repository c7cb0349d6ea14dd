/* none.c - the CUDA executor of a build without nvcc: every call says so. */
#include <string.h>
#include "cuda/bench.h"
#include "cuda/cuda.h"

static enum qr_status none(struct qr_err *err)
{
    return qr_fail(err, QR_UNSUPPORTED, "this build has no CUDA: build quire where nvcc is, or use device cpu");
}

bool qr_cuda_built(void)
{
    return false;
}

void qr_cuda_versions(char driver[16], char runtime[16])
{
    driver[0] = runtime[0] = 0;
}

enum qr_status qr_cuda_count(int *n, struct qr_err *err)
{
    *n = 0;
    return none(err);
}

enum qr_status qr_cuda_device_get(int device, bool context, struct qr_cuda_device *out, struct qr_err *err)
{
    (void)device, (void)context;
    memset(out, 0, sizeof *out);
    return none(err);
}

enum qr_status qr_cuda_exec_create(const struct qr_plan *plan, const struct qr_exec_limits *limits,
                                   const struct qr_cuda_options *options, struct qr_pool *pool, struct qr_exec **exec,
                                   struct qr_err *err)
{
    (void)plan, (void)limits, (void)options, (void)pool;
    *exec = NULL;
    return none(err);
}

enum qr_status qr_cuda_memory(const struct qr_plan *plan, const struct qr_exec_limits *limits, int major,
                              struct qr_cuda_memory *memory, struct qr_err *err)
{
    (void)plan, (void)limits, (void)major;
    memset(memory, 0, sizeof *memory);
    return none(err);
}

uint64_t qr_cuda_block_bytes(const struct qr_plan *plan, enum qr_dtype kv_type)
{
    (void)plan, (void)kv_type;
    return UINT64_MAX;
}

enum qr_status qr_cuda_profile(struct qr_exec *exec, bool on, struct qr_err *err)
{
    (void)exec, (void)on;
    return none(err);
}

void qr_cuda_profile_read(struct qr_exec *exec, double seconds[QR_N_OPCODE], uint64_t count[QR_N_OPCODE])
{
    (void)exec;
    memset(seconds, 0, QR_N_OPCODE * sizeof *seconds);
    memset(count, 0, QR_N_OPCODE * sizeof *count);
}

const char *qr_cuda_no_decode(const struct qr_exec *exec)
{
    (void)exec;
    return "this build has no CUDA";
}

uint64_t qr_cuda_launches(const struct qr_exec *exec)
{
    (void)exec;
    return 0;
}

enum qr_status qr_cuda_bench_kernels(int device, double seconds, bool (*progress)(void *ctx, int done, int total), void *ctx,
                                     struct qr_cuda_peak *peak, struct qr_bench_row row[QR_BENCH_MAX], int *n,
                                     struct qr_err *err)
{
    (void)device, (void)seconds, (void)progress, (void)ctx, (void)row;
    memset(peak, 0, sizeof *peak);
    *n = 0;
    return none(err);
}

double qr_cuda_bench_read(int device)
{
    (void)device;
    return 0;
}
