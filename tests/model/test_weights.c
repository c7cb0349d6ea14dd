/* Weights: every row of every view is the row of the source (by the formula of the rope permutation where the file is
 * interleaved), and sizes are known before loading. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/pack.h"
#include "common/tmp.h"
#include "model/synth.h"
#include "model/open_weights.h"

static const char *const shapes[] = {"tiny-llama", "tiny-llama3", "tiny-mistral", "tiny-qwen2", "tiny-qwen3"};
enum { N_SHAPE = sizeof(shapes) / sizeof(shapes[0]) };

/* Row r of a view as fp32, found through its storage's segments. */
static void view_row(const struct qr_weight *view, uint32_t r, float *out)
{
    const struct qr_storage *storage = view->storage;
    uint32_t row = view->row + r;
    for (int i = 0; i < storage->n_segment; i++) {
        const struct qr_segment *s = &storage->segment[i];
        if (row < s->row || row >= s->row + s->n_row)
            continue;
        assert_int_equal(s->packing, QR_PANEL16);
        assert_int_equal((uintptr_t)s->data % 64, 0);
        const uint8_t *panel =
            (const uint8_t *)s->data + (row - s->row) / QR_PANEL_ROWS * qr_panel_bytes(s->type, storage->n_col);
        qr_unpack_row(s->type, storage->n_col, panel, (int)((row - s->row) % QR_PANEL_ROWS), out);
        return;
    }
    fail_msg("row %u of %s is in no segment", r, view->name);
}

/* The source's row that a view's row must be. Interleaved files (Su et al., RoFormer, pair 2i with 2i+1; half-half pairs
 * i with i + head_dim/2): half p of pair i is row 2i + p. */
static uint64_t expected_row(const struct qr_config *c, bool interleaved, uint64_t r)
{
    uint64_t half = (uint64_t)c->head_dim / 2, head = r / (uint64_t)c->head_dim, at = r % (uint64_t)c->head_dim;
    return interleaved ? head * 2 * half + (at < half ? 2 * at : 2 * (at - half) + 1) : r;
}

static float *source_floats(const struct qr_source *source, const char *name, const char *suffix, uint64_t n_row,
                            uint64_t n_col)
{
    const struct qr_source_tensor *tensor;
    char full[128];
    struct qr_err err;
    snprintf(full, sizeof(full), "%s.%s", name, suffix);
    if (qr_source_find(source, full, n_row, n_col, &tensor, &err) != QR_OK)
        fail_msg("%s", err.message);
    void *raw = malloc(tensor->bytes);
    float *out = malloc(n_row * n_col * sizeof(float));
    assert_int_equal(qr_source_rows(source, tensor, 0, n_row, raw, &err), QR_OK);
    qr_dequant(tensor->type, raw, out, n_row * n_col);
    free(raw);
    return out;
}

static void check_view(const struct qr_source *source, const struct qr_weight *view, const char *tensor, bool rope)
{
    const struct qr_config *c = qr_source_config(source);
    bool interleaved = rope && qr_source_gguf(source) && c->arch == QR_ARCH_LLAMA;
    float *want = source_floats(source, tensor, "weight", view->n_row, view->n_col);
    float *got = malloc(view->n_col * sizeof(float));
    assert_int_equal(view->row % QR_PANEL_ROWS, 0);
    for (uint32_t r = 0; r < view->n_row; r++) {
        view_row(view, r, got);
        const float *row = want + expected_row(c, interleaved, r) * view->n_col;
        if (memcmp(got, row, view->n_col * sizeof(float)) != 0)
            fail_msg("row %u of %s differs", r, view->name);
    }
    free(want);
    free(got);
    if (view->bias) {
        want = source_floats(source, tensor, "bias", 1, view->n_row);
        for (uint32_t r = 0; r < view->n_row; r++)
            assert_true(view->bias[r] == want[expected_row(c, interleaved, r)]);
        free(want);
    }
}

static void check_vector(const struct qr_source *source, const struct qr_vector *vector, const char *name, uint32_t n)
{
    float *want = source_floats(source, name, "weight", 1, n);
    assert_int_equal(vector->n, n);
    assert_memory_equal(vector->data, want, n * sizeof(float));
    free(want);
}

static void check_all(const struct qr_source *source, const struct qr_weights *w)
{
    const struct qr_config *c = qr_source_config(source);
    uint32_t n_embd = (uint32_t)c->n_embd, head_dim = (uint32_t)c->head_dim;
    check_view(source, &w->embd, "token_embd", false);
    check_view(source, &w->head, c->tie_embd ? "token_embd" : "output", false);
    assert_true((w->head.storage == w->embd.storage) == c->tie_embd);
    check_vector(source, &w->output_norm, "output_norm", n_embd);
    for (int i = 0; i < c->n_layer; i++) {
        const struct qr_layer_weights *l = &w->layer[i];
        const struct {
            const struct qr_weight *view;
            const char *name;
            bool bias, rope;
        } view[] = {{&l->q, "attn_q", c->qkv_bias, true},       {&l->k, "attn_k", c->qkv_bias, true},
                    {&l->v, "attn_v", c->qkv_bias, false},      {&l->o, "attn_output", c->o_bias, false},
                    {&l->gate, "ffn_gate", c->mlp_bias, false}, {&l->up, "ffn_up", c->mlp_bias, false},
                    {&l->down, "ffn_down", c->mlp_bias, false}};
        char name[64];
        for (size_t k = 0; k < sizeof(view) / sizeof(view[0]); k++) {
            snprintf(name, sizeof(name), "blk.%d.%s", i, view[k].name);
            assert_string_equal(view[k].view->name, name);
            assert_true((view[k].view->bias != NULL) == view[k].bias);
            check_view(source, view[k].view, name, view[k].rope);
        }
        snprintf(name, sizeof(name), "blk.%d.attn_norm", i);
        check_vector(source, &l->attn_norm, name, n_embd);
        snprintf(name, sizeof(name), "blk.%d.ffn_norm", i);
        check_vector(source, &l->ffn_norm, name, n_embd);
        assert_true((l->q_norm.data != NULL) == c->qk_norm && (l->k_norm.data != NULL) == c->qk_norm);
        if (c->qk_norm) {
            snprintf(name, sizeof(name), "blk.%d.attn_q_norm", i);
            check_vector(source, &l->q_norm, name, head_dim);
            snprintf(name, sizeof(name), "blk.%d.attn_k_norm", i);
            check_vector(source, &l->k_norm, name, head_dim);
        }
        /* q, k, v and gate, up stand one after the other in one storage; biases likewise */
        assert_ptr_equal(l->q.storage, l->k.storage);
        assert_ptr_equal(l->q.storage, l->v.storage);
        assert_int_equal(l->k.row, l->q.n_row);
        assert_int_equal(l->v.row, l->q.n_row + l->k.n_row);
        assert_ptr_equal(l->gate.storage, l->up.storage);
        assert_int_equal(l->up.row, l->gate.n_row);
        if (c->qkv_bias)
            assert_true(l->k.bias == l->q.bias + l->k.row && l->v.bias == l->q.bias + l->v.row);
    }
}

/* What the slots of one layout take, summed from the views' storages, each once. */
static uint64_t storage_bytes(const struct qr_weights *w, uint64_t by_type[QR_N_DTYPE])
{
    const struct qr_storage *list[256];
    int n = 0;
    uint64_t sum = 0;
    list[n++] = w->embd.storage;
    if (w->head.storage != w->embd.storage)
        list[n++] = w->head.storage;
    for (int i = 0; i < w->config->n_layer; i++) {
        list[n++] = w->layer[i].q.storage;
        list[n++] = w->layer[i].o.storage;
        list[n++] = w->layer[i].gate.storage;
        list[n++] = w->layer[i].down.storage;
    }
    for (int i = 0; i < n; i++) {
        uint32_t row = 0;
        for (int k = 0; k < list[i]->n_segment; k++) {
            const struct qr_segment *s = &list[i]->segment[k];
            assert_int_equal(s->row, row);
            uint64_t panels = (s->n_row + QR_PANEL_ROWS - 1) / QR_PANEL_ROWS;
            assert_int_equal(s->bytes, panels * qr_panel_bytes(s->type, list[i]->n_col));
            row += s->n_row;
            sum += s->bytes;
            by_type[s->type] += s->bytes;
        }
        assert_int_equal(row, list[i]->n_row);
    }
    return sum;
}

static void random_weights(void **state)
{
    static const enum qr_dtype types[] = {QR_F32, QR_F16, QR_BF16, QR_Q8_0, QR_Q4_0, QR_Q4_1};
    (void)state;
    for (int i = 0; i < N_SHAPE; i++) {
        struct qr_config config = shape_config(shapes[i]);
        for (int k = 0; k < 6; k++) {
            struct qr_source *source = random_source(&config, types[k]);
            struct qr_weights *weights = load(source, false, 2);
            check_all(source, weights);
            qr_weights_free(weights);
            qr_source_close(source);
        }
    }
}

static void biases_everywhere(void **state)
{
    struct qr_config config = shape_config("tiny-llama");
    const char *path = tmp_path(state, "biased.gguf");
    struct qr_err err;
    config.qkv_bias = config.o_bias = config.mlp_bias = true;
    struct qr_source *source = random_source(&config, QR_F32);
    struct qr_weights *weights = load(source, false, 1);
    check_all(source, weights);
    qr_weights_free(weights);
    qr_source_close(source);

    assert_int_equal(qr_synth_write(&config, 1, QR_F32, path, 0, false, NULL, NULL, &err), QR_OK);
    source = open_source(path);
    weights = load(source, false, 1);
    check_all(source, weights);
    qr_weights_free(weights);
    qr_source_close(source);
}

/* how: as for qr_source_quantise */
static void every_format(void **state, const char *how)
{
    for (int i = 0; i < N_SHAPE; i++) {
        struct qr_config config = shape_config(shapes[i]);
        struct qr_source *source[3];
        struct qr_weights *weights[3];
        char name[64];
        struct qr_err err;
        source[0] = random_source(&config, QR_BF16);
        for (int k = 1; k < 3; k++) {
            snprintf(name, sizeof(name), "%s%s", shapes[i], k == 1 ? "" : ".gguf");
            const char *path = tmp_path(state, name);
            assert_int_equal(qr_synth_write(&config, 3, QR_BF16, path, 0, false, NULL, NULL, &err), QR_OK);
            source[k] = open_source(path);
        }
        for (int k = 0; k < 3; k++) {
            assert_int_equal(qr_source_quantise(source[k], how, &err), QR_OK);
            weights[k] = load(source[k], false, k + 1);
            if (how)
                assert_int_equal(weights[k]->layer[0].q.storage->segment->type, QR_FP8);
            else
                check_all(source[k], weights[k]);
            qr_source_close(source[k]); /* weights outlive it */
        }
        for (int k = 1; k < 3; k++) {
            for (int l = 0; l < config.n_layer; l++) {
                const struct qr_segment *a = weights[0]->layer[l].q.storage->segment,
                                        *b = weights[k]->layer[l].q.storage->segment;
                assert_int_equal(a->bytes, b->bytes);
                assert_memory_equal(a->data, b->data, a->bytes);
                if (config.qkv_bias)
                    assert_memory_equal(weights[0]->layer[l].q.bias, weights[k]->layer[l].q.bias,
                                        weights[0]->layer[l].q.n_row * sizeof(float));
            }
        }
        assert_true((weights[2]->rope_freq_factors.data != NULL) == (config.rope.kind == QR_ROPE_LLAMA3));
        for (int k = 0; k < 3; k++)
            qr_weights_free(weights[k]);
    }
}

static void same_bits_from_every_format(void **state)
{
    every_format(state, NULL);
}

/* What the numbers are is told by tests/conformance/test_quantised.py. */
static void same_fp8_from_every_format(void **state)
{
    every_format(state, "fp8");
}

static void refuses_to_quantise(void **state)
{
    struct qr_config config = shape_config("tiny-qwen2");
    struct qr_source *source = random_source(&config, QR_Q8_0);
    struct qr_err err;
    (void)state;
    assert_int_equal(qr_source_quantise(source, "fp8", &err), QR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Q8_0"));
    assert_int_equal(qr_source_quantise(source, "int3", &err), QR_INVALID);
    assert_int_equal(qr_source_quantise(source, "none", &err), QR_OK);
    qr_source_close(source);
}

static void headers_tell_all(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * N_SHAPE; i++) {
        struct qr_config config = shape_config(shapes[i / 2]);
        struct qr_source *source = random_source(&config, i % 2 ? QR_BF16 : QR_Q8_0);
        assert_int_equal(qr_source_quantise(source, i % 2 ? "fp8" : NULL, NULL), QR_OK);
        struct qr_weights *dry = load(source, true, 1), *wet = load(source, false, 1);
        uint64_t by_type[QR_N_DTYPE] = {0}, again[QR_N_DTYPE] = {0}, all = 0;
        uint64_t matrices = storage_bytes(dry, by_type);
        assert_int_equal(storage_bytes(wet, again), matrices);
        assert_memory_equal(by_type, again, sizeof(by_type));
        assert_int_equal(dry->bytes, wet->bytes);
        assert_memory_equal(dry->bytes_by_type, wet->bytes_by_type, sizeof(by_type));
        for (int k = 0; k < QR_N_DTYPE; k++) {
            all += dry->bytes_by_type[k];
            if (k != QR_F32)
                assert_int_equal(dry->bytes_by_type[k], by_type[k]);
        }
        assert_int_equal(all, dry->bytes);
        assert_true(dry->bytes > matrices); /* norms */
        assert_null(dry->embd.storage->segment[0].data);
        assert_null(dry->layer[0].down.storage->segment[0].data);
        assert_non_null(wet->embd.storage->segment[0].data);
        assert_int_equal(dry->layer[1].v.row, wet->layer[1].v.row);
        qr_weights_free(dry);
        qr_weights_free(wet);
        qr_source_close(source);
    }
}

static void vocabulary_of_no_round_number(void **state)
{
    struct qr_config config = shape_config("tiny-llama");
    (void)state;
    config.n_vocab = 321;
    struct qr_source *source = random_source(&config, QR_F16);
    struct qr_weights *weights = load(source, false, 2);
    check_all(source, weights);
    assert_int_equal(weights->embd.n_row, 321);
    assert_int_equal(weights->embd.storage->segment[0].bytes, 21 * qr_panel_bytes(QR_F16, 64));
    qr_weights_free(weights);
    qr_source_close(source);
}

/* Bytes of this process in memory. */
static int64_t resident(void)
{
    long long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lld %lld", &size, &pages), 2);
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Loading takes what the headers promised: the file's pages are let go while it is read. */
static void check_resident(int64_t before, uint64_t bytes)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)before;
    (void)bytes;
#else
    double ratio = (double)(resident() - before) / (double)bytes;
    if (ratio < 0.98 || ratio > 1.02)
        fail_msg("loading took %.3f of the bytes that were promised", ratio);
#endif
}

static void default_model(void **state)
{
    const char *path = default_model_path();
    (void)state;
    if (!path)
        skip();
    struct qr_source *source = open_source(path);
    struct qr_weights *dry = load(source, true, 1);
    int64_t before = resident();
    struct qr_weights *weights = load(source, false, 2);
    check_resident(before, weights->bytes);
    const struct qr_config *c = weights->config;
    const struct qr_layer_weights *last = &weights->layer[c->n_layer - 1];
    assert_int_equal(dry->bytes, weights->bytes);
    check_view(source, &last->q, "blk.29.attn_q", true);
    check_view(source, &last->k, "blk.29.attn_k", true);
    check_view(source, &last->v, "blk.29.attn_v", false);
    check_view(source, &last->down, "blk.29.ffn_down", false);
    check_view(source, &weights->layer[7].up, "blk.7.ffn_up", false);
    check_view(source, &weights->head, "token_embd", false);
    qr_weights_free(dry);
    qr_weights_free(weights);
    qr_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_weights),
        cmocka_unit_test_setup_teardown(biases_everywhere, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(same_bits_from_every_format, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(same_fp8_from_every_format, tmp_setup, tmp_teardown),
        cmocka_unit_test(refuses_to_quantise),
        cmocka_unit_test(headers_tell_all),
        cmocka_unit_test(vocabulary_of_no_round_number),
        cmocka_unit_test(default_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
