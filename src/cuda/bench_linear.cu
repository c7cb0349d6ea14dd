// bench_linear.cu - LINEAR at Qwen2.5-1.5B's shapes, beside cuBLASLt where that is found.
#include "cuda/bench_run.cuh"
#include "cuda/packed.cuh"
#include "cuda/peer.cuh"

static const struct {
    const char *what;
    int rows, k;
} SHAPE[] = {
    {"qkv", 2048, 1536}, {"o", 1536, 1536}, {"gate up", 17920, 1536}, {"down", 1536, 8960}, {"head", 151936, 1536}};
static const int TOKENS[] = {1, 8, 64, 512, 4096};
constexpr int N_SHAPE = sizeof SHAPE / sizeof *SHAPE, N_TOKENS = sizeof TOKENS / sizeof *TOKENS;

extern "C" int qr_cu_bench_linear_count(void)
{
    return N_SHAPE * N_TOKENS - 1; // the head of 4,096 tokens is not asked for: its logits are 2.5 GB
}

// Some rows of some tokens against double.
static cudaError_t check(const qr_cu_bench *b, const qr_cu_linear &a, double *error)
{
    bench_array<uint16_t> w, x;
    bench_array<float> y;
    bench_error seen;
    for (int strip : {0, a.rows / 32, a.rows / 16 - 1}) {
        TRY_CUDA(bench_get(b, w, (const char *)a.tiles + (size_t)strip * a.k * 32, (size_t)a.k * 16));
        for (int token : {0, a.n / 2, a.n - 1}) {
            TRY_CUDA(bench_get(b, x, (const char *)a.x + (size_t)token * a.k * 2, a.k));
            TRY_CUDA(bench_get(b, y, a.y + (size_t)token * a.y_stride + strip * 16, 16));
            for (int r = 0; r < 16; r++) {
                double sum = 0;
                for (int k = 0; k < a.k; k++)
                    sum += real(w[packed_index(r, k, a.k)]) * real(x[k]);
                seen.see(y[r], sum);
            }
        }
    }
    *error = seen.relative();
    return cudaSuccess;
}

extern "C" cudaError_t qr_cu_bench_linear(qr_cu_bench *b, int i, qr_bench_row *row, qr_bench_cost *cost)
{
    const int rows = SHAPE[i / N_TOKENS].rows, k = SHAPE[i / N_TOKENS].k, n = TOKENS[i % N_TOKENS];
    const size_t bytes = (size_t)rows * k * 2;
    const int copies = (int)(QR_CU_BENCH_MEMORY / bytes);
    qr_cu_linear a = {};
    a.rows = a.y_stride = rows, a.k = k, a.cuts = qr_cu_cuts(rows, k), a.n = n;
    a.x = b->in, a.y = (float *)b->out, a.work = (float *)b->out2, a.counter = b->counter;
    auto launch = [&](int turn) {
        a.tiles = b->memory + (size_t)(turn % copies) * bytes;
        return qr_cu_run_linear(&b->on, &a);
    };
    bench_name(row, "LINEAR", "BF16", n);
    snprintf(row->shape, sizeof row->shape, "%s [%d, %d]", SHAPE[i / N_TOKENS].what, rows, k);
    TRY_CUDA(bench_time(b, &row->seconds, launch));
    TRY_CUDA(launch(0));
    TRY_CUDA(check(b, a, &row->error));
    if (b->peer) {
        peer_product product(*b->peer, rows, k, n);
        if (product.product)
            TRY_CUDA(bench_time(b, &row->peer, [&](int turn) {
                return product.run(b->memory + (size_t)(turn % copies) * bytes, b->in, b->out, b->on.stream);
            }));
    }
    *cost = {(double)bytes + (double)n * (k * 2.0 + rows * 4.0), 2.0 * rows * k * n, true, 0};
    return cudaSuccess;
}
