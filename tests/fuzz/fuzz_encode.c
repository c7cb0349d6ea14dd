/* fuzz_encode.c - any bytes as text, through tokenizers of four styles. The first byte says which, and whether special
 * tokens are read. What is encoded decodes; where nothing normalizes, it decodes to the text itself. */
#include <stdlib.h>
#include <string.h>
#include "fuzz/check.h"
#include "fuzz/styles.h"
#include "text/utf8.h"

static struct qr_tokenizer *tokenizers[N_STYLE];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    for (int i = 0; i < N_STYLE; i++)
        tokenizers[i] = style_tokenizer((enum style)i);
    return 0;
}

/* Added tokens with strip eat spaces, and the sign that stands for a space comes back as one. */
static bool comes_back(enum style style, const char *text, size_t n)
{
    if (style == STYLE_CHARS && memmem(text, n, "\xE2\x96\x81", 3))
        return false;
    return (style == STYLE_BYTES || style == STYLE_CHARS) && qr_utf8_valid(text, n) == n && !memchr(text, '<', n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    enum style style = n ? (enum style)(data[0] % N_STYLE) : STYLE_BYTES;
    bool special = n && (data[0] & 0x10), around = n && (data[0] & 0x20);
    size_t n_text = n ? n - 1 : 0, n_ids, n_decoded;
    char *text = malloc(n_text + !n_text), *decoded;
    struct qr_err err = {0};
    int32_t *ids;
    enum qr_status status;

    check(text != NULL, "no memory");
    memcpy(text, data + (n > 0), n_text);
    status = qr_tokenizer_encode(tokenizers[style], text, n_text, special, around, &ids, &n_ids, &err);
    check_error(status, &err);
    check(status == QR_OK, "a text is refused");
    check(n_ids <= 4 * n_text + 8, "more tokens than a text can have");
    check(qr_tokenizer_decode(tokenizers[style], ids, n_ids, false, &decoded, &n_decoded, &err) == QR_OK,
          "ids of its own do not decode");
    if (comes_back(style, text, n_text) && !around)
        check(n_decoded == n_text && memcmp(decoded, text, n_text) == 0, "the text does not come back");
    free(decoded);
    free(ids);
    free(text);
    return 0;
}
