// sample.cu - see sample.h: one cluster of 8 blocks a row, the row read once into their shared memory.
//
// Bytes: n_vocab * 4 a row, and as many again where log-probabilities are wanted of a row that was changed. Greedy is one
// pass and one meeting of the cluster, plain sampling two more; top-k and top-p three each. Sums follow a fixed order, so an
// answer has the same bits whatever else is in the step.
#include <climits>
#include "cuda/sample_list.cuh"
#include "cuda/sample_select.cuh"

constexpr float GREEDY_BELOW = 1e-5f;

struct row_best {
    uint32_t key;
    int id;
};

// A thread's largest so far and where it first stands; is NaN or +inf among what it saw?
struct thread_best {
    float best = -INFINITY;
    int at = 0;
    bool bad = false;
    __device__ void see(float x, int i)
    {
        bad |= !(x <= FLT_MAX);
        if (x > best)
            best = x, at = i;
    }
};

// The warp's best of part i, to every block.
template <bool CLUSTER> static __device__ void tell_best(const sample_view<CLUSTER> &v, int slot, int i, thread_best b)
{
    uint64_t key = (uint64_t)(b.bad ? BAD_KEY : key_of(b.best)) << 32 | (uint32_t) ~(v.begin(i) + b.at);
#pragma unroll
    for (int m = 16; m; m /= 2) {
        uint64_t other = __shfl_xor_sync(~0u, key, m);
        key = other > key ? other : key;
    }
    if (threadIdx.x % 32 == 0)
        v.tell(&v.s.best[slot][i][threadIdx.x / 32], key);
}

// The same for a row that was changed after it came, or that lies in one block.
template <bool CLUSTER> static __device__ void scan_row(const sample_view<CLUSTER> &v, int slot)
{
    for (int i = v.first_part(); i < v.end_part(); i++) {
        const float *x = v.part_row(i);
        int n = v.begin(i + 1) - v.begin(i);
        thread_best b;
#pragma unroll 4
        for (int j = threadIdx.x; j < n; j += SAMPLE_THREADS)
            b.see(x[j], j);
        tell_best(v, slot, i, b);
    }
}

// The best of the row from what the warps told; BAD_KEY where NaN or +inf is among them. floor: at most the k-th largest key.
template <bool CLUSTER>
static __device__ row_best best_of(const sample_view<CLUSTER> &v, int slot, int k, uint32_t *floor)
{
    sample_shared &s = v.s;
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        s.floor = 0;
    v.meet_all();
    uint64_t key = 0;
    const uint64_t *all = &s.best[slot][0][0];
#pragma unroll
    for (int i = 0; i < SAMPLE_PARTS * SAMPLE_WARPS / 32; i++) {
        uint64_t other = all[i * 32 + lane];
        key = other > key ? other : key;
    }
#pragma unroll
    for (int m = 16; m; m /= 2) {
        uint64_t other = __shfl_xor_sync(~0u, key, m);
        key = other > key ? other : key;
    }
    if (k > 0 && k <= SAMPLE_PARTS * SAMPLE_WARPS) { // the k-th largest of the warps' own
        if (threadIdx.x < SAMPLE_PARTS * SAMPLE_WARPS) {
            int before = 0;
            for (int i = 0; i < SAMPLE_PARTS * SAMPLE_WARPS; i++)
                before += all[i] > all[threadIdx.x]; // no two are equal
            if (before == k - 1)
                s.floor = (uint32_t)(all[threadIdx.x] >> 32);
        }
        __syncthreads();
        *floor = s.floor;
    }
    return {(uint32_t)(key >> 32), (int)~(uint32_t)key};
}

// Sums of the 256-blocks of f(x, id), which stands in x afterwards if KEEP, and of the row. LANES: 16 sums in float a block, then in
// double, as engine/logits.c's; else in double throughout.
template <bool LANES, bool KEEP, bool CLUSTER, class F>
static __device__ double sum_blocks(const sample_view<CLUSTER> &v, int slot, F f)
{
    const int half = threadIdx.x / 16, lane = threadIdx.x % 16;
    for (int i = v.first_part(); i < v.end_part(); i++) {
        int n = v.begin(i + 1) - v.begin(i), blocks = (n + SAMPLE_BLOCK - 1) / SAMPLE_BLOCK, id = v.begin(i);
        float *x = v.part_row(i);
        double *sums = v.part_sum(i);
        for (int pair = 0; pair < blocks; pair += SAMPLE_THREADS / 16) {
            int b = pair + half, m = b < blocks ? min(SAMPLE_BLOCK, n - b * SAMPLE_BLOCK) : 0;
            float *y = x + b * SAMPLE_BLOCK;
            float sum = 0, rest = 0;
            double wide = 0;
#pragma unroll 4
            for (int j = lane; j < m; j += 16) {
                float e = f(y[j], id + b * SAMPLE_BLOCK + j);
                if (KEEP)
                    y[j] = e;
                if (!LANES)
                    wide += (double)e;
                else if (j - lane + 16 <= m)
                    sum = __fadd_rn(sum, e);
                else
                    rest = e;
            }
            double four = LANES ? (double)sum : wide;
            four += shuffle_xor(four, 1);
            four += shuffle_xor(four, 2);
            double total = __shfl_sync(~0u, four, 0, 16);
            for (int g = 4; g < 16; g += 4)
                total += __shfl_sync(~0u, four, g, 16);
            if (LANES && __any_sync(~0u, m % 16)) // what does not fill 16 lanes, one by one
                for (int j = 0; j < 15; j++)
                    total += (double)__shfl_sync(~0u, rest, j, 16);
            if (lane == 0 && m > 0)
                sums[b] = total;
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            double total = 0;
            for (int b = threadIdx.x; b < blocks; b += 32)
                total += sums[b];
#pragma unroll
            for (int m = 1; m < 32; m *= 2)
                total += shuffle_xor(total, m);
            if (threadIdx.x == 0)
                v.tell(&v.s.sum[slot][i], total);
        }
    }
    v.meet_all();
    double total = 0;
    for (int i = 0; i < SAMPLE_PARTS; i++)
        total += v.s.sum[slot][i];
    return total;
}

// Walks up the ids until the running sum of weights passes u of the whole. Every block returns the id.
template <bool CLUSTER> static __device__ int draw(const sample_view<CLUSTER> &v, int slot, double total, float u)
{
    const double target = (double)u * total;
    double before = 0;
    int owner = -1, last = 0;
    for (int i = 0; i < SAMPLE_PARTS && owner < 0; i++) {
        double here = v.s.sum[slot][i];
        if (here > 0)
            last = i;
        if (before + here > target)
            owner = i;
        else
            before += here;
    }
    if (owner < 0) { // rounding: then the last with a weight
        owner = last;
        before = target;
    }
    if (threadIdx.x < 32 && (!CLUSTER || v.me == owner)) {
        const double *sums = v.part_sum(owner);
        int n = v.begin(owner + 1) - v.begin(owner), blocks = (n + SAMPLE_BLOCK - 1) / SAMPLE_BLOCK, block = -1;
        double front = before;
        for (int b = 0; b < blocks; b += 32) {
            double here = b + (int)threadIdx.x < blocks ? sums[b + threadIdx.x] : 0, start = before;
            bool passed;
            int lane = walk_lanes(here, target, &before, &passed);
            if (lane >= 0)
                block = b + lane, front = passed ? before : start;
            if (passed)
                break;
        }
        const float *x = v.part_row(owner) + block * SAMPLE_BLOCK;
        int m = min(SAMPLE_BLOCK, n - block * SAMPLE_BLOCK), first = threadIdx.x * 8;
        int at = walk_values(x, first, min(first + 8, m), target, front);
        if (at >= 0)
            v.tell(&v.s.chosen, v.begin(owner) + block * SAMPLE_BLOCK + at);
    }
    v.meet_all();
    return v.s.chosen;
}

// Steps 5 to 9 of engine/sampler.h for a temperature above 0. The row holds weights afterwards.
template <bool CLUSTER> static __device__ int sample(sample_view<CLUSTER> &v, float max, uint32_t floor)
{
    const qr_sample_row &p = v.p;
    const float scale = __fdiv_rn(1.0f, p.temperature), u = rand_uniform(p.seed, p.choice, p.position);
    auto weight = [&](float x, int) { return exp_neg(__fmul_rn(__fsub_rn(x, max), scale)); };
    double total;
    int slot = 0;
    if (p.top_k > 0 && p.top_k <= SAMPLE_LIST_K) {
        int n = gather(v, floor, 0);
        if (n <= SAMPLE_LIST) {
            if (v.me == 0)
                draw_list(v, n, max, scale, u);
            v.meet_all();
            return v.s.chosen;
        }
    }
    if (p.top_k > 0) {
        sample_limit k = select_best<false>(v, p.top_k, floor, 0);
        total = sum_blocks<false, true>(v, slot,
                                        [&](float x, int id) { return k.holds(key_of(x), id) ? weight(x, id) : 0.0f; });
    } else {
        total = sum_blocks<true, true>(v, slot, weight);
    }
    if (p.top_p < 1 || p.min_p > 0) {
        sample_limit mass = {0, INT_MAX};
        if (p.top_p < 1) { // what is lighter adds up to less than 1 - top_p
            float least = (float)((1.0 - (double)p.top_p) * total / v.a.n_vocab * 0.999);
            mass = select_best<true>(v, (double)p.top_p * total, umax(1, __float_as_uint(least)), 1);
        }
        total = sum_blocks<false, true>(
            v, ++slot, [&](float w, int id) { return w >= p.min_p && mass.holds(__float_as_uint(w), id) ? w : 0.0f; });
    }
    return draw(v, slot, total, u);
}

// The model's own log-probabilities: the row as it came.
template <bool CLUSTER> static __device__ void log_probability(sample_view<CLUSTER> &v, int id, qr_sampled *out)
{
    sample_shared &s = v.s;
    uint32_t floor = 0;
    int n_top = min(v.p.n_top, v.a.n_vocab);
    row_best best = best_of(v, 1, n_top, &floor);
    if (best.key == BAD_KEY || best.key == key_of(-INFINITY)) {
        if (v.me == 0 && threadIdx.x == 0)
            out->id = 0, out->status = QR_INTERNAL;
        return;
    }
    const float max = float_of(best.key), value = v.logits[id];
    int before = 0;
    v.each([&](float x, int i) { before += x > value || (x == value && i < id); });
    before = __reduce_add_sync(~0u, before);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&s.n_equal, before);
    __syncthreads();
    if (threadIdx.x == 0)
        v.tell(&s.rank[v.me], s.n_equal);
    double total = sum_blocks<true, false>(v, 2, [&](float x, int) { return exp_neg(__fsub_rn(x, max)); });
    const double shift = (double)max + log(total);
    int n = n_top > 0 ? gather(v, floor, 1) : 0;
    if (n > SAMPLE_LIST) {
        sample_limit limit = select_best<false>(v, n_top, floor, 2);
        n = n_top;
        if (v.me == 0 && threadIdx.x == 0)
            s.n_list[1] = 0;
        v.meet_all();
        gather_if(v, 1, [&](float x, int i) { return limit.holds(key_of(x), i); });
    }
    if (v.me == 0 && threadIdx.x == 0) {
        int rank = 0;
        for (int i = 0; i < SAMPLE_PARTS; i++)
            rank += s.rank[i];
        out->logprob = (float)((double)value - shift);
        out->rank = rank;
        out->n_top = n_top;
    }
    if (v.me == 0 && (int)threadIdx.x < n) {
        qr_top mine = listed(v)[threadIdx.x];
        int at = rank_in_list(v, n, mine);
        if (at < n_top)
            out->top[at] = {mine.id, (float)((double)mine.logprob - shift)};
    }
    v.meet_all(); // others still read how many were gathered
}

template <bool CLUSTER>
static __global__ void __launch_bounds__(SAMPLE_THREADS, 2)
    sample_rows(const __grid_constant__ qr_sample_args a, int part)
{
    extern __shared__ __align__(16) char raw[];
    sample_shared &s = *(sample_shared *)raw;
    const int r = CLUSTER ? blockIdx.x / SAMPLE_PARTS : blockIdx.x, me = CLUSTER ? blockIdx.x % SAMPLE_PARTS : 0;
    const int blocks = part / SAMPLE_BLOCK;
    double *sums = (double *)(raw + sizeof(s));
    float *row = CLUSTER ? (float *)(sums + (blocks + 1) / 2 * 2) : a.work + (size_t)r * ((a.n_vocab + 3) / 4 * 4);
    if (threadIdx.x < SAMPLE_PARTS)
        s.rank[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        s.n_equal = s.n_list[0] = s.n_list[1] = 0;
    for (int i = threadIdx.x; i < SAMPLE_BINS; i += SAMPLE_THREADS)
        s.total[0][i] = 0;
    __syncthreads();
    if (CLUSTER)
        cluster_arrive();
    constexpr int WORDS = sizeof(s.row) / 4; // may come from the host's memory, while the kernel before still runs
    const int word = threadIdx.x < WORDS ? ((const int *)&a.pick->row[r])[threadIdx.x] : 0;
    const int place = threadIdx.x == 0 ? a.pick->place + r : 0;
    wait_for_previous();
    sample_view<CLUSTER> v = {
        a, (const int32_t *)a.pick, s.row, s, a.logits + (size_t)r * a.stride, row, sums, me, part, 0};
    thread_best seen;
    auto bring = [&]() {
        seen = thread_best();
        for (int i = v.first_part(); i < v.end_part(); i++)
            v.load(i, [&](float x, int at) { seen.see(x, at); });
    };
    bring();
    if (threadIdx.x < WORDS)
        ((int *)&s.row)[threadIdx.x] = word;
    __syncthreads();
    if (CLUSTER)
        cluster_wait(); // all run: their shared memory may be written
    const qr_sample_row &p = s.row;
    const bool greedy = p.temperature < GREEDY_BELOW, changes = p.samples && (p.adjusts || !greedy);
    auto look = [&](int slot, bool as_it_came) {
        if (CLUSTER && as_it_came)
            tell_best(v, slot, v.me, seen);
        else
            scan_row(v, slot);
    };
    int id = p.samples ? 0 : p.id, status = QR_OK;
    if (p.samples) {
        if (p.adjusts)
            v.adjust();
        look(0, !p.adjusts);
        uint32_t floor = 0;
        row_best best = best_of(v, 0, p.top_k, &floor);
        if (best.key == BAD_KEY)
            status = QR_INTERNAL;
        else if (best.key == key_of(-INFINITY))
            status = QR_INVALID;
        else
            id = greedy ? best.id : sample(v, float_of(best.key), floor);
    }
    if (me == 0 && threadIdx.x == 0) {
        a.place[place] = id;
        a.out[r].id = id;
        a.out[r].status = status;
    }
    if (p.n_top < 0 || status != QR_OK)
        return;
    if (changes) {
        __syncthreads();
        bring();
        __syncthreads();
    }
    look(1, true);
    log_probability(v, id, &a.out[r]);
}

// Ids of a part, and what a block of the cluster keeps.
static int part_of(int n_vocab)
{
    return ((n_vocab + SAMPLE_BLOCK - 1) / SAMPLE_BLOCK + SAMPLE_PARTS - 1) / SAMPLE_PARTS * SAMPLE_BLOCK;
}
static size_t shared_bytes(int n_vocab, bool cluster)
{
    size_t blocks = (size_t)part_of(n_vocab) / SAMPLE_BLOCK;
    return cluster ? sizeof(sample_shared) + (blocks + 1) / 2 * 16 + (size_t)part_of(n_vocab) * sizeof(float)
                   : sizeof(sample_shared) + blocks * SAMPLE_PARTS * sizeof(double);
}
static bool has_cluster(int n_vocab, int major)
{
    return major >= 9 && shared_bytes(n_vocab, true) <= 227 * 1024;
}

size_t qr_sample_work_bytes(int n_row, int n_vocab, int major)
{
    return has_cluster(n_vocab, major) ? 0 : (size_t)n_row * ((size_t)(n_vocab + 3) / 4 * 4) * sizeof(float);
}

int qr_sample_launch(const struct qr_sample_args *args, int major, struct CUstream_st *stream)
{
    bool cluster = has_cluster(args->n_vocab, major);
    auto kernel = cluster ? sample_rows<true> : sample_rows<false>;
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute at[2] = {};
    if (args->n_row == 0)
        return cudaSuccess;
    c.gridDim = args->n_row * (cluster ? SAMPLE_PARTS : 1);
    c.blockDim = SAMPLE_THREADS;
    c.dynamicSmemBytes = shared_bytes(args->n_vocab, cluster);
    c.stream = stream;
    c.attrs = at;
    at[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    at[0].val.programmaticStreamSerializationAllowed = 1;
    at[1].id = cudaLaunchAttributeClusterDimension;
    at[1].val.clusterDim.x = SAMPLE_PARTS;
    at[1].val.clusterDim.y = at[1].val.clusterDim.z = 1;
    c.numAttrs = cluster ? 2 : 0;
    cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)c.dynamicSmemBytes);
    return e != cudaSuccess ? e : cudaLaunchKernelEx(&c, kernel, *args, part_of(args->n_vocab));
}
