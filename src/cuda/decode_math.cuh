// decode_math.cuh - what a warp of the persistent kernel does with the pieces of a unit: 16 rows against up to 8 tokens by
// mma.m16n8k16, chain by chain as docs/LAYOUT.md says, and how tokens lie in shared memory as its B operand.
//
// Tokens: [k / 16][token][8] words of two bf16; word (pair % 4) * 2 + pair / 4 holds k 2 pair, 2 pair + 1, so that a lane's two
// registers are neighbours.
#pragma once
#include "cuda/decode_ring.cuh"

static __device__ inline unsigned token_word(unsigned k, unsigned n_token, unsigned token)
{
    unsigned pair = k % 16 / 2;
    return (k / 16 * n_token + token) * 8 + pair % 4 * 2 + pair / 4;
}
// Of 4 neighbouring k, quad 0 to 3 of a tile: the first pair; the second one lies two words behind.
static __device__ inline unsigned quad_word(unsigned quad)
{
    return quad % 2 * 4 + quad / 2;
}

#if __CUDA_ARCH__ >= 900
// Barriers of some warps: all that multiply; the adding warp and those whose chains it adds; a gate's and its up's from FIRST_PAIR on; decode_debug.cuh's.
enum { BARRIER_MATH = 1, BARRIER_ADD, FIRST_PAIR, BARRIER_STAGE = 14, BARRIER_END };

static __device__ inline void pass(int barrier, int threads) // as meet, without waiting
{
    asm volatile("bar.arrive %0,%1;" ::"r"(barrier), "r"(threads) : "memory");
}
static __device__ inline void meet_math()
{
    meet(BARRIER_MATH, MATH_THREADS);
}
// Before o and before down. What the adding warp has read by then may be overwritten: it reads a stage's sums and x before its words are
// out, and all that follows waits for all words. racecheck does not know this, so where DEBUGGED that warp comes too.
static __device__ inline void meet_stage()
{
    if (DEBUGGED)
        meet(BARRIER_STAGE, MATH_THREADS + 32);
    else
        meet_math();
}

// A value that is kept in a register, not read again from where it came.
static __device__ inline int opaque(int v)
{
    asm volatile("" : "+r"(v));
    return v;
}

// A batch of a chain has been multiplied; what the chain's last one leaves in acc is added to the unit's sum.
static __device__ __forceinline__ void end_batch(int &left, int chain, float (&acc)[4], float (&sum)[4])
{
    if (--left)
        return;
    left = chain;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        sum[e] += acc[e];
        acc[e] = 0;
    }
}

// One unit: its pieces, `step` apart in the ring, `tiles` tiles in chains of `chain` (multiples of 4, as K is padded to 64); sum: rows
// 2g, 2g + 1 (x, y: token 2t; z, w: 2t + 1), chains added from left to right.
//
// Four tiles are loaded while the four before are multiplied.
struct unit_math {
    static constexpr int BATCH = 4, PER_PIECE = PIECE / BATCH;
    const ring &r;
    int lane;
    const uint32_t *x; // tokens from the unit's first k on
    int n_token;

    // What comes next of a unit.
    struct cursor {
        ring_place at;
        const char *from;
        const uint32_t *token;
        int batch, n, step, words;
        bool has; // the lane has a token
    };

    __device__ __forceinline__ void load(cursor &c, uint4 (&a)[BATCH], uint2 (&b)[BATCH]) const
    {
        if (c.batch % PER_PIECE == 0) {
            if (c.batch)
                c.at = behind(r, c.at, c.step);
            await_piece(r, c.at);
            c.from = r.slot + c.at.slot * SLOT + lane * 16;
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            a[i] = *(const uint4 *)(c.from + i * 512);
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            b[i] = c.has ? *(const uint2 *)(c.token + i * n_token * 8) : make_uint2(0, 0);
        c.from += BATCH * 512;
        c.token += c.words;
        c.batch++;
        if (c.batch % PER_PIECE == 0 || c.batch == c.n)
            give_back_slot(&r.s->empty[c.at.slot], lane);
    }
    static __device__ __forceinline__ void multiply(const uint4 (&a)[BATCH], const uint2 (&b)[BATCH], int &left,
                                                    int chain, float (&acc)[4], float (&sum)[4])
    {
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            mma_bf16(acc, a[i], b[i].x, b[i].y);
        end_batch(left, chain, acc, sum);
    }
    __device__ __forceinline__ void run(ring_place at, int step, int tiles, int chain, float (&sum)[4]) const
    {
        uint4 a[2][BATCH];
        uint2 b[2][BATCH];
        float acc[4] = {0, 0, 0, 0};
        cursor c = {at,
                    nullptr,
                    x + lane % 4 * 2,
                    0,
                    opaque(tiles / BATCH),
                    step,
                    opaque(BATCH * n_token * 8),
                    lane / 4 < n_token};
        int left = chain /= BATCH;
        if (c.has)
            c.token += lane / 4 * 8;
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[e] = -0.0f;
        load(c, a[0], b[0]);
#pragma unroll 1
        for (int n = c.n;;) {
            if (n > 1)
                load(c, a[1], b[1]);
            multiply(a[0], b[0], left, chain, acc, sum);
            if (--n == 0)
                break;
            if (n > 1)
                load(c, a[0], b[0]);
            multiply(a[1], b[1], left, chain, acc, sum);
            if (--n == 0)
                break;
        }
    }
};
#endif
