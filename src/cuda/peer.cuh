// peer.cuh - cuBLASLt as the peer of a figure, opened at run time: quire itself never calls it.
#pragma once
#include <cuda_runtime.h>
#include "cuda/bench_run.h"

// y[n, rows] = x[n, k] w[rows, k]^T, bf16 to fp32, row by row in memory, by the library's first choice; NULL: it has none.
extern "C" struct qr_cu_product *qr_cu_product_make(const qr_cu_peer *peer, int rows, int k, int n);
extern "C" void qr_cu_product_free(struct qr_cu_product *product); // NULL is fine
extern "C" cudaError_t qr_cu_product_run(const struct qr_cu_product *product, const void *w, const void *x, void *y,
                                         cudaStream_t stream);

// One for as long as a scope.
struct peer_product {
    qr_cu_product *product;

    peer_product(const qr_cu_peer &peer, int rows, int k, int n) : product(qr_cu_product_make(&peer, rows, k, n))
    {
    }
    peer_product(const peer_product &) = delete;
    ~peer_product()
    {
        qr_cu_product_free(product);
    }
    cudaError_t run(const void *w, const void *x, void *y, cudaStream_t stream) const
    {
        return qr_cu_product_run(product, w, x, y, stream);
    }
};
