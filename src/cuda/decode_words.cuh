// decode_words.cuh - what blocks of the persistent kernel hand one another: words of 16 bytes, two of values and a tag.
//
// A word is stored and loaded as one 128-bit access, which is atomic, so a reader that sees the tag it waits for has the values
// too: no fence, flag or barrier. The tag is that of the step and layer, never used before. Every wait ends after about a
// second by the clock, and from then on all of them do at once.
#pragma once
#include "cuda/decode_debug.cuh"

static __device__ inline uint4 get_word(const uint4 *p)
{
    unsigned long long lo, hi;
    asm volatile("{\n.reg .b128 v;\nld.relaxed.gpu.global.b128 v,[%2];\nmov.b128 {%0,%1},v;\n}"
                 : "=l"(lo), "=l"(hi)
                 : "l"(p)
                 : "memory");
    return make_uint4((uint32_t)lo, (uint32_t)(lo >> 32), (uint32_t)hi, (uint32_t)(hi >> 32));
}
static __device__ inline void put_word(uint4 *p, uint32_t x, uint32_t y, uint32_t tag, uint32_t third = 0)
{
    asm volatile("{\n.reg .b128 v;\nmov.b128 v,{%1,%2};\nst.relaxed.gpu.global.b128 [%0],v;\n}" ::"l"(p),
                 "l"((unsigned long long)y << 32 | x), "l"((unsigned long long)third << 32 | tag)
                 : "memory");
}
static __device__ inline void put_word(uint4 *p, float x, float y, uint32_t tag, float third = 0)
{
    put_word(p, __float_as_uint(x), __float_as_uint(y), tag, __float_as_uint(third));
}

static __device__ inline uint64_t clock_ns()
{
    uint64_t t;
    asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(t));
    return t;
}

// How long to wait: until the deadline, or until anyone in the block has given up. Lies in shared memory.
struct patience {
    long long deadline; // by the multiprocessor's clock
    int32_t *status;
    volatile int ended;

    __device__ inline bool is_over()
    {
        if (peek(ended))
            return true;
        if (clock64() < deadline)
            return false;
        poke(ended, 1);
        *(volatile int32_t *)status = 1;
        return true;
    }
};

// Until a word has the tag: all lanes ask for the same one, where asking for all of them over and over would be in others' way.
static __device__ inline void await_one(const uint4 *p, uint32_t tag, patience &until)
{
    for (int n = 1; get_word(p).z != tag; n++)
        if (n % 64 == 0 && until.is_over())
            break;
}

// Words address(i) with bit i of `need`, until all have the tag. By whole warps.
//
// Words that are not needed become 0: if nothing wrote them, their registers would be kept through all of the loop around the call, since
// what they held before might still be asked for.
template <int N, class A>
static __device__ inline void await_words(uint4 (&w)[N], unsigned need, uint32_t tag, patience &until, A address)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        w[i] = make_uint4(0, 0, 0, 0);
    for (int n = 1;; n++) {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (need >> i & 1)
                w[i] = get_word(address(i));
#pragma unroll
        for (int i = 0; i < N; i++)
            if ((need >> i & 1) && w[i].z == tag)
                need &= ~(1u << i);
        if (!__any_sync(~0u, need) || (n % 64 == 0 && __any_sync(~0u, until.is_over())))
            break;
    }
}

#if __CUDA_ARCH__ >= 900
static __device__ inline bool barrier_passed_at(uint32_t b, uint32_t parity)
{
    uint32_t r;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p,[%1],%2;\nselp.u32 %0,1,0,p;\n}"
                 : "=r"(r)
                 : "r"(b), "r"(parity)
                 : "memory");
    return r;
}
static __device__ inline bool barrier_passed(uint64_t *b, uint32_t parity)
{
    return barrier_passed_at(shared_u32(b), parity);
}
static __device__ inline bool barrier_test(uint64_t *b, uint32_t parity)
{
    uint32_t r;
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p,[%1],%2;\nselp.u32 %0,1,0,p;\n}"
                 : "=r"(r)
                 : "r"(shared_u32(b)), "r"(parity)
                 : "memory");
    return r;
}
static __device__ inline void barrier_await(uint64_t *b, uint32_t parity, patience &until)
{
    for (int n = 1; !barrier_passed(b, parity); n++)
        if (n % 16 == 0 && until.is_over())
            break;
}
#endif
