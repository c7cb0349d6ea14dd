// embed.cu - EMBED: a row of the packed matrix for each token, which may be an id that an earlier step left at a place.
//
// Bytes: 2 read and 4 written an element.
#include "cuda/launch.cuh"
#include "cuda/packed.cuh"

static __global__ void embed(const __grid_constant__ qr_cu_embed a)
{
    begin();
    int t = blockIdx.x, id = a.token[t];
    if (id < 0)
        id = a.place[-1 - id];
    if (id < 0 || id >= a.n_row)
        id = 0; // a row whose choice failed; its request ends
    float *x = a.x + (size_t)t * a.x_stride;
    const uint32_t *tiles = (const uint32_t *)a.tiles;
    for (int c = threadIdx.x * 2; c < a.cols; c += blockDim.x * 2) {
        uint32_t two = tiles[packed_index(a.row + id, c, a.k) / 2];
        x[c] = __uint_as_float(two << 16);
        if (c + 1 < a.cols)
            x[c + 1] = __uint_as_float(two & 0xFFFF0000u);
    }
}

extern "C" cudaError_t qr_cu_run_embed(const struct qr_cu_on *on, const struct qr_cu_embed *a)
{
    return a->n ? launch(on, embed, a->n, 256, 0, *a) : cudaSuccess;
}
