/* test_print.c - the page: what an op's line says, which layers are folded, and that the sums are those of the shapes. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "common/fault.h"
#include "plan/fake.h"
#include "plan/fuse.h"

/* The page of a fused fake plan, runs of blanks as one; malloc'ed. */
static char *page(const struct fake *fake, uint32_t mask, bool all_layers, bool colour)
{
    struct qr_plan *plan = fake_plan(fake), *fused;
    struct qr_buf buf;
    qr_buf_init(&buf, 0);
    assert_int_equal(qr_fuse(plan, mask, &fused, NULL), QR_OK);
    qr_plan_print(fused, all_layers, colour, &buf);
    assert_false(buf.failed);
    for (const char *line = buf.data; *line; line = strchr(line, '\n') + 1) {
        size_t n = strcspn(line, "\n");
        if (n > 125 && !colour)
            fail_msg("a line of %zu columns: %.*s", n, (int)n, line);
        assert_true(n == 0 || line[n - 1] != ' ');
    }
    size_t n = 0;
    for (size_t i = 0; i < buf.len; i++)
        if (buf.data[i] != ' ' || (n && buf.data[n - 1] != ' ' && buf.data[n - 1] != '\n'))
            buf.data[n++] = buf.data[i];
    buf.data[n] = 0;
    qr_plan_free(fused);
    qr_plan_free(plan);
    return buf.data;
}

static void assert_says(const char *page, const char *line)
{
    if (!strstr(page, line))
        fail_msg("'%s' is not in\n%s", line, page);
}

static int count(const char *page, const char *text)
{
    int n = 0;
    for (const char *p = page; (p = strstr(p, text)); p++)
        n++;
    return n;
}

static void an_unfused_page_reads_like_the_paper(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, true, false);
    char *text = page(&fake, 0, false, false);
    assert_says(text, "fake: 3 layers, n_embd 32, 4 heads on 2 KV heads of 16, vocabulary 40\n");
    assert_says(text, "fused: nothing\n");
    static const char *const LINE[] = {
        "\n0 EMBED [T, 32] x = W[token] token_embd [40, 32] F32 128 B\n",
        "\n1 MEAN_SQUARE [T, 1] ms = mean(x^2) of each 32\n",
        "\n2 RSQRT [T, 1] ms = 1 / sqrt(ms + 1e-05)\n",
        "\n3 SCALE_ROWS [T, 32] h = x * ms\n",
        "\n4 SCALE_COLS [T, 32] h *= w blk.N.attn_norm [32] 128 B\n",
        "\n5 LINEAR [T, 64] q = h W' + b blk.N.attn_q [64, 32] F32 8.448 KB\n", /* 64 * 32 * 4 + 64 * 4 */
        "\n6 LINEAR [T, 32] k = h W' + b blk.N.attn_k [32, 32] F32 4.224 KB\n",
        "\n8 ROPE [T, 64] q = rope(q) 4 heads of 16\n",
        "\n9 ROPE [T, 32] k = rope(k) 2 heads of 16\n",
        "\n10 KV_STORE [T, 32] K, V <- k, v 2 heads of 16\n",
        "\n11 ATTENTION [T, 64] attn = softmax(0.25 q K') V 4 heads on 2 of 16\n",
        "\n12 LINEAR [T, 32] o = attn W' blk.N.attn_output [32, 64] F32 8.192 KB\n",
        "\n13 ADD [T, 32] x += o\n",
        "SILU [T, 48] gate = silu(gate)\n",
        "MUL [T, 48] gate *= up\n",
        "GATHER [R, 32] last = the R rows of x\n",
        "LINEAR [R, 40] logits = h W' token_embd [40, 32] F32 5.12 KB\n",
    };
    for (size_t i = 0; i < sizeof LINE / sizeof LINE[0]; i++)
        assert_says(text, LINE[i]);
    free(text);
    fake_destroy(&fake);
}

static void a_fused_page_names_what_was_joined(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, false, true);
    char *text = page(&fake, QR_FUSE_ALL, false, false);
    static const char *const LINE[] = {
        "fused: merge, rmsnorm, add-rmsnorm, rope-store, qk-norm, silu-mul\n",
        "RMSNORM [T, 32] h = rmsnorm(x) * w blk.N.attn_norm [32] 128 B\n",
        "LINEAR [T, 128] qkv = h W' blk.N.attn_qkv [128, 32] F32 16.38 KB\n",
        "ROPE_STORE [T, 64] q = rope(norm q); K, V <- rope(norm k), v blk.N.attn_q_norm, attn_k_norm [16] 128 B\n",
        "ADD_RMSNORM [T, 32] x += o; h = rmsnorm(x) * w blk.N.ffn_norm [32] 128 B\n",
        "SILU_MUL [T, 48] gate = silu(gate) * up\n",
    };
    for (size_t i = 0; i < sizeof LINE / sizeof LINE[0]; i++)
        assert_says(text, LINE[i]);
    free(text);
    fake_destroy(&fake);
}

/* Layer 1 has a window in the fake model, so 0 and 2 are alike and 1 is not. */
static void layers_that_are_alike_are_printed_once(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, false, false);
    char *text = page(&fake, 0, false, false);
    assert_says(text, "\nlayers 0, 2, each:\n");
    assert_says(text, "\nlayer 1:\n");
    assert_says(text, "4 heads on 2 of 16, last 3 keys\n");
    assert_int_equal(count(text, " ATTENTION ") + count(text, "\nATTENTION "), 2);
    free(text);

    text = page(&fake, 0, true, false);
    assert_says(text, "\nlayer 0:\n");
    assert_says(text, "\nlayer 2:\n");
    assert_says(text, "blk.2.ffn_down [32, 48] F32");
    assert_int_equal(count(text, " ATTENTION "), FAKE_LAYERS);
    assert_int_equal(count(text, "blk.N."), 0);
    free(text);
    fake_destroy(&fake);
}

static void layers_of_other_types_are_told_apart(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, false, false);
    struct qr_storage mixed = *fake.q[2].storage; /* k and q in F32, v in F16: half the bytes */
    struct qr_segment segment[2] = {{QR_F32, QR_ROWS, 0, 96, NULL, 96 * 32 * 4},
                                    {QR_F16, QR_ROWS, 96, 32, NULL, 32 * 32 * 2}};
    mixed.n_segment = 2;
    mixed.segment = segment;
    fake.q[2].storage = fake.k[2].storage = fake.v[2].storage = &mixed;
    char *text = page(&fake, QR_FUSE_MERGE, false, false);
    assert_says(text, "\nlayer 0:\n");
    assert_says(text, "\nlayer 2:\n");
    assert_says(text, "blk.N.attn_qkv [128, 32] F32+F16 14.34 KB\n"); /* 12288 + 2048 */
    free(text);
    text = page(&fake, 0, false, false);
    assert_says(text, "blk.N.attn_v [32, 32] F16 2.048 KB\n");
    free(text);
    fake_destroy(&fake);
}

static void totals_are_those_of_the_shapes(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, false, false);
    char want[256], *text = page(&fake, 0, false, false);
    const double layer = 4.0 * (2 * 32 + (64 + 2 * 32) * 32 + 32 * 64 + 3 * 48 * 32), rest = 4.0 * (32 + 32 + 40 * 32);
    snprintf(want, sizeof want,
             "ops a step; weights read for one token: %.4g KB (layers %.4g KB, embedding and head %.4g KB)\n",
             (3 * layer + rest) / 1000, 3 * layer / 1000, rest / 1000);
    assert_says(text, want);
    assert_says(text,
                "keys and values of one token: 2 * 3 * 2 * 16 = 192 numbers, 384 B in f16 or bf16, 768 B in f32\n");
    free(text);
    fake_destroy(&fake);
}

static void colours_change_no_column(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, false, false);
    char *plain = page(&fake, QR_FUSE_ALL, false, false), *colour = page(&fake, QR_FUSE_ALL, false, true);
    size_t n = 0;
    for (const char *p = colour; *p; p++) { /* take the escapes out again */
        if (*p == '\033')
            p = strchr(p, 'm');
        else
            colour[n++] = *p;
    }
    colour[n] = 0;
    assert_string_equal(colour, plain);
    free(colour);
    free(plain);
    fake_destroy(&fake);
}

static bool print(void *ctx)
{
    struct qr_buf buf;
    qr_buf_init(&buf, 0);
    qr_plan_print(ctx, false, false, &buf);
    bool ok = !buf.failed;
    qr_buf_free(&buf);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    if (!fault_works())
        skip();
    struct fake fake;
    fake_create(&fake, false, false);
    struct qr_plan *plan = fake_plan(&fake);
    assert_true(fault_torture(print, plan, FAULT_ALLOC, 0) > 10);
    qr_plan_free(plan);
    fake_destroy(&fake);
}

/* Of the pairs of a head of 16 the last two stand still; in the middle one of frequency 0 turns, so to say. */
static void a_head_that_turns_in_part_says_so(void **state)
{
    static const float SIX[8] = {1, 0.5f, 0, 0.1f, 0.05f, 0.01f}, LOCAL[8] = {1, 0.5f, 0.1f, 0.05f};
    (void)state;
    struct fake fake;
    fake_create(&fake, false, false);
    struct qr_plan *plan = fake_plan(&fake);
    plan->inv_freq = SIX;
    plan->inv_freq_local = LOCAL;
    plan->op[9].local = true;
    struct qr_buf buf;
    qr_buf_init(&buf, 0);
    assert_int_equal(plan->op[9].code, QR_OP_ROPE);
    qr_plan_print(plan, true, false, &buf);
    assert_false(buf.failed);
    assert_says(buf.data, "4 heads of 16, 12 numbers turn\n");
    assert_says(buf.data, "2 heads of 16, 8 numbers turn, local frequencies\n");
    assert_int_equal(count(buf.data, "numbers turn"), 2 * 3);
    qr_buf_free(&buf);
    qr_plan_free(plan);
    fake_destroy(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unfused_page_reads_like_the_paper),
        cmocka_unit_test(a_fused_page_names_what_was_joined),
        cmocka_unit_test(layers_that_are_alike_are_printed_once),
        cmocka_unit_test(layers_of_other_types_are_told_apart),
        cmocka_unit_test(totals_are_those_of_the_shapes),
        cmocka_unit_test(colours_change_no_column),
        cmocka_unit_test(a_head_that_turns_in_part_says_so),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
