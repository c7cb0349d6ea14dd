// test_sample.cu - the choice of tokens on the device against a reference in double, and against the CPU's sampler.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -O2 -std=c++17 -Iinclude -Isrc -Xcompiler -ffp-contract=off tests/cuda/test_sample.cu
//       src/cuda/sample.cu src/cuda/sample_pack.c src/engine/{sampler,select,logits}.c src/base/{rand,err,clock}.c -o build/test_sample
//   build/test_sample
//
// Rows of many shapes (normal, tied, flat, with -inf, with NaN) with random wishes; every fourth greedy. A drawn token is right if the
// reference draws it, or does so when the number drawn, top_p or min_p move by 1e-6: those are counted, and have to be rare. QUICK=1: few.
#include <cmath>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include "common.cuh"
#include "cuda/sample.h"
extern "C" {
#include "base/rand.h"
#include "engine/sampler.h"
}

struct wish { // a pick and what it points to
    qr_pick pick;
    qr_sampling params;
    std::vector<qr_logit_bias> bias;
    std::vector<qr_count> count;
    std::vector<int32_t> pending, known, end; // known: pending with places looked up
    std::vector<uint32_t> mask;
};

struct batch {
    int V, R;
    size_t stride;
    std::vector<float> logits;
    std::vector<wish> wishes;
    std::vector<int32_t> places;
};

static void in_parallel(int n, const std::function<void(int)> &f)
{
    unsigned workers = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    for (unsigned w = 0; w < workers; w++)
        threads.emplace_back([&, w] {
            for (int i = (int)w; i < n; i += (int)workers)
                f(i);
        });
    for (auto &t : threads)
        t.join();
}

static void fill_row(float *x, int V, std::mt19937 &rng)
{
    int kind = (int)(rng() % 8);
    float spread[] = {0.3f, 1, 2, 4, 8};
    std::normal_distribution<float> normal(0, spread[rng() % 5]);
    for (int i = 0; i < V; i++)
        x[i] = normal(rng);
    if (kind == 0) // many ties
        for (int i = 0; i < V; i++)
            x[i] = rintf(x[i] * 4) / 4;
    if (kind == 1)
        for (int i = 0; i < V; i++)
            x[i] = 1.5f;
    if (kind == 2)
        for (int i = 0; i < V; i++)
            if (rng() % 2)
                x[i] = -INFINITY;
    if (kind == 3) // one stands out
        x[rng() % V] = 30;
    if (kind == 4 && rng() % 4 == 0)
        x[rng() % V] = rng() % 2 ? NAN : INFINITY;
    if (kind == 5) // both zeros
        for (int i = 0; i < V; i++)
            x[i] = x[i] > 0 ? 0.0f : -0.0f;
}

static void fill_wish(wish &w, int V, const std::vector<int32_t> &places, std::mt19937 &rng)
{
    auto chance = [&](int n) { return rng() % n == 0; };
    std::uniform_real_distribution<float> unit(0, 1);
    qr_sampling &p = w.params;
    p = {};
    p.temperature = chance(4) ? 0 : chance(3) ? 1 : 0.05f + 2 * unit(rng);
    p.top_p = chance(2) ? 1 : 0.02f + 0.97f * unit(rng);
    p.min_p = chance(3) ? unit(rng) * (chance(2) ? 1 : 0.05f) : 0;
    int ks[] = {0, -1, 1, 5, 50, 128, 200, 1000, V, V - 1};
    p.top_k = chance(2) ? 0 : ks[rng() % 10];
    p.repetition_penalty = 1;
    p.min_tokens = chance(3) ? 5 : 0;
    qr_pick &k = w.pick;
    k = {};
    k.samples = !chance(8);
    k.id = (int32_t)(rng() % V);
    k.n_top = chance(2) ? -1 : (int)std::min<unsigned>(rng() % 21, V);
    k.params = &p;
    k.seed = (uint64_t)rng() << 32 | rng();
    k.choice = rng() % 4;
    k.position = rng() % 5000;
    k.n_output = (int)(rng() % 10);
    if (chance(3)) {
        for (int i = (int)(rng() % 200); i >= 0; i--)
            w.bias.push_back({(int32_t)(rng() % std::min(V, chance(2) ? 50 : V)), (float)(rng() % 2001) / 100 - 10});
        p.logit_bias = w.bias.data();
        p.n_logit_bias = w.bias.size();
    }
    if (chance(3)) {
        p.repetition_penalty = 0.5f + unit(rng);
        p.presence_penalty = 4 * unit(rng) - 2;
        p.frequency_penalty = 4 * unit(rng) - 2;
        std::vector<bool> seen(V);
        for (int i = (int)(rng() % 300); i >= 0; i--) {
            int32_t id = (int32_t)(rng() % V);
            if (!seen[id])
                w.count.push_back({id, (int32_t)(rng() % 3)});
            seen[id] = true;
        }
        for (int i = (int)(rng() % 6); i > 0; i--) {
            int32_t at = (int32_t)(rng() % places.size()),
                    id = chance(2) ? w.count[rng() % w.count.size()].id : places[at];
            bool by_place = id == places[at];
            w.pending.push_back(by_place ? -1 - at : id);
            w.known.push_back(id);
        }
        k.count = w.count.data();
        k.n_count = (int)w.count.size();
        k.pending = w.pending.data();
        k.n_pending = (int)w.pending.size();
    }
    for (int i = 0; i < 3; i++)
        w.end.push_back((int32_t)(rng() % V));
    k.end_id = w.end.data();
    k.n_end = 3;
    if (chance(4)) {
        w.mask.resize((V + 31) / 32);
        int kind = (int)(rng() % 3);
        for (auto &m : w.mask)
            m = kind == 0 ? rng() : kind == 1 ? rng() & rng() & rng() & rng() & rng() : 0;
        if (kind == 2 && !chance(3))
            for (int i = 0; i < 3; i++) {
                unsigned v = rng() % V;
                w.mask[v / 32] |= 1u << v % 32;
            }
        k.mask = w.mask.data();
    }
}

// What the rules of engine/sampler.h say, step by step, sorted, in double. Moves: of the draw, of top_p and of min_p.
struct reference {
    std::vector<float> l;
    std::vector<int> order; // best first
    int status = QR_OK;

    void adjust(const float *logits, int V, const wish &w)
    {
        const qr_sampling &p = w.params;
        l.assign(logits, logits + V);
        for (auto &b : w.bias)
            l[b.id] += b.bias;
        std::vector<int> times(w.pick.count ? V : 0, -1);
        if (w.pick.count) {
            for (auto &c : w.count)
                times[c.id] = c.n_output;
            for (int id : w.known)
                times[id] = std::max(times[id], 0) + 1;
            for (int i = 0; i < V; i++)
                if (times[i] >= 0) {
                    volatile float v = l[i] > 0 ? l[i] / p.repetition_penalty : l[i] * p.repetition_penalty;
                    volatile float f = p.frequency_penalty * (float)times[i];
                    volatile float off = f + p.presence_penalty;
                    l[i] = times[i] > 0 ? v - off : v;
                }
        }
        if (w.pick.n_output < p.min_tokens)
            for (int id : w.end)
                l[id] = -INFINITY;
        for (int i = 0; w.pick.mask && i < V; i++)
            if (!(w.mask[i / 32] >> i % 32 & 1))
                l[i] = -INFINITY;
        float top = -INFINITY;
        for (float x : l) {
            if (!(x < INFINITY))
                status = QR_INTERNAL;
            top = std::max(top, x);
        }
        if (status == QR_OK && top == -INFINITY)
            status = QR_INVALID;
        if (status != QR_OK)
            return;
        order.resize(V);
        for (int i = 0; i < V; i++)
            order[i] = i;
        std::sort(order.begin(), order.end(), [&](int a, int b) { return l[a] > l[b] || (l[a] == l[b] && a < b); });
    }
    int pick(const wish &w, double u, double top_p, double min_p) const
    {
        const qr_sampling &p = w.params;
        if (p.temperature < 1e-5f)
            return order[0];
        size_t n = p.top_k > 0 ? std::min<size_t>(p.top_k, order.size()) : order.size();
        double max = l[order[0]], all = 0, sum = 0;
        std::vector<double> e(n);
        for (size_t i = 0; i < n; i++)
            all += e[i] = exp((l[order[i]] - max) / (double)p.temperature);
        if (p.top_p < 1) {
            size_t m = 0;
            while (m < n && sum < top_p * all)
                sum += e[m++];
            n = std::max<size_t>(m, 1);
        }
        while (n > 1 && e[n - 1] < min_p)
            n--;
        std::vector<std::pair<int, double>> kept;
        sum = all = 0;
        for (size_t i = 0; i < n; i++) {
            kept.push_back({order[i], e[i]});
            all += e[i];
        }
        std::sort(kept.begin(), kept.end());
        for (auto &k : kept) {
            sum += k.second;
            if (sum > u * all)
                return k.first;
        }
        return kept.back().first;
    }
};

static int near_misses, drawn, cpu_differs, cases, device_major; // compute capability

static void complain(const batch &b, int r, const char *what, double got, double want)
{
    const qr_sampling &p = b.wishes[r].params;
    if (failures++ < 20)
        printf("V %d row %d (samples %d temperature %g top_k %d top_p %g min_p %g n_top %d): %s is %.9g, not %.9g\n",
               b.V, r, b.wishes[r].pick.samples, p.temperature, p.top_k, p.top_p, p.min_p, b.wishes[r].pick.n_top, what,
               got, want);
}

static void check_row(const batch &b, int r, const qr_sampled &got)
{
    const wish &w = b.wishes[r];
    const float *x = &b.logits[r * b.stride];
    int id = w.pick.id;
    static std::mutex *lock = new std::mutex;
    if (w.pick.samples) {
        reference ref;
        ref.adjust(x, b.V, w);
        qr_pick pick = w.pick;
        pick.pending = w.known.data();
        qr_sampler *cpu;
        int32_t cpu_id = 0;
        qr_sampler_create(b.V, &cpu, nullptr);
        enum qr_status cpu_status = qr_sampler_pick(cpu, x, &pick, &cpu_id, nullptr);
        qr_sampler_destroy(cpu);
        id = 0;
        int near = 0;
        if (ref.status == QR_OK) {
            double u = (double)qr_rand_uniform(w.pick.seed, w.pick.choice, w.pick.position);
            id = ref.pick(w, u, w.params.top_p, w.params.min_p);
            for (int i = 0; i < 27 && id != got.id; i++) {
                double e[3] = {-1e-6, 0, 1e-6};
                id = ref.pick(w, u + e[i % 3], w.params.top_p + e[i / 3 % 3], w.params.min_p * (1 + e[i / 9]));
                near = 1;
            }
        }
        std::lock_guard<std::mutex> hold(*lock);
        cases++;
        drawn += ref.status == QR_OK && w.params.temperature > 0;
        near_misses += near;
        bool raw_bad = false;
        for (int i = 0; i < b.V; i++)
            raw_bad |= !(x[i] < INFINITY);
        int want = ref.status == QR_OK && raw_bad && w.pick.n_top >= 0 ? QR_INTERNAL : ref.status;
        if (want != QR_OK)
            id = 0;
        else
            cpu_differs += cpu_id != got.id || cpu_status != QR_OK;
        if (got.id != id)
            complain(b, r, "id", got.id, id);
        if (got.status != want)
            complain(b, r, "status", got.status, want);
        if (got.status != QR_OK)
            return;
    }
    if (w.pick.n_top < 0)
        return;
    double max = -INFINITY, sum = 0;
    bool bad = false;
    for (int i = 0; i < b.V; i++) {
        bad |= !(x[i] < INFINITY);
        max = std::max(max, (double)x[i]);
    }
    bad |= max == -INFINITY;
    std::lock_guard<std::mutex> hold(*lock);
    if (bad != (got.status == QR_INTERNAL))
        complain(b, r, "status of log-probabilities", got.status, bad);
    if (bad)
        return;
    for (int i = 0; i < b.V; i++)
        sum += exp((double)x[i] - max);
    std::vector<int> order(b.V);
    for (int i = 0; i < b.V; i++)
        order[i] = i;
    auto better = [&](int a, int c) { return x[a] > x[c] || (x[a] == x[c] && a < c); };
    int rank = 0;
    for (int i = 0; i < b.V; i++)
        rank += better(i, id);
    double want = (double)x[id] - max - log(sum);
    if (!(fabs(got.logprob - want) <= 2e-6 * std::max(1.0, fabs(want))) && !(std::isinf(want) && got.logprob == want))
        complain(b, r, "log-probability", got.logprob, want);
    if (got.rank != rank)
        complain(b, r, "rank", got.rank, rank);
    int n = std::min(w.pick.n_top, b.V);
    if (got.n_top != n)
        complain(b, r, "n_top", got.n_top, n);
    std::partial_sort(order.begin(), order.begin() + n, order.end(), better);
    for (int i = 0; i < n; i++) {
        double p = (double)x[order[i]] - max - log(sum);
        if (got.top[i].id != order[i])
            complain(b, r, "id of a best one", got.top[i].id, order[i]);
        else if (!(fabs(got.top[i].logprob - p) <= 2e-6 * std::max(1.0, fabs(p))) && !(std::isinf(p)))
            complain(b, r, "log-probability of a best one", got.top[i].logprob, p);
    }
}

struct device_side {
    qr_sample_args a = {};
    std::vector<char> packed;
    std::vector<qr_sampled> out;
    int32_t *places;

    // Launches rows [first, first + n) and brings their results back.
    void run(const batch &b, int first, int n, int major)
    {
        std::vector<qr_pick> picks;
        for (int i = 0; i < n; i++)
            picks.push_back(b.wishes[first + i].pick);
        packed.resize(qr_sample_packed_bytes(picks.data(), n, b.V) + 100);
        size_t used;
        if (qr_sample_pack(picks.data(), n, b.V, (int)b.places.size(), packed.data(), packed.size(), &used) != n) {
            printf("packing: not all rows fit\n");
            exit(2);
        }
        packed.resize(used);
        std::vector<int32_t> all = b.places;
        all.resize(all.size() + n, -7);
        a = {};
        a.stride = b.stride, a.n_vocab = b.V, a.n_row = n;
        float *x = device_array<float>(b.stride * n);
        CHECK(cudaMemcpy(x, &b.logits[first * b.stride], b.stride * n * 4, cudaMemcpyHostToDevice));
        char *to = device_array<char>(used);
        CHECK(cudaMemcpy(to, packed.data(), used, cudaMemcpyHostToDevice));
        places = device_array<int32_t>(all.size());
        CHECK(cudaMemcpy(places, all.data(), all.size() * 4, cudaMemcpyHostToDevice));
        qr_sampled *d = device_array<qr_sampled>(n);
        CHECK(cudaMemset(d, 0, n * sizeof(*d)));
        size_t work = qr_sample_work_bytes(n, b.V, major);
        a.logits = x, a.pick = (qr_sample_head *)to, a.place = places, a.out = d;
        a.work = work ? device_array<float>(work / 4) : nullptr;
        CHECK((cudaError_t)qr_sample_launch(&a, major, 0));
        CHECK(cudaDeviceSynchronize());
        out.resize(n);
        CHECK(cudaMemcpy(out.data(), d, n * sizeof(*d), cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(all.data(), places, all.size() * 4, cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; i++)
            if (all[b.places.size() + i] != out[i].id && out[i].status == QR_OK)
                complain(b, first + i, "place", all[b.places.size() + i], out[i].id);
    }
    void release()
    {
        for (const void *p : {(const void *)a.logits, (const void *)a.pick, (const void *)a.place, (const void *)a.out,
                              (const void *)a.work})
            CHECK(cudaFree((void *)p));
    }
};

static void test_batch(int V, int R, unsigned seed)
{
    batch b;
    b.V = V, b.R = R, b.stride = seed % 2 ? (V + 3) / 4 * 4 : V;
    b.logits.resize(b.stride * R);
    b.wishes.resize(R);
    std::mt19937 rng(seed);
    for (int i = 0; i < 64; i++)
        b.places.push_back((int32_t)(rng() % V));
    in_parallel(R, [&](int r) {
        std::mt19937 own(seed * 1000 + r);
        fill_row(&b.logits[r * b.stride], V, own);
        fill_wish(b.wishes[r], V, b.places, own);
    });
    device_side d;
    d.run(b, 0, R, device_major);
    d.release();
    std::vector<qr_sampled> first = d.out;
    in_parallel(R, [&](int r) { check_row(b, r, first[r]); });
    auto same = [&](const char *what, int at, int n) {
        for (int i = 0; i < n; i++)
            if (memcmp(&d.out[i], &first[at + i], sizeof(first[0])))
                complain(b, at + i, what, d.out[i].id, first[at + i].id);
        d.release();
    };
    d.run(b, 0, R, device_major);
    same("the same again", 0, R);
    d.run(b, 0, R, 8);
    same("without a cluster", 0, R);
    for (int i = 0; i < 5; i++) {
        int r = (int)(rng() % R);
        d.run(b, r, 1, device_major);
        same("alone", r, 1);
    }
}

static void time_rows(int V, int R, const char *name, const std::function<void(qr_sampling &, qr_pick &)> &set)
{
    static batch b;
    if (b.V != V || b.R < R) {
        b.V = V, b.R = R, b.stride = V;
        b.logits.resize((size_t)V * R);
        in_parallel(R, [&](int r) {
            std::mt19937 own(r);
            std::normal_distribution<float> normal(0, 2.5f);
            for (int i = 0; i < V; i++)
                b.logits[(size_t)r * V + i] = normal(own);
        });
        b.places.assign(1, 0);
    }
    b.wishes.assign(R, wish());
    for (int r = 0; r < R; r++) {
        wish &w = b.wishes[r];
        w.params.temperature = 1, w.params.top_p = 1, w.params.repetition_penalty = 1;
        w.pick = {};
        w.pick.samples = true, w.pick.n_top = -1, w.pick.params = &w.params, w.pick.seed = r;
        set(w.params, w.pick);
    }
    device_side d;
    d.run(b, 0, R, device_major);
    double us = graph_us(50, [&](int, cudaStream_t s) { CHECK((cudaError_t)qr_sample_launch(&d.a, device_major, s)); });
    d.release();
    printf("  R %-3d %-24s %8.1f us %6.0f GB/s\n", R, name, us, (double)V * R * 4 / us / 1e3);
}

int main()
{
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    device_major = device.major;
    for (int V : {1, 5, 300, 2048, 32000, 50257, 151936})
        for (unsigned i = 0; i < (quick() ? 1u : V > 100000 ? 3u : 4u); i++)
            test_batch(V, quick() ? (V > 10000 ? 6 : 24) : V > 100000 ? 160 : 256, 100 + i);
    printf("%d rows, %d of them drawn: %d tokens hung on rounding, %d differ from the CPU sampler's\n", cases, drawn,
           near_misses, cpu_differs);
    failures += near_misses > 2 + drawn / 200;
    if (!quick())
        for (int R : {1, 8, 32, 256}) {
            time_rows(151936, R, "greedy", [](qr_sampling &p, qr_pick &) { p.temperature = 0; });
            time_rows(151936, R, "plain", [](qr_sampling &, qr_pick &) {});
            time_rows(151936, R, "top_k 50", [](qr_sampling &p, qr_pick &) { p.top_k = 50; });
            time_rows(151936, R, "top_p 0.9", [](qr_sampling &p, qr_pick &) { p.top_p = 0.9f; });
            time_rows(151936, R, "top_k 20, top_p 0.8",
                      [](qr_sampling &p, qr_pick &) { p.top_k = 20, p.top_p = 0.8f; });
            time_rows(151936, R, "greedy, 5 logprobs",
                      [](qr_sampling &p, qr_pick &k) { p.temperature = 0, k.n_top = 5; });
        }
    printf("%s\n", failures ? "FAILED" : "passed");
    return failures != 0;
}
