// attention_hopper.cu - ATTENTION on sm_90a: which steps attention_wgmma.cuh takes.
#include "cuda/attention_hopper.cuh"
#include "cuda/attention_wgmma.cuh"
#include "cuda/launch.cuh"

template <int HEAD_DIM, int KV> static constexpr size_t wide_bytes()
{
    return sizeof(wide_shared<HEAD_DIM, KV>) + 1024;
}

template <int HEAD_DIM, int KV> static cudaError_t run(const qr_cu_on *on, const qr_cu_attention &a)
{
    dim3 grid(ceil_div(a.max_many, 2), a.n_kv_head);
    return launch(on, attention_wgmma<HEAD_DIM, KV>, grid, WIDE_THREADS, wide_bytes<HEAD_DIM, KV>(), a);
}

cudaError_t qr_cu_attention_wide(const qr_cu_on *on, const qr_cu_attention &a)
{
    if (on->arch != 90 || a.kv == QR_CU_F16 || a.window > 0 || a.soft_cap > 0)
        return cudaErrorInvalidConfiguration;
    if (a.head_dim == 128)
        return a.kv == QR_CU_FP8 ? run<128, QR_CU_FP8>(on, a) : run<128, QR_CU_BF16>(on, a);
    if (a.head_dim == 64)
        return a.kv == QR_CU_FP8 ? run<64, QR_CU_FP8>(on, a) : run<64, QR_CU_BF16>(on, a);
    return cudaErrorInvalidConfiguration;
}

template <int HEAD_DIM> static cudaError_t prepare()
{
    const auto most = cudaFuncAttributeMaxDynamicSharedMemorySize;
    cudaError_t e = cudaFuncSetAttribute(attention_wgmma<HEAD_DIM, QR_CU_BF16>, most, (int)wide_bytes<HEAD_DIM, QR_CU_BF16>());
    return e ? e
             : cudaFuncSetAttribute(attention_wgmma<HEAD_DIM, QR_CU_FP8>, most, (int)wide_bytes<HEAD_DIM, QR_CU_FP8>());
}

cudaError_t qr_cu_prepare_attention_wide(int head_dim)
{
    return head_dim == 128 ? prepare<128>() : head_dim == 64 ? prepare<64>() : cudaSuccess;
}
