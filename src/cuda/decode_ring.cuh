// decode_ring.cuh - the ring of 4 KB slots through which a block reads its share of the weights and of keys and values, and the
// warp that fills it, in the order in which the other warps use it up: from the first layer to the head without a pause, since
// no byte of it depends on the step's results.
//
// A layer's pieces stand in a list made when the kernel starts: up to 8 tiles of a chain or strip; of gate and up 8 tiles' halves
// of each (two boxes of 2 KB); of keys and values a page. Units that run side by side, one a warp, take turns piece by piece.
#pragma once
#include "cuda/decode_words.cuh"

constexpr int SLOT = 4096, PIECE = 8; // bytes; tiles
constexpr int MATH = QR_DECODE_MATH, MATH_THREADS = MATH * 32;
constexpr int FETCH_WARP = MATH, ADD_WARP = MATH + 1, BLOCK_THREADS = (MATH + 2) * 32;

// A piece: bits 0-24 the tile (of its matrix) or page, 25-27 its tiles less one, 28: the second half of tiles, or values.
constexpr uint32_t PIECE_TILE = (1u << 25) - 1;
static __device__ inline uint32_t piece_of(uint32_t tile, int n, int flag)
{
    return tile | (uint32_t)(n - 1) << 25 | (uint32_t)flag << 28;
}

// A unit of attention: a cut of a KV head of a sequence.
struct cut_unit {
    int b, h, cut, n_cut, n_page, position;
};

struct ring_shared {
    uint32_t list[QR_DECODE_LIST];
    uint2 unit[QR_DECODE_UNITS]; // of chains: where their tokens begin (words), and where their sums go (words of 16 bytes)
    int first_unit[QR_DECODE_HEAD];
    cut_unit cut[QR_DECODE_CUT_UNITS];
    qr_decode_layer layer[QR_DECODE_LAYERS];
    uint64_t full[64], empty[64];
    qr_decode_share share;
    int begin[6]; // of qkv, attention, o, gate and up, down in the list; the end
    patience until;
};

struct ring {
    char *slot;
    ring_shared *s;
    int n_slot;
};

static __device__ inline int pieces_of(int tiles)
{
    return (tiles + PIECE - 1) / PIECE;
}

#if __CUDA_ARCH__ >= 900
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

// By all threads: pieces [begin, ...) of a stage's units. Returns how many.
static __device__ inline int list_units(const qr_decode_args &p, ring_shared &s, int stage, int begin)
{
    const qr_decode_matrix &m = p.matrix[stage];
    const int first = s.share.unit[stage][0], n = s.share.unit[stage][1] - first;
    const int tiles = stage == QR_DECODE_UP ? m.k16 : m.chain, each = pieces_of(tiles);
    for (int at = threadIdx.x; at < n * each; at += BLOCK_THREADS) {
        int round = at / (MATH * each), rest = at % (MATH * each), side = min(MATH, n - round * MATH);
        int j = rest / side, unit = first + round * MATH + rest % side, left = min(PIECE, tiles - j * PIECE);
        uint32_t piece;
        if (stage == QR_DECODE_UP)
            piece = piece_of(unit / 2 * m.k16 + j * PIECE, PIECE, unit % 2);
        else
            piece = piece_of(unit % m.strips * m.k16 + unit / m.strips * m.chain + j * PIECE, left, 0);
        if (begin + at < QR_DECODE_LIST)
            s.list[begin + at] = piece;
    }
    return n * each;
}

// By all threads: what a warp needs to know of the stage's units, at s.unit[begin ...).
static __device__ inline int describe_units(const qr_decode_args &p, ring_shared &s, int stage, int begin)
{
    const qr_decode_matrix &m = p.matrix[stage];
    const int first = s.share.unit[stage][0], n = s.share.unit[stage][1] - first;
    const bool from_cut = stage == QR_DECODE_O || stage == QR_DECODE_DOWN; // their tokens are those of the block's cuts
    for (int i = threadIdx.x; i < n && begin + i < QR_DECODE_UNITS; i += BLOCK_THREADS) {
        int unit = first + i, strip = unit % m.strips, cut = unit / m.strips;
        if (stage == QR_DECODE_UP)
            s.unit[begin + i] = make_uint2(0, unit * 2);
        else
            s.unit[begin + i] = make_uint2((cut - (from_cut ? first / m.strips : 0)) * m.chain * p.n_token * 8,
                                           (strip * m.cuts + cut) * p.n_token * 8);
    }
    if (threadIdx.x == 0)
        s.first_unit[stage] = begin;
    return begin + n;
}

static __device__ inline int list_pages(const qr_decode_args &p, ring_shared &s, int begin)
{
    int n = 0;
    for (int u = s.share.attention[0]; u < s.share.attention[1]; u++) {
        cut_unit c = cut_unit_of(p, u);
        int at = threadIdx.x;
        if (at == 0 && u - s.share.attention[0] < QR_DECODE_CUT_UNITS)
            s.cut[u - s.share.attention[0]] = c;
        if (at < c.n_page * 2 && begin + n + at < QR_DECODE_LIST) {
            int block = p.table[c.b * p.count[2] + c.cut * (QR_CU_CUT / QR_CU_PAGE) + at % c.n_page];
            s.list[begin + n + at] = piece_of(block * p.n_kv_head + c.h, 1, at >= c.n_page);
        }
        n += c.n_page * 2;
    }
    return n;
}

// By all threads; a __syncthreads follows.
static __device__ inline void make_list(const qr_decode_args &p, ring_shared &s)
{
    for (int i = threadIdx.x; i < p.n_layer * (int)(sizeof(qr_decode_layer) / 4); i += BLOCK_THREADS)
        ((uint32_t *)s.layer)[i] = ((const uint32_t *)p.layer)[i];
    int n = list_units(p, s, QR_DECODE_QKV, 0), at[6] = {0, n};
    at[2] = n += list_pages(p, s, n);
    at[3] = n += list_units(p, s, QR_DECODE_O, n);
    at[4] = n += list_units(p, s, QR_DECODE_UP, n);
    at[5] = n += list_units(p, s, QR_DECODE_DOWN, n);
    for (int i = 0; i < 6; i++)
        if (threadIdx.x == 0)
            s.begin[i] = at[i];
    int units = 0;
    for (int stage = 0; stage < QR_DECODE_HEAD; stage++)
        units = describe_units(p, s, stage, units);
}

// The warp that fills the ring: lane i has the i-th piece behind the last one issued, so that pieces go out several at a time.
struct fetch {
    const qr_decode_args &p;
    const CUtensorMap *map;
    ring r;
    int page_bytes;
    uint64_t policy;

    struct source {
        const char *from; // NULL: boxes
        uint32_t bytes, tile, half;
    };
    // A piece counted from the start; at: in the list of its layer, or, behind the last layer, of the head's pieces.
    struct place {
        int layer, at, slot;
        uint32_t phase;
    };

    __device__ inline void advance(place &c, int n) const
    {
        c.at += n;
        while (c.layer < p.n_layer && c.at >= r.s->begin[5]) {
            c.at -= r.s->begin[5];
            c.layer++;
        }
        c.slot += n;
        while (c.slot >= r.n_slot) {
            c.slot -= r.n_slot;
            c.phase ^= 1;
        }
    }
    __device__ inline source source_of(const place &c) const
    {
        source f = {nullptr, SLOT, 0, 0};
        const ring_shared &s = *r.s;
        if (c.layer == p.n_layer) {
            const int k16 = p.matrix[QR_DECODE_HEAD].k16, each = pieces_of(k16), first = s.share.unit[QR_DECODE_HEAD][0];
            int round = c.at / (MATH * each), rest = c.at % (MATH * each);
            int side = min(MATH, s.share.unit[QR_DECODE_HEAD][1] - first - round * MATH), j = rest / side;
            f.from = p.tiles + ((uint64_t)p.head_tile + (uint64_t)(first + round * MATH + rest % side) * k16 + j * PIECE) * 512;
            f.bytes = min(PIECE, k16 - j * PIECE) * 512;
            return f;
        }
        const uint32_t piece = s.list[c.at], tile = piece & PIECE_TILE, flag = piece >> 28 & 1;
        f.bytes = ((piece >> 25 & 7) + 1) * 512;
        if (c.at >= s.begin[1] && c.at < s.begin[2]) {
            f.bytes = page_bytes;
            f.from = p.kv + ((uint64_t)c.layer * 2 + flag) * p.pool + (uint64_t)tile * page_bytes;
        } else if (c.at >= s.begin[3] && c.at < s.begin[4]) {
            f.tile = s.layer[c.layer].tile[QR_DECODE_UP] + tile;
            f.half = flag;
        } else {
            int stage = c.at < s.begin[1] ? QR_DECODE_QKV : c.at < s.begin[3] ? QR_DECODE_O : QR_DECODE_DOWN;
            f.from = p.tiles + (uint64_t)(s.layer[c.layer].tile[stage] + tile) * 512;
        }
        return f;
    }
    __device__ inline void box(void *to, uint32_t tile, uint32_t half, uint64_t *b) const
    {
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                     "[%0],[%1,{%2,%3,%4}],[%5],%6;" ::"r"(shared_u32(to)),
                     "l"(map), "r"(0), "r"(half), "r"(tile), "r"(shared_u32(b)), "l"(policy)
                     : "memory");
    }
    __device__ inline void issue(const source &f, int slot) const
    {
        char *to = r.slot + slot * SLOT;
        uint64_t *b = &r.s->full[slot];
        barrier_expect(b, f.bytes);
        if (f.from) {
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                         "[%0],[%1],%2,[%3],%4;" ::"r"(shared_u32(to)),
                         "l"(f.from), "r"(f.bytes), "r"(shared_u32(b)), "l"(policy)
                         : "memory");
            return;
        }
        box(to, f.tile, f.half, b);
        box(to + SLOT / 2, f.tile + p.matrix[QR_DECODE_UP].strips * p.matrix[QR_DECODE_UP].k16, f.half, b);
    }
    __device__ inline void prefetch_box(uint32_t tile, uint32_t half) const
    {
        asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0,{%1,%2,%3}];" ::"l"(map), "r"(0), "r"(half), "r"(tile)
                     : "memory");
    }
    __device__ inline void prefetch(const source &f) const
    {
        if (f.from) {
            asm volatile("cp.async.bulk.prefetch.L2.global [%0],%1;" ::"l"(f.from), "r"(f.bytes) : "memory");
            return;
        }
        prefetch_box(f.tile, f.half);
        prefetch_box(f.tile + p.matrix[QR_DECODE_UP].strips * p.matrix[QR_DECODE_UP].k16, f.half);
    }

    // At most `cap` pieces are in flight, as what blocks exchange queues behind them; behind a full ring whose pieces have all
    // come, up to `ahead` more are fetched to L2.
    __device__ inline void run()
    {
        const int *unit = r.s->share.unit[QR_DECODE_HEAD], lane = threadIdx.x % 32;
        const uint32_t total = p.n_layer * r.s->begin[5] + (unit[1] - unit[0]) * pieces_of(p.matrix[QR_DECODE_HEAD].k16);
        uint32_t issued = 0, landed = 0, fetched = 0;
        place next = {0, 0, 0, 0}, old, far;
        advance(next, lane);
        old = far = next;
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0,1.0;" : "=l"(policy));
        for (int spins = 1; landed < total;) {
            bool come = landed + lane < issued && barrier_test(&r.s->full[old.slot], old.phase);
            bool room = issued + lane < total && lane < r.n_slot &&
                        (issued + lane < (uint32_t)r.n_slot || barrier_test(&r.s->empty[next.slot], next.phase ^ 1));
            int n_come = __ffs(~__ballot_sync(~0u, come)) - 1, n_room = __ffs(~__ballot_sync(~0u, room)) - 1;
            n_come = n_come < 0 ? 32 : n_come;
            n_room = n_room < 0 ? 32 : n_room;
            if (n_come) {
                landed += n_come;
                advance(old, n_come);
            }
            int n = min(n_room, p.cap - (int)(issued - landed));
            if (n > 0) {
                if (lane < n)
                    issue(source_of(next), next.slot);
                __syncwarp();
                issued += n;
                advance(next, n);
                spins = 1;
                continue;
            }
            if (n_room == 0 && landed == issued && issued < total && p.ahead) {
                if (fetched < issued) {
                    fetched = issued;
                    far = next;
                }
                n = min(8, min((int)(issued - fetched) + p.ahead, (int)(total - fetched)));
                if (n > 0) {
                    if (lane < n)
                        prefetch(source_of(far));
                    __syncwarp();
                    fetched += n;
                    advance(far, n);
                }
            }
            if (++spins % 256 == 0 && __any_sync(~0u, r.s->until.is_over()) && landed == issued)
                break;
        }
    }
};
#endif
