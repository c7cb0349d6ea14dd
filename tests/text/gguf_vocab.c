/* gguf_vocab.c - see gguf_vocab.h; the format is described in docs/gguf.md of ggml. */
#include "text/gguf_vocab.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

struct reader {
    const uint8_t *p, *end;
};

static uint64_t number(struct reader *r, size_t n)
{
    uint64_t value = 0;

    assert_true((size_t)(r->end - r->p) >= n);
    memcpy(&value, r->p, n);
    r->p += n;
    return value;
}

static struct qr_vocab_piece string(struct reader *r)
{
    uint64_t n = number(r, 8);
    struct qr_vocab_piece piece = {(const char *)r->p, n};

    assert_true((uint64_t)(r->end - r->p) >= n);
    r->p += n;
    return piece;
}

static size_t size_of(uint32_t type)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

    assert_true(type < sizeof sizes);
    return sizes[type];
}

static bool is(struct qr_vocab_piece key, const char *name)
{
    return key.n == strlen(name) && memcmp(key.s, name, key.n) == 0;
}

static void array(struct reader *r, struct qr_vocab_piece key, struct qr_vocab_spec *spec)
{
    uint32_t type = (uint32_t)number(r, 4);
    uint64_t n = number(r, 8);
    struct qr_vocab_piece *piece;

    if (type != STRING) {
        if (is(key, "tokenizer.ggml.token_type")) {
            int32_t *types = malloc(n * 4);

            memcpy(types, r->p, n * 4);
            spec->type = types;
        }
        r->p += n * size_of(type);
        return;
    }
    piece = malloc((n + 1) * sizeof *piece);
    for (uint64_t i = 0; i < n; i++)
        piece[i] = string(r);
    if (is(key, "tokenizer.ggml.tokens")) {
        spec->token = piece;
        spec->n_token = n;
    } else if (is(key, "tokenizer.ggml.merges")) {
        spec->merge = piece;
        spec->n_merge = n;
    } else {
        free(piece);
    }
}

static void value(struct reader *r, struct qr_vocab_piece key, struct gguf_vocab *vocab)
{
    uint32_t type = (uint32_t)number(r, 4);

    if (type == ARRAY) {
        array(r, key, &vocab->spec);
    } else if (type == STRING) {
        struct qr_vocab_piece text = string(r);
        char *to = is(key, "tokenizer.ggml.model") ? vocab->model : is(key, "tokenizer.ggml.pre") ? vocab->pre : NULL;

        if (to) {
            assert_true(text.n < 64);
            memcpy(to, text.s, text.n);
        }
    } else {
        uint64_t x = number(r, size_of(type));

        if (is(key, "tokenizer.ggml.bos_token_id"))
            vocab->spec.bos = (int32_t)x;
        else if (is(key, "tokenizer.ggml.eos_token_id"))
            vocab->spec.eos = (int32_t)x;
        else if (is(key, "tokenizer.ggml.add_bos_token"))
            vocab->spec.add_bos = x;
    }
}

struct gguf_vocab *read_gguf_vocab(const char *path)
{
    struct gguf_vocab *vocab = calloc(1, sizeof *vocab);
    struct reader r;
    uint64_t n_key;

    assert_int_equal(qr_map_open(path, &vocab->map, NULL), QR_OK);
    r = (struct reader){vocab->map.data, vocab->map.data + vocab->map.size};
    assert_memory_equal(r.p, "GGUF", 4);
    r.p += 16; /* magic, version, tensor count */
    n_key = number(&r, 8);
    vocab->spec = (struct qr_vocab_spec){.model = vocab->model, .pre = vocab->pre, .bos = -1, .eos = -1};
    vocab->spec.add_bos_known = true;
    for (uint64_t i = 0; i < n_key; i++) {
        struct qr_vocab_piece key = string(&r);

        value(&r, key, vocab);
    }
    return vocab;
}

void free_gguf_vocab(struct gguf_vocab *vocab)
{
    free((void *)vocab->spec.token);
    free((void *)vocab->spec.type);
    free((void *)vocab->spec.merge);
    qr_map_close(&vocab->map);
    free(vocab);
}
