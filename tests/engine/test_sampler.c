/* test_sampler.c - the sampler against a reference that sorts and adds in double, written from the formulas in
 * sampler.h; the distribution of draws; log-probabilities and ranks against their definition. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/rand.h"
#include "engine/logits.h"
#include "engine/sampler.h"
#include "engine/select.h"

enum { V = 1203 }; /* no multiple of any block */

static float logits[V];

/* Normal numbers with some exact ties among them. */
static void fill(uint64_t seed, float deviation)
{
    qr_rand_normal(seed, 0, deviation, logits, V);
    for (int i = 0; i < V; i += 3)
        logits[i] = roundf(logits[i] * 4) / 4;
}

static struct qr_sampling neutral(void)
{
    return (struct qr_sampling){
        .temperature = 1, .top_p = 1, .repetition_penalty = 1, .max_tokens = -1, .logprobs = -1, .prompt_logprobs = -1};
}

static struct qr_pick pick_of(const struct qr_sampling *params, uint64_t seed, uint32_t position)
{
    return (struct qr_pick){.params = params, .seed = seed, .position = position};
}

static int32_t pick(struct qr_sampler *s, const struct qr_pick *p)
{
    int32_t id = -1;
    struct qr_err err = {0};
    if (qr_sampler_pick(s, logits, p, &id, &err) != QR_OK)
        fail_msg("%s", err.message);
    return id;
}

/* ---------------------------------------------------------------- the reference */

struct ref {
    int32_t id;
    double p;
};

static int better(const void *a, const void *b)
{
    const struct ref *x = a, *y = b;
    if (x->p != y->p)
        return x->p > y->p ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static int by_id(const void *a, const void *b)
{
    const struct ref *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The tokens that the filters leave, best first; returns how many. l: logits after bias and penalties. */
static int reference(const double *l, const struct qr_sampling *p, struct ref *out)
{
    double max = -INFINITY, total = 0, sum = 0;
    int n = V, kept = 0;
    for (int i = 0; i < V; i++)
        max = l[i] > max ? l[i] : max;
    for (int i = 0; i < V; i++)
        out[i] = (struct ref){i, exp((l[i] - max) / (double)p->temperature)};
    qsort(out, V, sizeof *out, better);
    if (p->top_k > 0 && p->top_k < n)
        n = p->top_k;
    for (int i = 0; i < n; i++)
        total += out[i].p;
    if (p->top_p < 1) {
        while (kept < n && (kept == 0 || sum < (double)p->top_p * total))
            sum += out[kept++].p;
        n = kept;
    }
    for (kept = 0; kept < n && out[kept].p >= (double)p->min_p; kept++)
        ;
    return kept;
}

/* Is id what u picks? Up to rounding: u may lie 1e-5 beside the token's interval. */
static void check_pick(struct ref *kept, int n, double u, int32_t id)
{
    double total = 0, sum = 0;
    qsort(kept, (size_t)n, sizeof *kept, by_id);
    for (int i = 0; i < n; i++)
        total += kept[i].p;
    for (int i = 0; i < n; sum += kept[i++].p)
        if (kept[i].id == id) {
            assert_true(u >= sum / total - 1e-5 && u <= (sum + kept[i].p) / total + 1e-5);
            return;
        }
    fail_msg("token %d was filtered out", id);
}

static void every_filter_against_the_reference(void **state)
{
    static const float temperatures[] = {0.3f, 1, 2.5f, 100}, top_ps[] = {1, 0.999f, 0.9f, 0.5f, 0.01f},
                       min_ps[] = {0, 0.02f, 0.4f, 1};
    static const int top_ks[] = {0, -1, 1, 2, 40, 1200, V, V + 5};
    static struct ref kept[V];
    static double l[V];
    struct qr_sampler *s;
    (void)state;
    assert_int_equal(qr_sampler_create(V, &s, NULL), QR_OK);
    for (int t = 0; t < 4; t++)
        for (int k = 0; k < 8; k++)
            for (int a = 0; a < 5; a++)
                for (int m = 0; m < 4; m++) {
                    struct qr_sampling p = neutral();
                    uint32_t position = (uint32_t)(((t * 8 + k) * 5 + a) * 4 + m);
                    fill(position, 3);
                    for (int i = 0; i < V; i++)
                        l[i] = (double)logits[i];
                    p.temperature = temperatures[t];
                    p.top_k = top_ks[k];
                    p.top_p = top_ps[a];
                    p.min_p = min_ps[m];
                    int n = reference(l, &p, kept);
                    for (uint32_t draw = 0; draw < 5; draw++) {
                        struct qr_pick in = pick_of(&p, 99, position * 5 + draw);
                        check_pick(kept, n, (double)qr_rand_uniform(99, 0, in.position), pick(s, &in));
                    }
                }
    qr_sampler_destroy(s);
}

/* The penalties as transformers (RepetitionPenaltyLogitsProcessor) and OpenAI's API reference define them. */
static void bias_and_penalties(void **state)
{
    static const int32_t prompt[] = {5, 9, 5, 100}, output[] = {9, 200, 200, 200, 7};
    static const struct qr_logit_bias bias[] = {{9, 2.5f}, {300, -100}, {301, 4}, {9, 0.5f}};
    static struct ref kept[V];
    static double l[V];
    struct qr_sampler *s;
    struct qr_tally tally;
    (void)state;
    assert_int_equal(qr_sampler_create(V, &s, NULL), QR_OK);
    assert_int_equal(qr_tally_init(&tally, 9, NULL), QR_OK);
    for (int i = 0; i < 4; i++)
        qr_tally_count(&tally, prompt[i], false);
    for (int i = 0; i < 5; i++)
        qr_tally_count(&tally, output[i], true);
    assert_int_equal(tally.n, 5);
    for (uint32_t round = 0; round < 200; round++) {
        struct qr_sampling p = neutral();
        fill(round, 2);
        for (int i = 0; i < 4; i++) /* make what is penalised likely */
            logits[prompt[i]] += 6;
        logits[200] += 6;
        logits[7] = -logits[7] - 1;
        p.repetition_penalty = 1.3f;
        p.presence_penalty = 0.7f;
        p.frequency_penalty = -0.4f;
        p.logit_bias = bias;
        p.n_logit_bias = 4;
        for (int i = 0; i < V; i++) {
            int in_prompt = i == 5 || i == 9 || i == 100, count = i == 9 || i == 7 ? 1 : i == 200 ? 3 : 0;
            l[i] = (double)logits[i] + (i == 9 ? 3 : i == 300 ? -100 : i == 301 ? 4 : 0);
            if (in_prompt || count)
                l[i] = l[i] > 0 ? l[i] / 1.3 : l[i] * 1.3;
            l[i] -= -0.4 * count + (count ? 0.7 : 0);
        }
        int n = reference(l, &p, kept);
        struct qr_pick in = pick_of(&p, 7, round);
        in.count = tally.entry;
        in.n_count = tally.n;
        check_pick(kept, n, (double)qr_rand_uniform(7, 0, round), pick(s, &in));
        p.temperature = 0;
        struct ref best = {0};
        for (int i = 0; i < V; i++)
            if (i == 0 || l[i] > best.p)
                best = (struct ref){i, l[i]};
        assert_int_equal(pick(s, &in), best.id);
    }
    qr_tally_free(&tally);
    qr_sampler_destroy(s);
}

static void greedy_takes_the_lowest_id_among_equals(void **state)
{
    struct qr_sampler *s;
    struct qr_sampling p = neutral();
    struct qr_pick in = pick_of(&p, 0, 0);
    (void)state;
    assert_int_equal(qr_sampler_create(V, &s, NULL), QR_OK);
    p.temperature = 0;
    for (int at = 0; at < V; at += 7) {
        fill((uint64_t)at, 1);
        logits[at] = 50;
        for (int i = at + 1; i < V; i += 11)
            logits[i] = 50;
        assert_int_equal(pick(s, &in), at);
    }
    /* top_k 1 is greedy whatever the temperature, equals included */
    p.temperature = 5;
    p.top_k = 1;
    assert_int_equal(pick(s, &in), (V - 1) / 7 * 7);
    qr_sampler_destroy(s);
}

static void min_tokens_masks_the_ends(void **state)
{
    static const int32_t ends[] = {17, 2};
    struct qr_sampler *s;
    struct qr_sampling p = neutral();
    struct qr_pick in = pick_of(&p, 0, 0);
    (void)state;
    assert_int_equal(qr_sampler_create(V, &s, NULL), QR_OK);
    fill(1, 1);
    logits[17] = 40;
    logits[2] = 39;
    logits[1000] = 38;
    p.temperature = 0;
    p.min_tokens = 4;
    in.end_id = ends;
    in.n_end = 2;
    in.n_output = 3;
    assert_int_equal(pick(s, &in), 1000);
    in.n_output = 4;
    assert_int_equal(pick(s, &in), 17);
    qr_sampler_destroy(s);
}

/* Pearson's chi-square over the 20 likeliest tokens and the rest; 20 degrees of freedom: P(> 45.3) = 0.001. */
static void a_hundred_thousand_draws(void **state)
{
    enum { N = 100000, TOP = 20 };
    static struct ref kept[V];
    static double l[V];
    static int count[V];
    struct qr_sampler *s;
    struct qr_sampling p = neutral();
    double chi = 0, rest_p = 1, rest_n = N, total = 0;
    (void)state;
    assert_int_equal(qr_sampler_create(V, &s, NULL), QR_OK);
    fill(4, 2);
    for (int i = 0; i < V; i++)
        l[i] = (double)logits[i];
    p.temperature = 0.7f;
    p.top_k = 200;
    p.top_p = 0.95f;
    for (uint32_t i = 0; i < N; i++) {
        struct qr_pick in = pick_of(&p, 2024, i);
        count[pick(s, &in)]++;
    }
    int n = reference(l, &p, kept);
    for (int i = 0; i < n; i++)
        total += kept[i].p;
    assert_true(n > TOP);
    for (int i = 0; i < TOP; i++) {
        double q = kept[i].p / total, expected = q * N, got = count[kept[i].id];
        chi += (got - expected) * (got - expected) / expected;
        rest_p -= q;
        rest_n -= got;
    }
    chi += (rest_n - rest_p * N) * (rest_n - rest_p * N) / (rest_p * N);
    assert_true(chi < 45.3);
    qr_sampler_destroy(s);
}

static void a_draw_depends_on_seed_choice_and_position_only(void **state)
{
    struct qr_sampler *a, *b;
    struct qr_sampling p = neutral();
    int differ[3] = {0};
    (void)state;
    assert_int_equal(qr_sampler_create(V, &a, NULL), QR_OK);
    assert_int_equal(qr_sampler_create(V, &b, NULL), QR_OK);
    fill(8, 1);
    for (uint32_t i = 0; i < 100; i++) {
        struct qr_pick in = pick_of(&p, 5, i), seed = pick_of(&p, 6, i), choice = in, position = pick_of(&p, 5, i + 1);
        choice.choice = 1;
        int32_t id = pick(a, &in);
        assert_int_equal(id, pick(b, &in));
        differ[0] += id != pick(b, &seed);
        differ[1] += id != pick(b, &choice);
        differ[2] += id != pick(b, &position);
        assert_int_equal(id, pick(a, &in));
    }
    for (int i = 0; i < 3; i++)
        assert_true(differ[i] > 90);
    qr_sampler_destroy(a);
    qr_sampler_destroy(b);
}

static void what_cannot_be_sampled(void **state)
{
    static struct qr_logit_bias bias[1] = {{3, 1}};
    static const float bad[] = {NAN, INFINITY};
    struct qr_sampler *s;
    struct qr_sampling p = neutral();
    struct qr_pick in = pick_of(&p, 0, 12);
    struct qr_err err;
    int32_t id;
    (void)state;
    assert_int_equal(qr_sampler_create(V, &s, NULL), QR_OK);
    p.logit_bias = bias;
    for (int b = 0; b < 2; b++)
        for (int at = 0; at < V; at += 13) {
            fill(3, 1);
            logits[at] = bad[b];
            struct qr_top top[1];
            struct qr_token_logprob out = {.top = top};
            p.n_logit_bias = at % 2;
            p.temperature = (float)(at % 3);
            assert_int_equal(qr_sampler_pick(s, logits, &in, &id, &err), QR_INTERNAL);
            assert_non_null(strstr(err.message, "position 12"));
            assert_int_equal(qr_sampler_logprob(s, logits, 0, 1, &out, &err), QR_INTERNAL);
        }
    for (int i = 0; i < V; i++)
        logits[i] = -INFINITY;
    assert_int_equal(qr_sampler_pick(s, logits, &in, &id, &err), QR_INVALID);
    logits[77] = 0;
    p.temperature = 1;
    assert_int_equal(pick(s, &in), 77);
    qr_sampler_destroy(s);
}

static void logprobs_and_ranks(void **state)
{
    struct qr_sampler *s;
    struct qr_top top[QR_MAX_TOP];
    static struct ref sorted[V];
    (void)state;
    assert_int_equal(qr_sampler_create(V, &s, NULL), QR_OK);
    for (uint64_t round = 0; round < 50; round++) {
        fill(round, round % 2 ? 4 : 0.1f);
        double sum = 0;
        for (int i = 0; i < V; i++) {
            sum += exp((double)logits[i]);
            sorted[i] = (struct ref){i, (double)logits[i]};
        }
        qsort(sorted, V, sizeof *sorted, better);
        for (int r = 0; r < V; r += 97) {
            int n_top = (int)(round % (QR_MAX_TOP + 1));
            struct qr_token_logprob out = {.top = top};
            assert_int_equal(qr_sampler_logprob(s, logits, sorted[r].id, n_top, &out, NULL), QR_OK);
            assert_int_equal(out.id, sorted[r].id);
            assert_int_equal(out.rank, r);
            assert_int_equal(out.n_top, n_top);
            assert_true(fabs((double)out.logprob - (sorted[r].p - log(sum))) < 2e-6);
            for (int i = 0; i < n_top; i++) {
                assert_int_equal(top[i].id, sorted[i].id);
                assert_true(fabs((double)top[i].logprob - (sorted[i].p - log(sum))) < 2e-6);
            }
        }
    }
    qr_sampler_destroy(s);
}

static void the_exponential(void **state)
{
    double worst = 0;
    (void)state;
    for (float x = 0; x > -86.9f; x -= 0.00037f) {
        double error = fabs((double)qr_exp_neg(x) / exp((double)x) - 1);
        worst = error > worst ? error : worst;
    }
    assert_true(worst < 2e-7);
    assert_true(qr_exp_neg(0) == 1.0f);
    assert_true(qr_exp_neg(-1000) == 0.0f && qr_exp_neg(-INFINITY) == 0.0f);
}

static void the_kth_largest(void **state)
{
    static struct qr_select_scratch scratch;
    static struct ref sorted[V];
    (void)state;
    for (uint64_t round = 0; round < 10; round++) {
        fill(round, round < 5 ? 1 : 1e-3f);
        logits[5] = -0.0f;
        logits[6] = 0.0f;
        logits[7] = -INFINITY;
        for (int i = 0; i < V; i++)
            sorted[i] = (struct ref){i, (double)logits[i]};
        qsort(sorted, V, sizeof *sorted, better);
        for (int k = 1; k <= V; k += 1 + k / 20) {
            int n_equal, above = 0;
            float threshold = qr_select_threshold(logits, V, k, &n_equal, &scratch);
            assert_true((double)threshold == sorted[k - 1].p);
            while (sorted[above].p > (double)threshold)
                above++;
            assert_int_equal(n_equal, k - above);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_filter_against_the_reference),
        cmocka_unit_test(bias_and_penalties),
        cmocka_unit_test(greedy_takes_the_lowest_id_among_equals),
        cmocka_unit_test(min_tokens_masks_the_ends),
        cmocka_unit_test(a_hundred_thousand_draws),
        cmocka_unit_test(a_draw_depends_on_seed_choice_and_position_only),
        cmocka_unit_test(what_cannot_be_sampled),
        cmocka_unit_test(logprobs_and_ranks),
        cmocka_unit_test(the_exponential),
        cmocka_unit_test(the_kth_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
