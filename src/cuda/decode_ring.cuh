// decode_ring.cuh - the ring of 8 KB slots through which a block reads its share of the weights and of keys and values, in the order
// in which its warps use them up: from the first layer to the head without a pause, since no byte of it depends on the step's results.
//
// A layer's pieces stand in a list made when the kernel starts: up to 16 tiles of a chain or strip, or two pages of keys or of values.
// Units that run side by side, one a warp, take turns piece by piece.
#pragma once
#include "cuda/decode_words.cuh"

constexpr int PIECE = QR_DECODE_PIECE, SLOT = PIECE * 512,
              MAX_SLOTS = 32; // tiles; bytes; one for each lane of the warp that fills them
constexpr int MATH = QR_DECODE_MATH, MATH_THREADS = MATH * 32;
constexpr int FETCH_WARP = MATH, AHEAD_WARP = MATH + 1, ADD_WARP = MATH + 2, MERGE_WARP = MATH + 3;
constexpr int BLOCK_THREADS = MERGE_WARP * 32,
              LONG_THREADS = BLOCK_THREADS + 32; // threads that make lists; with the one that merges

// A unit of attention: a cut of a KV head of a sequence.
struct cut_unit {
    int b, h, cut, n_cut, n_page, position;
};

struct ring_shared {
    uint2 list[QR_DECODE_LIST]; // of a layer
    cut_unit cut[QR_DECODE_CUT_UNITS];
    qr_decode_layer layer[QR_DECODE_LAYERS];
    uint64_t full[2][MAX_SLOTS], empty[MAX_SLOTS]; // full: of even and odd turns
    qr_decode_share share;
    int layer_pieces, head_pieces;
    int units[QR_DECODE_STAGES];            // of the block
    uint8_t cut_of[QR_DECODE_STAGES][MATH]; // of each warp's first unit
    volatile uint32_t issued, rests;        // pieces so far; few of them are still under way
    volatile uint32_t sink;                 // of what was read only to bring it near
    patience until;
};
// In a list: x: a tile, counted from its matrix, or a page, and whether of values; y: stage and tiles, or PAGES and a second page.
constexpr uint32_t VALUES = 1u << 31, PAGES = 1u << 31, NO_PAGE = PAGES - 1;

struct ring {
    char *slot;
    ring_shared *s;
    int n_slot;
};

// A place in the ring, and which of four turns of the ring. A warp may ask for a piece while the one before it in that slot is still to
// come: had both turns one barrier, its phase's parity would be that of two turns ago.
struct ring_place {
    int slot;
    uint32_t turn;
};

static __device__ inline int pieces_of(int tiles)
{
    return (tiles + PIECE - 1) / PIECE;
}
// Of quads: of a chain, and of a unit. A piece has quads of one chain.
static __device__ inline int pieces_of_chain(const qr_decode_matrix &m)
{
    return (m.chain / 4 + m.quads - 1) / m.quads;
}
static __device__ inline int pieces_of(const qr_decode_matrix &m, bool whole)
{
    return whole ? m.cuts * pieces_of_chain(m) : pieces_of_chain(m);
}
// The first quad of a unit's piece j, counted from the unit's, and how many.
static __device__ inline int2 quads_of(const qr_decode_matrix &m, int j)
{
    const int each = pieces_of_chain(m), chain = m.chain / 4, cut = j / each, at = (j - cut * each) * m.quads;
    return make_int2(cut * chain + at, min(m.quads, chain - at));
}

#if __CUDA_ARCH__ >= 900
static __device__ inline ring_place behind(const ring &r, ring_place at, int n)
{
    at.slot += n;
    while (at.slot >= r.n_slot) {
        at.slot -= r.n_slot;
        at.turn = (at.turn + 1) % 4;
    }
    return at;
}

static __device__ inline void await_piece(const ring &r, ring_place at)
{
    barrier_await(&r.s->full[at.turn % 2][at.slot], at.turn / 2, r.s->until);
}

// Sequence by sequence, KV head by KV head, cut by cut.
static __device__ inline cut_unit cut_unit_of(const qr_decode_args &p, int u)
{
    cut_unit c;
    c.b = 0;
    for (;;) {
        c.position = p.position[c.b];
        c.n_cut = c.position / QR_CU_CUT + 1;
        if (u < c.n_cut * p.n_kv_head || c.b + 1 == p.n_token)
            break;
        u -= c.n_cut * p.n_kv_head;
        c.b++;
    }
    c.h = u / c.n_cut;
    c.cut = u % c.n_cut;
    c.n_page = min(QR_CU_CUT / QR_CU_PAGE, c.position / QR_CU_PAGE + 1 - c.cut * (QR_CU_CUT / QR_CU_PAGE));
    return c;
}

// By all threads: pieces [begin, ...) of a stage's units. Returns how many. Unit u of qkv, o and down: cut u % cuts of strip u / cuts;
// of gate and up: strip u / 2 of gate (even) or up (odd). A warp lists a unit, a lane a piece.
static __device__ inline int list_units(const qr_decode_args &p, ring_shared &s, int stage, int begin)
{
    const qr_decode_matrix &m = p.matrix[stage];
    const bool gated = stage == QR_DECODE_UP;
    const int first = s.share.strip[stage][0], of_strip = gated ? 2 : m.cuts,
              n = (s.share.strip[stage][1] - first) * of_strip;
    const int tiles = gated ? m.k16 : m.chain, each = pieces_of(tiles), warp = threadIdx.x / 32,
              lane = threadIdx.x % 32;
    for (int unit = warp; unit < n; unit += BLOCK_THREADS / 32) {
        const int round = unit / MATH * MATH, side = min(MATH, n - round), strip = unit / of_strip,
                  part = unit - strip * of_strip;
        const int tile = (first + strip + (gated ? part * m.strips : 0)) * m.k16 + (gated ? 0 : part * m.chain);
        for (int j = lane; j < each; j += 32) {
            const int at = begin + round * each + j * side + unit - round;
            if (at < QR_DECODE_LIST)
                s.list[at] = make_uint2(tile + j * PIECE, stage << 8 | min(PIECE, tiles - j * PIECE));
        }
        if (unit < MATH && lane == 0)
            s.cut_of[stage][unit] = part;
    }
    if (threadIdx.x == 0)
        s.units[stage] = n;
    return n * each;
}

// Keys of a unit, two pages a piece, then its values.
static __device__ inline int list_pages(const qr_decode_args &p, ring_shared &s, int begin)
{
    const int first = s.share.attention[0], count = s.share.attention[1] - first;
    int n = 0;
    for (int i = 0; i < count; i++) {
        const cut_unit c = cut_unit_of(p, p.is_long ? s.share.unit[i % QR_DECODE_CUT_UNITS] : first + i);
        const int at = threadIdx.x, half = (c.n_page + 1) / 2;
        if (at == 0 && i < QR_DECODE_CUT_UNITS)
            s.cut[i] = c;
        if (at < half * 2 && begin + n + at < QR_DECODE_LIST) {
            const int32_t *block = p.table + c.b * p.count[2] + c.cut * (QR_CU_CUT / QR_CU_PAGE);
            const int page = at % half * 2;
            s.list[begin + n + at] =
                make_uint2((block[page] * p.n_kv_head + c.h) | (at >= half ? VALUES : 0),
                           PAGES | (page + 1 < c.n_page ? block[page + 1] * p.n_kv_head + c.h : NO_PAGE));
        }
        n += half * 2;
    }
    return n;
}

// The same of a model with quantised matrices. x: the strip, counted from its matrix; y: as above, of quads, and the first one of them,
// from FIRST_QUAD on.
constexpr int FIRST_QUAD = 11;
static __device__ inline int list_quads(const qr_decode_args &p, ring_shared &s, int stage, int begin)
{
    const qr_decode_matrix &m = p.matrix[stage];
    const bool gated = stage == QR_DECODE_UP;
    const int first = s.share.strip[stage][0], of_strip = gated ? 2 : m.cuts,
              n = (s.share.strip[stage][1] - first) * of_strip;
    const int each = pieces_of(m, gated), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int unit = warp; unit < n; unit += BLOCK_THREADS / 32) {
        const int round = unit / MATH * MATH, side = min(MATH, n - round), strip = unit / of_strip,
                  part = unit - strip * of_strip;
        for (int j = lane; j < each; j += 32) {
            const int at = begin + round * each + j * side + unit - round;
            const int2 quads = quads_of(m, j);
            if (at < QR_DECODE_LIST)
                s.list[at] =
                    make_uint2(first + strip + (gated ? part * m.strips : 0),
                               ((gated ? 0 : part * m.chain / 4) + quads.x) << FIRST_QUAD | stage << 8 | quads.y);
        }
        if (unit < MATH && lane == 0)
            s.cut_of[stage][unit] = part;
    }
    if (threadIdx.x == 0)
        s.units[stage] = n;
    return n * each;
}

// By all threads; a __syncthreads follows.
template <bool PACKED> static __device__ inline void make_list(const qr_decode_args &p, ring_shared &s)
{
    for (int i = threadIdx.x; i < p.n_layer * (int)(sizeof(qr_decode_layer) / 4); i += BLOCK_THREADS)
        ((uint32_t *)s.layer)[i] = ((const uint32_t *)p.layer)[i];
    int n = 0;
#pragma unroll 1
    for (int stage = 0; stage < QR_DECODE_HEAD; stage++) {
        n += PACKED ? list_quads(p, s, stage, n) : list_units(p, s, stage, n);
        if (stage == QR_DECODE_QKV)
            n += list_pages(p, s, n);
    }
    if (threadIdx.x == 0) {
        s.layer_pieces = n;
        s.units[QR_DECODE_HEAD] = s.share.strip[QR_DECODE_HEAD][1] - s.share.strip[QR_DECODE_HEAD][0];
        const qr_decode_matrix &head = p.matrix[QR_DECODE_HEAD];
        s.head_pieces = s.units[QR_DECODE_HEAD] * (PACKED ? pieces_of(head, true) : pieces_of(head.k16));
    }
    if (threadIdx.x < MATH)
        s.cut_of[QR_DECODE_HEAD][threadIdx.x] = 0;
}
#endif
