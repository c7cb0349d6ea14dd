/* check.h - every CUDA call's answer becomes a status and a sentence. */
#ifndef QR_CUDA_CHECK_H
#define QR_CUDA_CHECK_H
#include <cuda_runtime_api.h>
#include "base/err.h"

static inline enum qr_status qr_cuda_status(cudaError_t error, const char *what, struct qr_err *err)
{
    if (error == cudaSuccess)
        return QR_OK;
    cudaGetLastError(); /* one that is not sticky is over now */
    return qr_fail(err, error == cudaErrorMemoryAllocation ? QR_NOMEM : QR_INTERNAL, "CUDA: %s, while %s",
                   cudaGetErrorString(error), what);
}

/* what: "copying logits" */
#define QR_CUDA(call, what, err) QR_TRY(qr_cuda_status((call), (what), (err)))
#endif
