// attention_hopper.cu - ATTENTION on sm_90a: which steps attention_wgmma.cuh takes.
#include "cuda/attention_hopper.cuh"
#include "cuda/attention_wgmma.cuh"
#include "cuda/launch.cuh"

template <int HEAD_DIM> static constexpr size_t wide_bytes()
{
    return sizeof(wide_shared<HEAD_DIM>) + 1024;
}

cudaError_t qr_cu_attention_wide(const qr_cu_on *on, const qr_cu_attention &a)
{
    dim3 grid(ceil_div(a.max_many, 2), a.n_kv_head);
    if (on->arch != 90 || a.f16 || a.window > 0 || a.soft_cap > 0)
        return cudaErrorInvalidConfiguration;
    if (a.head_dim == 128)
        return launch(on, attention_wgmma<128>, grid, WIDE_THREADS, wide_bytes<128>(), a);
    if (a.head_dim == 64)
        return launch(on, attention_wgmma<64>, grid, WIDE_THREADS, wide_bytes<64>(), a);
    return cudaErrorInvalidConfiguration;
}

cudaError_t qr_cu_prepare_attention_wide(int head_dim)
{
    const auto most = cudaFuncAttributeMaxDynamicSharedMemorySize;
    return head_dim == 128  ? cudaFuncSetAttribute(attention_wgmma<128>, most, (int)wide_bytes<128>())
           : head_dim == 64 ? cudaFuncSetAttribute(attention_wgmma<64>, most, (int)wide_bytes<64>())
                            : cudaSuccess;
}
