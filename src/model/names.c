/* names.c - sorted names. */
#include "model/names.h"
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct qr_name *x = a, *y = b;
    uint64_t n = x->n < y->n ? x->n : y->n;
    int order = n ? memcmp(x->s, y->s, n) : 0;

    if (order != 0)
        return order;
    return (x->n > y->n) - (x->n < y->n);
}

void qr_names_sort(struct qr_name *names, uint64_t n_name)
{
    if (n_name > 1)
        qsort(names, n_name, sizeof *names, compare);
}

const struct qr_name *qr_names_duplicate(const struct qr_name *names, uint64_t n_name)
{
    for (uint64_t i = 1; i < n_name; i++)
        if (compare(&names[i - 1], &names[i]) == 0)
            return &names[i];
    return NULL;
}

const struct qr_name *qr_names_find(const struct qr_name *names, uint64_t n_name, const char *s, uint64_t n)
{
    struct qr_name wanted = {.s = s, .n = n};

    if (n_name == 0)
        return NULL;
    return bsearch(&wanted, names, n_name, sizeof *names, compare);
}
