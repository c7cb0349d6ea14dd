// ptx.cuh - the instructions that CUDA C++ has no name for: barriers in shared memory, bulk copies, matrix products.
//
// Everything of sm_90 and later is guarded, so that a kernel's plain part also compiles for sm_80.
#pragma once
#include <cstdint>
#include <cuda.h>
#include <cuda_bf16.h>

// Address in the shared window, as the instructions below take it.
static __device__ inline uint32_t shared_u32(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

// d[16 x 8] += a[16 x 16] b[16 x 8], bf16 in, fp32 out. Lane 4g + t holds rows g, g + 8 of a and d, column g of b.
static __device__ inline void mma_bf16(float (&d)[4], const uint4 &a, uint32_t b0, uint32_t b1)
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// 16 bytes that are read once: not kept in L1.
static __device__ inline uint4 load_stream(const void *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3},[%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

// 16 bytes to shared memory, not through registers; how many of a thread's batches may still be under way.
static __device__ inline void copy_16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0],[%1],16;" ::"r"(shared_u32(to)), "l"(from) : "memory");
}
static __device__ inline void copies_end()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LEFT> static __device__ inline void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

static __device__ inline unsigned load_acquire(const unsigned *p)
{
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

static __device__ inline void prefetch_l2(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

// Two floats to bf16, the first in the low half.
static __device__ inline uint32_t pack_bf16(float lo, float hi)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

// Two products of bf16, each rounded once. (mul.bf16x2 is sm_90's.)
static __device__ inline uint32_t mul_bf16(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("fma.rn.bf16x2 %0,%1,%2,%3;" : "=r"(r) : "r"(a), "r"(b), "r"(0x80008000u)); // + -0
    return r;
}

// 2^x as the special function unit gives it; -inf gives +0.
static __device__ inline float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}

// Programmatic dependent launch: wait for the kernels before; let the next one start.
static __device__ inline void wait_for_previous()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
static __device__ inline void let_next_start()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#if __CUDA_ARCH__ >= 900
static __device__ inline void barrier_init(uint64_t *b, int arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0],%1;" ::"r"(shared_u32(b)), "r"(arrivals));
}
static __device__ inline void barrier_init_done()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
static __device__ inline void barrier_expect(uint64_t *b, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _,[%0],%1;" ::"r"(shared_u32(b)), "r"(bytes) : "memory");
}
static __device__ inline void barrier_arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared.b64 _,[%0];" ::"r"(shared_u32(b)) : "memory");
}
static __device__ inline void barrier_wait(uint64_t *b, uint32_t parity)
{
    asm volatile("{\n.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared.b64 p,[%0],%1;\n@!p bra AGAIN;\n}" ::"r"(
                     shared_u32(b)),
                 "r"(parity)
                 : "memory");
}
// Contiguous bytes (a multiple of 16) to shared memory; b counts them.
static __device__ inline void copy_bulk(void *to, const void *from, uint32_t bytes, uint64_t *b)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(shared_u32(to)),
        "l"(from), "r"(bytes), "r"(shared_u32(b))
        : "memory");
}
static __device__ inline void prefetch_map(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// A box of a two-dimensional tensor, corner at (x, y).
static __device__ inline void copy_box(void *to, const CUtensorMap *map, int x, int y, uint64_t *b)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1,{%2,%3}],[%4];" ::"r"(
            shared_u32(to)),
        "l"(map), "r"(x), "r"(y), "r"(shared_u32(b))
        : "memory");
}
// The place of p in block `rank` of the cluster; a barrier there; and waiting for what came from there.
static __device__ inline uint32_t shared_of(const void *p, int rank)
{
    uint32_t r;
    asm("mapa.shared::cluster.u32 %0,%1,%2;" : "=r"(r) : "r"(shared_u32(p)), "r"(rank));
    return r;
}
static __device__ inline void barrier_arrive_at(uint32_t b)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _,[%0];" ::"r"(b) : "memory");
}
static __device__ inline void barrier_wait_cluster(uint64_t *b, uint32_t parity)
{
    asm volatile("{\n.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p,[%0],%1;\n"
                 "@!p bra AGAIN;\n}" ::"r"(shared_u32(b)),
                 "r"(parity)
                 : "memory");
}
static __device__ inline float4 load_shared_of(uint32_t p) // in the order of what else is volatile: after a wait
{
    float4 v;
    asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3},[%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(p));
    return v;
}
static __device__ inline void meet_cluster()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Named barrier: `threads` threads of the block meet.
static __device__ inline void meet(int id, int threads)
{
    asm volatile("bar.sync %0,%1;" ::"r"(id), "r"(threads) : "memory");
}
#endif

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <int REGS> static __device__ inline void more_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGS));
}
template <int REGS> static __device__ inline void fewer_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGS));
}
static __device__ inline void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ inline void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int LEFT> static __device__ inline void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
// B operand: rows of 64 k (128 bytes) in shared memory with the 128-byte swizzle, 8 rows a kilobyte. Fields in units of 16 bytes:
// address, leading offset (unused with a swizzle), stride between groups of 8 rows; bits 62-63 = 1: 128-byte swizzle.
static __device__ inline uint64_t descriptor_swizzled(const void *p)
{
    return (uint64_t)((shared_u32(p) & 0x3FFFF) >> 4) | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}
#include "cuda/wgmma.inc.cuh"
#endif
