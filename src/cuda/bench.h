/* bench.h - the GPU's kernels timed and checked one by one: what `quire bench kernels` prints of them. */
#ifndef QR_CUDA_BENCH_H
#define QR_CUDA_BENCH_H
#include <stdbool.h>
#include "base/bench.h"
#include "base/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the device gives, measured in the same run. */
struct qr_cuda_peak {
    char device[64];
    double read_gb_s;    /* reading memory that no cache holds */
    double bf16_gflop_s; /* products of bf16 summed in fp32, two operations each: the best of what was measured */
    char peer[32];       /* "cuBLASLt 13.0"; "": it was not found, so no row has a peer's time */
};

/* Runs every kernel at Qwen2.5-1.5B's shapes on GPU `device`, about `seconds` for each row, launches one behind the other in a
 * graph and weights and pages from memory. Calls progress (may be NULL) before each; false stops it (QR_CANCELLED). *n rows
 * of at most QR_BENCH_MAX are filled. Takes up to 2.5 GiB of the device meanwhile. */
enum qr_status qr_cuda_bench_kernels(int device, double seconds, bool (*progress)(void *ctx, int done, int total),
                                     void *ctx, struct qr_cuda_peak *peak, struct qr_bench_row row[QR_BENCH_MAX],
                                     int *n, struct qr_err *err);

/* Bytes a second at which GPU `device` reads memory that no cache holds: 0 where that cannot be measured. Takes 256 MiB meanwhile. */
double qr_cuda_bench_read(int device);

#ifdef __cplusplus
}
#endif
#endif
