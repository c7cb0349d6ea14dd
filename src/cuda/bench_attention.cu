// bench_attention.cu - ATTENTION over pages: a token of each of many sequences, and prompts.
#include "cuda/attention.cuh"
#include "cuda/bench_run.cuh"

enum { HEADS = 12, KV_HEADS = 2, GROUP = HEADS / KV_HEADS, DIM = 128, POOL = 256 << 20 };
static const struct {
    int sequences, context, tokens; // tokens: of each sequence in the step, the last ones of its context
} STEP[] = {{1, 1024, 1}, {8, 1024, 1},  {64, 1024, 1},   {256, 1024, 1},
            {1, 8192, 1}, {1, 512, 512}, {1, 1024, 1024}, {1, 4096, 4096}};

extern "C" int qr_cu_bench_attention_count(void)
{
    return sizeof STEP / sizeof *STEP;
}

struct attention_case {
    int sequences, context, tokens, stride;
    bench_array<qr_cu_item> few, many;
    bench_array<int32_t> position, table, count;
    qr_cu_attention a = {};

    // Units as step.c makes them: a context is cut where it is more than twice a multiprocessor's share.
    cudaError_t make(int n_sm)
    {
        const int cuts = (context - 1) / QR_CU_CUT + 1, pairs = tokens * GROUP;
        const int share = (sequences * cuts * KV_HEADS + n_sm - 1) / n_sm;
        const bool whole = cuts == 1 || (share > 1 && cuts <= 2 * share);
        const int blocks =
            POOL / (KV_HEADS * PAGE_BYTES); // all of the pool: a sequence's pages lie far from one another
        for (int s = 0; s < sequences; s++) {
            qr_cu_item unit = {};
            unit.row = s * tokens, unit.sequence = s, unit.cut = -1, unit.n_cut = cuts, unit.part = s * cuts,
            unit.tile = s;
            unit.first = context - tokens;
            if (pairs > QR_CU_FEW)
                for (int p = (pairs - 1) / QR_CU_MANY * QR_CU_MANY; p >= 0; p -= QR_CU_MANY) {
                    unit.pair = p, unit.n_pair = std::min(pairs - p, (int)QR_CU_MANY), unit.n_cut = 0,
                    unit.part = unit.tile = 0;
                    TRY_CUDA(many.add(unit));
                }
            else
                for (int c = whole ? -1 : 0; c < (whole ? 0 : cuts); c++) {
                    unit.n_pair = pairs, unit.cut = c;
                    TRY_CUDA(few.add(unit));
                }
            for (int t = 0; t < tokens; t++)
                TRY_CUDA(position.add(context - tokens + t));
            for (int j = 0; j < stride; j++)
                TRY_CUDA(table.add((int)((s * (long)stride + j) * 7919 % blocks)));
        }
        for (int word : {(int)few.n, (int)many.n, stride, 0})
            TRY_CUDA(count.add(word));
        return cudaSuccess;
    }

    // Lists to `at`, partial results behind them.
    cudaError_t place(qr_cu_bench *b, char *at)
    {
        auto put = [&](auto &list) {
            void *here = at;
            at += (list.n * sizeof list[0] + 255) / 256 * 256 + 256;
            cudaError_t e = list.n == 0 ? cudaSuccess : bench_put(b, here, list);
            return e ? nullptr : here;
        };
        a.few = (const qr_cu_item *)put(few), a.many = (const qr_cu_item *)put(many);
        a.position = (const int32_t *)put(position), a.table = (const int32_t *)put(table),
        a.count = (const int32_t *)put(count);
        if (!a.few || !a.many || !a.position || !a.table || !a.count)
            return cudaErrorUnknown;
        a.max_few = (int)few.n, a.max_many = (int)many.n;
        a.part = (float *)at, a.n_part = sequences * ((context - 1) / QR_CU_CUT + 1), a.counter = b->counter;
        a.n_head = HEADS, a.n_kv_head = KV_HEADS, a.head_dim = DIM, a.kv = QR_CU_BF16, a.scale = 1 / sqrtf(DIM);
        a.q = b->in, a.y16 = b->out, a.y16_stride = a.y_stride = HEADS * DIM;
        a.k_pages = b->memory, a.v_pages = b->memory + POOL;
        return cudaSuccess;
    }

    // A head of the first and the last row against double.
    cudaError_t check(qr_cu_bench *b, double *error)
    {
        bench_error seen;
        const int last = sequences * tokens - 1;
        for (int row : {0, last}) {
            const int h = row ? HEADS - 1 : 0, n = position[row] + 1, s = row / tokens;
            bench_array<uint16_t> q, y, k, v;
            bench_array<double> p;
            double high = -INFINITY, sum = 0, o[DIM] = {};
            TRY_CUDA(p.resize(n));
            TRY_CUDA(v.resize((size_t)(n + 15) / 16 * PAGE_BYTES / 2));
            TRY_CUDA(bench_get(b, q, b->in + ((size_t)row * HEADS + h) * DIM * 2, DIM));
            TRY_CUDA(bench_get(b, y, b->out + ((size_t)row * HEADS + h) * DIM * 2, DIM));
            for (int j = 0; j < n; j++) {
                size_t page = ((size_t)table[(size_t)s * stride + j / 16] * KV_HEADS + h / GROUP) * PAGE_BYTES;
                if (j % 16 == 0) {
                    TRY_CUDA(bench_get(b, k, a.k_pages + page, PAGE_BYTES / 2));
                    TRY_CUDA(cudaMemcpy(&v[(size_t)j / 16 * PAGE_BYTES / 2], a.v_pages + page, PAGE_BYTES,
                                        cudaMemcpyDeviceToHost));
                }
                p[j] = 0;
                for (int d = 0; d < DIM; d++)
                    p[j] += real(q[d]) * real(k[k_page_index(j % 16, d)]) * a.scale;
                high = std::max(high, p[j]);
            }
            for (int j = 0; j < n; j++) {
                sum += p[j] = exp(p[j] - high);
                for (int d = 0; d < DIM; d++)
                    o[d] += p[j] * real(v[(size_t)j / 16 * PAGE_BYTES / 2 + v_page_index(j % 16, d)]);
            }
            for (int d = 0; d < DIM; d++)
                seen.see(real(y[d]), o[d] / sum);
        }
        *error = seen.relative();
        return cudaSuccess;
    }
};

extern "C" cudaError_t qr_cu_bench_attention(qr_cu_bench *b, int i, qr_bench_row *row, qr_bench_cost *cost)
{
    attention_case c;
    c.sequences = STEP[i].sequences, c.context = STEP[i].context, c.tokens = STEP[i].tokens;
    c.stride = (c.context + 15) / 16;
    TRY_CUDA(c.make(b->on.n_sm));
    TRY_CUDA(c.place(b, b->out2));
    TRY_CUDA(bench_time(b, &row->seconds, [&](int) { return qr_cu_run_attention(&b->on, &c.a); }));
    TRY_CUDA(qr_cu_run_attention(&b->on, &c.a));
    TRY_CUDA(c.check(b, &row->error));
    bench_name(row, "ATTENTION", "BF16", c.sequences * c.tokens);
    snprintf(row->shape, sizeof row->shape, "%d x %d", c.sequences, c.context);
    const double pages = (double)c.sequences * c.context * KV_HEADS * DIM * 2 * 2;
    const double pairs = (double)c.sequences * c.tokens * (2.0 * c.context - c.tokens + 1) / 2; // (query, key)
    *cost = {pages + (double)c.sequences * c.tokens * HEADS * DIM * 4, 4.0 * pairs * HEADS * DIM, pages > 64e6, 0};
    return cudaSuccess;
}
