// peer.cuh - cuBLASLt as the peer of a figure, opened at run time; without it the figure is left out.
#pragma once
#include <cublasLt.h>
#include <dlfcn.h>
#include "common.cuh"

struct peer_blas {
    void *lib = nullptr;
    cublasLtHandle_t handle = nullptr;
    void *work = nullptr;
    static constexpr size_t WORK = 64 << 20;

    template <class F> F *find(F *, const char *name)
    {
        return (F *)dlsym(lib, name);
    }
#define PEER(f) find(f, #f)

    void open()
    {
        const char *path = getenv("CUBLASLT");
        lib = dlopen(path ? path : "libcublasLt.so.13", RTLD_NOW);
        if (!lib) {
            printf("no cuBLASLt: %s\n", dlerror());
            return;
        }
        if (PEER(cublasLtCreate)(&handle) != CUBLAS_STATUS_SUCCESS)
            lib = nullptr;
        work = device_array<char>(WORK);
    }

    // Microseconds for y[T, rows] = x[T, K] w[rows, K]^T, fp32 out, over `copies` of w; 0 where it cannot.
    double us(const __nv_bfloat16 *w, int copies, const __nv_bfloat16 *x, float *y, int rows, int K, int T,
              int launches)
    {
        if (!lib)
            return 0;
        cublasLtMatmulDesc_t op;
        cublasLtMatrixLayout_t a, b, d;
        cublasLtMatmulPreference_t want;
        cublasLtMatmulHeuristicResult_t got;
        cublasOperation_t trans = CUBLAS_OP_T;
        size_t work_bytes = WORK;
        int found = 0;
        PEER(cublasLtMatmulDescCreate)(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
        PEER(cublasLtMatmulDescSetAttribute)(op, CUBLASLT_MATMUL_DESC_TRANSA, &trans, sizeof trans);
        PEER(cublasLtMatrixLayoutCreate)(&a, CUDA_R_16BF, K, rows, K);
        PEER(cublasLtMatrixLayoutCreate)(&b, CUDA_R_16BF, K, T, K);
        PEER(cublasLtMatrixLayoutCreate)(&d, CUDA_R_32F, rows, T, rows);
        PEER(cublasLtMatmulPreferenceCreate)(&want);
        PEER(cublasLtMatmulPreferenceSetAttribute)
        (want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &work_bytes, sizeof work_bytes);
        PEER(cublasLtMatmulAlgoGetHeuristic)(handle, op, a, b, d, d, want, 1, &got, &found);
        if (!found)
            return 0;
        auto matmul = PEER(cublasLtMatmul);
        float one = 1, zero = 0;
        bool fine = true;
        double t = graph_us(launches, [&](int i, cudaStream_t s) {
            fine &= matmul(handle, op, &one, w + (size_t)(i % copies) * rows * K, a, x, b, &zero, y, d, y, d, &got.algo,
                           work, WORK, s) == CUBLAS_STATUS_SUCCESS;
        });
        return fine ? t : 0;
    }
};
