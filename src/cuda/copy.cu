// copy.cu - blocks of keys and values copied within their pools, over all layers. Every thread has the same place in each pair,
// so that pairs take effect in the order of the list. Bytes: each block read and written once.
#include "cuda/launch.cuh"

static __global__ void __launch_bounds__(256) copy_blocks(const __grid_constant__ qr_cu_copy a)
{
    begin();
    char *pool = a.pages + (size_t)blockIdx.y * a.pool_bytes;
    for (int64_t at = ((int64_t)blockIdx.x * 256 + threadIdx.x) * 16; at < a.block_bytes; at += (int64_t)gridDim.x * 4096)
        for (int i = 0; i < a.n; i++)
            *(uint4 *)(pool + a.to[i] * a.block_bytes + at) = *(const uint4 *)(pool + a.from[i] * a.block_bytes + at);
}

extern "C" cudaError_t qr_cu_run_copy(const struct qr_cu_on *on, const struct qr_cu_copy *a)
{
    return a->n ? launch(on, copy_blocks, dim3(ceil_div(a->block_bytes, 4096), a->n_pool), 256, 0, *a) : cudaSuccess;
}
