/* Quantised safetensors cut while they are mapped: whichever of a matrix's tensors loses its pages (codes, scales, zeros,
 * groups, each in a shard of its own here), loading ends with an error that names the shard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "common/tmp.h"
#include "model/make_st.h"
#include "model/open_weights.h"

enum { PLAIN, CODES, SCALES, ZEROS, GROUPS, N_SHARD };
static const char *const shard_name[N_SHARD] = {"plain.safetensors", "codes.safetensors", "scales.safetensors",
                                                "zeros.safetensors", "groups.safetensors"};

struct format {
    const char *quant; /* quantization_config */
    bool eight, awq, act_order, blocks;
};
static const struct format formats[] = {
    {"{\"quant_method\":\"fp8\",\"weight_block_size\":[16,32]}", .eight = true, .blocks = true},
    {"{\"quant_method\":\"fp8\"}", .eight = true},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":-1,\"desc_act\":false}", .act_order = false},
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":-1,\"desc_act\":true}", .act_order = true},
    {"{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32,\"version\":\"gemm\"}", .awq = true},
};

struct writing {
    const struct format *format;
    struct make_st shard[N_SHARD];
};

/* A tensor of the matrix `stem`, in one of the shards; rows 0: a vector. */
static void put(struct writing *w, int shard, const char *stem, const char *end, const char *dtype, uint64_t rows,
                uint64_t cols)
{
    char name[128];

    snprintf(name, sizeof name, "%s.%s", stem, end);
    mk_st_tensor(&w->shard[shard], name, dtype, rows, cols);
}

static void put_matrix(struct writing *w, const char *stem, uint64_t rows, uint64_t cols)
{
    const struct format *f = w->format;
    uint64_t groups = f->awq ? cols / 32 : 1;

    if (f->eight) {
        put(w, CODES, stem, "weight", "F8_E4M3", rows, cols);
        if (f->blocks)
            put(w, SCALES, stem, "weight_scale_inv", "F32", rows / 16, cols / 32);
        else
            put(w, SCALES, stem, "weight_scale", "F32", rows, 1);
        return;
    }
    put(w, CODES, stem, "qweight", "I32", f->awq ? cols : cols / 8, f->awq ? rows / 8 : rows);
    put(w, SCALES, stem, "scales", "F16", groups, rows);
    put(w, ZEROS, stem, "qzeros", "I32", groups, rows / 8);
    if (f->awq)
        return;
    put(w, GROUPS, stem, "g_idx", "I32", 0, cols);
    memset(w->shard[GROUPS].data.data + w->shard[GROUPS].data.len - 4 * cols, 0, 4 * cols); /* all of group 0 */
}

static void write_model(void *const *state, const struct format *format)
{
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } parts[] = {{"self_attn.q_proj", 32, 32}, {"self_attn.k_proj", 16, 32}, {"self_attn.v_proj", 16, 32},
                 {"self_attn.o_proj", 32, 32}, {"mlp.gate_proj", 64, 32},    {"mlp.up_proj", 64, 32},
                 {"mlp.down_proj", 32, 64}};
    struct writing w = {.format = format};
    struct qr_buf file, index, config;
    char stem[96];

    qr_buf_init(&file, 0);
    qr_buf_init(&index, 0);
    qr_buf_init(&config, 0);
    for (int i = 0; i < N_SHARD; i++)
        mk_st_begin(&w.shard[i]);
    mk_st_model(&w.shard[PLAIN], -1, true);
    for (int layer = 0; layer < 2; layer++) {
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            snprintf(stem, sizeof stem, "model.layers.%d.%s", layer, parts[i].name);
            put_matrix(&w, stem, parts[i].rows, parts[i].cols);
        }
        snprintf(stem, sizeof stem, "model.layers.%d", layer);
        put(&w, PLAIN, stem, "input_layernorm.weight", "F32", 0, 32);
        put(&w, PLAIN, stem, "post_attention_layernorm.weight", "F32", 0, 32);
    }
    qr_buf_puts(&index, "{\"weight_map\":{");
    for (int i = 0; i < N_SHARD; i++) {
        qr_buf_printf(&index, "%s\"%d\":\"%s\"", i ? "," : "", i, shard_name[i]);
        mk_st_end(&w.shard[i], &file);
        tmp_write(state, shard_name[i], file.data, file.len);
    }
    qr_buf_puts(&index, "}}");
    tmp_write(state, "model.safetensors.index.json", index.data, index.len);
    qr_buf_printf(&config, "{\"quantization_config\":%s,%s", format->quant, mk_st_config + 1);
    tmp_write(state, "config.json", config.data, config.len);
    qr_buf_free(&file);
    qr_buf_free(&index);
    qr_buf_free(&config);
}

static void a_shard_cut_while_mapped(void **state)
{
    struct qr_weights *weights;
    struct qr_pool *pool;
    struct qr_err err;

    assert_int_equal(qr_pool_create(2, &pool, &err), QR_OK);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const struct format *f = &formats[i];
        struct qr_source *source;

        write_model(state, f);
        source = open_source(*state); /* all of them whole: it loads */
        if (qr_weights_load(source, false, pool, NULL, NULL, &weights, &err) != QR_OK)
            fail_msg("format %zu: %s", i, err.message);
        qr_weights_free(weights);
        qr_source_close(source);
        for (int shard = PLAIN; shard < N_SHARD; shard++) {
            if ((f->eight && shard > SCALES) || (shard == GROUPS && !f->act_order))
                continue; /* g_idx in order is read while the model is opened, and not again */
            write_model(state, f);
            source = open_source(*state);
            assert_int_equal(truncate(tmp_path(state, shard_name[shard]), 0), 0);
            assert_int_equal(qr_weights_load(source, false, pool, NULL, NULL, &weights, &err), QR_IO);
            assert_null(weights);
            if (!strstr(err.message, "became shorter") || !strstr(err.message, shard_name[shard]))
                fail_msg("format %zu, %s: '%s'", i, shard_name[shard], err.message);
            qr_source_close(source);
        }
    }
    qr_pool_destroy(pool);
}

/* The groups were checked when the model was opened; a file that is written to later must not lead out of the scales. */
static void groups_changed_after_the_check(void **state)
{
    struct qr_source *source;
    struct qr_weights *weights;
    struct qr_err err;
    FILE *f;

    write_model(state, &formats[3]);
    source = open_source(*state);
    f = fopen(tmp_path(state, shard_name[GROUPS]), "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1024, SEEK_END), 0); /* within the data: 2 layers of 7 rows of 32 words and more */
    for (int i = 0; i < 1024; i++)
        fputc(0x7F, f);
    fclose(f);
    assert_int_equal(qr_weights_load(source, false, NULL, NULL, NULL, &weights, &err), QR_FORMAT);
    assert_null(weights);
    assert_non_null(strstr(err.message, "g_idx"));
    qr_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_shard_cut_while_mapped, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(groups_changed_after_the_check, tmp_setup, tmp_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
