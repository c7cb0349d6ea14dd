/* fuzz_gguf.c - a GGUF file: its keys and tensors, the model's shape, weights filled from it, its tokenizer. Where the
 * input begins with "SPLT" and a length (u32), that many bytes are the first part of two and the rest the second. */
#include <stdlib.h>
#include <string.h>
#include "engine/model.h"
#include "fuzz/check.h"
#include "fuzz/memory_files.h"
#include "model/source_parts.h"

static const char first_part[] = "m-00001-of-00002.gguf", second_part[] = "m-00002-of-00002.gguf";

static const char *lay_files(const uint8_t *data, size_t n)
{
    uint32_t n_first = 0;

    memory_file(second_part, NULL, 0);
    if (n < 8 || memcmp(data, "SPLT", 4) != 0) {
        memory_file(first_part, data, n);
        return first_part;
    }
    memcpy(&n_first, data + 4, 4);
    if (n_first > n - 8)
        n_first = (uint32_t)(n - 8);
    memory_file(first_part, data + 8, n_first);
    memory_file(second_part, data + 8 + n_first, n - 8 - n_first);
    return first_part;
}

/* Every tensor's first and last byte lie in the file. */
static void touch(const struct qr_gguf *gguf)
{
    volatile uint8_t sum = 0;

    for (uint64_t i = 0; i < qr_gguf_n_tensor(gguf); i++) {
        const struct qr_gguf_tensor *t = qr_gguf_tensor_at(gguf, i);

        if (t->bytes)
            sum ^= t->data[0] ^ t->data[t->bytes - 1];
    }
    (void)sum;
}

static void try_tokenizer(const struct qr_gguf *gguf)
{
    static const char text[] = " ab\xC3\xA9 12<s>";
    struct qr_tokenizer *tok = NULL;
    struct qr_err err = {0};
    size_t n;
    int32_t *ids;
    enum qr_status status = qr_tokenizer_from_gguf(gguf, &tok, &err);

    check_error(status, &err);
    if (status != QR_OK)
        return;
    status = qr_tokenizer_encode(tok, text, sizeof text - 1, true, true, &ids, &n, &err);
    check_error(status, &err);
    if (status == QR_OK)
        free(ids);
    qr_tokenizer_destroy(tok);
}

static void try_weights(const struct qr_source *source, bool headers_only)
{
    struct qr_weights *weights = NULL;
    struct qr_err err = {0};
    enum qr_status status = qr_weights_load(source, headers_only, NULL, NULL, NULL, &weights, &err);

    check_error(status, &err);
    qr_weights_free(weights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct qr_source *source = calloc(1, sizeof *source);
    struct qr_err err = {0};
    enum qr_status status;

    check(source != NULL, "no memory");
    status = qr_source_open_gguf(source, lay_files(data, n), &err);
    check_error(status, &err);
    if (source->gguf) {
        touch(source->gguf);
        try_tokenizer(source->gguf);
    }
    if (status == QR_OK) {
        try_weights(source, true);
        try_weights(source, false);
    }
    qr_source_close(source);
    return 0;
}
