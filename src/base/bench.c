/* bench.c - what the times of kernels are worth: rates, and shares of what the device gives. */
#include "base/bench.h"
#include <math.h>

void qr_bench_shares(struct qr_bench_row *row, const struct qr_bench_cost *cost, int n,
                     struct qr_bench_ceiling *ceiling)
{
    for (int i = 0; i < n; i++) {
        double *products = &ceiling->gflop_s[cost[i].unit];
        row[i].gb_s = cost[i].bytes / row[i].seconds * 1e-9;
        row[i].gflop_s = cost[i].flops / row[i].seconds * 1e-9;
        *products = fmax(*products, row[i].gflop_s);
        if (row[i].peer > 0)
            *products = fmax(*products, cost[i].flops / row[i].peer * 1e-9);
        if (cost[i].from_memory)
            ceiling->gb_s = fmax(ceiling->gb_s, row[i].gb_s);
    }
    for (int i = 0; i < n; i++)
        row[i].share = fmax(row[i].gflop_s / ceiling->gflop_s[cost[i].unit],
                            cost[i].from_memory ? row[i].gb_s / ceiling->gb_s : 0);
}
