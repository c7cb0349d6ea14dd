// test_norm.cu - RMSNORM and ADD_RMSNORM of many rows, a warp each, against few, a block each: bit for bit, and against double.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -O2 -std=c++17 -Iinclude -Isrc tests/cuda/test_norm.cu src/cuda/norm.cu -o build/test_norm
//   build/test_norm
#include <cmath>
#include "common.cuh"
#include "cuda/launch.h"

static __global__ void fill_floats(float *p, size_t n, uint32_t seed)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = (float)hash_u32(i, seed) * 0x1p-31f - 1.0f;
}

constexpr int ROWS = 2100, FEW = 700; // above and below the number from which a warp takes a row (norm.cu)

struct norm_case {
    int width;
    float *x, *r, *y, *scale;
    __nv_bfloat16 *y16;

    // Rows [first, first + n) by one launch.
    void run(int first, int n, bool add) const
    {
        qr_cu_on on = {0, 1, 90, 132};
        qr_cu_norm a = {};
        size_t at = (size_t)first * width;
        a.x = x + at, a.r = add ? r + at : nullptr, a.y = y + at, a.y16 = y16 + at, a.scale = scale;
        a.x_stride = a.r_stride = a.y_stride = a.y16_stride = a.width = a.cols = width;
        a.n = n, a.eps = 1e-6f;
        CHECK(qr_cu_run_rmsnorm(&on, &a));
    }

    // x, y and y16 in words, of fresh inputs.
    std::vector<uint32_t> result(bool whole, bool add) const
    {
        size_t n = (size_t)ROWS * width;
        fill_floats<<<1024, 256>>>(x, n, 1);
        CHECK(cudaMemset(y, 0xFF, n * 4));
        CHECK(cudaMemset(y16, 0xFF, n * 2));
        for (int first = 0; first < ROWS; first += whole ? ROWS : FEW)
            run(first, whole ? ROWS : FEW, add);
        std::vector<uint32_t> out(n * 2 + n / 2);
        CHECK(cudaMemcpy(out.data(), x, n * 4, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(out.data() + n, y, n * 4, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(out.data() + 2 * n, y16, n * 2, cudaMemcpyDeviceToHost));
        return out;
    }
};

// Largest error of y in the last row, given x after the addition.
static double error_of(const norm_case &c, const std::vector<uint32_t> &got, const std::vector<float> &scale)
{
    const size_t n = (size_t)ROWS * c.width, last = n - c.width;
    const float *x = (const float *)got.data() + last, *y = (const float *)got.data() + n + last;
    double sum = 0, worst = 0;
    for (int i = 0; i < c.width; i++)
        sum += (double)x[i] * x[i];
    for (int i = 0; i < c.width; i++)
        worst = std::max(worst, std::fabs(y[i] - x[i] / std::sqrt(sum / c.width + 1e-6) * scale[i]));
    return worst;
}

int main()
{
    for (int width : {384, 896, 1024, 1536, 2048}) {
        const size_t n = (size_t)ROWS * width;
        norm_case c = {width,
                       device_array<float>(n),
                       device_array<float>(n),
                       device_array<float>(n),
                       device_array<float>(width),
                       device_array<__nv_bfloat16>(n)};
        std::vector<float> scale(width);
        fill_floats<<<1024, 256>>>(c.r, n, 2);
        fill_floats<<<16, 256>>>(c.scale, width, 3);
        CHECK(cudaMemcpy(scale.data(), c.scale, width * 4, cudaMemcpyDeviceToHost));
        for (bool add : {false, true}) {
            std::vector<uint32_t> many = c.result(true, add), few = c.result(false, add);
            size_t differ = 0;
            for (size_t i = 0; i < many.size(); i++)
                differ += many[i] != few[i];
            double error = error_of(c, many, scale);
            failures += differ != 0 || !(error < 1e-5);
            printf("%d rows of %d%s: %zu of %zu words differ, error %.1e\n", ROWS, width, add ? ", added" : "", differ,
                   many.size(), error);
        }
        for (void *p : {(void *)c.x, (void *)c.r, (void *)c.y, (void *)c.scale, (void *)c.y16})
            CHECK(cudaFree(p));
    }
    printf("%s\n", failures ? "FAILED" : "all bits equal, all errors within their limit");
    return failures != 0;
}
