/* profile.c - where the persistent kernel's time goes in one layer: when each block's last warp was where. Needs decode_step.cu built
 * with -DQR_DECODE_PROFILE, as `make build/gpu/decode_profile` does; marks make a step some per cent slower. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cuda/decode/steps.h"

static const char usage[] = "decode_profile [MODEL] [--quantization fp8] [--context N,N..] [--steps N] [--layer N]";

enum { WARM = 4, N_BLOCK = 1024 };

/* Without the marks of sums that have come: there the clock is read before the barrier, whatever stands in the source. */
static const struct {
    int mark;
    const char *name;
} rows[] = {
    {QR_DECODE_AT_X, "x is there"},
    {QR_DECODE_AT_NORM, "normed"},
    {QR_DECODE_AT_QKV, "qkv: products"},
    {QR_DECODE_AT_ADD + 1, "qkv: handed out"},
    {QR_DECODE_AT_HEADS, "heads are there"},
    {QR_DECODE_AT_QUERY, "attention: rotated"},
    {QR_DECODE_AT_SCORES, "attention: scores"},
    {QR_DECODE_AT_WEIGHTS, "attention: weights"},
    {QR_DECODE_AT_VALUES, "attention: values"},
    {QR_DECODE_AT_CUTS, "attention: cuts are there"},
    {QR_DECODE_AT_MERGED, "attention: cuts merged"},
    {QR_DECODE_AT_Y, "y is there"},
    {QR_DECODE_AT_O, "o: products"},
    {QR_DECODE_AT_ADD + 3, "o: handed out"},
    {QR_DECODE_AT_X_MID, "x between is there"},
    {QR_DECODE_AT_NORM_MID, "normed"},
    {QR_DECODE_AT_UP, "gate and up: products"},
    {QR_DECODE_AT_GATED, "gate and up: handed out"},
    {QR_DECODE_AT_ACT, "activations are there"},
    {QR_DECODE_AT_DOWN, "down: products"},
    {QR_DECODE_AT_ADD + 5, "down: handed out"},
};
enum { N_ROW = sizeof rows / sizeof *rows, FIRST = 0, MEDIAN, LAST, N_TIME };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Reorders them. */
static double median_of(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* us behind `begin` of a mark: the first warp of all, and of the blocks' last warps the median and the last. False: none was there. */
static bool times_of(const long long *at, int n_block, int mark, long long begin, double time[N_TIME])
{
    static double last[N_BLOCK];
    double first = 0;
    int n = 0;
    for (int b = 0; b < n_block; b++) {
        bool was_there = false;
        for (int w = 0; w < QR_DECODE_WARPS; w++) {
            long long ns = at[(b * QR_DECODE_WARPS + w) * QR_DECODE_MARKS + mark];
            double us = (double)(ns - begin) * 1e-3;
            if (ns == 0)
                continue;
            first = (n == 0 && !was_there) || us < first ? us : first;
            last[n] = was_there && last[n] > us ? last[n] : us;
            was_there = true;
        }
        n += was_there;
    }
    if (n == 0)
        return false;
    time[FIRST] = first;
    time[MEDIAN] = median_of(last, n);
    time[LAST] = last[n - 1];
    return true;
}

static long long first_of(const long long *at, int n_block, int mark)
{
    long long first = 0;
    for (int i = 0; i < n_block * QR_DECODE_WARPS; i++) {
        long long ns = at[i * QR_DECODE_MARKS + mark];
        if (ns && (first == 0 || ns < first))
            first = ns;
    }
    return first;
}

/* Steps one after another; of each row's times the medians over them. */
static void profile(struct steps *s, int layer, int n_step)
{
    struct qr_decode_args *a = &s->exec->decode->args;
    const size_t bytes = (size_t)a->n_block * QR_DECODE_WARPS * QR_DECODE_MARKS * sizeof(long long);
    double *all = calloc((size_t)N_ROW * N_TIME * (size_t)n_step, sizeof *all);
    int n[N_ROW] = {0};
    if (!all || a->n_block > N_BLOCK || cudaMalloc((void **)&a->profile, bytes) != cudaSuccess)
        steps_fail("out of memory for a profile of %d blocks", a->n_block);
    a->profile_layer = layer;
    for (int step = -WARM; step < n_step; step++) {
        cudaMemset(a->profile, 0, bytes);
        cudaDeviceSynchronize();
        steps_by_kernel(s, INT32_MAX);
        steps_go_on(s);
        long long *at = steps_fetch(a->profile, bytes), begin = first_of(at, a->n_block, QR_DECODE_AT_X);
        if (begin == 0)
            steps_fail("the kernel left no marks in layer %d: was decode_step.cu built with -DQR_DECODE_PROFILE?",
                       layer);
        for (int r = 0; r < N_ROW && step >= 0; r++) {
            double time[N_TIME];
            if (!times_of(at, a->n_block, rows[r].mark, begin, time))
                continue;
            for (int k = 0; k < N_TIME; k++)
                all[(r * N_TIME + k) * n_step + n[r]] = time[k];
            n[r]++;
        }
        free(at);
    }
    printf("%-26s %8s %8s %8s\n", "us behind the first x", "first", "median", "last");
    for (int r = 0; r < N_ROW; r++) {
        if (n[r] == 0)
            continue;
        printf("%-26s", rows[r].name);
        for (int k = 0; k < N_TIME; k++)
            printf(" %8.2f", median_of(all + (r * N_TIME + k) * n_step, n[r]));
        printf("\n");
    }
    cudaFree(a->profile);
    a->profile = NULL;
    free(all);
}

int main(int argc, char **argv)
{
    static struct steps s;
    struct steps_options o = {.model = "dummy:qwen2.5-1.5b", .context = {128}, .n_seq = 1, .steps = 20, .layer = -1};
    steps_parse(argc, argv, usage, &o);
    const int n_step = o.steps;
    o.steps += WARM;
    if (o.stage || strcmp(o.model, "tiny") == 0)
        steps_fail("usage: %s", usage);
    steps_open(&s, &o, NULL);
    int layer = o.layer < 0 ? s.found.n_layer / 2 : o.layer;
    if (layer >= s.found.n_layer)
        steps_fail("--layer %d: the model has %d", layer, s.found.n_layer);
    printf("%s, layer %d of %d, context", o.model, layer, s.found.n_layer);
    for (int i = 0; i < o.n_seq; i++)
        printf(" %d", o.context[i]);
    printf(", %d blocks, medians of %d steps; a block is where its last warp is\n", s.exec->decode->args.n_block,
           n_step);
    profile(&s, layer, n_step);
    steps_close(&s);
    return 0;
}
