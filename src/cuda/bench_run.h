/* bench_run.h - shared by bench.c and the cases of each kernel (bench_*.cu). */
#ifndef QR_CUDA_BENCH_RUN_H
#define QR_CUDA_BENCH_RUN_H
#include <stddef.h>
#include "base/bench.h"
#include "cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QR_CU_BENCH_MEMORY ((size_t)1 << 30) /* of weights or pages: more than a cache holds */
#define QR_CU_BENCH_BUFFER ((size_t)320 << 20)

struct qr_cu_bench {
    struct qr_cu_on on;
    double seconds;          /* of each case */
    char *memory;            /* [QR_CU_BENCH_MEMORY] random bf16, near normal */
    char *in, *in2;          /* [QR_CU_BENCH_BUFFER] random bf16, and fp32 of the same kind */
    char *out, *out2;        /* [QR_CU_BENCH_BUFFER] */
    unsigned *counter;       /* [QR_CU_COUNTERS], zero */
    struct qr_cu_peer *peer; /* NULL: not found */
};

/* The i-th case of a kind: fills row but for its rates and share, and what one launch costs (unit 0). */
typedef cudaError_t qr_cu_bench_case(struct qr_cu_bench *bench, int i, struct qr_bench_row *row,
                                     struct qr_bench_cost *cost);
qr_cu_bench_case qr_cu_bench_linear, qr_cu_bench_attention, qr_cu_bench_rows;
int qr_cu_bench_linear_count(void);
int qr_cu_bench_attention_count(void);
int qr_cu_bench_rows_count(void);

/* Fills the buffers. */
cudaError_t qr_cu_bench_fill(struct qr_cu_bench *bench);
/* The rate of reading the first n bytes of memory; counter is used. */
cudaError_t qr_cu_bench_read(struct qr_cu_bench *bench, size_t n, double *bytes_per_s);

/* cuBLASLt, opened at run time; NULL where there is none. name: "cuBLASLt 13.0". */
struct qr_cu_peer *qr_cu_peer_open(char name[32]);
void qr_cu_peer_close(struct qr_cu_peer *peer);

#ifdef __cplusplus
}
#endif
#endif
