// peer.cu - see peer.cuh.
#include "cuda/peer.cuh"
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include "cuda/bench_run.h"

#ifdef QR_HAS_PEER
template <class F> static F *symbol(const qr_cu_peer &peer, F *, const char *name)
{
    return (F *)dlsym(peer.lib, name);
}
#define PEER(peer, f) symbol(peer, f, #f)

static const char *const LIBRARY[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};

extern "C" qr_cu_peer *qr_cu_peer_open(char name[32])
{
    qr_cu_peer *p = (qr_cu_peer *)calloc(1, sizeof *p);
    name[0] = 0;
    for (int i = 0; p && !p->lib && i < 3; i++)
        p->lib = dlopen(LIBRARY[i], RTLD_NOW | RTLD_LOCAL);
    if (!p || !p->lib) {
        free(p);
        return nullptr;
    }
    auto create = PEER(*p, cublasLtCreate);
    auto version = PEER(*p, cublasLtGetVersion);
    if (!create || !version || create((cublasLtHandle_t *)&p->handle) != CUBLAS_STATUS_SUCCESS ||
        cudaMalloc(&p->work, qr_cu_peer::WORK) != cudaSuccess) {
        cudaGetLastError();
        qr_cu_peer_close(p);
        return nullptr;
    }
    size_t v = version(); // 130002: 13.0.2; before 12: 11805
    snprintf(name, 32, "cuBLASLt %d.%d", (int)(v >= 100000 ? v / 10000 : v / 1000),
             (int)(v >= 100000 ? v / 100 % 100 : v / 100 % 10));
    return p;
}

extern "C" void qr_cu_peer_close(qr_cu_peer *p)
{
    if (!p)
        return;
    if (p->handle)
        PEER(*p, cublasLtDestroy)((cublasLtHandle_t)p->handle);
    cudaFree(p->work);
    free(p); // the library stays: it does not like to be closed
}

peer_product::peer_product(const qr_cu_peer &from, int rows, int k, int n) : peer(from)
{
    cublasLtMatmulPreference_t want = nullptr;
    cublasOperation_t turned = CUBLAS_OP_T;
    size_t work = qr_cu_peer::WORK;
    int n_found = 0;
    PEER(peer, cublasLtMatmulDescCreate)(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    PEER(peer, cublasLtMatmulDescSetAttribute)(op, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned);
    PEER(peer, cublasLtMatrixLayoutCreate)(&w, CUDA_R_16BF, k, rows, k);
    PEER(peer, cublasLtMatrixLayoutCreate)(&x, CUDA_R_16BF, k, n, k);
    PEER(peer, cublasLtMatrixLayoutCreate)(&y, CUDA_R_32F, rows, n, rows);
    PEER(peer, cublasLtMatmulPreferenceCreate)(&want);
    PEER(peer, cublasLtMatmulPreferenceSetAttribute)
    (want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &work, sizeof work);
    PEER(peer, cublasLtMatmulAlgoGetHeuristic)
    ((cublasLtHandle_t)peer.handle, op, w, x, y, y, want, 1, &choice, &n_found);
    PEER(peer, cublasLtMatmulPreferenceDestroy)(want);
    found = n_found > 0;
}

peer_product::~peer_product()
{
    for (cublasLtMatrixLayout_t layout : {w, x, y})
        PEER(peer, cublasLtMatrixLayoutDestroy)(layout);
    PEER(peer, cublasLtMatmulDescDestroy)(op);
}

cudaError_t peer_product::run(const void *a, const void *b, void *c, cudaStream_t stream) const
{
    const float one = 1, zero = 0;
    return PEER(peer, cublasLtMatmul)((cublasLtHandle_t)peer.handle, op, &one, a, w, b, x, &zero, c, y, c, y,
                                      &choice.algo, peer.work, qr_cu_peer::WORK, stream) == CUBLAS_STATUS_SUCCESS
               ? cudaSuccess
               : cudaErrorUnknown;
}
#else
extern "C" qr_cu_peer *qr_cu_peer_open(char name[32])
{
    name[0] = 0;
    return nullptr;
}
extern "C" void qr_cu_peer_close(qr_cu_peer *)
{
}
peer_product::peer_product(const qr_cu_peer &, int, int, int)
{
}
peer_product::~peer_product()
{
}
cudaError_t peer_product::run(const void *, const void *, void *, cudaStream_t) const
{
    return cudaErrorNotSupported;
}
#endif
