// bench_rows.cu - what goes over rows without a matrix: EMBED, the norms, ROPE_STORE, SILU_MUL, at Qwen2.5-1.5B's shapes.
#include "cuda/attention.cuh"
#include "cuda/bench_run.cuh"
#include "cuda/packed.cuh"

static const int TOKENS[] = {1, 8, 64, 512, 4096};
enum { N_TOKENS = sizeof TOKENS / sizeof *TOKENS, N_KIND = 5 };
enum {
    EMBD = 1536,
    FF = 8960,
    HEADS = 12,
    KV_HEADS = 2,
    DIM = 128,
    QKV = (HEADS + 2 * KV_HEADS) * DIM,
    VOCAB = 151936
};

extern "C" int qr_cu_bench_rows_count(void)
{
    return N_KIND * N_TOKENS;
}

static int token_of(int i)
{
    return (int)(i * 7919LL % VOCAB);
}

static cudaError_t embed(qr_cu_bench *b, int n, qr_bench_row *row, qr_bench_cost *cost)
{
    bench_array<int32_t> token;
    bench_array<float> y;
    bench_array<uint16_t> w;
    bench_error seen;
    TRY_CUDA(token.resize(n));
    for (int i = 0; i < n; i++)
        token[i] = token_of(i);
    TRY_CUDA(bench_put(b, b->out2, token));
    qr_cu_embed a = {b->memory, EMBD, 0, VOCAB, (const int32_t *)b->out2, nullptr, (float *)b->out, EMBD, EMBD, n};
    TRY_CUDA(bench_time(b, &row->seconds, [&](int) { return qr_cu_run_embed(&b->on, &a); }));
    TRY_CUDA(bench_get(b, y, b->out, (size_t)n * EMBD));
    for (int t : {0, n / 2, n - 1}) {
        TRY_CUDA(bench_get(b, w, b->memory + (size_t)(token[t] / 16) * EMBD * 32, (size_t)EMBD * 16));
        for (int c = 0; c < EMBD; c++)
            seen.see(y[(size_t)t * EMBD + c], real(w[packed_index(token[t] % 16, c, EMBD)]));
    }
    row->error = seen.relative();
    snprintf(row->shape, sizeof row->shape, "[%d, %d]", VOCAB, EMBD);
    *cost = {(double)n * EMBD * 6, 0, false, 0};
    return cudaSuccess;
}

// add: x becomes x + r first.
static cudaError_t norm(qr_cu_bench *b, int n, bool add, qr_bench_row *row, qr_bench_cost *cost)
{
    const size_t bytes = (size_t)n * EMBD * 4;
    bench_array<float> x, r, scale, y;
    bench_error seen;
    float *xs = (float *)b->out, *ys = (float *)(b->out2 + QR_CU_BENCH_BUFFER / 2);
    qr_cu_norm a = {};
    a.x = xs, a.y = ys, a.scale = (const float *)b->in2 + QR_CU_BENCH_BUFFER / 8,
    a.r = add ? (const float *)b->in2 : nullptr;
    a.y16 = b->out2;
    a.x_stride = a.r_stride = a.y_stride = a.y16_stride = a.width = a.cols = EMBD, a.n = n, a.eps = 1e-6f;
    TRY_CUDA(cudaMemcpyAsync(xs, (const float *)b->in2 + EMBD / 2, bytes, cudaMemcpyDeviceToDevice, b->on.stream));
    TRY_CUDA(bench_get(b, scale, a.scale, EMBD));
    TRY_CUDA(qr_cu_run_rmsnorm(&b->on, &a));
    TRY_CUDA(bench_get(b, y, ys, (size_t)n * EMBD));
    for (int t : {0, n / 2, n - 1}) {
        TRY_CUDA(bench_get(b, x, (const float *)b->in2 + EMBD / 2 + (size_t)t * EMBD, EMBD));
        TRY_CUDA(bench_get(b, r, (const float *)b->in2 + (size_t)t * EMBD, EMBD));
        double sum = 0;
        for (int c = 0; c < EMBD; c++) {
            x[c] += add ? r[c] : 0;
            sum += (double)x[c] * x[c];
        }
        for (int c = 0; c < EMBD; c++)
            seen.see(y[(size_t)t * EMBD + c], x[c] / sqrt(sum / EMBD + 1e-6) * scale[c]);
    }
    row->error = seen.relative();
    a.y = nullptr; // as in a step: only the copy that LINEAR reads
    TRY_CUDA(bench_time(b, &row->seconds, [&](int) { return qr_cu_run_rmsnorm(&b->on, &a); }));
    snprintf(row->shape, sizeof row->shape, "[%d]", EMBD);
    *cost = {(double)n * EMBD * (add ? 4 + 4 + 4 + 2 : 4 + 2), 0, false, 0};
    return cudaSuccess;
}

static cudaError_t silu_mul(qr_cu_bench *b, int n, qr_bench_row *row, qr_bench_cost *cost)
{
    bench_array<float> x;
    bench_array<uint16_t> y;
    bench_error seen;
    qr_cu_rows a = {};
    a.x = (const float *)b->in2, a.r = a.x + FF, a.x_stride = a.r_stride = 2 * FF;
    a.y16 = b->out, a.y16_stride = a.y16_cols = a.cols = FF, a.n = n;
    TRY_CUDA(bench_time(b, &row->seconds, [&](int) { return qr_cu_run_map(&b->on, QR_CU_SILU_MUL, &a); }));
    for (int t : {0, n / 2, n - 1}) {
        TRY_CUDA(bench_get(b, x, a.x + (size_t)t * 2 * FF, 2 * FF));
        TRY_CUDA(bench_get(b, y, (const uint16_t *)b->out + (size_t)t * FF, FF));
        for (int c = 0; c < FF; c++)
            seen.see(real(y[c]), x[c] / (1 + exp(-(double)x[c])) * x[FF + c]);
    }
    row->error = seen.relative();
    snprintf(row->shape, sizeof row->shape, "[%d]", FF);
    *cost = {(double)n * FF * (8 + 2), 0, false, 0};
    return cudaSuccess;
}

// q, k and v lie side by side; positions, cosines, sines and slots stand in out2.
static cudaError_t rope_store(qr_cu_bench *b, int n, qr_bench_row *row, qr_bench_cost *cost)
{
    bench_array<float> angle, x;
    bench_array<int32_t> place;
    bench_array<uint16_t> q, page;
    bench_error seen;
    TRY_CUDA(angle.resize((size_t)n * DIM));
    TRY_CUDA(place.resize(2 * (size_t)n));
    float *cosines = (float *)b->out2;
    int32_t *at = (int32_t *)(cosines + angle.n);
    for (int t = 0; t < n; t++) {
        place[t] = t;
        place[n + t] = (t / 16 * 7 + 3) % ((n + 15) / 16 + 8) * 16 + t % 16; // scattered blocks
        for (int d = 0; d < DIM / 2; d++) {
            double turn = t / pow(1e6, 2.0 * d / DIM);
            angle[(size_t)t * DIM / 2 + d] = (float)cos(turn);
            angle[(size_t)(n + t) * DIM / 2 + d] = (float)sin(turn);
        }
    }
    TRY_CUDA(bench_put(b, cosines, angle));
    TRY_CUDA(bench_put(b, at, place));
    qr_cu_rope a = {};
    a.q = (float *)b->in2, a.k = a.q + HEADS * DIM, a.v = a.k + KV_HEADS * DIM;
    a.q16 = b->out + QR_CU_BENCH_BUFFER / 2, a.cos = cosines, a.sin = cosines + (size_t)n * DIM / 2;
    a.position = at, a.slot = at + n, a.k_pages = b->out, a.v_pages = b->out + QR_CU_BENCH_BUFFER / 4;
    a.q_stride = a.k_stride = a.v_stride = QKV, a.n_head = HEADS, a.n_kv_head = KV_HEADS, a.head_dim = DIM, a.n = n;
    a.rotate_k = 1, a.kv = QR_CU_BF16;
    TRY_CUDA(bench_time(b, &row->seconds, [&](int) { return qr_cu_run_rope(&b->on, &a); }));
    for (int t : {0, n / 2, n - 1}) {
        const int slot = place[n + t];
        TRY_CUDA(bench_get(b, x, a.q + (size_t)t * QKV, QKV));
        TRY_CUDA(bench_get(b, q, (const uint16_t *)a.q16 + (size_t)t * HEADS * DIM, HEADS * DIM));
        TRY_CUDA(
            bench_get(b, page, a.k_pages + (size_t)(slot / 16) * KV_HEADS * PAGE_BYTES, KV_HEADS * PAGE_BYTES / 2));
        for (int h = 0; h < HEADS + KV_HEADS; h++)
            for (int d = 0; d < DIM; d++) {
                double c = angle[(size_t)t * DIM / 2 + d % (DIM / 2)],
                       s = angle[(size_t)(n + t) * DIM / 2 + d % (DIM / 2)];
                double lo = x[h * DIM + d % (DIM / 2)], hi = x[h * DIM + DIM / 2 + d % (DIM / 2)];
                double got = h < HEADS ? real(q[h * DIM + d])
                                       : real(page[(h - HEADS) * PAGE_BYTES / 2 + k_page_index(slot % 16, d)]);
                seen.see(got, d < DIM / 2 ? lo * c - hi * s : hi * c + lo * s);
            }
    }
    row->error = seen.relative();
    snprintf(row->shape, sizeof row->shape, "%d heads of %d on %d", HEADS, DIM, KV_HEADS);
    *cost = {(double)n * QKV * (4 + 2), 0, false, 0};
    return cudaSuccess;
}

extern "C" cudaError_t qr_cu_bench_rows(qr_cu_bench *b, int i, qr_bench_row *row, qr_bench_cost *cost)
{
    static const char *const name[N_KIND] = {"EMBED", "RMSNORM", "ADD_RMSNORM", "ROPE_STORE", "SILU_MUL"};
    const int kind = i / N_TOKENS, n = TOKENS[i % N_TOKENS];
    bench_name(row, name[kind], "BF16", n);
    switch (kind) {
    case 0:
        return embed(b, n, row, cost);
    case 3:
        return rope_store(b, n, row, cost);
    case 4:
        return silu_mul(b, n, row, cost);
    default:
        return norm(b, n, kind == 2, row, cost);
    }
}
