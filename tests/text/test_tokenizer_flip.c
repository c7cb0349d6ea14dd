/* test_tokenizer_flip.c - a small tokenizer.json and tokenizer_config.json, cut at every byte and with every byte
 * changed: an error or a tokenizer that works, never a crash. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "text/tiny.h"

static const char json[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":true,"
    "\"rstrip\":false,\"normalized\":false,\"special\":true},{\"id\":10,\"content\":\"e\xCC\x81\",\"normalized\":true}]"
    ","
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},"
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s)|[^\\\\s\\\\p{L}]?\\\\w{1,3}+|\\\\s+(?!\\\\S)\"},"
    "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
    "\"use_regex\":false}]},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
    "{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[9]}}},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"fuse_unk\":true,"
    "\"ignore_merges\":false,\"vocab\":{\"a\":0,\"b\":1,\"\\u0120\":2,\"c\":3,\"u\":4,\"ab\":5,\"abc\":6,\"\xC4\xA0"
    "a\":7},\"merges\":[\"a b\",[\"ab\",\"c\"],\"\xC4\xA0 a\"]}}";
static const char config[] =
    "{\"add_bos_token\":true,\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"u\",\"add_eos_token\":false,"
    "\"added_tokens_decoder\":{\"9\":{\"content\":\"<s>\",\"special\":true},\"12\":{\"content\":\"<t>\"}}}";

static int n_loaded;

/* Loads copies without a NUL behind, so that a read past the end shows. */
static void try(const char *tokenizer, size_t n, const char *configuration, size_t n_config)
{
    static const char text[] = " abc<s>a\xCC\x81 b12 don'S \xFF\xE2\x82 e\xCC\x81\n\n";
    char *a = malloc(n + !n), *b = malloc(n_config + !n_config), *decoded;
    struct qr_tokenizer *tok = NULL;
    struct qr_err err = {0};
    int32_t *ids;
    size_t n_ids, n_decoded;

    memcpy(a, tokenizer, n);
    memcpy(b, configuration, n_config);
    if (qr_tokenizer_from_json(a, n, b, n_config, &tok, &err) == QR_OK) {
        n_loaded++;
        if (qr_tokenizer_encode(tok, text, sizeof text - 1, true, true, &ids, &n_ids, &err) == QR_OK) {
            assert_int_equal(qr_tokenizer_decode(tok, ids, n_ids, false, &decoded, &n_decoded, &err), QR_OK);
            free(decoded);
            free(ids);
        } else {
            assert_int_not_equal(err.message[0], 0);
        }
        qr_tokenizer_destroy(tok);
    } else {
        assert_null(tok);
        assert_int_not_equal(err.status, QR_OK);
        assert_int_not_equal(err.status, QR_INTERNAL);
        assert_int_not_equal(err.message[0], 0);
    }
    free(a);
    free(b);
}

static void unchanged(void **state)
{
    (void)state;
    n_loaded = 0;
    try(json, sizeof json - 1, config, sizeof config - 1);
    assert_int_equal(n_loaded, 1);
}

static void cut_anywhere(void **state)
{
    (void)state;
    n_loaded = 0;
    for (size_t n = 0; n < sizeof json - 1; n++)
        try(json, n, config, sizeof config - 1);
    for (size_t n = 0; n < sizeof config - 1; n++)
        try(json, sizeof json - 1, config, n);
    assert_int_equal(n_loaded, 0);
}

static void change_anything(void **state)
{
    static const unsigned char masks[] = {0x01, 0x02, 0x08, 0x20, 0x80, 0xFF};
    char changed[sizeof json];

    (void)state;
    n_loaded = 0;
    for (size_t m = 0; m < sizeof masks; m++) {
        memcpy(changed, json, sizeof json);
        for (size_t i = 0; i < sizeof json - 1; i++) {
            changed[i] = (char)(json[i] ^ masks[m]);
            try(changed, sizeof json - 1, config, sizeof config - 1);
            changed[i] = json[i];
        }
        memcpy(changed, config, sizeof config);
        for (size_t i = 0; i < sizeof config - 1; i++) {
            changed[i] = (char)(config[i] ^ masks[m]);
            try(json, sizeof json - 1, changed, sizeof config - 1);
            changed[i] = config[i];
        }
    }
    assert_true(n_loaded > 100); /* changed letters of names that nothing depends on */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unchanged),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(change_anything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
