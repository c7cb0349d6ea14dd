/* bench_kernels.c - each CPU kernel: error against plain C, rate, share of what the machine gives. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "cli/bench.h"
#include "cli/session.h"
#include "cli/ui.h"
#include "cpu/bench.h"

struct kernels {
    int64_t n_thread;
    double seconds;
    const char *isa;
    bool json;
};

double bench_read_bandwidth(int n_thread)
{
    struct qr_pool *pool;
    struct qr_bench_peak peak = {0};
    if (qr_pool_create(n_thread, &pool, NULL) != QR_OK)
        return 0;
    enum qr_status status = qr_cpu_bench_peaks(pool, qr_isa_best(), 0.1, &peak, NULL);
    qr_pool_destroy(pool);
    return status == QR_OK ? peak.read_gb_s * 1e9 : 0;
}

static bool on_progress(void *ctx, int done, int total)
{
    cli_progress_update(ctx, (uint64_t)done, (uint64_t)total);
    return !cli_interrupted;
}

static void print_json(const struct qr_bench_peak *peak, const char *isa, const struct qr_bench_row *row, int n)
{
    json_t *rows = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f}", "kernel", row[i].kernel,
                                              "variant", row[i].variant, "shape", row[i].shape, "tokens",
                                              row[i].n_token, "us", row[i].seconds * 1e6, "gb_s", row[i].gb_s,
                                              "gflop_s", row[i].gflop_s, "share", row[i].share, "error", row[i].error));
    json_t *root = json_pack("{s:s, s:{s:f, s:f, s:f}, s:o}", "isa", isa, "peak", "read_gb_s", peak->read_gb_s,
                             "f32_gflop_s", peak->f32_gflop_s, "i16_gflop_s", peak->i16_gflop_s, "kernels", rows);
    json_dumpf(root, stdout, JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(root);
}

static void print_table(const struct qr_bench_peak *peak, const char *isa, const struct qr_bench_row *row, int n)
{
    printf("%s: reads %.1f GB/s, fp32 %.0f GFLOP/s, int16 %.0f GOP/s\n\n", isa, peak->read_gb_s, peak->f32_gflop_s,
           peak->i16_gflop_s);
    printf("%-12s %-10s %-22s %6s %10s %8s %9s %7s %9s\n", "kernel", "type", "shape", "tokens", "us", "GB/s", "GFLOP/s",
           "share", "error");
    for (int i = 0; i < n; i++) {
        printf("%-12s %-10s %-22s %6d %10.1f %8.1f ", row[i].kernel, row[i].variant, row[i].shape, row[i].n_token,
               row[i].seconds * 1e6, row[i].gb_s);
        char rate[16] = "-", share[16] = "-"; /* 0 where a figure says nothing */
        if (row[i].gflop_s > 0)
            snprintf(rate, sizeof rate, "%.1f", row[i].gflop_s);
        if (row[i].share > 0)
            snprintf(share, sizeof share, "%.0f%%", row[i].share * 100);
        printf("%9s %7s %9.1e\n", rate, share, row[i].error);
    }
}

static int measure(const struct kernels *k, enum qr_isa isa)
{
    struct qr_err err;
    struct qr_pool *pool;
    struct cli_progress progress;
    struct qr_bench_peak peak;
    struct qr_bench_row row[QR_BENCH_MAX];
    int n;
    if (qr_pool_create((int)k->n_thread, &pool, &err) != QR_OK)
        return cli_fail(&err);
    cli_catch_interrupt();
    cli_progress_start(&progress, "measuring", "kernels");
    enum qr_status status = qr_cpu_bench_kernels(pool, isa, k->seconds, on_progress, &progress, &peak, row, &n, &err);
    cli_progress_end(&progress);
    qr_pool_destroy(pool);
    if (status == QR_CANCELLED)
        return CLI_INTERRUPTED;
    if (status != QR_OK)
        return cli_fail(&err);
    (k->json ? print_json : print_table)(&peak, qr_isa_name(isa), row, n);
    return CLI_OK;
}

int bench_kernels(const struct cli_command *command, int argc, char **argv)
{
    struct kernels k = {.seconds = 0.1};
    struct cli_positional words;
    const struct cli_option own[] = {
        {"--threads", "-t", CLI_INT, "N", "CPU threads (default: all CPUs)", &k.n_thread, 0, 256},
        {"--seconds", NULL, CLI_REAL, "X", "for each kernel (default: 0.1)", &k.seconds, 0.001, 60},
        {"--isa", NULL, CLI_TEXT, "NAME", "c, avx2 or avx512 (default: the best that runs here)", &k.isa, 0, 0},
        {"--json", NULL, CLI_FLAG, NULL, "print one JSON object", &k.json, 0, 0},
        {0},
    };
    const struct cli_group groups[] = {{"bench kernels", own}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 0);
    if (code != CLI_GO_ON)
        return code;
    enum qr_isa isa = qr_isa_best();
    if (k.isa) {
        for (isa = QR_ISA_C; isa < QR_N_ISA && strcmp(qr_isa_name(isa), k.isa) != 0;)
            isa++;
        if (isa == QR_N_ISA)
            return cli_usage_error(command, "--isa %s is unknown: c, avx2 or avx512", k.isa);
    }
    return measure(&k, isa);
}
