// test_attention.cu - the kernels of ATTENTION against each other, bit for bit, and against double; and what they cost.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -O3 -std=c++17 -Iinclude -Isrc tests/cuda/test_attention.cu src/cuda/attention.cu
//       src/cuda/attention_few.cu src/cuda/attention_stream.cu src/cuda/attention_hopper.cu -o build/test_attention && build/test_attention
//
// Steps of several sequences: prompts whole, chunks behind a cached prefix, sequences of one or two tokens. QUICK=1: small, no timing.
#include <cmath>
#include <cstring>
#include <random>
#include "common.cuh"
#include "cuda/attention.cuh"
#include "cuda/attention_hopper.cuh"
#include "cuda/launch.h"

cudaError_t qr_cu_attention_stream(const qr_cu_on *on, const qr_cu_attention &a);
cudaError_t qr_cu_attention_few(const qr_cu_on *on, const qr_cu_attention &a);
extern "C" cudaError_t qr_cu_prepare_attention(const struct qr_cu_on *on, int head_dim);

struct sequence {
    int before, tokens; // positions in front of the step's
};

struct attention_step {
    int head_dim, n_head, n_kv_head, rows = 0, stride = 0;
    std::vector<sequence> sequences;
    std::vector<qr_cu_item> few, many;
    std::vector<int> first, position, table, count;
    qr_cu_attention a = {};
    float *y;
    __nv_bfloat16 *q, *y16;
    std::vector<void *> owned;

    template <class T> T *own(size_t n)
    {
        T *p = device_array<T>(n);
        owned.push_back(p);
        return p;
    }
    template <class T> T *own(const std::vector<T> &v)
    {
        T *p = own<T>(v.size() + 1);
        CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
        return p;
    }

    // all_many: every sequence as units of many pairs.
    attention_step(int head_dim, int n_head, int n_kv_head, const std::vector<sequence> &list, bool all_many,
                   bool split, int copies = 1)
        : head_dim(head_dim), n_head(n_head), n_kv_head(n_kv_head), sequences(list)
    {
        const int group = n_head / n_kv_head;
        int blocks = 0, part = 0;
        for (auto &s : list)
            stride = std::max(stride, (s.before + s.tokens + 15) / 16);
        for (int i = 0; i < (int)list.size(); i++) {
            const sequence &s = list[i];
            first.push_back(rows);
            int pairs = s.tokens * group, cuts = (s.before + s.tokens - 1) / QR_CU_CUT + 1;
            if (pairs > QR_CU_FEW || all_many)
                for (int p = (pairs - 1) / QR_CU_MANY * QR_CU_MANY; p >= 0; p -= QR_CU_MANY)
                    many.push_back({rows, p, std::min(pairs - p, (int)QR_CU_MANY), i, -1, 0, 0, 0, s.before, {}});
            else
                for (int c = split ? 0 : -1; c < (split ? cuts : 0); c++)
                    few.push_back({rows, 0, pairs, i, c, cuts, part, i, s.before, {}});
            part += cuts;
            rows += s.tokens;
            for (int t = 0; t < s.tokens; t++)
                position.push_back(s.before + t);
        }
        blocks = (int)list.size() * stride * copies;
        for (int i = 0; i < blocks; i++)
            table.push_back((int)((long)i * 7919 % blocks));
        count = {(int)few.size(), (int)many.size(), stride, 0};
        size_t n_q = (size_t)rows * n_head * head_dim, pool = (size_t)blocks * n_kv_head * 16 * head_dim;
        q = own<__nv_bfloat16>(n_q);
        y = own<float>(n_q);
        y16 = own<__nv_bfloat16>(n_q);
        __nv_bfloat16 *k = own<__nv_bfloat16>(pool), *v = own<__nv_bfloat16>(pool);
        fill_random<<<1024, 256>>>(q, n_q, 1, 1.5f);
        fill_random<<<1024, 256>>>(k, pool, 2, 1.5f);
        fill_random<<<1024, 256>>>(v, pool, 3, 1.0f);
        a.q = q, a.y = y, a.y16 = y16, a.y_stride = a.y16_stride = n_head * head_dim;
        a.k_pages = (const char *)k, a.v_pages = (const char *)v;
        a.position = own(position), a.table = own(table), a.count = own(count), a.few = own(few), a.many = own(many);
        a.max_few = (int)few.size(), a.max_many = (int)many.size();
        a.n_part = part;
        a.part = own<float>((size_t)part * n_kv_head * 16 * (head_dim + 2));
        size_t counters = list.size() * n_kv_head;
        a.counter = own<unsigned>(counters);
        CHECK(cudaMemset(a.counter, 0, counters * 4));
        a.n_head = n_head, a.n_kv_head = n_kv_head, a.head_dim = head_dim;
        a.scale = 1 / sqrtf((float)head_dim);
        CHECK(cudaDeviceSynchronize());
    }
    attention_step(const attention_step &) = delete;
    ~attention_step()
    {
        for (void *p : owned)
            cudaFree(p);
    }
    std::vector<uint32_t> result(const std::function<cudaError_t(const qr_cu_attention &)> &run)
    {
        size_t n = (size_t)rows * n_head * head_dim;
        std::vector<uint32_t> out(n + n / 2);
        CHECK(cudaMemset(y, 0xFF, n * 4));
        CHECK(cudaMemset(y16, 0xFF, n * 2));
        CHECK(run(a));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(out.data(), y, n * 4, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(out.data() + n, y16, n * 2, cudaMemcpyDeviceToHost));
        return out;
    }
};

static qr_cu_on on_stream(cudaStream_t s, int sms)
{
    return {s, 1, 90, sms};
}

// Relative error of some rows against double.
static double error_of(const attention_step &s, const std::vector<uint32_t> &got)
{
    int D = s.head_dim, group = s.n_head / s.n_kv_head;
    size_t pool = s.table.size() * s.n_kv_head * 16 * D;
    std::vector<uint16_t> q((size_t)s.rows * s.n_head * D), k(pool), v(pool);
    CHECK(cudaMemcpy(q.data(), s.q, q.size() * 2, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(k.data(), s.a.k_pages, pool * 2, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(v.data(), s.a.v_pages, pool * 2, cudaMemcpyDeviceToHost));
    auto real = [](uint16_t b) {
        uint32_t u = (uint32_t)b << 16;
        float f;
        memcpy(&f, &u, 4);
        return (double)f;
    };
    double err = 0, norm = 0;
    for (int i = 0; i < (int)s.sequences.size(); i++)
        for (int t = 0; t < s.sequences[i].tokens; t += 1 + s.sequences[i].tokens / 5)
            for (int h = 0; h < s.n_head; h += 1 + s.n_head / 3) {
                int row = s.first[i] + t, n = s.position[row] + 1;
                std::vector<double> p(n), o(D);
                double high = -1e300, sum = 0;
                auto page = [&](int j) {
                    return ((size_t)s.table[i * s.stride + j / 16] * s.n_kv_head + h / group) * 16 * D;
                };
                for (int j = 0; j < n; j++) {
                    p[j] = 0;
                    for (int d = 0; d < D; d++)
                        p[j] +=
                            real(q[((size_t)row * s.n_head + h) * D + d]) * real(k[page(j) + k_page_index(j % 16, d)]);
                    p[j] *= s.a.scale;
                    high = std::max(high, p[j]);
                }
                for (int j = 0; j < n; j++) {
                    sum += p[j] = exp(p[j] - high);
                    for (int d = 0; d < D; d++)
                        o[d] += p[j] * real(v[page(j) + v_page_index(j % 16, d)]);
                }
                for (int d = 0; d < D; d++) {
                    float y;
                    memcpy(&y, &got[((size_t)row * s.n_head + h) * D + d], 4);
                    err += ((double)y - o[d] / sum) * ((double)y - o[d] / sum);
                    norm += o[d] / sum * o[d] / sum;
                }
            }
    return sqrt(err / norm);
}

// Pages in fp8 with random codes and powers of two, and in bf16 with what they stand for, in place of the step's own.
struct fp8_pages {
    char *k, *v;
    __nv_bfloat16 *k16, *v16;

    fp8_pages(attention_step &s, std::mt19937 &rng)
    {
        const int D = s.head_dim, bytes = page_bytes(D, QR_CU_FP8);
        const size_t pages = s.table.size() * s.n_kv_head;
        for (int which = 0; which < 2; which++) {
            std::vector<uint8_t> codes(pages * bytes);
            std::vector<uint16_t> plain(pages * 16 * D);
            for (size_t p = 0; p < pages; p++)
                for (int token = 0; token < 16; token++) {
                    const int e = (int)(rng() % 4) - 9; // up to 448 / 2^6
                    const uint16_t factor = (uint16_t)((120 + e + 127) << 7);
                    memcpy(&codes[p * bytes + 16 * D + token * 2], &factor, 2);
                    for (int d = 0; d < D; d++) {
                        uint8_t code = (uint8_t)rng();
                        if ((code & 0x7F) == 0x7F)
                            code--; // no NaN
                        const int row = which ? d % 16 : token, k = which ? token : d % 16, exponent = code >> 3 & 15;
                        const double m = (code & 7) / 8.0 + (exponent ? 1 : 0);
                        const float x = (float)ldexp(code & 0x80 ? -m : m, (exponent ? exponent : 1) - 7 + e);
                        uint32_t bits;
                        memcpy(&bits, &x, 4);
                        codes[p * bytes + fp8_index(d / 16, row, k)] = code;
                        plain[p * 16 * D + page_index(d / 16, row, k)] = (uint16_t)(bits >> 16);
                        failures += (bits & 0xFFFF) != 0;
                    }
                }
            char *&at = which ? v : k;
            __nv_bfloat16 *&at16 = which ? v16 : k16;
            at = (char *)s.own<uint8_t>(codes);
            at16 = (__nv_bfloat16 *)s.own<uint16_t>(plain);
        }
    }
};

static void compare(int D, int heads, int kv_heads, const std::vector<sequence> &list, int sms)
{
    attention_step mixed(D, heads, kv_heads, list, false, true), whole(D, heads, kv_heads, list, false, false),
        wide(D, heads, kv_heads, list, true, false);
    auto plain = [&](const qr_cu_attention &a) {
        qr_cu_on on = on_stream(0, sms);
        on.arch = 80;
        return qr_cu_run_attention(&on, &a);
    };
    auto hopper = [&](const qr_cu_attention &a) {
        qr_cu_on on = on_stream(0, sms);
        return a.max_many ? qr_cu_attention_wide(&on, a) : cudaSuccess;
    };
    std::vector<uint32_t> base = wide.result(plain);
    double error = error_of(wide, base);
    auto check = [&](const char *what, const std::vector<uint32_t> &got) {
        size_t differ = 0;
        for (size_t i = 0; i < base.size(); i++)
            differ += got[i] != base[i];
        if (differ) {
            failures++;
            printf("  %s: %zu of %zu words DIFFER\n", what, differ, base.size());
        }
    };
    printf("heads %d of %d on %d, %zu sequences, %d rows: error %.1e\n", heads, D, kv_heads, list.size(), wide.rows,
           error);
    failures += !(error < 5e-3);
    check("few pairs in cuts", mixed.result(plain));
    check("few pairs whole", whole.result(plain));
    if (D == 64 || D == 128)
        check("wgmma", wide.result(hopper));
    auto stream = [&](const qr_cu_attention &a) { // few blocks for many units; the rest as ever
        qr_cu_on on = on_stream(0, 3);
        qr_cu_attention few = a, many = a;
        few.max_many = many.max_few = 0;
        cudaError_t e = qr_cu_attention_stream(&on, few);
        return e ? e : plain(many);
    };
    if (D == 64 || D == 128) {
        check("many units in cuts", mixed.result(stream));
        check("many units whole", whole.result(stream));
    }
    std::mt19937 rng(D + heads); // the same pages for each step: their tables are the same
    for (attention_step *s : {&wide, &mixed, &whole}) {
        rng.seed(D + heads);
        fp8_pages pages(*s, rng);
        s->a.k_pages = (const char *)pages.k16, s->a.v_pages = (const char *)pages.v16;
        if (s == &wide)
            base = s->result(plain);
        s->a.k_pages = pages.k, s->a.v_pages = pages.v;
        s->a.kv = QR_CU_FP8;
        check("fp8", s->result(plain));
        if (s == &wide && (D == 64 || D == 128))
            check("fp8, wgmma", s->result(hopper));
    }
}

// Times in fp8 are of pages that hold anything.
static void time_prefill(int sms, int T, enum qr_cu_kv kv)
{
    attention_step s(128, 12, 2, {{0, T}}, true, false);
    s.a.kv = kv;
    double flop = 2.0 * T * (T + 1.0) * 128 * 12;
    double plain = graph_us(10, [&](int, cudaStream_t st) {
        qr_cu_on on = on_stream(st, sms);
        on.arch = 80;
        CHECK(qr_cu_run_attention(&on, &s.a));
    });
    double wide = graph_us(10, [&](int, cudaStream_t st) {
        qr_cu_on on = on_stream(st, sms);
        CHECK(qr_cu_attention_wide(&on, s.a));
    });
    printf("prefill T %-4d%s: mma.sync %7.1f us %4.0f TFLOP/s, wgmma %7.1f us %4.0f TFLOP/s\n", T,
           kv == QR_CU_FP8 ? " fp8" : "", plain, flop / plain / 1e6, wide, flop / wide / 1e6);
}

static void time_decode(int sms, int S, int context, enum qr_cu_kv kv)
{
    int turns = std::max(1, 600 * 1024 / (S * context));
    double bytes = (double)S * context * 2 * 128 * (kv == QR_CU_FP8 ? 2.03125 : 4);
    for (int split = 0; split < 2; split++) {
        attention_step s(128, 12, 2, std::vector<sequence>(S, {context - 1, 1}), false, split, turns);
        s.a.kv = kv;
        auto us = [&](const std::function<cudaError_t(const qr_cu_on *, const qr_cu_attention *)> &run) {
            return graph_us(30, [&](int i, cudaStream_t st) {
                qr_cu_on on = on_stream(st, sms);
                qr_cu_attention a = s.a;
                a.table += (size_t)(i % turns) * S * s.stride;
                CHECK(run(&on, &a));
            });
        };
        double block = us([](const qr_cu_on *on, const qr_cu_attention *a) { return qr_cu_attention_few(on, *a); });
        printf("decode %3d x %-4d %s%s: %7.2f us %5.0f GB/s", S, context, split ? "in cuts" : "whole  ",
               kv == QR_CU_FP8 ? " fp8" : "", block, bytes / block / 1e3);
        if (S * 2 >= sms && kv == QR_CU_BF16) {
            double many =
                us([](const qr_cu_on *on, const qr_cu_attention *a) { return qr_cu_attention_stream(on, *a); });
            printf(", as many units %7.2f us %5.0f GB/s", many, bytes / many / 1e3);
        }
        printf("\n");
    }
}

int main()
{
    cudaDeviceProp d;
    CHECK(cudaGetDeviceProperties(&d, 0));
    const int sms = d.multiProcessorCount;
    qr_cu_on on = on_stream(0, sms);
    std::mt19937 rng(1);
    for (int D : {16, 32, 64, 96, 128, 256}) {
        CHECK(qr_cu_prepare_attention(&on, D));
        int shapes[][2] = {{2, 2}, {4, 2}, {6, 2}, {8, 2}, {10, 2}, {12, 2}, {14, 2}, {16, 2}};
        for (auto &h : shapes) {
            std::vector<sequence> list = {{0, 1}, {255, 1}, {256, 2}, {0, 300}, {250, 20}, {511, 40}};
            if (!quick())
                for (int i = 0; i < 10; i++)
                    list.push_back({(int)(rng() % 700), i % 3 ? 1 : 1 + (int)(rng() % 200)});
            compare(D, h[0], h[1], list, sms);
        }
    }
    if (!quick()) {
        for (enum qr_cu_kv kv : {QR_CU_BF16, QR_CU_FP8}) {
            for (int T : {128, 512, 1024, 2048, 4096})
                time_prefill(sms, T, kv);
            for (int S : {1, 8, 64, 128, 256})
                time_decode(sms, S, 1024, kv);
            time_decode(sms, 256, 256, kv);
        }
    }
    printf("%s\n", failures ? "FAILED" : "all bits equal, all errors within their limit");
    return failures != 0;
}
