// attention.cuh - the order of a KV page on the device, and the arithmetic of attention that every kernel follows (docs/LAYOUT.md).
//
// A page holds 16 tokens of one KV head in bf16: K 4 KB, V 4 KB, each 8 tiles of 16 x 16 in 512 bytes. Lane 4g + t owns 16 bytes:
//   row g k 2t, 2t+1 | row g+8 k 2t, 2t+1 | row g k 2t+8, 2t+9 | row g+8 k 2t+8, 2t+9
// K: tile j has tokens as rows and d 16j .. 16j + 15 as k. V: tile j has d 16j .. 16j + 15 as rows and tokens as k.
// In fp8 (E4M3) a lane owns 8 bytes in the same place: two words, each of row g k 0, row g+8 k 0, row g k 1, row g+8 k 1 in its bytes.
// Behind the tiles stand 16 factors in bf16, 2^120 times the power of two of each token: what a code of E4M3 shifted into bf16's
// place has to be multiplied by, so that unpacking is exact and all that follows is the arithmetic of bf16 pages.
// As A operand a tile meets 8 query heads (decode); its halves x, z and y, w are B operands for rows 0-7 and 8-15 (prefill).
//
// Arithmetic of a query row: positions are cut at multiples of 256. In a cut: s = chain over d in steps of 16; m = max s;
// p = 2^(s c - m c) rounded to bf16, c = scale log2 e; l and o = chains over tokens in steps of 16, of p times 1 and times V.
// Cuts are merged from left to right.
#pragma once
#include "cuda/launch.h"
#include "cuda/ptx.cuh"

constexpr int HEAD = 128, PAGE_TOKENS = 16, CUT_TOKENS = 256, PAGE_BYTES = 4096, STAGE_PAGES = 4;
constexpr int STAGE_BYTES = STAGE_PAGES * PAGE_BYTES;
constexpr uint32_t BF16_ONES = 0x3F803F80;

struct attention_args {
    const __nv_bfloat16 *q; // [rows, heads, 128]
    const char *k, *v;      // [blocks, kv heads] pages
    const int *table;       // [sequences, table_width] blocks
    const int *length;      // decode: tokens of each sequence
    float *out;             // [rows, heads, 128]
    float *part;            // decode: [items, 8, 128], then m c and l at [items, 8, 2]
    unsigned *count;        // decode: [sequences, kv heads], zero before and after
    const int4 *items;      // decode: sequence, kv head, cut, first item of this sequence and head
    int n_items, heads, kv_heads, table_width, tokens;
    float c; // scale * log2 e
};

// Where an element of a page lies, in elements.
static __host__ __device__ inline int page_index(int tile, int row, int k)
{
    return tile * 256 + (row % 8 * 4 + k % 8 / 2) * 8 + (row / 8 + k / 8 * 2) * 2 + k % 2;
}
static __host__ __device__ inline int k_page_index(int token, int d)
{
    return page_index(d / 16, token, d % 16);
}
static __host__ __device__ inline int v_page_index(int token, int d)
{
    return page_index(d / 16, d % 16, token);
}

// In bytes of an fp8 page.
static __host__ __device__ inline int fp8_index(int tile, int row, int k)
{
    return tile * 256 + (row % 8 * 4 + k % 8 / 2) * 8 + k / 8 * 4 + k % 2 * 2 + row / 8;
}
static __host__ __device__ inline constexpr int page_bytes(int head_dim, int kv)
{
    return kv == QR_CU_FP8 ? PAGE_TOKENS * (head_dim + 2) : PAGE_TOKENS * head_dim * 2;
}

static __device__ inline uint32_t scale_bf16(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("fma.rn.bf16x2 %0,%1,%2,%3;" : "=r"(r) : "r"(a), "r"(b), "r"(0x80008000u)); // + -0: a product alone is sm_90's
    return r;
}
// Codes in bytes 1 and 3 as two bf16, 2^-120 times their value.
static __device__ inline uint32_t shift_fp8(uint32_t w)
{
    return (w & 0x80008000) | ((w & 0x7F007F00) >> 4);
}
// A lane's part of a tile in fp8 as bf16. f: factors of halves x y and z w (V), or of x z and y w (K).
static __device__ inline uint4 unpack_k(uint2 v, uint2 f)
{
    const uint32_t x = __byte_perm(f.x, 0, 0x1010), y = __byte_perm(f.y, 0, 0x1010); // each for two codes of its row
    return make_uint4(scale_bf16(shift_fp8(v.x << 8), x), scale_bf16(shift_fp8(v.x), y),
                      scale_bf16(shift_fp8(v.y << 8), x), scale_bf16(shift_fp8(v.y), y));
}
static __device__ inline uint4 unpack_v(uint2 v, uint2 f)
{
    return make_uint4(scale_bf16(shift_fp8(v.x << 8), f.x), scale_bf16(shift_fp8(v.x), f.x),
                      scale_bf16(shift_fp8(v.y << 8), f.y), scale_bf16(shift_fp8(v.y), f.y));
}
// A lane's factors: of tokens g and g + 8 (K); of 2t, 2t + 1 and of 2t + 8, 2t + 9 (V). As they lie: whoever loads ahead does not wait.
static __device__ inline uint2 k_factors(const uint16_t *f, int lane)
{
    return make_uint2(f[lane / 4], f[lane / 4 + 8]);
}
static __device__ inline uint2 v_factors(const uint16_t *f, int lane)
{
    return make_uint2(((const uint32_t *)f)[lane % 4], ((const uint32_t *)f)[lane % 4 + 4]);
}

static __device__ inline float attention_weight(float s, float c, float mc)
{
    return exp2_fast(__fmaf_rn(s, c, -mc));
}

// What is known of a row after the cuts so far, and the factors that bring it and the next cut together.
struct merge_factors {
    float old, add, mc;
};
static __device__ inline merge_factors merge_cut(float mc, float cut_mc)
{
    merge_factors f;
    f.mc = fmaxf(mc, cut_mc);
    f.old = exp2_fast(__fsub_rn(mc, f.mc));
    f.add = exp2_fast(__fsub_rn(cut_mc, f.mc));
    return f;
}
static __device__ inline float merge_value(const merge_factors &f, float value, float cut_value)
{
    return __fmaf_rn(cut_value, f.add, __fmul_rn(value, f.old));
}

// Rows of an 8 x 8 matrix of 2-byte values become columns.
static __device__ inline uint32_t transpose_8x8(uint32_t a)
{
    uint32_t r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0,%1;" : "=r"(r) : "r"(a));
    return r;
}
