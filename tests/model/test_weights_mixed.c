/* Storages of several types: GGUF files often keep v finer than q and k. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/pack.h"
#include "common/tmp.h"
#include "model/make_gguf.h"
#include "model/weights.h"

static enum qr_dtype type_of(const struct qr_source_tensor *t, const char *const *rule)
{
    enum qr_dtype type = t->type;
    for (; *rule; rule += 2)
        if (strstr(t->name, rule[0]))
            assert_true(qr_dtype_from_name(rule[1], &type));
    return type;
}

/* The random source's F32 tensors, each in the type that the last fitting rule says. A tiny-qwen3's keys. */
static void write_gguf(const char *path, const struct qr_source *source, const char *const *rule)
{
    const struct qr_config *c = qr_source_config(source);
    struct make_gguf m;
    struct qr_err err;
    mk_init(&m);
    mk_str(&m, "general.architecture", "qwen3");
    mk_f32(&m, "qwen3.attention.layer_norm_rms_epsilon", c->norm_eps);
    mk_u32(&m, "qwen3.block_count", (uint32_t)c->n_layer);
    mk_u32(&m, "qwen3.context_length", (uint32_t)c->max_len);
    mk_u32(&m, "qwen3.embedding_length", (uint32_t)c->n_embd);
    mk_u32(&m, "qwen3.feed_forward_length", (uint32_t)c->n_ff);
    mk_u32(&m, "qwen3.attention.head_count", (uint32_t)c->n_head);
    mk_u32(&m, "qwen3.attention.head_count_kv", (uint32_t)c->n_kv_head);
    mk_u32(&m, "qwen3.attention.key_length", (uint32_t)c->head_dim);
    mk_u32(&m, "qwen3.attention.value_length", (uint32_t)c->head_dim);
    for (uint64_t i = 0; i < qr_source_n_tensor(source); i++) {
        const struct qr_source_tensor *t = qr_source_at(source, i);
        enum qr_dtype type = type_of(t, rule);
        uint64_t n = t->n_row * t->n_col, bytes = qr_row_bytes(type, t->n_col) * t->n_row;
        uint64_t dim[2] = {t->n_col, t->n_row};
        float *x = malloc(n * sizeof(float));
        void *q = malloc(bytes);
        assert_int_equal(qr_source_rows(source, t, 0, t->n_row, x, &err), QR_OK);
        assert_true(qr_quant(type, x, q, n));
        mk_tensor(&m, t->name, (uint32_t)qr_dtype_info(type)->ggml_type, t->n_row == 1 ? 1 : 2, dim, q, bytes);
        free(x);
        free(q);
    }
    mk_finish(&m);
    assert_int_equal(qr_write_file(path, m.file.data, m.file.len, &err), QR_OK);
    mk_free(&m);
}

static void check_rows(const struct qr_source *source, const struct qr_weight *view)
{
    const struct qr_source_tensor *t;
    const struct qr_segment *s = view->storage->segment;
    char name[96];
    struct qr_err err;
    snprintf(name, sizeof(name), "%s.weight", view->name);
    assert_int_equal(qr_source_find(source, name, view->n_row, view->n_col, &t, &err), QR_OK);
    while (view->row >= s->row + s->n_row)
        s++;
    assert_int_equal(s->type, t->type);
    uint8_t *raw = malloc(t->bytes / t->n_row);
    float *want = malloc(t->n_col * sizeof(float)), *got = malloc(t->n_col * sizeof(float));
    for (uint32_t r = 0; r < view->n_row; r++) {
        uint32_t at = view->row - s->row + r;
        assert_int_equal(qr_source_rows(source, t, r, 1, raw, &err), QR_OK);
        qr_dequant(t->type, raw, want, t->n_col);
        qr_unpack_row(s->type, t->n_col, (const uint8_t *)s->data + at / 16 * qr_panel_bytes(s->type, t->n_col),
                      (int)(at % 16), got);
        assert_memory_equal(got, want, t->n_col * sizeof(float));
    }
    free(raw);
    free(want);
    free(got);
}

static void load_mixed(void **state, const char *const *rule, int n_qkv, int n_gate_up)
{
    struct qr_config config;
    struct qr_source *random, *source;
    struct qr_weights *weights;
    struct qr_err err;
    const char *path = tmp_path(state, "mixed.gguf");
    assert_int_equal(qr_config_from_shape("tiny-qwen3", &config, &err), QR_OK);
    assert_int_equal(qr_source_random(&config, 1, QR_F32, &random, &err), QR_OK);
    write_gguf(path, random, rule);
    qr_source_close(random);
    if (qr_source_open(path, 0, &source, &err) != QR_OK)
        fail_msg("%s", err.message);
    assert_int_equal(qr_weights_load(source, false, NULL, NULL, NULL, &weights, &err), QR_OK);
    for (int i = 0; i < config.n_layer; i++) {
        const struct qr_layer_weights *l = &weights->layer[i];
        assert_int_equal(l->q.storage->n_segment, n_qkv);
        assert_int_equal(l->gate.storage->n_segment, n_gate_up);
        check_rows(source, &l->q);
        check_rows(source, &l->k);
        check_rows(source, &l->v);
        check_rows(source, &l->gate);
        check_rows(source, &l->up);
        check_rows(source, &l->down);
        check_rows(source, &l->o);
    }
    check_rows(source, &weights->embd);
    qr_weights_free(weights);
    qr_source_close(source);
}

static void neighbours_of_one_type_share_a_segment(void **state)
{
    static const char *const fine_v[] = {"blk.", "Q4_1", "attn_v", "Q8_0", "norm", "F32", NULL};
    static const char *const three[] = {"attn_q.", "Q4_0", "attn_k.", "BF16", "attn_v", "Q4_0",
                                        "ffn_up",  "F16",  "norm",    "F32",  NULL};
    static const char *const alike[] = {"blk.", "Q8_0", "norm", "F32", NULL};
    load_mixed(state, fine_v, 2, 1);
    load_mixed(state, three, 3, 2);
    load_mixed(state, alike, 1, 1);
}

/* Norm vectors in half precision become the same numbers in fp32. */
static void vectors_of_other_types(void **state)
{
    static const char *const half[] = {"norm", "F16", NULL};
    load_mixed(state, half, 1, 1);
    struct qr_source *source;
    struct qr_weights *weights;
    const struct qr_source_tensor *t;
    struct qr_err err;
    float want[64];
    uint16_t raw[64];
    assert_int_equal(qr_source_open(tmp_path(state, "mixed.gguf"), 0, &source, &err), QR_OK);
    assert_int_equal(qr_weights_load(source, false, NULL, NULL, NULL, &weights, &err), QR_OK);
    assert_int_equal(qr_source_find(source, "blk.2.ffn_norm.weight", 1, 64, &t, &err), QR_OK);
    assert_int_equal(t->type, QR_F16);
    assert_int_equal(qr_source_rows(source, t, 0, 1, raw, &err), QR_OK);
    qr_dequant(QR_F16, raw, want, 64);
    assert_memory_equal(weights->layer[2].ffn_norm.data, want, sizeof(want));
    qr_weights_free(weights);
    qr_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(neighbours_of_one_type_share_a_segment, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(vectors_of_other_types, tmp_setup, tmp_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
