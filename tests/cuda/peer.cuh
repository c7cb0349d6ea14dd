// peer.cuh - cuBLASLt (src/cuda/peer.cuh) as the peer of a figure; without it the figure is left out.
#pragma once
#include "common.cuh"
#include "cuda/bench_run.h"
#include "cuda/peer.cuh"

struct peer_blas {
    qr_cu_peer *peer = nullptr;

    void open()
    {
        char name[32];
        peer = qr_cu_peer_open(name);
        printf("%s\n", peer ? name : "no cuBLASLt");
    }

    // Microseconds for y[T, rows] = x[T, K] w[rows, K]^T, fp32 out, over `copies` of w; 0 where it cannot.
    double us(const __nv_bfloat16 *w, int copies, const __nv_bfloat16 *x, float *y, int rows, int K, int T,
              int launches)
    {
        if (!peer)
            return 0;
        peer_product product(*peer, rows, K, T);
        bool fine = product.product != nullptr;
        double t = !fine ? 0 : graph_us(launches, [&](int i, cudaStream_t s) {
            fine &= product.run(w + (size_t)(i % copies) * rows * K, x, y, s) == cudaSuccess;
        });
        return fine ? t : 0;
    }
};
