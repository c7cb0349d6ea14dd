/* Random models on disk: what is written opens again as the same model; a path gets a whole model or nothing. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>
#include "common/fault.h"
#include "common/tmp.h"
#include "model/open_weights.h"
#include "model/synth.h"

static void write_ok(const struct qr_config *config, uint64_t seed, enum qr_dtype type, const char *path,
                     uint64_t shard_bytes)
{
    struct qr_err err;
    if (qr_synth_write(config, seed, type, path, shard_bytes, false, NULL, NULL, &err) != QR_OK)
        fail_msg("%s", err.message);
}

static struct qr_source *open_seed(const char *path, uint64_t seed)
{
    struct qr_source *source;
    struct qr_err err;
    if (qr_source_open(path, seed, &source, &err) != QR_OK)
        fail_msg("%s", err.message);
    return source;
}

static int n_entry(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void same_config(const struct qr_config *a, const struct qr_config *b, bool gguf)
{
    assert_int_equal(a->arch, b->arch);
    assert_int_equal(a->n_layer, b->n_layer);
    assert_int_equal(a->n_embd, b->n_embd);
    assert_int_equal(a->n_head, b->n_head);
    assert_int_equal(a->n_kv_head, b->n_kv_head);
    assert_int_equal(a->head_dim, b->head_dim);
    assert_int_equal(a->n_ff, b->n_ff);
    assert_int_equal(a->n_vocab, b->n_vocab);
    assert_int_equal(a->max_len, b->max_len);
    assert_true(a->norm_eps == b->norm_eps);
    assert_int_equal(a->tie_embd, b->tie_embd);
    assert_int_equal(a->qkv_bias, b->qkv_bias);
    assert_int_equal(a->o_bias, b->o_bias);
    assert_int_equal(a->mlp_bias, b->mlp_bias);
    assert_int_equal(a->qk_norm, b->qk_norm);
    assert_int_equal(a->window, b->window);
    assert_true(a->rope.theta == b->rope.theta);
    assert_int_equal(a->bos, b->bos);
    assert_int_equal(a->eos[0], b->eos[0]);
    if (gguf && a->rope.kind == QR_ROPE_LLAMA3) /* there it is a tensor of divisors */
        return;
    assert_int_equal(a->rope.kind, b->rope.kind);
    if (a->rope.kind != QR_ROPE_DEFAULT)
        assert_true(a->rope.factor == b->rope.factor);
}

/* Every tensor of the random source stands in the other one with the same type and, row by row, the same bytes. */
static void same_tensors(const struct qr_source *random, const struct qr_source *other)
{
    uint64_t n = qr_source_n_tensor(random), half = (uint64_t)qr_source_config(random)->head_dim / 2;
    const struct qr_source_tensor *t;
    struct qr_err err;
    for (uint64_t i = 0; i < n; i++) {
        const struct qr_source_tensor *want = qr_source_at(random, i);
        assert_int_equal(qr_source_find(other, want->name, want->n_row, want->n_col, &t, &err), QR_OK);
        assert_int_equal(t->type, want->type);
        assert_int_equal(t->bytes, want->bytes);
        bool bias = strstr(want->name, ".bias") != NULL;
        uint64_t n_item = bias ? want->n_col : want->n_row, size = want->bytes / n_item;
        uint8_t *a = malloc(want->bytes), *b = malloc(want->bytes);
        assert_int_equal(qr_source_rows(random, want, 0, want->n_row, a, &err), QR_OK);
        assert_int_equal(qr_source_rows(other, t, 0, t->n_row, b, &err), QR_OK);
        for (uint64_t r = 0; r < n_item; r++) {
            uint64_t at = r % (2 * half), from = r;
            if (t->interleaved_rope)
                from = r - at + (at < half ? 2 * at : 2 * (at - half) + 1);
            if (memcmp(a + r * size, b + from * size, size) != 0)
                fail_msg("row %llu of %s differs", (unsigned long long)r, want->name);
        }
        free(a);
        free(b);
    }
}

static void written_files_open_as_the_same_model(void **state)
{
    static const char *const shapes[] = {"tiny-llama", "tiny-llama3", "tiny-mistral", "tiny-qwen2", "tiny-qwen3"};
    static const enum qr_dtype types[] = {QR_F32, QR_F16, QR_BF16, QR_Q8_0, QR_Q4_0, QR_Q4_1};
    for (int i = 0; i < 5; i++) {
        struct qr_config config = shape_config(shapes[i]);
        for (int k = 0; k < 6; k++) {
            for (int gguf = k < 3 ? 0 : 1; gguf < 2; gguf++) {
                char name[64], dummy[64];
                snprintf(name, sizeof(name), "%s-%d%s", shapes[i], k, gguf ? ".gguf" : "");
                snprintf(dummy, sizeof(dummy), "dummy:%s:%s", shapes[i], qr_dtype_info(types[k])->name);
                const char *path = tmp_path(state, name);
                write_ok(&config, 9, types[k], path, 0);
                struct qr_source *random = open_seed(dummy, 9), *written = open_source(path);
                same_config(&config, qr_source_config(written), gguf);
                same_tensors(random, written);
                qr_source_close(random);
                qr_source_close(written);
            }
        }
    }
}

static void features_survive(void **state)
{
    struct qr_config config = shape_config("tiny-llama");
    config.qkv_bias = config.o_bias = config.mlp_bias = true;
    config.rope.kind = QR_ROPE_LINEAR;
    config.rope.factor = 4;
    config.norm_eps = 3.7e-6f;
    for (int gguf = 0; gguf < 2; gguf++) {
        const char *path = tmp_path(state, gguf ? "m.gguf" : "m");
        write_ok(&config, 2, QR_F32, path, 0);
        struct qr_source *written = open_source(path), *random;
        struct qr_err err;
        assert_int_equal(qr_source_random(&config, 2, QR_F32, &random, &err), QR_OK);
        same_config(&config, qr_source_config(written), gguf);
        same_tensors(random, written);
        qr_source_close(random);
        qr_source_close(written);
    }
    config = shape_config("tiny-qwen2");
    config.window = 100;
    config.window_from = 1;
    config.gen_temperature = 0.7f;
    config.gen_top_p = 0.8f;
    config.gen_top_k = 20;
    config.gen_repetition_penalty = 1.05f;
    for (int gguf = 0; gguf < 2; gguf++) {
        const char *path = tmp_path(state, gguf ? "q.gguf" : "q");
        write_ok(&config, 2, QR_F32, path, 0);
        struct qr_source *written = open_source(path);
        const struct qr_config *c = qr_source_config(written);
        same_config(&config, c, gguf);
        assert_true(c->gen_temperature == 0.7f && c->gen_top_p == 0.8f && c->gen_top_k == 20 &&
                    c->gen_repetition_penalty == 1.05f);
        if (!gguf)
            assert_int_equal(c->window_from, 1);
        qr_source_close(written);
    }
}

static void shards(void **state)
{
    struct qr_config config = shape_config("tiny-llama");
    const char *path = tmp_path(state, "sharded");
    write_ok(&config, 4, QR_BF16, path, 50000);
    assert_true(n_entry(path) > 8);
    struct qr_source *random = open_seed("dummy:tiny-llama", 4), *written = open_source(path);
    same_tensors(random, written);
    qr_source_close(random);
    qr_source_close(written);
}

static void seeds_differ(void **state)
{
    struct qr_config config = shape_config("tiny-llama");
    char *text[3];
    size_t n[3];
    struct qr_err err;
    for (int i = 0; i < 3; i++) {
        const char *path = tmp_path(state, i == 0 ? "a.gguf" : i == 1 ? "b.gguf" : "c.gguf");
        write_ok(&config, i == 2 ? 8 : 7, QR_F32, path, 0);
        assert_int_equal(qr_read_file(path, 1 << 24, &text[i], &n[i], &err), QR_OK);
    }
    assert_true(n[0] == n[1] && n[1] == n[2]);
    assert_memory_equal(text[0], text[1], n[0]);
    assert_true(memcmp(text[0], text[2], n[0]) != 0);
    for (int i = 0; i < 3; i++)
        free(text[i]);
}

static void existing_paths(void **state)
{
    struct qr_config config = shape_config("tiny-llama");
    struct qr_err err;
    for (int gguf = 0; gguf < 2; gguf++) {
        const char *path = tmp_path(state, gguf ? "m.gguf" : "m");
        write_ok(&config, 1, QR_F32, path, 0);
        assert_int_equal(qr_synth_write(&config, 2, QR_F32, path, 0, false, NULL, NULL, &err), QR_INVALID);
        assert_non_null(strstr(err.message, "exists already"));
        struct qr_source *source = open_source(path), *old = open_seed("dummy:tiny-llama:F32", 1);
        same_tensors(old, source);
        qr_source_close(source);
        qr_source_close(old);
        assert_int_equal(qr_synth_write(&config, 2, QR_F32, path, 0, true, NULL, NULL, &err), QR_OK);
        source = open_source(path);
        old = open_seed("dummy:tiny-llama:F32", 2);
        same_tensors(old, source);
        qr_source_close(source);
        qr_source_close(old);
    }
    assert_int_equal(n_entry(*state), 2); /* no leftovers */

    /* a directory with anything else in it is never touched */
    char foreign[4096];
    snprintf(foreign, sizeof(foreign), "%s/m/notes.txt", (const char *)*state);
    assert_int_equal(qr_write_file(foreign, "x", 1, &err), QR_OK);
    int before = n_entry(tmp_path(state, "m"));
    assert_int_equal(qr_synth_write(&config, 2, QR_F32, tmp_path(state, "m"), 0, true, NULL, NULL, &err), QR_INVALID);
    assert_non_null(strstr(err.message, "notes.txt"));
    assert_int_equal(n_entry(tmp_path(state, "m")), before);
    /* nor a directory by a file, nor a file by a directory */
    assert_int_equal(mkdir(tmp_path(state, "d.gguf"), 0700), 0);
    assert_int_equal(qr_synth_write(&config, 2, QR_F32, tmp_path(state, "d.gguf"), 0, true, NULL, NULL, &err),
                     QR_INVALID);
    assert_int_equal(qr_synth_write(&config, 2, QR_F32, foreign, 0, true, NULL, NULL, &err), QR_INVALID);
}

static void bad_arguments(void **state)
{
    struct qr_config config = shape_config("tiny-llama");
    struct qr_err err;
    assert_int_equal(qr_synth_write(&config, 1, QR_Q8_0, tmp_path(state, "d"), 0, false, NULL, NULL, &err),
                     QR_UNSUPPORTED);
    assert_int_equal(qr_synth_write(&config, 1, QR_Q6_K, tmp_path(state, "m.gguf"), 0, false, NULL, NULL, &err),
                     QR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Q6_K"));
    assert_int_equal(qr_synth_write(&config, 1, QR_F32, "", 0, false, NULL, NULL, &err), QR_INVALID);
    assert_int_equal(qr_synth_write(&config, 1, QR_F32, tmp_path(state, "no/such/m.gguf"), 0, false, NULL, NULL, &err),
                     QR_NOTFOUND);
    config.n_vocab = 258;
    config.eos[0] = 1;
    config.n_eos = 1;
    config.bos = 0;
    assert_int_equal(qr_synth_write(&config, 1, QR_F32, tmp_path(state, "m.gguf"), 0, false, NULL, NULL, &err),
                     QR_INVALID);
    assert_non_null(strstr(err.message, "258"));
    config = shape_config("tiny-llama");
    config.n_head = 0;
    assert_true(qr_synth_write(&config, 1, QR_F32, tmp_path(state, "m.gguf"), 0, false, NULL, NULL, &err) != QR_OK);
    assert_int_equal(n_entry(*state), 0);
}

static bool stop_at_third(void *ctx, uint64_t done, uint64_t total)
{
    assert_true(done <= total);
    return ++*(int *)ctx < 3;
}

static void stopping_leaves_nothing(void **state)
{
    struct qr_config config = shape_config("tiny-llama");
    struct qr_err err;
    for (int gguf = 0; gguf < 2; gguf++) {
        int calls = 0;
        assert_int_equal(qr_synth_write(&config, 1, QR_F32, tmp_path(state, gguf ? "m.gguf" : "m"), 0, false,
                                        stop_at_third, &calls, &err),
                         QR_CANCELLED);
        assert_int_equal(calls, 3);
    }
    assert_int_equal(n_entry(*state), 0);
}

struct torture {
    struct qr_config config;
    const char *path;
};

static bool write_once(void *ctx)
{
    struct torture *t = ctx;
    struct qr_err err;
    return qr_synth_write(&t->config, 1, QR_BF16, t->path, 20000, true, NULL, NULL, &err) == QR_OK;
}

/* Thousands of points, most of them inside one JSON text: all of the first, then ever fewer. */
static void every_failure_is_survived(void **state)
{
    if (!fault_works())
        skip();
    for (int gguf = 0; gguf < 2; gguf++) {
        struct torture t = {shape_config("tiny-qwen3"), tmp_path(state, gguf ? "m.gguf" : "m")};
        t.config.n_layer = 1;
        t.config.n_vocab = 260;
        assert_true(write_once(&t));
        long live = fault_live(), tried = 0;
        bool met = true;
        for (long k = 1; met; k += 1 + k / 16) {
            fault_arm(k, FAULT_ANY);
            bool good = write_once(&t);
            met = fault_disarm();
            assert_true(good || met);
            if (fault_live() != live)
                fail_msg("fault point %ld: %ld blocks more than before", k, fault_live() - live);
            tried++;
        }
        assert_true(tried > 30);
        assert_int_equal(n_entry(*state), gguf + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(written_files_open_as_the_same_model, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(features_survive, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(shards, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(seeds_differ, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(existing_paths, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(bad_arguments, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(stopping_leaves_nothing, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(every_failure_is_survived, tmp_setup, tmp_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
