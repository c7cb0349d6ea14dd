/* device.c - which GPUs there are, and why there is none. */
#include <stdio.h>
#include <string.h>
#include "cuda/check.h"
#include "cuda/cuda.h"

bool qr_cuda_built(void)
{
    return true;
}

/* 13000: 13.0 */
static void print_version(int version, char out[16])
{
    if (version > 0)
        snprintf(out, 16, "%d.%d", version / 1000, version % 1000 / 10);
    else
        out[0] = 0;
}

void qr_cuda_versions(char driver[16], char runtime[16])
{
    int d = 0, r = 0;
    if (cudaDriverGetVersion(&d) != cudaSuccess)
        d = 0;
    if (cudaRuntimeGetVersion(&r) != cudaSuccess)
        r = 0;
    cudaGetLastError();
    print_version(d, driver);
    print_version(r, runtime);
}

enum qr_status qr_cuda_count(int *n, struct qr_err *err)
{
    char driver[16], runtime[16];
    cudaError_t e = cudaGetDeviceCount(n);
    qr_cuda_versions(driver, runtime);
    if (e == cudaSuccess && *n > 0)
        return QR_OK;
    *n = 0;
    cudaGetLastError();
    if (!driver[0])
        return qr_fail(err, QR_UNSUPPORTED,
                       "there is no NVIDIA driver here: install one that supports CUDA %s, or use device cpu", runtime);
    if (e == cudaErrorInsufficientDriver)
        return qr_fail(err, QR_UNSUPPORTED,
                       "the NVIDIA driver supports CUDA %s but this build needs %s: install a newer driver, or use "
                       "device cpu",
                       driver, runtime);
    if (e == cudaErrorNoDevice || e == cudaSuccess)
        return qr_fail(err, QR_UNSUPPORTED,
                       "the NVIDIA driver finds no GPU (is CUDA_VISIBLE_DEVICES set?): use device cpu");
    return qr_cuda_status(e, "looking for GPUs", err);
}

enum qr_status qr_cuda_device_get(int device, bool context, struct qr_cuda_device *out, struct qr_err *err)
{
    struct cudaDeviceProp p;
    int n;
    memset(out, 0, sizeof *out);
    QR_TRY(qr_cuda_count(&n, err));
    if (device < 0 || device >= n)
        return qr_fail(err, QR_INVALID, "GPU %d was asked for but there are %d, counted from 0", device, n);
    QR_CUDA(cudaGetDeviceProperties(&p, device), "asking for a GPU's properties", err);
    snprintf(out->name, sizeof out->name, "%.63s", p.name);
    out->major = p.major;
    out->minor = p.minor;
    out->n_sm = p.multiProcessorCount;
    out->memory = p.totalGlobalMem;
    if (p.major < 8)
        return qr_fail(err, QR_UNSUPPORTED, "%s has compute capability %d.%d: quire needs 8.0 or later", out->name,
                       p.major, p.minor);
    if (context) {
        size_t available = 0, total = 0;
        QR_CUDA(cudaSetDevice(device), "choosing a GPU", err);
        QR_CUDA(cudaMemGetInfo(&available, &total), "asking for available memory", err);
        out->available = available;
    }
    return QR_OK;
}
