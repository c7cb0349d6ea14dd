// decode_math.cuh - what a warp of the persistent kernel does with the pieces of a unit: 16 rows against up to 8 tokens by
// mma.m16n8k16, chain by chain as docs/LAYOUT.md says, and how tokens lie in shared memory as its B operand.
//
// Tokens: [k / 16][token][8] words of two bf16; word (pair % 4) * 2 + pair / 4 holds k 2 pair, 2 pair + 1, so that a lane's two
// registers are neighbours.
#pragma once
#include "cuda/decode_ring.cuh"

static __device__ inline int token_word(int k, int n_token, int token)
{
    int pair = k % 16 / 2;
    return (k / 16 * n_token + token) * 8 + pair % 4 * 2 + pair / 4;
}

#if __CUDA_ARCH__ >= 900
static __device__ inline void meet_math()
{
    meet(1, MATH_THREADS);
}

// A place in the ring, and the turn's parity there.
struct ring_place {
    int slot;
    uint32_t phase;
};
static __device__ inline ring_place behind(const ring &r, ring_place at, int n)
{
    at.slot += n;
    while (at.slot >= r.n_slot) {
        at.slot -= r.n_slot;
        at.phase ^= 1;
    }
    return at;
}

// A value that is kept in a register, not read again from where it came.
static __device__ inline int opaque(int v)
{
    asm volatile("" : "+r"(v));
    return v;
}

// One unit: its pieces, `step` apart in the ring, `tiles` tiles, chains of `chain`; sum: rows 2g, 2g + 1 (x, y: token 2t; z, w:
// 2t + 1), chains added from left to right. EVEN: chains are whole pieces.
//
// Half a piece is loaded while the half before is multiplied: more registers than that there are not.
template <bool EVEN> struct unit_math {
    static constexpr int HALF = PIECE / 2;
    const ring &r;
    int lane, lane_at, tile_bytes; // where a lane's 16 bytes of a tile lie in a piece
    const uint32_t *x;             // tokens from the unit's first k on
    int n_token;

    // `from` and `token`: the lane's own, of the first tile.
    __device__ __forceinline__ void load(uint4 (&a)[HALF], uint2 (&b)[HALF], const char *from, const uint32_t *token, int tile,
                                         int tiles) const
    {
#pragma unroll
        for (int i = 0; i < HALF; i++)
            a[i] = *(const uint4 *)(from + i * tile_bytes);
#pragma unroll
        for (int i = 0; i < HALF; i++)
            b[i] = lane / 4 < n_token && (EVEN || tile + i < tiles) ? *(const uint2 *)(token + i * n_token * 8) : make_uint2(0, 0);
    }
    __device__ __forceinline__ void multiply(const uint4 (&a)[HALF], const uint2 (&b)[HALF], int tile, int tiles, int chain,
                                             int &in_chain, float (&acc)[4], float (&sum)[4]) const
    {
#pragma unroll
        for (int i = 0; i < HALF; i++) {
            if (!EVEN && tile + i >= tiles)
                break;
            mma_bf16(acc, a[i], b[i].x, b[i].y);
            if (EVEN)
                continue;
            if (++in_chain == chain)
                end_chain(in_chain, acc, sum);
        }
    }
    __device__ __forceinline__ void end_chain(int &in_chain, float (&acc)[4], float (&sum)[4]) const
    {
        in_chain = 0;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum[e] += acc[e];
            acc[e] = 0;
        }
    }
    __device__ __forceinline__ void run(ring_place at, int step, int tiles, int chain, float (&sum)[4]) const
    {
        uint4 a[2][HALF];
        uint2 b[2][HALF];
        float acc[4] = {0, 0, 0, 0};
        int in_chain = 0;
        const int half = opaque(HALF * n_token * 8);
        const uint32_t *token = x + lane / 4 * 8 + lane % 4 * 2;
        const char *slots = r.slot + lane_at;
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[e] = -0.0f;
        barrier_await(&r.s->full[at.slot], at.phase, r.s->until);
        load(a[0], b[0], slots + at.slot * SLOT, token, 0, tiles);
#pragma unroll 1
        for (int tile = 0;; tile += PIECE) {
            load(a[1], b[1], slots + at.slot * SLOT + HALF * tile_bytes, token += half, tile + HALF, tiles);
            __syncwarp();
            if (lane == 0)
                barrier_arrive(&r.s->empty[at.slot]);
            multiply(a[0], b[0], tile, tiles, chain, in_chain, acc, sum);
            const bool more = tile + PIECE < tiles;
            if (more) {
                at = behind(r, at, step);
                barrier_await(&r.s->full[at.slot], at.phase, r.s->until);
                load(a[0], b[0], slots + at.slot * SLOT, token += half, tile + PIECE, tiles);
            }
            multiply(a[1], b[1], tile + HALF, tiles, chain, in_chain, acc, sum);
            if (EVEN && (in_chain += PIECE) == chain)
                end_chain(in_chain, acc, sum);
            if (!more)
                break;
        }
    }
};
#endif
