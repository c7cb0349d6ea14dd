// test_quant.cu - weights kept quantised on the device (src/cuda/quant.h): LINEAR and EMBED on them give the bits of the same numbers
// converted to bf16, for every type, number of tokens and kind of device, and sums in double; and what they cost.
//
//   make build/gpu/test_quant && build/gpu/test_quant [bench [few]]
//
// Blocks are random, in the order of a file; what each means is told by base/dequant.c, which tests hold to gguf-py. QUICK=1: few sizes.
// ONLY="FP8 BF16": these types. few: up to 8 tokens.
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include "common.cuh"
#include "quant_rows.cuh"
#include "cuda/packed.cuh"

static const char *name_of(int which)
{
    return which < 0 ? "BF16" : qr_dtype_info(TYPES[which].file)->name;
}

static bool wanted(int which)
{
    const char *only = getenv("ONLY");
    return !only || strstr(only, name_of(which));
}

static qr_cu_on on_device(cudaStream_t s, bool plain)
{
    cudaDeviceProp p;
    CHECK(cudaGetDeviceProperties(&p, 0));
    qr_cu_on on = {s, 1, plain ? 80 : p.major * 10 + p.minor, p.multiProcessorCount};
    CHECK(qr_cu_prepare(&on, 128));
    CHECK(qr_cu_prepare_quant(&on));
    return on;
}

// A matrix in both forms on the device, and as numbers here.
struct matrix {
    int rows, cols, k;
    qr_cu_quant type;
    std::vector<uint16_t> number; // bf16 [rows, cols]
    uint8_t *strips;
    uint4 *tiles;

    matrix(int which, int rows, int cols) : rows(rows), cols(cols), k((cols + 63) / 64 * 64), type(TYPES[which].type)
    {
        const qr_dtype file = TYPES[which].file;
        const size_t row_bytes = qr_row_bytes(file, cols), strip = qr_cu_strip_bytes(type, k), n = (rows + 15) / 16;
        std::vector<uint8_t> all(n * strip);
        std::vector<uint16_t> padded(n * 16 * k);
        number.resize((size_t)rows * cols);
        std::vector<std::thread> threads;
        for (int w = 0; w < 16; w++)
            threads.emplace_back([&, w] {
                std::vector<uint8_t> panel(qr_panel_bytes(file, cols) + 64), in(row_bytes * 16);
                std::vector<float> values(cols);
                uint8_t *at = panel.data() + (64 - (uintptr_t)panel.data() % 64) % 64;
                for (size_t s = w; s < n; s += 16) {
                    int have = std::min(16, rows - (int)s * 16);
                    for (int r = 0; r < have; r++) {
                        size_t row = s * 16 + r;
                        random_row(file, cols, row * 977 + which, in.data() + r * row_bytes);
                        qr_dequant(file, in.data() + r * row_bytes, values.data(), cols);
                        for (int c = 0; c < cols; c++)
                            padded[row * k + c] = number[row * cols + c] = qr_f32_to_bf16(values[c]);
                    }
                    qr_pack_panel(file, cols, in.data(), have, at);
                    qr_cuda_quant_strip(type, at, cols, k, all.data() + s * strip);
                }
            });
        for (auto &t : threads)
            t.join();
        strips = device_array<uint8_t>(all.size());
        tiles = device_array<uint4>(padded.size() / 8);
        uint16_t *plain = device_array<uint16_t>(padded.size());
        CHECK(cudaMemcpy(strips, all.data(), all.size(), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(plain, padded.data(), padded.size() * 2, cudaMemcpyHostToDevice));
        pack_weight<<<(padded.size() / 8 + 255) / 256, 256>>>((const uint32_t *)plain, tiles, n * 16, k);
        CHECK(cudaDeviceSynchronize());
        cudaFree(plain);
    }
    ~matrix()
    {
        cudaFree(strips);
        cudaFree(tiles);
    }
};

struct buffers {
    int most, stride;
    __nv_bfloat16 *x;
    float *y, *want, *bias, *work, *part;
    unsigned *counter;
    void *expanded;

    buffers(int rows, int k, int cuts, int most, int gap) : most(most), stride(rows + gap)
    {
        x = device_array<__nv_bfloat16>((size_t)most * k);
        y = device_array<float>((size_t)most * stride);
        want = device_array<float>((size_t)most * stride);
        bias = device_array<float>(rows);
        work = device_array<float>(qr_cu_linear_work(rows, cuts, most) / 4 + 64);
        counter = device_array<unsigned>(QR_CU_COUNTERS);
        const int each = qr_cu_quant_rows(rows, k);
        expanded = device_array<uint8_t>((size_t)each * k * 2);
        part = device_array<float>(each < rows ? (size_t)most * each : 64);
        CHECK(cudaMemset(counter, 0, QR_CU_COUNTERS * 4));
        fill_random<<<1024, 256>>>(x, (size_t)most * k, 5, 0.5f);
        std::vector<float> b(rows);
        for (int i = 0; i < rows; i++)
            b[i] = (float)(i % 101) * 0.013f - 0.5f;
        CHECK(cudaMemcpy(bias, b.data(), rows * 4, cudaMemcpyHostToDevice));
    }
    ~buffers()
    {
        for (void *p :
             {(void *)x, (void *)y, (void *)want, (void *)bias, (void *)work, (void *)part, (void *)counter, expanded})
            cudaFree(p);
    }
    qr_cu_linear linear(const void *tiles, int rows, int k, int cuts, int n, float *to, bool with_bias) const
    {
        return {tiles, rows, k, cuts, x, to, stride, n, with_bias ? bias : nullptr, work, counter, nullptr};
    }
};

// Columns past the matrix's own are zero in x, as the executor has it.
static __global__ void clear_tail(__nv_bfloat16 *x, int n, int k, int cols)
{
    for (int i = threadIdx.x; i < n * (k - cols); i += blockDim.x)
        x[(size_t)(i / (k - cols)) * k + cols + i % (k - cols)] = 0.0f;
}

static double error_of(const matrix &m, const buffers &b, int n)
{
    std::vector<uint16_t> x((size_t)n * m.k);
    std::vector<float> y((size_t)n * b.stride);
    CHECK(cudaMemcpy(x.data(), b.x, x.size() * 2, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(y.data(), b.y, y.size() * 4, cudaMemcpyDeviceToHost));
    double error = 0, all = 0;
    for (int r = 0; r < m.rows; r += 1 + m.rows / 97)
        for (int t = 0; t < n; t++) {
            double sum = 0;
            for (int c = 0; c < m.cols; c++)
                sum +=
                    (double)qr_bf16_to_f32(m.number[(size_t)r * m.cols + c]) * qr_bf16_to_f32(x[(size_t)t * m.k + c]);
            error += (y[(size_t)t * b.stride + r] - sum) * (y[(size_t)t * b.stride + r] - sum);
            all += sum * sum;
        }
    return std::sqrt(error / all);
}

static void expect(bool right, const char *what, const matrix &m, int n, double figure)
{
    if (right)
        return;
    failures++;
    printf("WRONG: %s, %s of %d x %d, %d tokens: %g\n", what, qr_dtype_info(TYPES[m.type - 1].file)->name, m.rows,
           m.cols, n, figure);
}

static void check_embed(const qr_cu_on &on, const matrix &m)
{
    std::vector<int> id = {0, 1, 15, 16, m.rows / 2, m.rows - 1, -1}, place = {m.rows - 2};
    int *ids = device_array<int>(id.size()), *places = device_array<int>(1);
    float *x = device_array<float>(id.size() * m.cols);
    std::vector<float> got(id.size() * m.cols);
    CHECK(cudaMemcpy(ids, id.data(), id.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(places, place.data(), 4, cudaMemcpyHostToDevice));
    qr_cu_embed a = {m.strips, m.k, 0, m.rows, ids, places, x, m.cols, m.cols, (int)id.size()};
    CHECK(qr_cu_run_embed_quant(&on, &a, m.type));
    CHECK(cudaStreamSynchronize(on.stream));
    CHECK(cudaMemcpy(got.data(), x, got.size() * 4, cudaMemcpyDeviceToHost));
    int differ = 0;
    for (size_t i = 0; i < id.size(); i++)
        for (int c = 0; c < m.cols; c++) {
            float want = qr_bf16_to_f32(m.number[(size_t)(id[i] < 0 ? place[0] : id[i]) * m.cols + c]);
            differ += memcmp(&want, &got[i * m.cols + c], 4) != 0;
        }
    expect(differ == 0, "rows of EMBED differ", m, (int)id.size(), differ);
    cudaFree(ids);
    cudaFree(places);
    cudaFree(x);
}

static void check(int rows, int cols, int gap, const std::vector<int> &tokens)
{
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (int which = 0; which < N_TYPE; which++) {
        if (cols % qr_dtype_info(TYPES[which].file)->block || !wanted(which))
            continue;
        matrix m(which, rows, cols);
        const int cuts = qr_cu_cuts((rows + 15) / 16 * 16, m.k), most = *std::max_element(tokens.begin(), tokens.end());
        buffers b(rows, m.k, cuts, most, gap);
        if (m.k > cols)
            clear_tail<<<1, 256>>>(b.x, most, m.k, cols);
        CHECK(cudaDeviceSynchronize());
        double worst = 0;
        int runs = 0;
        for (int plain = 0; plain < 2; plain++) {
            const qr_cu_on on = on_device(s, plain);
            if (!plain)
                check_embed(on, m);
            for (int n : tokens)
                for (int with_bias = 0; with_bias < 2; with_bias++) {
                    const size_t words = (size_t)n * b.stride;
                    CHECK(cudaMemsetAsync(b.y, 0xff, words * 4, s));
                    CHECK(cudaMemsetAsync(b.want, 0xff, words * 4, s));
                    qr_cu_quant_linear q = {b.linear(m.strips, rows, m.k, cuts, n, b.y, with_bias), m.type, b.expanded,
                                            b.part};
                    qr_cu_linear l = b.linear(m.tiles, rows, m.k, cuts, n, b.want, with_bias);
                    CHECK(qr_cu_run_linear_quant(&on, &q));
                    CHECK(qr_cu_run_linear(&on, &l));
                    CHECK(cudaStreamSynchronize(s));
                    unsigned long long differ = unequal(b.y, b.want, words);
                    expect(differ == 0, "numbers that differ from the converted matrix's", m, n, (double)differ);
                    if (n <= 2 && !with_bias) {
                        worst = std::max(worst, error_of(m, b, n));
                        expect(worst < 1e-5, "error against double", m, n, worst);
                    }
                    runs++;
                }
        }
        printf("%-5s %6d x %5d%s: %d runs give the converted matrix's bits, error against double %.1e\n",
               name_of(which), rows, cols, gap ? " (strided)" : "", runs, worst);
    }
    cudaStreamDestroy(s);
}

// ---------------------------------------------------------------- speed

static void bench(int rows, int k, const std::vector<int> &T)
{
    const size_t arena_bytes = (size_t)640 << 20;
    uint8_t *arena = device_array<uint8_t>(arena_bytes);
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    qr_cu_on on = on_device(s, false);
    const int cuts = qr_cu_cuts(rows, k);
    buffers b(rows, k, cuts, rows > 100000 ? 256 : 4096, 0);
    for (int which = -1; which < N_TYPE; which++) {
        if (!wanted(which))
            continue;
        qr_cu_quant type = which < 0 ? QR_CU_NO_QUANT : TYPES[which].type;
        const size_t strip = qr_cu_strip_bytes(type, k), bytes = strip * (rows / 16);
        if (which < 0)
            fill_random<<<1024, 256>>>((__nv_bfloat16 *)arena, arena_bytes / 2, 3, 0.02f);
        else {
            matrix m(which, 512, k); // its strips over and over
            size_t n = strip * 32;
            for (size_t at = 0; at < arena_bytes; at += n)
                CHECK(cudaMemcpy(arena + at, m.strips, std::min(n, arena_bytes - at), cudaMemcpyDeviceToDevice));
        }
        CHECK(cudaDeviceSynchronize());
        printf("%6d x %4d %-5s %5.1f MB:", rows, k, name_of(which), bytes / 1e6);
        for (int n : T) {
            if (n > b.most)
                continue;
            const int copies = (int)(arena_bytes / bytes);
            double us = graph_us(n >= 4096 ? 8 : 40, [&](int i, cudaStream_t to) {
                qr_cu_on here = on;
                here.stream = to;
                qr_cu_quant_linear q = {b.linear(arena + (size_t)(i % copies) * bytes, rows, k, cuts, n, b.y, false),
                                        type, b.expanded, b.part};
                CHECK(which < 0 ? qr_cu_run_linear(&here, &q.linear) : qr_cu_run_linear_quant(&here, &q));
            });
            printf("  T=%d %.1f", n, us);
            if (n <= 8)
                printf(" (%.2f TB/s)", bytes / us * 1e-6);
        }
        printf("\n");
        fflush(stdout);
    }
    cudaFree(arena);
    cudaStreamDestroy(s);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        const int shapes[][2] = {{2048, 1536}, {1536, 1536}, {17920, 1536}, {1536, 8960}, {151936, 1536}};
        const std::vector<int> few = {1, 8}, all = {1, 8, 16, 32, 64, 256, 4096};
        for (auto &s : shapes)
            bench(s[0], s[1], argc > 2 ? few : all);
        return 0;
    }
    const std::vector<int> few = {1, 2, 7, 8, 9, 16, 17, 32, 33},
                           all = {1, 3, 8, 9, 16, 17, 31, 32, 33, 64, 100, 256, 300, 800};
    check(64, 64, 0, few);
    check(80, 256, 16, few);
    check(1000, 288, 0, few);
    check(2048, 768, 0, few);
    check(576, 1536, 8, few);
    check(33997, 288, 0, {1, 5, 8, 12}); // strips enough for the ring on any device of 132 multiprocessors
    check(33800, 512, 3, {1, 7, 8});
    if (!quick()) {
        check(2048, 1536, 0, all);
        check(1536, 8960, 0, all);
        check(17920, 1536, 0, all);
        check(30001, 1536, 0, {1, 17, 40, 96, 97}); // more rows than are expanded at a time
    }
    printf("%s\n", failures ? "FAILED" : "all right");
    return failures != 0;
}
