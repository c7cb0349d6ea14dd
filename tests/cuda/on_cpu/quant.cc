// quant.cc - the kernels on quantised weights (linear_quant.cu, embed_quant.cu) without a GPU, as ptx.cuh here has them: every type and
// form, against the numbers of base/dequant.c and sums in double. The bits are tests/cuda/test_quant.cu's matter, on a GPU.
#include <cstdio>
#include <vector>
#include "cuda/launch.cuh"
#include "../quant_rows.cuh"
#include "cuda/packed.cuh"

thread_local uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim, gridDim;
warp_on_cpu warps_on_cpu[32];
pthread_barrier_t block_on_cpu;
alignas(128) uint32_t tokens[64 * 1024];
int n_launch;
static int failures;

// What the kernels of bf16 would do with the tiles that were expanded.
extern "C" cudaError_t qr_cu_run_linear(const struct qr_cu_on *, const struct qr_cu_linear *a)
{
    const uint16_t *w = (const uint16_t *)a->tiles, *x = (const uint16_t *)a->x;
    for (int t = 0; t < a->n; t++)
        for (int r = 0; r < a->rows; r++) {
            double sum = 0;
            for (int k = 0; k < a->k; k++)
                sum += (double)qr_bf16_to_f32(w[packed_index(r, k, a->k)]) * qr_bf16_to_f32(x[(size_t)t * a->k + k]);
            a->y[(size_t)t * a->y_stride + r] = (float)sum + (a->bias ? a->bias[r] : 0);
        }
    return cudaSuccess;
}

extern "C" cudaError_t qr_cu_run_map(const struct qr_cu_on *, enum qr_cu_map, const struct qr_cu_rows *)
{
    return cudaErrorNotSupported; // no matrix here is expanded in parts
}

// In memory of just its size, so that AddressSanitizer sees what is read behind it.
template <class T> struct exact {
    T *p;
    exact(size_t n) : p((T *)aligned_alloc(64, (n * sizeof(T) + 63) / 64 * 64))
    {
    }
    ~exact()
    {
        free(p);
    }
};

struct shape {
    int rows, cols, cuts, n, n_sm, gap;
};

static std::vector<float> make_matrix(int which, const shape &s, int k, uint8_t *strips)
{
    const qr_dtype file = TYPES[which].file;
    const size_t row_bytes = qr_row_bytes(file, s.cols);
    std::vector<float> value((size_t)s.rows * s.cols);
    std::vector<uint8_t> in(row_bytes * 16);
    exact<uint8_t> panel(qr_panel_bytes(file, s.cols));
    for (int first = 0; first < s.rows; first += 16) {
        int have = s.rows - first < 16 ? s.rows - first : 16;
        for (int r = 0; r < have; r++) {
            random_row(file, s.cols, (first + r) * 977 + which, in.data() + r * row_bytes);
            qr_dequant(file, in.data() + r * row_bytes, &value[(size_t)(first + r) * s.cols], s.cols);
        }
        qr_pack_panel(file, s.cols, in.data(), have, panel.p);
        qr_cuda_quant_strip(TYPES[which].type, panel.p, s.cols, k,
                            strips + first / 16 * qr_cu_strip_bytes(TYPES[which].type, k));
    }
    for (float &v : value)
        v = qr_bf16_to_f32(qr_f32_to_bf16(v));
    return value;
}

static void expect(bool right, const char *what, int which, const shape &s, double figure)
{
    if (right)
        return;
    failures++;
    printf("WRONG: %s, %s %d x %d in %d cuts, %d tokens: %g\n", what, qr_dtype_info(TYPES[which].file)->name, s.rows,
           s.cols, s.cuts, s.n, figure);
}

static void check_embed(const qr_cu_on &on, int which, const shape &s, int k, const uint8_t *strips,
                        const std::vector<float> &value)
{
    const int ids[3] = {0, s.rows - 1, -1}, place[1] = {s.rows / 2}, want[3] = {0, s.rows - 1, s.rows / 2};
    std::vector<float> x(3 * s.cols);
    qr_cu_embed a = {strips, k, 0, s.rows, ids, place, x.data(), s.cols, s.cols, 3};
    int differ = qr_cu_run_embed_quant(&on, &a, TYPES[which].type) != cudaSuccess;
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < s.cols; c++)
            differ += memcmp(&x[i * s.cols + c], &value[(size_t)want[i] * s.cols + c], 4) != 0;
    expect(differ == 0, "numbers of EMBED differ", which, s, differ);
}

static void check(int which, const shape &s)
{
    const int k = (s.cols + 63) / 64 * 64, strips = (s.rows + 15) / 16, stride = s.rows + s.gap;
    exact<uint8_t> weight(strips * qr_cu_strip_bytes(TYPES[which].type, k));
    exact<uint16_t> x((size_t)s.n * k), expanded((size_t)strips * 16 * k);
    exact<float> work((size_t)s.cuts * s.n * strips * 16);
    std::vector<float> value = make_matrix(which, s, k, weight.p), y((size_t)s.n * stride, -777), bias(s.rows);
    std::vector<unsigned> counter(strips);
    std::mt19937 random(3);
    for (int i = 0; i < s.n * k; i++)
        x.p[i] = i % k < s.cols ? qr_f32_to_bf16((float)(int)(random() % 2001 - 1000) / 700) : 0;
    for (int i = 0; i < s.rows; i++)
        bias[i] = (float)(i % 7) * 0.25f;
    const qr_cu_on on = {nullptr, 1, 90, s.n_sm};
    qr_cu_quant_linear a = {};
    a.type = TYPES[which].type;
    a.expanded = expanded.p;
    a.linear.tiles = weight.p;
    a.linear.rows = s.rows;
    a.linear.k = k;
    a.linear.cuts = s.cuts;
    a.linear.x = x.p;
    a.linear.y = y.data();
    a.linear.y_stride = stride;
    a.linear.n = s.n;
    a.linear.bias = bias.data();
    a.linear.work = work.p;
    a.linear.counter = counter.data();
    n_launch = 0;
    expect(qr_cu_run_linear_quant(&on, &a) == cudaSuccess && n_launch == 1, "launches", which, s, n_launch);
    double worst = 0;
    int stray = 0;
    for (int t = 0; t < s.n; t++) {
        for (int r = 0; r < s.rows; r++) {
            double sum = bias[r], size = 1e-3;
            for (int c = 0; c < s.cols; c++) {
                double p = (double)value[(size_t)r * s.cols + c] * qr_bf16_to_f32(x.p[(size_t)t * k + c]);
                sum += p;
                size += std::fabs(p);
            }
            double error = std::fabs(y[(size_t)t * stride + r] - sum) / size;
            worst = error <= worst ? worst : error; // NaN stays
        }
        for (int r = s.rows; r < stride; r++)
            stray += y[(size_t)t * stride + r] != -777;
    }
    for (unsigned c : counter)
        stray += c != 0;
    expect(worst < 1e-5, "error", which, s, worst);
    expect(stray == 0, "stray numbers or counters", which, s, stray);
    if (s.n == 1)
        check_embed(on, which, s, k, weight.p, value);
}

int main()
{
    const shape any[] = {
        {72, 256, 1, 1, 2, 3},  // one chain; rows and stride of no multiple
        {64, 768, 3, 3, 2, 0},  // cuts
        {48, 512, 8, 12, 3, 0}, // of one unit; two groups of tokens
        {64, 256, 1, 20, 1, 1}, // four
        {24, 256, 1, 40, 1, 1}, // expanded
        {805, 512, 1, 5, 1, 2}, // the ring, some warps of which have three strips
    };
    const shape narrow[] = {
        // columns of no multiple of 64; groups that a cut or a strip's end divides
        {72, 288, 1, 1, 2, 3},
        {64, 576, 3, 3, 2, 0},
        {48, 448, 7, 12, 3, 0},
        {805, 352, 1, 2, 1, 0},
    };
    for (int which = 0; which < N_TYPE; which++) {
        for (const shape &s : any)
            check(which, s);
        for (const shape &s : narrow)
            if (s.cols % qr_dtype_info(TYPES[which].file)->block == 0)
                check(which, s);
    }
    printf("%s\n", failures ? "FAILED" : "all right");
    return failures != 0;
}
