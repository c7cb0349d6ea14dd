/* bench.c - which kernels are measured, and what their figures are worth. */
#include "cuda/bench.h"
#include <string.h>
#include "cuda/bench_run.h"
#include "cuda/check.h"
#include "cuda/cuda.h"

enum { HEAD_DIM = 128 };

static const struct {
    const char *what;
    int (*count)(void);
    qr_cu_bench_case *run;
} KIND[] = {{"LINEAR", qr_cu_bench_linear_count, qr_cu_bench_linear},
            {"ATTENTION", qr_cu_bench_attention_count, qr_cu_bench_attention},
            {"kernels over rows", qr_cu_bench_rows_count, qr_cu_bench_rows}};
enum { N_KIND = sizeof KIND / sizeof *KIND };

static enum qr_status prepare(struct qr_cu_bench *b, int device, struct qr_cuda_peak *peak, struct qr_err *err)
{
    struct qr_cuda_device gpu;
    QR_TRY(qr_cuda_device_get(device, true, &gpu, err));
    const size_t all = QR_CU_BENCH_MEMORY + 4 * QR_CU_BENCH_BUFFER + QR_CU_COUNTERS * sizeof *b->counter;
    if (gpu.available < all + ((size_t)256 << 20))
        return qr_fail(err, QR_NOMEM, "%s has %.1f GB left and this takes %.1f: end what else runs there", gpu.name,
                       (double)gpu.available * 1e-9, (double)(all + ((size_t)256 << 20)) * 1e-9);
    memcpy(peak->device, gpu.name, sizeof peak->device);
    b->on = (struct qr_cu_on){.early = 1, .arch = gpu.major * 10 + gpu.minor, .n_sm = gpu.n_sm};
    QR_CUDA(cudaStreamCreateWithFlags(&b->on.stream, cudaStreamNonBlocking), "making a stream", err);
    QR_CUDA(qr_cu_prepare(&b->on, HEAD_DIM),
            "preparing kernels (is the GPU one of those that this build was made for?)", err);
    QR_CUDA(cudaMalloc((void **)&b->memory, all), "allocating", err);
    b->in = b->memory + QR_CU_BENCH_MEMORY;
    b->in2 = b->in + QR_CU_BENCH_BUFFER;
    b->out = b->in2 + QR_CU_BENCH_BUFFER;
    b->out2 = b->out + QR_CU_BENCH_BUFFER;
    b->counter = (unsigned *)(void *)(b->out2 + QR_CU_BENCH_BUFFER);
    QR_CUDA(cudaMemset(b->counter, 0, QR_CU_COUNTERS * sizeof *b->counter), "clearing memory", err);
    QR_CUDA(qr_cu_bench_fill(b), "filling memory", err);
    QR_CUDA(qr_cu_bench_read(b, QR_CU_BENCH_MEMORY, &peak->read_gb_s), "reading memory", err);
    peak->read_gb_s *= 1e-9;
    b->peer = qr_cu_peer_open(peak->peer);
    return QR_OK;
}

static enum qr_status run(struct qr_cu_bench *b, bool (*progress)(void *ctx, int done, int total), void *ctx,
                          struct qr_cuda_peak *peak, struct qr_bench_row *row, int *n, struct qr_err *err)
{
    struct qr_bench_cost cost[QR_BENCH_MAX];
    int total = 0;
    for (int k = 0; k < N_KIND; k++)
        total += KIND[k].count();
    for (int k = 0; k < N_KIND; k++)
        for (int i = 0; i < KIND[k].count() && *n < QR_BENCH_MAX; i++) {
            if (progress && !progress(ctx, *n, total))
                return qr_fail(err, QR_CANCELLED, "interrupted");
            memset(&row[*n], 0, sizeof *row);
            QR_TRY(qr_cuda_status(KIND[k].run(b, i, &row[*n], &cost[*n]), KIND[k].what, err));
            ++*n;
        }
    struct qr_bench_ceiling ceiling = {peak->read_gb_s, {peak->bf16_gflop_s}};
    qr_bench_shares(row, cost, *n, &ceiling);
    peak->read_gb_s = ceiling.gb_s;
    peak->bf16_gflop_s = ceiling.gflop_s[0];
    return QR_OK;
}

enum qr_status qr_cuda_bench_kernels(int device, double seconds, bool (*progress)(void *ctx, int done, int total),
                                     void *ctx, struct qr_cuda_peak *peak, struct qr_bench_row row[QR_BENCH_MAX],
                                     int *n, struct qr_err *err)
{
    struct qr_cu_bench b = {.seconds = seconds};
    memset(peak, 0, sizeof *peak);
    *n = 0;
    enum qr_status status = prepare(&b, device, peak, err);
    if (status == QR_OK)
        status = run(&b, progress, ctx, peak, row, n, err);
    qr_cu_peer_close(b.peer);
    cudaFree(b.memory);
    if (b.on.stream)
        cudaStreamDestroy(b.on.stream);
    return status;
}

double qr_cuda_bench_read(int device)
{
    const size_t bytes = (size_t)256 << 20;
    struct qr_cu_bench b = {.seconds = 0.02};
    struct qr_cuda_device gpu;
    double rate = 0;
    if (qr_cuda_device_get(device, true, &gpu, NULL) != QR_OK)
        return 0;
    b.on.n_sm = gpu.n_sm;
    if (cudaStreamCreateWithFlags(&b.on.stream, cudaStreamNonBlocking) != cudaSuccess)
        return 0;
    if (cudaMalloc((void **)&b.memory, bytes + sizeof *b.counter) == cudaSuccess) {
        b.counter = (unsigned *)(void *)(b.memory + bytes);
        if (cudaMemset(b.memory, 0, bytes) != cudaSuccess || qr_cu_bench_read(&b, bytes, &rate) != cudaSuccess)
            rate = 0;
        cudaFree(b.memory);
    }
    cudaGetLastError();
    cudaStreamDestroy(b.on.stream);
    return rate;
}
