/* stages.c - the persistent kernel ended behind any exchange of any layer, and what its blocks handed one another there against the
 * plan's own ops, bit for bit. The first difference is told by layer, exchange, token and column. Needs decode_step.cu built with
 * -DQR_DECODE_DEBUG, as `make build/gpu/decode_stages` does.
 *
 * Without a model: those of `make gpu-test`. With one: all of its exchanges, or those of one layer, or one of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/half.h"
#include "cuda/decode/steps.h"

static const char usage[] =
    "decode_stages [MODEL | tiny] [--quantization fp8] [--context N,N..] [--steps N] [--layer N] "
    "[--stage x | qkv | y | x-mid | act | logits] [--chunk N]";

static const char *const names[QR_DECODE_EXCHANGES] = {"x", "qkv", "y", "x-mid", "act"};

/* An exchange: where the plan's ops leave its numbers, and the kernel its words. */
struct place {
    int n_op;      /* ops of the plan up to and with the one that gives it */
    int value;     /* fp32; -1: bf16, in the next LINEAR's input */
    int cols;      /* of a token */
    uint64_t word; /* of a set of words, which holds two fp32 or four bf16 */
    int copies;    /* of the words */
};

/* Several sequences, weights in bf16: words without a tag. */
static bool is_many(const struct steps *s)
{
    return s->n_seq > 1 && !s->exec->decode->args.packed;
}

static struct place place_of(const struct steps *s, int layer, int exchange)
{
    const struct qr_decode_plan *p = &s->found;
    const struct qr_decode_words *at = &s->exec->decode->args.at;
    const int first = p->first + layer * QR_DECODE_OPS;
    const int ops[QR_DECODE_EXCHANGES] = {layer ? first - QR_DECODE_OPS + QR_DECODE_OP_NEXT : p->embed,
                                          first + QR_DECODE_OP_QKV, first + QR_DECODE_OP_ATTENTION,
                                          first + QR_DECODE_OP_NORM, first + QR_DECODE_OP_SILU};
    const uint64_t words[QR_DECODE_EXCHANGES] = {at->x_next, at->qkv, at->y, at->x_mid, at->act};
    const int i = ops[exchange], value = s->plan->op[i].out[0];
    const bool is_bf16 = exchange == QR_DECODE_GIVES_Y || exchange == QR_DECODE_GIVES_ACT;
    const bool is_x = exchange == QR_DECODE_GIVES_X || exchange == QR_DECODE_GIVES_X_MID;
    if (is_bf16 && !s->exec->sizes.op[i].y16)
        steps_fail("op %d leaves no bf16", i);
    return (struct place){.n_op = i + 1,
                          .value = is_bf16 ? -1 : value,
                          .cols = (int)s->plan->value[value].cols,
                          .word = words[exchange],
                          .copies = is_x && !is_many(s) ? QR_DECODE_COPIES : 1};
}

/* Bits of a place's numbers [n_seq, cols], 16 or 32 of each, as the plan's ops left them. malloc'ed. */
static uint32_t *bits_of_ops(const struct steps *s, const struct place *p)
{
    const size_t n = (size_t)s->n_seq * (size_t)p->cols;
    if (p->value >= 0) {
        if (s->plan->value[p->value].parent >= 0)
            steps_fail("value %d is a part of another one", p->value);
        return steps_fetch(s->exec->activation + s->exec->sizes.buffers.offset[p->value], n * 4);
    }
    uint16_t *half = steps_fetch(s->exec->x16, n * 2);
    uint32_t *bits = malloc(n * sizeof *bits);
    for (size_t i = 0; bits && i < n; i++)
        bits[i] = half[i];
    if (!bits)
        steps_fail("out of memory for %zu numbers", n);
    free(half);
    return bits;
}

/* The same as blocks handed them out; the words' format is that of decode_many.cuh. Fails where a word has not come. */
static uint32_t *bits_of_many(const struct steps *s, const struct place *p, int layer, int exchange)
{
    const struct qr_decode_args *a = &s->exec->decode->args;
    const struct qr_decode_many *many = &a->many;
    const uint32_t sets = QR_DECODE_SETS, ago = ((uint32_t)a->n_layer + 1) % sets; /* of the step before */
    const uint64_t set = (many->first + sets - ago + (uint32_t)layer) % sets;
    const uint64_t places[QR_DECODE_EXCHANGES] = {many->x_next, 0, many->y, many->x_mid, many->act};
    const uint8_t *from = (const uint8_t *)a->many_words + (set * many->set + places[exchange]) * 16;
    const bool is_bf16 = p->value < 0;
    const size_t cols = (size_t)p->cols, n = (size_t)s->n_seq * cols;
    const size_t n_word = is_bf16 ? (cols + 31) / 32 * QR_DECODE_TOKENS * 16 : n;
    uint32_t *word = steps_fetch(from, n_word * sizeof *word), *bits = malloc(n * sizeof *bits);
    if (!bits)
        steps_fail("out of memory for %zu numbers", n);
    for (size_t i = 0; i < n; i++) {
        const size_t token = i / cols, c = i % cols, tile = c / 16, pair = c % 16 / 2;
        const size_t at =
            is_bf16 ? ((tile / 2 * QR_DECODE_TOKENS + token) * 4 + pair % 4) * 4 + tile % 2 * 2 + pair / 4 : i;
        if (word[at] == UINT32_MAX)
            steps_fail("layer %d, %s, token %zu, column %zu: nobody handed it out", layer, names[exchange], token, c);
        bits[i] = is_bf16 ? word[at] >> c % 2 * 16 & 0xFFFF : word[at];
    }
    free(word);
    return bits;
}

/* The same as blocks handed them out, of one of the words' copies; the words' format is that of decode_words.cuh. Fails where a word has not come. */
static uint32_t *bits_of_words(const struct steps *s, const struct place *p, int layer, int exchange, int copy)
{
    const struct qr_decode_args *a = &s->exec->decode->args;
    const uint32_t tag = s->exec->decode->tag - (uint32_t)a->n_layer - 1 + (uint32_t)layer; /* of the step before */
    const size_t each = p->value < 0 ? 4 : 2, n = (size_t)s->n_seq * (size_t)p->cols, n_word = n / each;
    const uint64_t at =
        (uint64_t)(layer % 2) * a->at.set + p->word + (uint64_t)copy * QR_DECODE_TOKENS * (uint64_t)a->n_embd / 2;
    const uint8_t *set = (const uint8_t *)a->words + at * 16;
    uint32_t(*word)[4] = steps_fetch(set, n_word * sizeof *word);
    uint32_t *bits = malloc(n * sizeof *bits);
    if (!bits)
        steps_fail("out of memory for %zu numbers", n);
    for (size_t i = 0; i < n_word; i++) {
        if (word[i][2] != tag)
            steps_fail("layer %d, %s, token %zu, column %zu: the word there has tag %u, not %u: nobody handed it out",
                       layer, names[exchange], i * each / (size_t)p->cols, i * each % (size_t)p->cols, word[i][2], tag);
        for (size_t k = 0; k < each; k++)
            bits[i * each + k] = each == 2 ? word[i][k] : word[i][k / 2] >> k % 2 * 16 & 0xFFFF;
    }
    free(word);
    return bits;
}

static float number_of(uint32_t bits, bool is_bf16)
{
    float f;
    if (is_bf16)
        return qr_bf16_to_f32((uint16_t)bits);
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Returns how many there are; ends the program at the first one that differs. */
static size_t compare(const uint32_t *got, const uint32_t *want, int n_seq, int cols, bool is_bf16, int layer,
                      const char *name)
{
    const size_t n = (size_t)n_seq * (size_t)cols;
    size_t first = n, differ = 0;
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i]) {
            first = differ++ ? first : i;
        }
    if (differ)
        steps_fail(
            "layer %d, %s, token %zu, column %zu: the kernel has %.9g (0x%x), the plan's ops %.9g (0x%x); %zu of %zu "
            "numbers differ",
            layer, name, first / (size_t)cols, first % (size_t)cols, (double)number_of(got[first], is_bf16), got[first],
            (double)number_of(want[first], is_bf16), want[first], differ, n);
    return n;
}

/* Keys and values of a layer: all blocks of K, then of V. */
static uint8_t *pages_of(const struct steps *s, int layer)
{
    const uint64_t bytes = 2 * s->exec->sizes.pool;
    return steps_fetch(s->exec->kv + (uint64_t)layer * bytes, bytes);
}

static void compare_pages(const struct steps *s, const uint8_t *got, const uint8_t *want, int layer)
{
    const uint64_t pool = s->exec->sizes.pool;
    for (uint64_t i = 0; i < 2 * pool; i++)
        if (got[i] != want[i])
            steps_fail(
                "layer %d, %s, page %llu of the pool, byte %llu: the kernel left 0x%02x there, the plan's ops 0x%02x",
                layer, i < pool ? "keys" : "values", (unsigned long long)(i % pool / s->exec->sizes.page),
                (unsigned long long)(i % pool % s->exec->sizes.page), got[i], want[i]);
}

/* The step as far as one exchange, twice. */
static size_t check_exchange(struct steps *s, int layer, int exchange)
{
    const struct place p = place_of(s, layer, exchange);
    const bool pages = exchange == QR_DECODE_GIVES_Y;
    steps_restore(s);
    steps_by_ops(s, p.n_op);
    uint32_t *want = bits_of_ops(s, &p);
    uint8_t *want_pages = pages ? pages_of(s, layer) : NULL;
    steps_restore(s);
    steps_by_kernel(s, layer * QR_DECODE_EXCHANGES + exchange);
    uint8_t *got_pages = pages ? pages_of(s, layer) : NULL;
    size_t n = 0;
    for (int copy = 0; copy < p.copies; copy++) {
        uint32_t *got = is_many(s) && exchange != QR_DECODE_GIVES_QKV ? bits_of_many(s, &p, layer, exchange)
                                                                      : bits_of_words(s, &p, layer, exchange, copy);
        n += compare(got, want, s->n_seq, p.cols, p.value < 0, layer, names[exchange]);
        free(got);
    }
    if (pages)
        compare_pages(s, got_pages, want_pages, layer);
    free(want);
    free(want_pages);
    free(got_pages);
    return n;
}

/* Leaves keys and values as the whole step does. */
static size_t check_logits(struct steps *s)
{
    const size_t bytes = (size_t)s->n_seq * (size_t)s->n_vocab * sizeof(float);
    uint32_t *want = malloc(bytes);
    if (!want)
        steps_fail("out of memory for %zu bytes", bytes);
    steps_restore(s);
    memcpy(want, steps_by_ops(s, s->plan->n_op), bytes);
    steps_restore(s);
    uint32_t *got = malloc(bytes);
    if (!got)
        steps_fail("out of memory for %zu bytes", bytes);
    memcpy(got, steps_by_kernel(s, INT32_MAX), bytes);
    size_t n = compare(got, want, s->n_seq, s->n_vocab, false, s->found.n_layer, "logits");
    free(want);
    free(got);
    return n;
}

static bool is_wanted(const struct steps_options *o, int layer, const char *name)
{
    return (o->layer < 0 || o->layer == layer) && (!o->stage || strcmp(o->stage, name) == 0);
}

static void check_model(const struct steps_options *o, const struct steps_shape *shape)
{
    static struct steps s;
    size_t n = 0;
    int stops = 0;
    steps_open(&s, o, shape);
    for (int step = 0; step < o->steps; step++) {
        steps_keep(&s);
        for (int layer = 0; layer <= s.found.n_layer; layer++)
            for (int e = 0; e < (layer < s.found.n_layer ? QR_DECODE_EXCHANGES : 1); e++)
                if (is_wanted(o, layer, names[e])) {
                    n += check_exchange(&s, layer, e);
                    stops++;
                }
        if (is_wanted(o, s.found.n_layer, "logits")) {
            n += check_logits(&s);
            stops++;
        } else {
            steps_restore(&s);
            steps_by_ops(&s, s.plan->n_op);
        }
        steps_go_on(&s);
    }
    if (stops == 0)
        steps_fail("nothing to compare: layers go from 0 to %d, and in the last one there are x and logits alone",
                   s.found.n_layer);
    printf("%s%s%s, context", o->model, o->quantization ? ", " : "", o->quantization ? o->quantization : "");
    for (int i = 0; i < o->n_seq; i++)
        printf(" %d", o->context[i]);
    printf(", %d steps, %d blocks: ended %d times, %zu numbers equal\n", o->steps, s.exec->decode->args.n_block, stops,
           n);
    fflush(stdout);
    steps_close(&s);
}

/* Of `make gpu-test`: both sizes of heads, one token and several, contexts of a cut and of many, bf16 and packed weights. */
static void check_all(void)
{
    static const struct {
        const char *model;
        struct steps_shape shape;
        const char *quantization;
        int n_seq, context[QR_DECODE_TOKENS], steps;
    } all[] = {
        {"tiny", {"tiny-qwen3", 320, 12, 2, 128, QR_BF16}, NULL, 1, {20}, 3},
        {"tiny", {"tiny-qwen3", 320, 12, 2, 128, QR_BF16}, NULL, 4, {254, 31, 600, 15}, 3},
        {"tiny", {"tiny-qwen2", 576, 9, 3, 64, QR_BF16}, NULL, 2, {3200, 5}, 2},
        {"tiny", {"tiny-qwen2", 320, 12, 2, 64, QR_BF16}, "fp8", 1, {300}, 2},
        {"tiny", {"tiny-qwen3", 768, 12, 2, 128, QR_Q4_0}, NULL, 3, {300, 21, 257}, 2},
        {"dummy:smollm2-135m", {0}, NULL, 1, {300}, 1},
        {"dummy:smollm2-135m", {0}, "fp8", 3, {40, 300, 100}, 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct steps_options o = {.model = all[i].model,
                                  .quantization = all[i].quantization,
                                  .n_seq = all[i].n_seq,
                                  .steps = all[i].steps,
                                  .layer = -1};
        memcpy(o.context, all[i].context, sizeof o.context);
        check_model(&o, &all[i].shape);
    }
}

int main(int argc, char **argv)
{
    static const struct steps_shape tiny = {"tiny-qwen3", 320, 12, 2, 128, QR_BF16};
    struct steps_options o = {.context = {20}, .n_seq = 1, .steps = 1, .layer = -1};
    bool is_known = false;
    steps_parse(argc, argv, usage, &o);
    for (int i = 0; i < QR_DECODE_EXCHANGES; i++)
        is_known |= !o.stage || strcmp(o.stage, names[i]) == 0 || strcmp(o.stage, "logits") == 0;
    if (!is_known)
        steps_fail("usage: %s", usage);
    if (o.model)
        check_model(&o, &tiny);
    else
        check_all();
    return 0;
}
