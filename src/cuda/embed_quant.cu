// embed_quant.cu - EMBED from a quantised matrix (quant.h): the numbers of base/dequant.c, operation by operation, rounded to bf16.
#include "cuda/launch.cuh"
#include "cuda/quant_row.cuh"

template <qr_cu_quant TYPE>
static __global__ void embed_quant(const __grid_constant__ qr_cu_embed a, size_t strip_bytes)
{
    begin();
    int t = blockIdx.x, id = a.token[t];
    if (id < 0)
        id = a.place[-1 - id];
    if (id < 0 || id >= a.n_row)
        id = 0; // a row whose choice failed; its request ends
    const int row = a.row + id;
    const uint8_t *strip = (const uint8_t *)a.tiles + row / 16 * strip_bytes;
    for (int c = threadIdx.x; c < a.cols; c += blockDim.x)
        a.x[(size_t)t * a.x_stride + c] =
            __bfloat162float(__float2bfloat16_rn(weight_at<TYPE>(strip, a.k / 64, row % 16, c)));
}

extern "C" cudaError_t qr_cu_run_embed_quant(const struct qr_cu_on *on, const struct qr_cu_embed *a,
                                             enum qr_cu_quant type)
{
    auto run = [&](auto kernel) {
        return a->n ? launch(on, kernel, a->n, 256, 0, *a, (size_t)qr_cu_strip_bytes(type, a->k)) : cudaSuccess;
    };
    switch (type) {
    case QR_CU_Q8_0:
        return run(embed_quant<QR_CU_Q8_0>);
    case QR_CU_Q4_0:
        return run(embed_quant<QR_CU_Q4_0>);
    case QR_CU_Q4_1:
        return run(embed_quant<QR_CU_Q4_1>);
    case QR_CU_Q4_K:
        return run(embed_quant<QR_CU_Q4_K>);
    case QR_CU_Q6_K:
        return run(embed_quant<QR_CU_Q6_K>);
    case QR_CU_E4M3:
        return run(embed_quant<QR_CU_E4M3>);
    default:
        return cudaErrorInvalidValue;
    }
}
