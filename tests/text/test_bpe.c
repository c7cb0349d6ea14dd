/* test_bpe.c - merging: against the definition done naively, at every length around the switch of methods. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "text/bpe.h"
#include "text/tiny.h"

#define MAX_WORD 400
#define N_LETTER 4 /* few letters, so that merges meet */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u; /* Numerical Recipes' LCG */
    return *state >> 8;
}

/* Sennrich et al. 2016: again and again the pair of lowest rank, the leftmost of equals. */
static size_t naive(const char *const *merge, size_t n_merge, const char *word, char piece[][64])
{
    size_t n = strlen(word);

    for (size_t i = 0; i < n; i++) {
        piece[i][0] = word[i];
        piece[i][1] = 0;
    }
    for (;;) {
        size_t best = n_merge, at = 0;

        for (size_t i = 0; i + 1 < n; i++)
            for (size_t m = 0; m < best; m++) {
                size_t left = (size_t)(strchr(merge[m], '+') - merge[m]);

                if (strlen(piece[i]) == left && memcmp(piece[i], merge[m], left) == 0 &&
                    strcmp(piece[i + 1], merge[m] + left + 1) == 0) {
                    best = m;
                    at = i;
                }
            }
        if (best == n_merge)
            return n;
        memcpy(piece[at] + strlen(piece[at]), piece[at + 1], strlen(piece[at + 1]) + 1);
        memmove(piece[at + 1], piece[at + 2], (n - at - 2) * sizeof piece[0]);
        n--;
    }
}

/* Random merges that make distinct tokens; returns how many. */
static size_t make_merges(uint32_t *random, char text[][64], const char **merge, size_t most)
{
    char made[64][64];
    size_t n = 0, n_token = N_LETTER;

    for (int c = 0; c < N_LETTER; c++) {
        made[c][0] = (char)('a' + c);
        made[c][1] = 0;
    }
    for (int tries = 0; tries < 1000 && n < most; tries++) {
        const char *left = made[next_random(random) % n_token], *right = made[next_random(random) % n_token];
        char both[64];
        bool known = false;

        if (strlen(left) + strlen(right) > 20)
            continue;
        strcpy(both, left);
        strcat(both, right);
        for (size_t i = 0; i < n_token; i++)
            known = known || strcmp(made[i], both) == 0;
        if (known)
            continue;
        strcpy(text[n], left);
        strcat(text[n], "+");
        strcat(text[n], right);
        strcpy(made[n_token++], both);
        merge[n] = text[n];
        n++;
    }
    return n;
}

static void check_word(const struct qr_tokenizer *tok, const char *const *merge, size_t n_merge, const char *word)
{
    static char piece[MAX_WORD + 2][64];
    size_t n = naive(merge, n_merge, word, piece), n_ids;
    struct qr_err err;
    int32_t *ids;

    assert_int_equal(qr_tokenizer_encode(tok, word, strlen(word), false, false, &ids, &n_ids, &err), QR_OK);
    assert_int_equal(n_ids, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ids[i], qr_tokenizer_id(tok, piece[i], strlen(piece[i])));
    free(ids);
}

static void merges_as_defined(void **state)
{
    uint32_t random = 1;

    (void)state;
    for (int round = 0; round < 30; round++) {
        char text[40][64], word[MAX_WORD + 1];
        const char *merge[40];
        size_t n_merge = make_merges(&random, text, merge, 4 + next_random(&random) % 36);
        struct qr_tokenizer *tok = tiny_tokenizer(merge, n_merge, NULL, NULL);

        for (int k = 0; k < 20; k++) {
            size_t n = k < 10 ? 40 + next_random(&random) % 20 : 1 + next_random(&random) % (MAX_WORD / (k + 1));

            for (size_t i = 0; i < n; i++)
                word[i] = (char)('a' + next_random(&random) % N_LETTER);
            word[n] = 0;
            check_word(tok, merge, n_merge, word);
        }
        qr_tokenizer_destroy(tok);
    }
}

static void a_word_of_1_mb(void **state)
{
    const char *merge[] = {"a+a", "aa+aa", "aaaa+aaaa", "b+a"};
    struct qr_tokenizer *tok = tiny_tokenizer(merge, 4, NULL, NULL);
    size_t n = 1 << 20, n_ids;
    char *word = malloc(n);
    int32_t *ids;
    clock_t start = clock();

    (void)state;
    memset(word, 'a', n);
    assert_int_equal(qr_tokenizer_encode(tok, word, n, false, false, &ids, &n_ids, NULL), QR_OK);
    assert_int_equal(n_ids, n / 8);
    assert_int_equal(ids[0], 258);
    assert_int_equal(ids[n_ids - 1], 258);
    /* seconds of CPU time; some 0.2 without sanitizers, a quadratic algorithm would take hours */
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 20);
    free(ids);
    free(word);
    qr_tokenizer_destroy(tok);
}

static void whole_words_first(void **state)
{
    /* "abc" is a token that merging cannot reach: "b+c" goes first */
    const char *merge[] = {"b+c", "a+b", "ab+c"};
    struct qr_tokenizer *tok = tiny_tokenizer(merge, 3, NULL, NULL);

    (void)state;
    assert_encodes(tok, "abc", TINY_PLAIN, IDS('a', 256));
    qr_tokenizer_destroy(tok);
    tok = tiny_tokenizer(merge, 3, "\"ignore_merges\":true", NULL);
    assert_encodes(tok, "abc", TINY_PLAIN, IDS(258));
    assert_encodes(tok, "abcd", TINY_PLAIN, IDS('a', 256, 'd'));
    qr_tokenizer_destroy(tok);
}

/* A vocabulary of the letters a to c and <u>. */
static void bytes_without_a_token(void **state)
{
    static const char *const more[] = {"", ",\"unk_token\":\"<u>\"", ",\"unk_token\":\"<u>\",\"fuse_unk\":true"};
    static const int32_t want[][5] = {{0, 1, -1}, {0, 3, 3, 1, -1}, {0, 3, 1, -1}};
    char json[512], word[200];

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct qr_tokenizer *tok;
        struct qr_err err;
        int32_t *ids;
        size_t n;

        snprintf(json, sizeof json,
                 "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"<u>\":3},\"merges\":[]%s},"
                 "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
                 "\"decoder\":{\"type\":\"ByteLevel\"}}",
                 more[i]);
        assert_int_equal(qr_tokenizer_from_json(json, strlen(json), NULL, 0, &tok, &err), QR_OK);
        assert_encodes(tok, "axyb", TINY_PLAIN, want[i]);
        /* the same by the way for long words */
        memset(word, 'x', sizeof word);
        assert_int_equal(qr_tokenizer_encode(tok, word, sizeof word, false, false, &ids, &n, NULL), QR_OK);
        assert_int_equal(n, i == 0 ? 0 : i == 1 ? sizeof word : 1);
        free(ids);
        qr_tokenizer_destroy(tok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_as_defined),
        cmocka_unit_test(a_word_of_1_mb),
        cmocka_unit_test(whole_words_first),
        cmocka_unit_test(bytes_without_a_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
