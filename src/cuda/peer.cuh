// peer.cuh - cuBLASLt as the peer of a figure, opened at run time: quire itself never calls it.
#pragma once
#include <cstddef>
#include <cuda_runtime.h>
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define QR_HAS_PEER 1
#endif

struct qr_cu_peer {
    void *lib = nullptr;
    void *handle = nullptr, *work = nullptr;
    static constexpr size_t WORK = 64 << 20;
};

// y[n, rows] = x[n, k] w[rows, k]^T, bf16 to fp32, row by row in memory, by the library's first choice.
struct peer_product {
    bool found = false;
#ifdef QR_HAS_PEER
    const qr_cu_peer &peer;
    cublasLtMatmulDesc_t op = nullptr;
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
    cublasLtMatmulHeuristicResult_t choice;
#endif
    peer_product(const qr_cu_peer &peer, int rows, int k, int n);
    ~peer_product();
    peer_product(const peer_product &) = delete;
    cudaError_t run(const void *w, const void *x, void *y, cudaStream_t stream) const;
};
