// peer.cu - see peer.cuh.
#include "cuda/peer.cuh"
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

struct qr_cu_peer {
    void *lib;
    cublasLtHandle_t handle;
    void *work;
};
struct qr_cu_product {
    const qr_cu_peer *peer;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatmulHeuristicResult_t choice;
};

static const size_t WORK = 64 << 20;
static const char *const LIBRARY[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};

template <class F> static F *symbol(const qr_cu_peer *peer, F *, const char *name)
{
    return (F *)dlsym(peer->lib, name);
}
#define PEER(peer, f) symbol(peer, f, #f)

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
    auto create = PEER(p, cublasLtCreate);
    auto version = PEER(p, cublasLtGetVersion);
    if (!create || !version || create(&p->handle) != CUBLAS_STATUS_SUCCESS ||
        cudaMalloc(&p->work, WORK) != cudaSuccess) {
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
        PEER(p, cublasLtDestroy)(p->handle);
    cudaFree(p->work);
    free(p); // the library stays: it does not like to be closed
}

extern "C" qr_cu_product *qr_cu_product_make(const qr_cu_peer *peer, int rows, int k, int n)
{
    qr_cu_product *p = (qr_cu_product *)calloc(1, sizeof *p);
    cublasLtMatmulPreference_t want = nullptr;
    cublasOperation_t turned = CUBLAS_OP_T;
    int n_found = 0;
    if (!p)
        return nullptr;
    p->peer = peer;
    PEER(peer, cublasLtMatmulDescCreate)(&p->op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    PEER(peer, cublasLtMatmulDescSetAttribute)(p->op, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned);
    PEER(peer, cublasLtMatrixLayoutCreate)(&p->w, CUDA_R_16BF, k, rows, k);
    PEER(peer, cublasLtMatrixLayoutCreate)(&p->x, CUDA_R_16BF, k, n, k);
    PEER(peer, cublasLtMatrixLayoutCreate)(&p->y, CUDA_R_32F, rows, n, rows);
    PEER(peer, cublasLtMatmulPreferenceCreate)(&want);
    PEER(peer, cublasLtMatmulPreferenceSetAttribute)
    (want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORK, sizeof WORK);
    PEER(peer, cublasLtMatmulAlgoGetHeuristic)
    (peer->handle, p->op, p->w, p->x, p->y, p->y, want, 1, &p->choice, &n_found);
    PEER(peer, cublasLtMatmulPreferenceDestroy)(want);
    if (n_found > 0)
        return p;
    qr_cu_product_free(p);
    return nullptr;
}

extern "C" void qr_cu_product_free(qr_cu_product *p)
{
    if (!p)
        return;
    for (cublasLtMatrixLayout_t layout : {p->w, p->x, p->y})
        if (layout)
            PEER(p->peer, cublasLtMatrixLayoutDestroy)(layout);
    if (p->op)
        PEER(p->peer, cublasLtMatmulDescDestroy)(p->op);
    free(p);
}

extern "C" cudaError_t qr_cu_product_run(const qr_cu_product *p, const void *w, const void *x, void *y,
                                         cudaStream_t stream)
{
    const float one = 1, zero = 0;
    return PEER(p->peer, cublasLtMatmul)(p->peer->handle, p->op, &one, w, p->w, x, p->x, &zero, y, p->y, y, p->y,
                                         &p->choice.algo, p->peer->work, WORK, stream) == CUBLAS_STATUS_SUCCESS
               ? cudaSuccess
               : cudaErrorUnknown;
}
#else // a toolkit without its header
extern "C" qr_cu_peer *qr_cu_peer_open(char name[32])
{
    name[0] = 0;
    return nullptr;
}
extern "C" void qr_cu_peer_close(qr_cu_peer *)
{
}
extern "C" qr_cu_product *qr_cu_product_make(const qr_cu_peer *, int, int, int)
{
    return nullptr;
}
extern "C" void qr_cu_product_free(qr_cu_product *)
{
}
extern "C" cudaError_t qr_cu_product_run(const qr_cu_product *, const void *, const void *, void *, cudaStream_t)
{
    return cudaErrorNotSupported;
}
#endif
