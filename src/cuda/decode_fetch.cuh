// decode_fetch.cuh - the two warps that bring a block's bytes: one fills the ring, a lane a slot; the other fetches what comes behind a full
// ring to the near half of L2, so that memory does not rest while blocks wait for one another.
#pragma once
#include "cuda/decode_ring.cuh"

#if __CUDA_ARCH__ >= 900
// PACKED: of a model with quantised matrices.
template <bool PACKED> struct fetch {
    static constexpr int PARTS = PACKED ? 3 : 2; // of a piece, copied apart
    const qr_decode_args &p;
    ring r;
    int page_bytes;

    // A piece in the order of use: in the list of its layer, or, behind the last layer, of the head, counted on from there.
    struct place {
        int layer, at;
        bool is_there;
    };
    struct source {
        const char *from[PARTS];
        uint32_t bytes[PARTS]; // those behind the first may be 0
        int stage;             // pages count as qkv
        uint32_t to[PARTS];    // places in the slot; PACKED
    };

    __device__ inline void advance(place &c, int n) const
    {
        const int in_layer = r.s->layer_pieces;
        c.at += n;
        while (c.layer < p.n_layer && c.at >= in_layer)
            c.at -= ++c.layer < p.n_layer ? in_layer : 0;
        c.is_there = c.layer < p.n_layer || c.at < in_layer + r.s->head_pieces;
    }
    // n quads of a strip that begins at `strip`: codes, scales, and the super blocks that they touch.
    __device__ inline source parts_of(const char *strip, int stage, int first, int n) const
    {
        const qr_decode_matrix &m = p.matrix[stage];
        const int type = m.type, code = type ? QR_CU_CODE_BYTES(type) : 2048,
                  scale = type ? QR_CU_SCALE_BYTES(type) : 0;
        const int all = m.k16 / 4, most = QR_DECODE_QUADS(type);
        source f = {};
        f.stage = stage;
        f.from[0] = strip + first * code;
        f.bytes[0] = n * code;
        f.from[1] = strip + all * code + first * scale;
        f.bytes[1] = n * scale;
        f.to[1] = most * code;
        if (const int super = QR_CU_SUPER_BYTES(type)) {
            const int units = QR_CU_SUPER_UNITS(type), at = first / units;
            f.from[PARTS - 1] = strip + all * (code + scale) + at * super;
            f.bytes[PARTS - 1] = ((first + n - 1) / units - at + 1) * super;
            f.to[PARTS - 1] = most * (code + scale);
        }
        return f;
    }
    __device__ inline source source_of(const place &c) const
    {
        source f = {};
        f.stage = QR_DECODE_QKV;
        if (c.layer == p.n_layer) { // strips of the head side by side, as units in a list
            const qr_decode_matrix &m = p.matrix[QR_DECODE_HEAD];
            const int k16 = m.k16, each = PACKED ? pieces_of(m, true) : pieces_of(k16), at = c.at - r.s->layer_pieces;
            const int round = at / (MATH * each), rest = at - round * MATH * each;
            const int side = min(MATH, r.s->units[QR_DECODE_HEAD] - round * MATH), j = rest / side;
            const int strip = r.s->share.strip[QR_DECODE_HEAD][0] + round * MATH + rest - j * side;
            if (PACKED) {
                const int2 quads = quads_of(m, j);
                return parts_of(p.tiles + (uint64_t)p.head_tile * QR_DECODE_STEP + (uint64_t)strip * m.strip,
                                QR_DECODE_HEAD, quads.x, quads.y);
            }
            f.from[0] = p.tiles + ((uint64_t)p.head_tile + (uint64_t)strip * k16 + j * PIECE) * 512;
            f.bytes[0] = min(PIECE, k16 - j * PIECE) * 512;
            f.stage = QR_DECODE_HEAD;
            return f;
        }
        const uint2 piece = r.s->list[c.at];
        if (piece.y & PAGES) {
            const uint32_t second = piece.y & ~PAGES;
            const char *pool = p.kv + ((uint64_t)c.layer * 2 + (piece.x & VALUES ? 1 : 0)) * p.pool;
            f.from[0] = pool + (uint64_t)(piece.x & ~VALUES) * page_bytes;
            f.from[1] = pool + (uint64_t)second * page_bytes;
            f.bytes[0] = page_bytes;
            f.bytes[1] = second == NO_PAGE ? 0 : page_bytes;
            f.to[1] = SLOT / 2;
            return f;
        }
        if (PACKED) {
            const int stage = piece.y >> 8 & 7;
            return parts_of(p.tiles + (uint64_t)r.s->layer[c.layer].tile[stage] * QR_DECODE_STEP +
                                (uint64_t)piece.x * p.matrix[stage].strip,
                            stage, piece.y >> FIRST_QUAD, piece.y & 255);
        }
        f.stage = piece.y >> 8;
        f.from[0] = p.tiles + (uint64_t)(r.s->layer[c.layer].tile[f.stage] + piece.x) * 512;
        f.bytes[0] = (piece.y & 255) * 512;
        return f;
    }

    static __device__ inline bool test(uint32_t barrier, uint32_t parity)
    {
        uint32_t is = 0;
#ifdef QR_DECODE_DEBUG // lane by lane, and by the instruction that the tools know best
#pragma unroll 1
        for (unsigned i = 0; i < 32; i++)
            if (i == threadIdx.x % 32)
                is = barrier_passed_at(barrier, parity);
#else
        asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p,[%1],%2;\nselp.u32 %0,1,0,p;\n}"
                     : "=r"(is)
                     : "r"(barrier), "r"(parity)
                     : "memory");
#endif
        return is;
    }
    static __device__ inline void copy(uint32_t to, const char *from, uint32_t bytes, uint32_t b, uint64_t policy)
    {
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0],[%1],%2,[%3],%4;" ::
                "r"(to),
            "l"(from), "r"(bytes), "r"(b), "l"(policy)
            : "memory");
    }

    // The lowest n bits, turned so that bit `first` comes to be bit 0.
    static __device__ inline uint32_t turned(uint32_t bits, int first, int n)
    {
        bits = first ? bits >> first | bits << (n - first) : bits;
        return n < 32 ? bits & ((1u << n) - 1) : bits;
    }

    // Which bound on pieces in flight holds for one of stage `next` in the slot of one of stage `last`: by how soon it is needed.
    static __device__ inline qr_decode_cap cap_of(int last, int next)
    {
        if (next == QR_DECODE_HEAD)
            return QR_DECODE_CAP_HEAD;
        if (last == next)
            return QR_DECODE_CAP_NOW;
        return last == QR_DECODE_UP ? QR_DECODE_CAP_LATER : QR_DECODE_CAP_EXCHANGE;
    }

    // Lane i has slot i. Pieces go out in their order, so many at a time as `cap` says: what blocks exchange queues behind them, and
    // one block's pieces for later stand in the way of another's that all wait for.
    //
    // What is to come after a piece is looked up while it is under way, by all lanes at once and only in turns of the loop that send
    // nothing: a turn is what a block waits for between a slot's release and its next piece.
    __device__ inline void fill() const
    {
        const int lane = threadIdx.x % 32, n = r.n_slot;
        const uint32_t full = shared_u32(&r.s->full[0][lane]), empty = shared_u32(&r.s->empty[lane]);
        const uint32_t to = shared_u32(r.slot) + lane * SLOT;
        place c = {0, 0, false};
        source f = {};
        bool flies = false, over = false,
             ready = true;             // ready: f is of the piece that comes next into the slot, which is at c
        uint32_t turn = 0, issued = 0; // turn: as a ring_place's
        int first = 0, bound = QR_DECODE_CAP_NOW;
        uint64_t policy;
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0,1.0;" : "=l"(policy));
        if (lane < n) {
            advance(c, lane);
            if (c.is_there)
                f = source_of(c);
        }
        for (int spins = 1;; spins++) {
            const uint32_t now = full + turn % 2 * (MAX_SLOTS * 8); // the turn's barrier
            const bool yes =
                (flies || (ready && c.is_there)) && test(flies ? now : empty, flies ? turn / 2 : turn % 2 ^ 1);
            const uint32_t flying = __ballot_sync(~0u, flies && !yes);
            const uint32_t room = __ballot_sync(~0u, !flies && yes);
            if (flies && yes) {
                flies = false;
                turn = (turn + 1) % 4;
            }
            int n_go = 0;
            if (room && !over) {
                const uint32_t rooms = turned(room, first, n);
                n_go =
                    min(rooms == ~0u ? 32 : __ffs(~rooms) - 1, p.cap[__shfl_sync(~0u, bound, first)] - __popc(flying));
                const int order = lane - first + (lane < first ? n : 0);
                const bool goes = lane < n && order < n_go;
                if (goes) {
                    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _,[%0],%1;" ::"r"(now),
                                 "r"(f.bytes[0] + f.bytes[1] + (PACKED ? f.bytes[PARTS - 1] : 0))
                                 : "memory");
                    copy(to, f.from[0], f.bytes[0], now, policy);
                    if (f.bytes[1])
                        copy(to + (PACKED ? f.to[1] : SLOT / 2), f.from[1], f.bytes[1], now, policy);
                    if (PACKED && f.bytes[PARTS - 1])
                        copy(to + f.to[PARTS - 1], f.from[PARTS - 1], f.bytes[PARTS - 1], now, policy);
                    flies = true;
                    ready = false;
                }
                __syncwarp();
                n_go = max(n_go, 0);
                issued += n_go;
                first += n_go;
                first -= first >= n ? n : 0;
            }
            if (n_go == 0 && __any_sync(~0u, !ready)) {
                if (!ready) {
                    const int last = f.stage;
                    advance(c, n);
                    if (c.is_there) {
                        f = source_of(c);
                        bound = cap_of(last, f.stage);
                    }
                    ready = true;
                }
                __syncwarp();
            }
            if (lane == 0) {
                poke(r.s->issued, issued);
                poke(r.s->rests, (uint32_t)(__popc(flying) <= p.quiet && n_go == 0));
            }
            if (spins % 64 == 0) {
                over |= __any_sync(~0u, r.s->until.is_over());
                if (!__any_sync(~0u, flies || (c.is_there && !over)))
                    break;
            }
        }
    }

    // Four bytes of each 256 from `from` on, by `lanes` lanes, of which this one is the `lane`-th.
    static __device__ __forceinline__ uint32_t touch(const char *from, uint32_t bytes, int lane, int lanes)
    {
        constexpr int N = 4;
        uint32_t sum = 0;
        for (uint32_t o = lane * 256; o < bytes; o += N * lanes * 256) {
            uint32_t v[N] = {0, 0, 0, 0};
#pragma unroll
            for (int k = 0; k < N; k++)
                if (o + k * lanes * 256 < bytes)
                    asm volatile("ld.global.nc.L2::256B.u32 %0,[%1];" : "=r"(v[k]) : "l"(from + o + k * lanes * 256));
            sum ^= v[0] ^ v[1] ^ v[2] ^ v[3];
        }
        return sum;
    }

    // While few pieces are under way, up to `ahead` pieces behind the ring are brought near: by loads, since what a load has brought is
    // in the half of L2 that is near to this multiprocessor, whereas prefetch.global.L2 leaves it where its address belongs, from where
    // copies come hardly faster than from memory (docs/KERNELS.md). Eight pieces at a time, four lanes each.
    __device__ inline void run_ahead() const
    {
        constexpr int PIECES = 8, LANES = 32 / PIECES;
        const int lane = threadIdx.x % 32;
        const uint32_t total = p.n_layer * r.s->layer_pieces + r.s->head_pieces;
        uint32_t at = 0;
        place c = {0, 0, true};
        while (p.ahead && at < total) {
            const uint32_t next = peek(r.s->issued);
            if (at < next) {
                advance(c, next - at);
                at = next;
            }
            const int n = min(PIECES, (int)(min(total, next + p.ahead) - at));
            if (n > 0 && next > 0 && peek(r.s->rests)) {
                uint32_t sum = 0;
                if (lane / LANES < n) {
                    place mine = c;
                    advance(mine, lane / LANES);
                    const source f = source_of(mine);
#pragma unroll
                    for (int i = 0; i < PARTS; i++)
                        sum ^= touch(f.from[i], f.bytes[i], lane % LANES, LANES);
                }
                if (sum == 0x9E3779B9u) // or loads that nothing asks for would be left out
                    r.s->sink = sum;
                __syncwarp();
                advance(c, n);
                at += n;
            } else {
                __nanosleep(100);
                if (peek(r.s->until.ended))
                    break;
            }
        }
    }
};
#endif
