/* check.c - decode_check: many decode steps one behind another, the same tokens for both: are the logits of the persistent kernel those of
 * the plan's ops, launched one by one, bit for bit? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "cuda/decode/steps.h"

static const char usage[] = "decode_check [MODEL] [--quantization Q] [--convert] [--context N,N..] [--steps N]";

int main(int argc, char **argv)
{
    static struct steps s;
    struct steps_options o = {.model = "dummy:qwen2.5-1.5b", .context = {40}, .n_seq = 1, .steps = 2000, .layer = -1};
    long long differ = 0;
    steps_parse(argc, argv, usage, &o);
    if (o.stage || o.layer >= 0 || strcmp(o.model, "tiny") == 0)
        steps_fail("usage: %s", usage);
    steps_open(&s, &o, NULL);
    const size_t n = (size_t)s.n_seq * (size_t)s.n_vocab;
    float *got = malloc(n * sizeof *got);
    if (!got)
        steps_fail("out of memory");
    const double start = qr_now_s();
    for (int i = 0; i < o.steps; i++) { /* the ops write the same keys and values once more */
        long long before = differ;
        memcpy(got, steps_by_kernel(&s, INT32_MAX), n * sizeof *got);
        const float *want = steps_by_ops(&s, s.plan->n_op);
        for (size_t k = 0; k < n; k++)
            differ += memcmp(&got[k], &want[k], sizeof *got) != 0;
        if (before == 0 && differ)
            printf("step %d is the first to differ\n", i);
        steps_go_on(&s);
    }
    printf("%s%s%s%s, context", o.model, o.quantization ? ", " : "", o.quantization ? o.quantization : "",
           o.convert ? ", as bf16" : "");
    for (int i = 0; i < o.n_seq; i++)
        printf(" %d", o.context[i]);
    printf(": %d steps, %lld of %lld logits differ (%.0f s)\n", o.steps, differ, (long long)n * o.steps,
           qr_now_s() - start);
    free(got);
    steps_close(&s);
    return differ != 0;
}
