// packed.cuh - the order of a weight on the device (docs/LAYOUT.md), and how its K is cut.
//
// A weight [rows, K] in bf16 is a row of tiles of 16 rows x 16 k, 512 bytes each: tile (row / 16) * (K / 16) + k / 16. Inside a tile
// lane 4g + t owns 16 bytes, its A operand of mma.m16n8k16 and of a warp's quarter of wgmma.m64nNk16:
//   row 2g k 2t, 2t+1 | row 2g+1 k 2t, 2t+1 | row 2g k 2t+8, 2t+9 | row 2g+1 k 2t+8, 2t+9
// The operand calls its rows g and g + 8; here they are neighbours, so that a lane's two results are too: 8-byte stores, and a
// gate beside its up.
// K is cut into `cuts` equal chains of k16 steps; a chain starts from zero, chains are added from left to right.
#pragma once
#include "cuda/ptx.cuh"

struct packed_weight {
    const uint4 *tiles; // [rows / 16][K / 16][32]
    int rows;           // a multiple of 16
    int k;              // a multiple of 64 * cuts
    int cuts;
};

// Chains of a matrix as it is stored, decided at load and by its shape alone, so that bits do not depend on the device: one where
// 16-row strips alone keep a large GPU busy, else the fewest that give 576 chains of at most 1,024 k. Views of rows inherit it.
static __host__ inline int cuts_of(int rows, int K)
{
    int strips = rows / 16, stages = (K + 63) / 64;
    for (int c = 1; strips < 1056 && c < stages; c++)
        if (stages % c == 0 && strips * c >= 576 && K / c <= 1024)
            return c;
    return strips < 1056 ? stages : 1;
}

// Where element (row, k) lies, in elements.
static __host__ __device__ inline size_t packed_index(int row, int k, int K)
{
    int r = row % 16, c = k % 16;
    int lane = r / 2 * 4 + c % 8 / 2, half = r % 2 + c / 8 * 2;
    return ((size_t)(row / 16) * (K / 16) + k / 16) * 256 + lane * 8 + half * 2 + c % 2;
}

// Row-major [rows, K] to packed; one thread a 16-byte piece.
static __global__ void pack_weight(const uint32_t *from, uint4 *to, int rows, int K)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (size_t)rows * K / 8)
        return;
    int lane = i % 32, g = lane / 4, t = lane % 4;
    size_t tile = i / 32, row = tile / (K / 16) * 16 + 2 * g, k = tile % (K / 16) * 16 + 2 * t;
    const uint32_t *a = from + (row * K + k) / 2, *b = a + K / 2;
    to[i] = make_uint4(a[0], b[0], a[4], b[4]);
}
