/* test_source.c - sources: GGUF files and Hugging Face directories under canonical names, random numbers, and bad
 * directories (RELIABILITY 13, 14). */
#include "model/source.h"
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/half.h"
#include "common/fault.h"
#include "common/tmp.h"
#include "model/make_gguf.h"
#include "model/make_st.h"

static struct qr_source *opened(const char *path, uint64_t seed)
{
    struct qr_source *source;
    struct qr_err err = {0};

    if (qr_source_open(path, seed, &source, &err) != QR_OK)
        fail_msg("%s", err.message);
    return source;
}

static void refused(const char *path, enum qr_status status, const char *says)
{
    struct qr_source *source;
    struct qr_err err = {0};

    assert_int_equal(qr_source_open(path, 0, &source, &err), status);
    assert_null(source);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
}

static const struct qr_source_tensor *found(const struct qr_source *source, const char *name, uint64_t n_row,
                                            uint64_t n_col)
{
    const struct qr_source_tensor *tensor;
    struct qr_err err = {0};

    if (qr_source_find(source, name, n_row, n_col, &tensor, &err) != QR_OK)
        fail_msg("%s", err.message);
    return tensor;
}

static void write_gguf(void **state, const char *name, const char *arch)
{
    struct make_gguf m;

    mk_init(&m);
    mk_model_keys(&m, arch);
    mk_model_tensors(&m, arch);
    mk_finish(&m);
    tmp_write(state, name, m.file.data, m.file.len);
    mk_free(&m);
}

/* One safetensors file with what stands outside the layers if outside, and the layers [first, last]. */
static void write_st(void **state, const char *name, bool outside, int first, int last, bool head)
{
    struct make_st m;
    struct qr_buf file;

    qr_buf_init(&file, 0);
    mk_st_begin(&m);
    if (outside)
        mk_st_model(&m, -1, head);
    for (int layer = first; layer <= last; layer++)
        mk_st_model(&m, layer, false);
    mk_st_end(&m, &file);
    tmp_write(state, name, file.data, file.len);
    qr_buf_free(&file);
}

static void write_text(void **state, const char *name, const char *text)
{
    tmp_write(state, name, text, strlen(text));
}

static void opens_a_gguf_file(void **state)
{
    const struct qr_source_tensor *tensor;
    struct qr_source *source;
    struct qr_err err;
    uint8_t row[34];

    write_gguf(state, "small.gguf", "llama");
    source = opened(tmp_path(state, "small.gguf"), 0);
    assert_non_null(qr_source_gguf(source));
    assert_null(qr_source_dir(source));
    assert_string_equal(qr_source_config(source)->name, "small.gguf");
    assert_int_equal(qr_source_n_tensor(source), 2 + 2 * 9);
    tensor = found(source, "blk.1.attn_q.weight", 32, 32);
    assert_int_equal(tensor->type, QR_Q8_0);
    assert_int_equal(tensor->bytes, 32 * 34);
    assert_true(tensor->interleaved_rope);
    assert_true(found(source, "blk.0.attn_k.weight", 16, 32)->interleaved_rope);
    assert_false(found(source, "blk.0.attn_v.weight", 16, 32)->interleaved_rope);
    assert_int_equal(qr_source_rows(source, tensor, 7, 1, row, &err), QR_OK);
    assert_int_equal(row[0], 8);
    assert_int_equal(row[33], 8);
    qr_source_forget(source, tensor);
    assert_int_equal(tensor->data[34], 2);
    assert_int_equal(qr_source_rows(source, tensor, 31, 2, row, &err), QR_INTERNAL);
    assert_int_equal(found(source, "output_norm.weight", 1, 32)->type, QR_F32);
    assert_int_equal(qr_source_find(source, "blk.1.attn_q.weight", 32, 64, &tensor, &err), QR_FORMAT);
    assert_string_equal(err.message,
                        "tensor \"blk.1.attn_q.weight\" has 32 rows of 32; the config wants 32 rows of 64");
    assert_int_equal(qr_source_find(source, "output.weight", 40, 32, &tensor, &err), QR_NOTFOUND);
    assert_non_null(strstr(err.message, "output.weight"));
    qr_source_close(source);

    write_gguf(state, "small.gguf", "qwen2");
    source = opened(tmp_path(state, "small.gguf"), 0);
    assert_false(found(source, "blk.1.attn_q.weight", 32, 32)->interleaved_rope);
    found(source, "blk.1.attn_q.bias", 1, 32);
    qr_source_close(source);
}

static void opens_a_directory(void **state)
{
    static const char *const names[] = {"token_embd.weight",      "output_norm.weight",       "output.weight",
                                        "blk.0.attn_norm.weight", "blk.1.attn_output.weight", "blk.1.ffn_norm.weight"};
    const struct qr_source_tensor *tensor;
    struct qr_source *source;
    struct qr_err err;
    uint16_t row[64];

    write_text(state, "config.json", mk_st_config);
    write_text(state, "generation_config.json", "{\"eos_token_id\":[2,3],\"temperature\":0.5}");
    write_st(state, "model.safetensors", true, 0, 1, true);
    source = opened(*state, 0);
    assert_null(qr_source_gguf(source));
    assert_string_equal(qr_source_dir(source), *state);
    assert_string_equal(qr_source_config(source)->name, strrchr(*state, '/') + 1);
    assert_int_equal(qr_source_config(source)->n_eos, 2);
    assert_int_equal(qr_source_n_tensor(source), 3 + 2 * 9);
    for (size_t i = 0; i < 3; i++)
        found(source, names[i], i == 1 ? 1 : 40, 32);
    for (size_t i = 3; i < 6; i++)
        found(source, names[i], i == 4 ? 32 : 1, 32);
    found(source, "blk.0.ffn_gate.weight", 64, 32);
    found(source, "blk.0.ffn_up.weight", 64, 32);
    tensor = found(source, "blk.1.ffn_down.weight", 32, 64);
    assert_int_equal(tensor->type, QR_BF16);
    assert_false(found(source, "blk.0.attn_q.weight", 32, 32)->interleaved_rope);
    assert_int_equal(qr_source_rows(source, tensor, 4, 1, row, &err), QR_OK);
    assert_int_equal(row[63], 0x0505);
    qr_source_close(source);
}

static void a_head_that_is_missing_and_not_denied_is_the_embedding(void **state)
{
    struct qr_source *source;
    char *config = strdup(mk_st_config);

    write_st(state, "model.safetensors", true, 0, 1, false);
    write_text(state, "config.json", config);
    source = opened(*state, 0);
    assert_false(qr_source_config(source)->tie_embd); /* the config says so: loading will miss the head */
    qr_source_close(source);
    memcpy(strstr(config, "tie_word_embeddings"), "xxx", 3);
    write_text(state, "config.json", config);
    source = opened(*state, 0);
    assert_true(qr_source_config(source)->tie_embd);
    qr_source_close(source);
    free(config);
}

static const char index_text[] = "{\"metadata\":{},\"weight_map\":{\"model.embed_tokens.weight\":\"a.safetensors\","
                                 "\"model.layers.0.input_layernorm.weight\":\"b.safetensors\","
                                 "\"model.layers.1.input_layernorm.weight\":\"a.safetensors\"}}";

static void opens_shards(void **state)
{
    struct qr_source *source;

    write_text(state, "config.json", mk_st_config);
    write_text(state, "model.safetensors.index.json", index_text);
    write_st(state, "a.safetensors", true, 1, 1, true);
    refused(*state, QR_NOTFOUND, "shard b.safetensors");
    write_st(state, "b.safetensors", false, 0, 0, false);
    source = opened(*state, 0);
    assert_int_equal(qr_source_n_tensor(source), 3 + 2 * 9);
    found(source, "blk.0.attn_q.weight", 32, 32);
    found(source, "blk.1.attn_q.weight", 32, 32);
    qr_source_close(source);
    write_st(state, "b.safetensors", false, 0, 1, false); /* layer 1 stands in both */
    refused(*state, QR_FORMAT, "stands in the model twice");
    write_st(state, "b.safetensors", false, 0, 7, false);
    write_st(state, "a.safetensors", true, 1, 0, true);
    source = opened(*state, 0); /* layers that the config does not have are left out */
    assert_int_equal(qr_source_n_tensor(source), 3 + 2 * 9);
    qr_source_close(source);
}

static void an_index_leads_nowhere_else(void **state)
{
    static const char *const bad[] = {"\"../x.safetensors\"",
                                      "\"/etc/passwd\"",
                                      "\"sub/x.safetensors\"",
                                      "\"\"",
                                      "\"..\"",
                                      "\".hidden\"",
                                      "7",
                                      "null",
                                      "\"a..b\"",
                                      "\"a\\\\b\""};
    char text[256];

    write_text(state, "config.json", mk_st_config);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "{\"weight_map\":{\"model.norm.weight\":%s}}", bad[i]);
        write_text(state, "model.safetensors.index.json", text);
        refused(*state, QR_FORMAT, "a file beside the index");
    }
    write_text(state, "model.safetensors.index.json", "{\"weight_map\":{}}");
    refused(*state, QR_FORMAT, "weight_map");
    write_text(state, "model.safetensors.index.json", "[]");
    refused(*state, QR_FORMAT, "weight_map");
    write_text(state, "model.safetensors.index.json", "{");
    refused(*state, QR_FORMAT, "JSON");
    write_text(state, "model.safetensors.index.json", "{\"weight_map\":{\"model.norm.weight\":\"pipe.safetensors\"}}");
    assert_int_equal(mkfifo(tmp_path(state, "pipe.safetensors"), 0600), 0);
    refused(*state, QR_IO, "FIFO");
}

static void refuses_bad_directories(void **state)
{
    refused(*state, QR_NOTFOUND, "no config.json");
    write_text(state, "config.json", mk_st_config);
    refused(*state, QR_NOTFOUND, "neither model.safetensors nor");
    write_text(state, "model.safetensors", "short");
    refused(*state, QR_FORMAT, "model.safetensors: ");
    write_st(state, "model.safetensors", true, 0, 1, true);
    write_text(state, "config.json", "{\"architectures\":");
    refused(*state, QR_FORMAT, "config.json: bad JSON");
    write_text(state, "config.json", "[]");
    refused(*state, QR_FORMAT, "config.json: ");
    write_text(state, "config.json", mk_st_config);
    write_text(state, "generation_config.json", "{\"top_p\":2}");
    refused(*state, QR_INVALID, "generation_config.json: \"top_p\"");
    unlink(tmp_path(state, "generation_config.json"));
    unlink(tmp_path(state, "config.json"));
    assert_int_equal(mkfifo(tmp_path(state, "config.json"), 0600), 0);
    refused(*state, QR_IO, "FIFO");
    refused(tmp_path(state, "missing.gguf"), QR_NOTFOUND, "missing.gguf");
    refused("/dev/null", QR_IO, "device");
    refused("", QR_NOTFOUND, "");
}

static void refuses_tensors_that_would_be_left_out(void **state)
{
    static const struct {
        const char *name, *dtype;
        uint64_t n_row;
        const char *says;
    } bad[] = {
        {"model.layers.0.self_attn.q_proj.bias", "F32", 0, "its config knows none"},
        {"model.layers.1.self_attn.q_norm.weight", "F32", 0, "its config knows none"},
        {"model.layers.0.mlp.down_proj.bias", "F32", 0, "its config knows none"},
        {"model.layers.0.mlp.experts.0.w1.weight", "BF16", 4, "does not know for llama models"},
        {"model.layers.0.self_attn.q_proj.weight_scale", "F32", 0, "does not know for llama models"},
        {"model.layers.00.input_layernorm.weight", "BF16", 0, "does not know"},
        {"model.layers.-1.input_layernorm.weight", "BF16", 0, "does not know"},
        {"model.layers.99999999999999999999.input_layernorm.weight", "BF16", 0, "does not know"},
        {"visual.patch_embed.weight", "BF16", 4, "does not know"},
        {"model.norm.weight", "F32", 0, NULL}, /* a duplicate: the JSON says so */
    };
    struct make_st m;
    struct qr_buf file;

    qr_buf_init(&file, 0);
    write_text(state, "config.json", mk_st_config);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        mk_st_begin(&m);
        mk_st_model(&m, -1, true);
        mk_st_model(&m, 0, false);
        mk_st_model(&m, 1, false);
        mk_st_tensor(&m, bad[i].name, bad[i].dtype, bad[i].n_row, 16);
        mk_st_end(&m, &file);
        tmp_write(state, "model.safetensors", file.data, file.len);
        refused(*state, bad[i].says && !strstr(bad[i].says, "config") ? QR_UNSUPPORTED : QR_FORMAT,
                bad[i].says ? bad[i].says : "duplicate");
    }
    mk_st_begin(&m); /* tables that old files carry are no weights */
    mk_st_model(&m, -1, true);
    mk_st_tensor(&m, "model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 0, 8);
    mk_st_end(&m, &file);
    tmp_write(state, "model.safetensors", file.data, file.len);
    qr_source_close(opened(*state, 0));
    qr_buf_free(&file);
}

static void refuses_bad_tensors_of_a_gguf(void **state)
{
    static const struct {
        const char *name;
        uint32_t type, n_dim;
        enum qr_status status;
        const char *says;
    } bad[] = {
        {"output.weight", 16, 2, QR_UNSUPPORTED, "type 16 (IQ2_XXS), which quire does not read; it reads F32 F16"},
        {"output.weight", 77, 2, QR_UNSUPPORTED, "type 77 (unknown)"},
        {"output.weight", 0, 3, QR_UNSUPPORTED, "3 dimensions"},
        {"blk.0.ffn_gate_exps.weight", 0, 2, QR_UNSUPPORTED, "ffn_gate_exps"},
        {"blk.1.attn_q.bias", 0, 2, QR_FORMAT, "its config knows none"},
    };
    static const uint64_t dim[3] = {32, 40, 2};
    struct make_gguf m;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        mk_init(&m);
        mk_model_keys(&m, "llama");
        mk_model_tensors(&m, "llama");
        mk_tensor(&m, bad[i].name, bad[i].type, bad[i].n_dim, dim, NULL, 32 * 40 * 2 * 4);
        mk_finish(&m);
        refused(tmp_write(state, "m.gguf", m.file.data, m.file.len), bad[i].status, bad[i].says);
        mk_free(&m);
    }
}

static void a_directory_with_one_gguf_is_that_file(void **state)
{
    struct qr_source *source;

    write_gguf(state, "one.gguf", "qwen3");
    source = opened(*state, 0);
    assert_non_null(qr_source_gguf(source));
    assert_int_equal(qr_source_config(source)->arch, QR_ARCH_QWEN3);
    qr_source_close(source);
    write_gguf(state, "two.gguf", "qwen3");
    refused(*state, QR_INVALID, "2 GGUF files");
}

/* Part i of 3: the first has the keys, all have tensors; key split.count counts. */
static void write_part(void **state, int i, uint32_t count, const char *name)
{
    struct make_gguf m;
    static const uint64_t dim[] = {32, 40};
    float data[32 * 40];

    mk_init(&m);
    if (i == 0) {
        mk_model_keys(&m, "llama");
        mk_model_tensors(&m, "llama");
    }
    for (int k = 0; k < 32 * 40; k++)
        data[k] = (float)(i * 10000 + k);
    mk_u32(&m, "split.no", (uint32_t)i);
    mk_u32(&m, "split.count", count);
    if (i == 2)
        mk_tensor(&m, "output.weight", 0, 2, dim, data, sizeof data);
    if (i == 1)
        mk_tensor(&m, "rope_freqs.weight", 0, 1, (const uint64_t[]){8}, data + 1, 32);
    mk_finish(&m);
    tmp_write(state, name, m.file.data, m.file.len);
    mk_free(&m);
}

static void any_part_of_a_split_model_opens_all(void **state)
{
    static const char *const name[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"};
    char *dir = *state;
    struct qr_err err;
    float row[32];

    for (int i = 0; i < 3; i++)
        write_part(state, i, 3, name[i]);
    for (int i = 0; i < 4; i++) { /* the directory too: it holds one model */
        struct qr_source *source = opened(i < 3 ? tmp_path(state, name[i]) : dir, 0);
        const struct qr_source_tensor *tensor = found(source, "output.weight", 40, 32);

        assert_false(qr_source_config(source)->tie_embd);
        assert_int_equal(qr_source_rows(source, tensor, 1, 1, row, &err), QR_OK);
        assert_true(row[0] == 20032 && row[31] == 20063);
        assert_int_equal(qr_source_rows(source, found(source, "rope_freqs.weight", 1, 8), 0, 1, row, &err), QR_OK);
        assert_true(row[0] == 10001);
        found(source, "blk.1.ffn_down.weight", 32, 64);
        qr_source_close(source);
    }
    write_part(state, 1, 4, name[1]);
    refused(tmp_path(state, name[2]), QR_FORMAT, "says that it is part 2 of 4; part 2 of 3 belongs there");
    write_part(state, 2, 3, name[1]);
    refused(tmp_path(state, name[2]), QR_FORMAT, "says that it is part 3 of 3; part 2 of 3 belongs there");
    unlink(tmp_path(state, name[1]));
    refused(tmp_path(state, name[2]), QR_NOTFOUND, "part 2 of 3 of the model is missing");
    refused(tmp_path(state, name[0]), QR_NOTFOUND, "m-00002-of-00003.gguf");
    write_part(state, 0, 3, "renamed.gguf");
    refused(tmp_path(state, "renamed.gguf"), QR_INVALID, "does not end in \"-00001-of-00003.gguf\"");
}

static void finds_a_repository_in_the_cache(void **state)
{
    char dir[4096];
    struct qr_source *source;

    setenv("HF_HUB_CACHE", *state, 1);
    refused("Org/Small-1.0", QR_NOTFOUND, "not in the Hugging Face cache");
    snprintf(dir, sizeof dir, "mkdir -p %s/models--Org--Small-1.0/refs %s/models--Org--Small-1.0/snapshots/abc123",
             (const char *)*state, (const char *)*state);
    assert_int_equal(system(dir), 0);
    write_text(state, "models--Org--Small-1.0/refs/main", "abc123\n");
    write_text(state, "models--Org--Small-1.0/snapshots/abc123/config.json", mk_st_config);
    write_st(state, "models--Org--Small-1.0/snapshots/abc123/model.safetensors", true, 0, 1, true);
    source = opened("Org/Small-1.0", 0);
    assert_string_equal(qr_source_config(source)->name, "Org/Small-1.0");
    assert_string_equal(qr_source_dir(source), tmp_path(state, "models--Org--Small-1.0/snapshots/abc123"));
    qr_source_close(source);
    qr_source_close(opened("Org/Small-1.0@main", 0));
    qr_source_close(opened("Org/Small-1.0@abc123", 0));
    refused("Org/Small-1.0@v2", QR_NOTFOUND, "not in the Hugging Face cache");
    refused("Org/../Small-1.0", QR_NOTFOUND, "");
    refused("../Small-1.0", QR_NOTFOUND, "No such file");
    write_text(state, "models--Org--Small-1.0/refs/main", "../../..");
    refused("Org/Small-1.0", QR_FORMAT, "no commit");
    unsetenv("HF_HUB_CACHE");
    setenv("HF_HOME", tmp_path(state, "home"), 1);
    refused("Org/Small-1.0", QR_NOTFOUND, "home/hub");
    unsetenv("HF_HOME");
}

static void a_file_cut_while_open_is_an_error(void **state)
{
    const struct qr_source_tensor *tensor;
    struct qr_source *source;
    struct qr_err err;
    uint8_t *rows = malloc(1 << 20);
    struct make_gguf m;

    mk_init(&m);
    mk_model_keys(&m, "llama");
    mk_model_tensors(&m, "llama");
    mk_tensor(&m, "output.weight", 0, 2, (const uint64_t[]){32, 40}, NULL, 32 * 40 * 4);
    mk_finish(&m);
    source = opened(tmp_write(state, "m.gguf", m.file.data, m.file.len), 0);
    mk_free(&m);
    tensor = found(source, "output.weight", 40, 32);
    assert_int_equal(qr_source_rows(source, tensor, 0, 40, rows, &err), QR_OK);
    assert_int_equal(truncate(tmp_path(state, "m.gguf"), 4096), 0);
    assert_int_equal(qr_source_rows(source, tensor, 0, 40, rows, &err), QR_IO);
    assert_non_null(strstr(err.message, "shorter"));
    qr_source_close(source);
    free(rows);
}

static void random_numbers_depend_on_seed_name_and_row_only(void **state)
{
    struct qr_source *a = opened("dummy:tiny-qwen3", 5), *b = opened("dummy:tiny-qwen3:f32", 5),
                     *c = opened("dummy:tiny-qwen3:F32", 6);
    const struct qr_source_tensor *tensor = found(b, "blk.1.ffn_up.weight", 192, 64),
                                  *other = found(b, "blk.2.ffn_up.weight", 192, 64);
    float all[192 * 64], one[64], wide[64];
    uint16_t half[64];
    struct qr_err err;

    (void)state;
    assert_null(tensor->data);
    assert_int_equal(qr_source_rows(b, tensor, 0, 192, all, &err), QR_OK);
    for (uint64_t row = 192; row-- > 0;) { /* backwards, one by one */
        assert_int_equal(qr_source_rows(b, tensor, row, 1, one, &err), QR_OK);
        assert_memory_equal(one, all + row * 64, sizeof one);
    }
    assert_memory_not_equal(all, all + 64, sizeof one);
    assert_int_equal(qr_source_rows(b, other, 0, 1, one, &err), QR_OK);
    assert_memory_not_equal(one, all, sizeof one);
    assert_int_equal(qr_source_rows(c, found(c, "blk.1.ffn_up.weight", 192, 64), 0, 1, one, &err), QR_OK);
    assert_memory_not_equal(one, all, sizeof one);
    /* BF16 is the same numbers, rounded */
    assert_int_equal(found(a, "blk.1.ffn_up.weight", 192, 64)->type, QR_BF16);
    assert_int_equal(qr_source_rows(a, found(a, "blk.1.ffn_up.weight", 192, 64), 9, 1, half, &err), QR_OK);
    qr_dequant(QR_BF16, half, wide, 64);
    for (int i = 0; i < 64; i++)
        assert_true(fabsf(wide[i] - all[9 * 64 + i]) <= fabsf(wide[i]) / 128);
    qr_source_close(a);
    qr_source_close(b);
    qr_source_close(c);
}

/* Mean, variance and kurtosis of n numbers. The sum of four uniform numbers has kurtosis 3 - 1.2/4 = 2.7. */
static void moments(const float *x, int n, double *mean, double *variance, double *kurtosis)
{
    double m2 = 0, m4 = 0;

    *mean = 0;
    for (int i = 0; i < n; i++)
        *mean += (double)x[i] / n;
    for (int i = 0; i < n; i++) {
        double d = (double)x[i] - *mean;

        m2 += d * d / n;
        m4 += d * d * d * d / n;
    }
    *variance = m2;
    *kurtosis = m4 / (m2 * m2);
}

static void random_numbers_have_the_promised_distribution(void **state)
{
    struct qr_source *source = opened("dummy:tiny-qwen2:f32", 1);
    float *x = malloc(320 * 64 * sizeof *x);
    double mean, variance, kurtosis;
    struct qr_err err;

    (void)state;
    assert_int_equal(qr_source_rows(source, found(source, "token_embd.weight", 320, 64), 0, 320, x, &err), QR_OK);
    moments(x, 320 * 64, &mean, &variance, &kurtosis);
    assert_true(fabs(mean) < 0.004); /* 4.5 standard errors of 0.125/sqrt(20480) */
    assert_true(fabs(variance * 64 - 1) < 0.05);
    assert_true(fabs(kurtosis - 2.7) < 0.12);
    for (int lag = 1; lag <= 256; lag++) { /* no number depends on those before it: 5 standard errors of 0.007 */
        double sum = 0;

        for (int i = 0; i + lag < 320 * 64; i++)
            sum += (double)x[i] * (double)x[i + lag] * 64;
        assert_true(fabs(sum / (320 * 64 - lag)) < 0.035);
    }
    assert_int_equal(qr_source_rows(source, found(source, "blk.0.attn_norm.weight", 1, 64), 0, 1, x, &err), QR_OK);
    moments(x, 64, &mean, &variance, &kurtosis);
    assert_true(fabs(mean - 1) < 0.06 && variance > 0.003 && variance < 0.03);
    assert_int_equal(found(source, "blk.0.attn_q.bias", 1, 64)->type, QR_F32);
    qr_source_close(source);
    free(x);
}

static void random_models_of_every_type(void **state)
{
    static const char *const types[] = {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"};
    uint8_t row[2048];
    float wide[160];
    char path[64];
    struct qr_err err;

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        struct qr_source *source;
        const struct qr_source_tensor *tensor;
        double sum = 0;

        snprintf(path, sizeof path, "dummy:tiny-llama:%s", types[i]);
        source = opened(path, 3);
        tensor = found(source, "blk.0.ffn_down.weight", 64, 160);
        assert_string_equal(qr_dtype_info(tensor->type)->name, types[i]);
        assert_int_equal(tensor->bytes, 64 * qr_row_bytes(tensor->type, 160));
        found(source, "output.weight", 320, 64);
        assert_int_equal(qr_source_rows(source, tensor, 63, 1, row, &err), QR_OK);
        qr_dequant(tensor->type, row, wide, 160);
        for (int k = 0; k < 160; k++)
            sum += (double)wide[k] * (double)wide[k];
        assert_true(sum > 0.6 && sum < 1.5); /* 160 numbers of variance 1/160 */
        qr_source_close(source);
    }
    refused("dummy:tiny-llama:Q6_K", QR_UNSUPPORTED, "Q6_K");
    refused("dummy:tiny-llama:nine", QR_INVALID, "nine");
    refused("dummy:nothing", QR_NOTFOUND, "tiny-llama");
    refused("dummy:", QR_NOTFOUND, "shape");
}

/* The last row of every tensor can be read. */
static void read_all(const struct qr_source *source)
{
    struct qr_err err;
    uint8_t row[256];

    for (uint64_t i = 0; i < qr_source_n_tensor(source); i++) {
        const struct qr_source_tensor *tensor = qr_source_at(source, i);

        if (qr_row_bytes(tensor->type, tensor->n_col) <= sizeof row)
            assert_int_equal(qr_source_rows(source, tensor, tensor->n_row - 1, 1, row, &err), QR_OK);
    }
}

/* Every bit of a small GGUF flipped and every byte cut off: an error or a model, never a crash. */
static void survives_every_cut_and_flip_of_a_gguf(void **state)
{
    struct make_gguf m;
    struct qr_source *source;
    struct qr_err err;
    const char *path;
    int n_opened = 0, fd;

    mk_init(&m);
    mk_model_keys(&m, "qwen2");
    mk_model_tensors(&m, "qwen2");
    mk_finish(&m);
    path = tmp_write(state, "flip", m.file.data, m.file.len);
    fd = open(path, O_WRONLY);
    for (size_t i = 0; i < m.header; i++) {
        for (int bit = 0; bit < 8; bit++) {
            char flipped = m.file.data[i] ^ (char)(1 << bit);

            assert_int_equal(pwrite(fd, &flipped, 1, (off_t)i), 1);
            if (qr_source_open(path, 0, &source, &err) == QR_OK) {
                n_opened++;
                read_all(source);
                qr_source_close(source);
            } else {
                assert_true(err.message[0]);
            }
        }
        assert_int_equal(pwrite(fd, m.file.data + i, 1, (off_t)i), 1);
    }
    assert_true(n_opened > 100); /* bits of token texts, of theta ... */
    for (size_t n = m.file.len; n-- > 0;) {
        assert_int_equal(ftruncate(fd, (off_t)n), 0);
        assert_int_not_equal(qr_source_open(path, 0, &source, &err), QR_OK);
    }
    close(fd);
    mk_free(&m);
}

static bool open_and_close(void *path)
{
    struct qr_source *source;
    struct qr_err err;
    bool ok = qr_source_open(path, 0, &source, &err) == QR_OK;

    qr_source_close(source);
    return ok;
}

static void survives_every_failing_call(void **state)
{
    char path[4096];

    if (!fault_works())
        skip();
    write_gguf(state, "small.gguf", "qwen2");
    snprintf(path, sizeof path, "%s", tmp_path(state, "small.gguf"));
    assert_true(fault_torture(open_and_close, path, FAULT_ANY, 0) >= 10);
    unlink(path);
    write_text(state, "config.json", mk_st_config);
    write_text(state, "generation_config.json", "{\"eos_token_id\":[2,3],\"temperature\":0.5}");
    write_text(state, "model.safetensors.index.json", index_text);
    write_st(state, "a.safetensors", true, 1, 1, true);
    write_st(state, "b.safetensors", false, 0, 0, false);
    assert_true(fault_torture(open_and_close, *state, FAULT_ANY, 0) >= 300);
    snprintf(path, sizeof path, "dummy:tiny-llama");
    assert_true(fault_torture(open_and_close, path, FAULT_ANY, 0) >= 4);
    assert_int_equal(fault_torture(open_and_close, path, FAULT_FILE, 0), 0);
}

/* The default model, as gguf-py lists it. */
static void opens_the_default_model(void **state)
{
    const char *path = default_model_path();
    struct qr_source *source;
    const struct qr_config *c;

    (void)state;
    if (!path) {
        print_message("the default model is not there\n");
        skip();
    }
    source = opened(path, 0);
    c = qr_source_config(source);
    assert_string_equal(c->name, "Smollm2 135M 8k Lc100K Mix1 Ep2");
    assert_int_equal(c->n_layer, 30);
    assert_int_equal(c->n_embd, 576);
    assert_int_equal(c->n_head, 9);
    assert_int_equal(c->n_kv_head, 3);
    assert_int_equal(c->head_dim, 64);
    assert_int_equal(c->n_ff, 1536);
    assert_int_equal(c->n_vocab, 49152);
    assert_int_equal(c->max_len, 8192);
    assert_true(c->tie_embd && c->rope.theta == 100000 && c->norm_eps == 1e-5f);
    assert_int_equal(c->eos[0], 2);
    assert_int_equal(qr_source_n_tensor(source), 272);
    assert_int_equal(found(source, "token_embd.weight", 49152, 576)->type, QR_Q8_0);
    assert_int_equal(found(source, "blk.29.ffn_down.weight", 576, 1536)->type, QR_Q4_1);
    assert_int_equal(found(source, "token_embd.weight", 49152, 576)->data - qr_gguf_map(qr_source_gguf(source))->data,
                     1785664);
    assert_int_equal(found(source, "blk.1.attn_norm.weight", 1, 576)->data - qr_gguf_map(qr_source_gguf(source))->data,
                     34083136);
    qr_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(opens_a_gguf_file, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(opens_a_directory, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(a_head_that_is_missing_and_not_denied_is_the_embedding, tmp_setup,
                                        tmp_teardown),
        cmocka_unit_test_setup_teardown(opens_shards, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(an_index_leads_nowhere_else, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_bad_directories, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_tensors_that_would_be_left_out, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_bad_tensors_of_a_gguf, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(a_directory_with_one_gguf_is_that_file, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(any_part_of_a_split_model_opens_all, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(finds_a_repository_in_the_cache, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(a_file_cut_while_open_is_an_error, tmp_setup, tmp_teardown),
        cmocka_unit_test(random_numbers_depend_on_seed_name_and_row_only),
        cmocka_unit_test(random_numbers_have_the_promised_distribution),
        cmocka_unit_test(random_models_of_every_type),
        cmocka_unit_test_setup_teardown(survives_every_cut_and_flip_of_a_gguf, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(survives_every_failing_call, tmp_setup, tmp_teardown),
        cmocka_unit_test(opens_the_default_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
