// linear_quant_ring.cuh - LINEAR on quantised weights for up to 8 tokens, where a multiprocessor has many strips in one chain each (heads).
//
// Groups of units go ahead of each warp through a ring of its own in shared memory, DEEP or two of them, so that registers need not hold
// what is on its way, and 24 warps find room. The bits are those of linear_quant.cu.
#pragma once
#include "cuda/linear_quant.cuh"

constexpr int DEEP = 4, RING_WARPS = 24;

template <qr_cu_quant TYPE>
static __global__ void __launch_bounds__(RING_WARPS * 32) linear_quant_ring(const __grid_constant__ quant_args p)
{
    using group = quant_group<TYPE>;
    extern __shared__ __align__(16) uint32_t tokens[];
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int units = p.w.k / QR_CU_UNIT;
    const chain_range r = chains_of<true>(p.w, blockIdx.x, gridDim.x);
    uint8_t *ring = (uint8_t *)tokens + p.token_bytes + warp * p.depth * group::bytes;
    int next = r.first + warp, next_unit = 0; // the strip and the unit of the next copy
    quant_source<TYPE> source;
    source.set((const uint8_t *)p.w.tiles + (size_t)next * p.strip_bytes, units, lane);
    auto copy = [&](int slot) {
        if (next < r.last) {
            source.copy(ring + slot * group::bytes, min(group::units, units - next_unit), lane);
            next_unit += group::units;
            if (next_unit >= units) {
                next_unit = 0;
                next += warps;
                source.set((const uint8_t *)p.w.tiles + (size_t)next * p.strip_bytes, units, lane);
            }
        }
        copies_end();
    };
    float acc[4] = {};
    auto multiply = [&](const uint8_t *from, const quant_super<TYPE> &super, int i, const uint32_t *b) {
        quant_unit<TYPE> unit;
        uint32_t a[4][4];
        unit.read(from + i * QR_CU_CODE_BYTES(TYPE), from + group::codes + i * QR_CU_SCALE_BYTES(TYPE), lane);
        operands<TYPE>(unit, super, a);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint2 v = *(const uint2 *)(b + (i * 4 + j) * 64);
            mma_bf16(acc, make_uint4(a[j][0], a[j][1], a[j][2], a[j][3]), v.x, v.y);
        }
    };
    // Weights do not depend on the kernel before.
    let_next_start();
    for (int i = 0; i < p.depth; i++)
        copy(i);
    wait_for_previous();
    stage<1>(tokens, p, 0, p.w.k);
    __syncthreads();
    int slot = 0;
    for (int strip = r.first + warp; strip < r.last; strip += warps) {
        for (int base = 0; base < units; base += group::units) {
            if (p.depth == DEEP)
                copies_wait<DEEP - 1>();
            else
                copies_wait<1>();
            __syncwarp();
            const uint8_t *from = ring + slot * group::bytes;
            const uint32_t *b = tokens + (base * 4 * 32 + lane) * 2;
            quant_super<TYPE> super;
            if (QR_CU_SUPER_BYTES(TYPE))
                super.set(super_words<TYPE>::read(from + group::codes + group::scales, lane));
            if (base + group::units <= units) {
#pragma unroll
                for (int i = 0; i < group::units; i++)
                    multiply(from, super, i, b);
            } else {
#pragma unroll 1
                for (int i = 0; base + i < units; i++)
                    multiply(from, super, i, b);
            }
            __syncwarp();
            copy(slot);
            slot = slot + 1 == p.depth ? 0 : slot + 1;
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float two[2] = {acc[i], acc[i + 2]};
            if (2 * t + i < p.tokens)
                store(p, 2 * t + i, strip * 16 + 2 * g, two);
            acc[i] = acc[i + 2] = 0;
        }
    }
}
