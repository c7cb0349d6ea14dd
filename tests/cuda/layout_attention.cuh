// layout_attention.cuh - part (c) of layout.cu: one page format through decode and prefill, 12 query heads on 2 KV heads of 128.
#pragma once
#include <cmath>
#include "cuda/attention_decode.cuh"
#include "cuda/attention_prefill.cuh"
#include "common.cuh"

constexpr int Q_HEADS = 12, KV_HEADS = 2;

// Rows [tokens, kv heads, 128] to pages, by the block table of one sequence.
static __global__ void fill_pages(const __nv_bfloat16 *from, __nv_bfloat16 *to, const int *table, int tokens, bool v)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (size_t)tokens * KV_HEADS * HEAD;
         i += (size_t)gridDim.x * blockDim.x) {
        int d = i % HEAD, head = i / HEAD % KV_HEADS, token = (int)(i / HEAD / KV_HEADS), in = token % PAGE_TOKENS;
        size_t page = (size_t)table[token / PAGE_TOKENS] * KV_HEADS + head;
        to[page * (PAGE_BYTES / 2) + (v ? v_page_index(in, d) : k_page_index(in, d))] = from[i];
    }
}

// Norm of the error against double; a block takes row blockIdx.x * step and a head, a thread one d.
static __global__ void attention_error(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v,
                                       const float *out, int step, double scale, double *err)
{
    int row = blockIdx.x * step, head = blockIdx.y, kv = head / (Q_HEADS / KV_HEADS), d = threadIdx.x;
    __shared__ double part[HEAD];
    double o = 0, l = 0, high = -1e300;
    for (int i = 0; i <= row; i++) {
        size_t at = ((size_t)i * KV_HEADS + kv) * HEAD + d;
        part[d] =
            (double)__bfloat162float(q[((size_t)row * Q_HEADS + head) * HEAD + d]) * (double)__bfloat162float(k[at]);
        __syncthreads();
        for (int m = HEAD / 2; m; m /= 2) {
            if (d < m)
                part[d] += part[d + m];
            __syncthreads();
        }
        double s = part[0] * scale, above = fmax(high, s), old = exp(high - above), p = exp(s - above);
        o = o * old + p * (double)__bfloat162float(v[at]);
        l = l * old + p;
        high = above;
        __syncthreads();
    }
    double want = o / l, e = (double)out[((size_t)row * Q_HEADS + head) * HEAD + d] - want;
    atomicAdd(err, e * e);
    atomicAdd(err + 1, want * want);
}

struct attention_case {
    attention_args a;
    std::vector<int4> items;
    int4 *d_items = nullptr;
    int *d_length = nullptr;

    // Decode of sequences with these lengths: one unit a cut and KV head, sequences in order.
    void set_lengths(const std::vector<int> &length)
    {
        items.clear();
        for (int s = 0; s < (int)length.size(); s++)
            for (int h = 0; h < KV_HEADS; h++) {
                int first = (int)items.size();
                for (int c = 0; c * CUT_TOKENS < length[s]; c++)
                    items.push_back({s, h, c, first});
            }
        cudaFree(d_items);
        cudaFree(d_length);
        cudaFree(a.part);
        cudaFree(a.count);
        d_items = device_array<int4>(items.size());
        d_length = device_array<int>(length.size());
        a.part = device_array<float>(items.size() * 8 * (HEAD + 2));
        a.count = device_array<unsigned>(length.size() * KV_HEADS);
        CHECK(cudaMemcpy(d_items, items.data(), items.size() * sizeof(int4), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(d_length, length.data(), length.size() * 4, cudaMemcpyHostToDevice));
        CHECK(cudaMemset(a.count, 0, length.size() * KV_HEADS * 4));
        CHECK(cudaMemset(a.part, 0xFF, items.size() * 8 * (HEAD + 2) * 4));
        a.items = d_items;
        a.length = d_length;
        a.n_items = (int)items.size();
    }
};

static void run_decode(const attention_args &a, int sms, cudaStream_t s)
{
    launch_early(attention_decode, std::min(sms * DECODE_BLOCKS, a.n_items), DECODE_THREADS, sizeof(decode_shared), s,
                 a);
}
static void run_prefill(const attention_args &a, cudaStream_t s)
{
    int tiles = (a.tokens + PREFILL_ROWS - 1) / PREFILL_ROWS;
    launch_early(attention_prefill, tiles * a.heads, PREFILL_THREADS, sizeof(prefill_shared), s, a);
}

static void test_attention(int sms)
{
    constexpr int MAX = 4096, SEQUENCES = 600,
                  PER = 1024 / PAGE_TOKENS; // pages of 600 sequences of 1024 tokens for decode
    constexpr int BLOCKS = SEQUENCES * PER;
    size_t n_q = (size_t)MAX * Q_HEADS * HEAD, n_kv = (size_t)MAX * KV_HEADS * HEAD;
    size_t pool = (size_t)BLOCKS * KV_HEADS * PAGE_BYTES / 2;
    __nv_bfloat16 *q = device_array<__nv_bfloat16>(n_q), *k = device_array<__nv_bfloat16>(n_kv),
                  *v = device_array<__nv_bfloat16>(n_kv);
    __nv_bfloat16 *kp = device_array<__nv_bfloat16>(pool), *vp = device_array<__nv_bfloat16>(pool);
    float *out = device_array<float>(n_q), *other = device_array<float>(n_q);
    double *err = device_array<double>(2), e[2];
    fill_random<<<1024, 256>>>(q, n_q, 11, 1.5f);
    fill_random<<<1024, 256>>>(k, n_kv, 12, 1.5f);
    fill_random<<<1024, 256>>>(v, n_kv, 13, 1.0f);
    fill_random<<<1024, 256>>>(kp, pool, 14, 1.0f);
    fill_random<<<1024, 256>>>(vp, pool, 15, 1.0f);
    std::vector<int> table(BLOCKS);
    for (int i = 0; i < BLOCKS; i++)
        table[i] = (int)((long)i * 7919 % BLOCKS);
    int *d_table = device_array<int>(BLOCKS);
    CHECK(cudaMemcpy(d_table, table.data(), BLOCKS * 4, cudaMemcpyHostToDevice));
    fill_pages<<<1024, 256>>>(k, kp, d_table, MAX, false);
    fill_pages<<<1024, 256>>>(v, vp, d_table, MAX, true);
    CHECK(cudaDeviceSynchronize());
    attention_case c;
    double scale = 1 / sqrt((double)HEAD);
    c.a = {q,       (char *)kp, (char *)vp, d_table, nullptr,
           out,     nullptr,    nullptr,    nullptr, 0,
           Q_HEADS, KV_HEADS,   0,          0,       (float)(scale * 1.4426950408889634)};
    for (int T : {1, 17, 255, 256, 257, 300, 1000, 1023, 2049, 4096}) { // prefill, and every position of it by decode
        if (quick() && T > 300)
            break;
        std::vector<int> length(T);
        for (int i = 0; i < T; i++)
            length[i] = i + 1;
        c.set_lengths(length);
        c.a.tokens = T;
        CHECK(cudaMemset(out, 0xFF, n_q * 4));
        CHECK(cudaMemset(other, 0xFE, n_q * 4));
        c.a.out = out;
        run_prefill(c.a, 0);
        CHECK(cudaDeviceSynchronize());
        c.a.out = other;
        run_decode(c.a, sms, 0);
        CHECK(cudaDeviceSynchronize());
        unsigned long long differ = unequal(out, other, (size_t)T * Q_HEADS * HEAD);
        CHECK(cudaMemset(err, 0, 16));
        int step = T > 64 ? T / 64 : 1;
        attention_error<<<dim3((T - 1) / step + 1, Q_HEADS), HEAD>>>(q, k, v, out, step, scale, err);
        CHECK(cudaMemcpy(e, err, 16, cudaMemcpyDeviceToHost));
        double error = sqrt(e[0] / e[1]);
        failures += differ != 0 || !(error < 5e-3);
        printf("attention T=%-4d of %zu: decode against prefill %llu differ; error %.1e\n", T,
               (size_t)T * Q_HEADS * HEAD, differ, error);
    }
    c.a.out = out;
    for (int T : quick() ? std::vector<int>() : std::vector<int>{128, 512, 1024, 2048, 4096}) {
        c.a.tokens = T;
        double flop = 2.0 * T * (T + 1.0) * HEAD * Q_HEADS; // the causal half
        double us = graph_us(20, [&](int, cudaStream_t s) { run_prefill(c.a, s); });
        printf("attention prefill T=%-4d mma.sync %8.2f us %4.0f TFLOP/s\n", T, us, flop / us / 1e6);
    }
    for (int context : {256, 1024})
        for (int S : {1, 8, 64, 256}) {
            c.set_lengths(std::vector<int>(S, context));
            c.a.table_width = PER;
            int turns = std::max(1, SEQUENCES / S);
            double us = graph_us(60, [&](int i, cudaStream_t s) {
                attention_args a = c.a;
                a.table += (size_t)(i % turns) * S * PER;
                run_decode(a, sms, s);
            });
            double bytes = (double)S * context * KV_HEADS * HEAD * 4;
            printf("attention decode S=%-3d context %-4d %8.2f us %5.0f GB/s\n", S, context, us, bytes / us / 1e3);
        }
    for (void *p : {(void *)q, (void *)k, (void *)v, (void *)kp, (void *)vp, (void *)out, (void *)other, (void *)err,
                    (void *)d_table})
        CHECK(cudaFree(p));
}
