/* fuzz_tokenizer.c - a tokenizer.json and, behind a NUL byte, a tokenizer_config.json: refused, or a tokenizer that
 * encodes and decodes. */
#include <stdlib.h>
#include "fuzz/check.h"
#include "text/tokenizer.h"

/* Decoding takes every id that encoding gives, and every id that the tokenizer has. */
static void use(const struct qr_tokenizer *tok)
{
    static const char text[] = " abc<s>a\xCC\x81 b12 don'S \xFF\xE2\x82 e\xCC\x81\n\n";
    struct qr_err err = {0};
    int32_t *ids;
    char *decoded;
    size_t n, n_decoded;
    enum qr_status status = qr_tokenizer_encode(tok, text, sizeof text - 1, true, true, &ids, &n, &err);

    check_error(status, &err);
    if (status != QR_OK)
        return;
    check(qr_tokenizer_decode(tok, ids, n, false, &decoded, &n_decoded, &err) == QR_OK, "ids of its own do not decode");
    free(decoded);
    free(ids);
    for (int32_t id = 0; id < qr_tokenizer_n_vocab(tok) && id < 300; id++)
        if (qr_tokenizer_decode(tok, &id, 1, true, &decoded, &n_decoded, &err) == QR_OK)
            free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct parts parts = parts_of(data, n);
    struct qr_tokenizer *tok = NULL;
    struct qr_err err = {0};
    enum qr_status status = qr_tokenizer_from_json(parts.first, parts.n_first, parts.rest, parts.n_rest, &tok, &err);

    check_error(status, &err);
    check((status == QR_OK) == (tok != NULL), "a tokenizer in spite of an error, or none without");
    if (tok)
        use(tok);
    qr_tokenizer_destroy(tok);
    parts_free(&parts);
    return 0;
}
