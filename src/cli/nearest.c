/* nearest.c - which known name did the user mean? */
#include <stdint.h>
#include <string.h>
#include "cli/args.h"

enum { NAME_MAX_LEN = 48 };

/* Edit distance with transpositions (Damerau 1964, the restricted form), row by row. */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t before[NAME_MAX_LEN + 1] = {0}, last[NAME_MAX_LEN + 1], now[NAME_MAX_LEN + 1];
    for (size_t j = 0; j <= n_b; j++)
        last[j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        now[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
        memcpy(before, last, sizeof before);
        memcpy(last, now, sizeof last);
    }
    return last[n_b];
}

/* A slip of the finger in a word of n letters: one in four letters, at most three; none in a word of two. */
static size_t most_slips(size_t n)
{
    size_t most = (n + 1) / 4;
    return most < 3 ? most : 3;
}

const char *cli_nearest(const char *word, const char *const *names, size_t n)
{
    size_t n_word, best = SIZE_MAX;
    const char *found = NULL;
    word += strspn(word, "-");
    n_word = strlen(word);
    if (n_word > NAME_MAX_LEN)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const char *name = names[i] + strspn(names[i], "-");
        size_t n_name = strlen(name);
        if (n_name > NAME_MAX_LEN)
            continue;
        size_t d = distance(word, n_word, name, n_name);
        if (d < best && d <= most_slips(n_name > n_word ? n_name : n_word)) {
            best = d;
            found = names[i];
        }
    }
    return found;
}
