/* bench_kernels.c - each kernel of the CPU or of a GPU: error against plain C, rate, share of what the machine gives. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "cli/bench.h"
#include "cli/session.h"
#include "cli/ui.h"
#include "cpu/bench.h"
#include "cuda/bench.h"
#include "cuda/cuda.h"

struct kernels {
    int64_t n_thread;
    double seconds;
    const char *isa, *device;
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

static json_t *json_of(const struct qr_bench_row *row, int n)
{
    json_t *rows = json_array();
    for (int i = 0; i < n; i++) {
        json_t *one =
            json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f}", "kernel", row[i].kernel, "variant",
                      row[i].variant, "shape", row[i].shape, "tokens", row[i].n_token, "us", row[i].seconds * 1e6,
                      "gb_s", row[i].gb_s, "gflop_s", row[i].gflop_s, "share", row[i].share, "error", row[i].error);
        if (row[i].peer > 0)
            json_object_set_new(one, "peer_us", json_real(row[i].peer * 1e6));
        json_array_append_new(rows, one);
    }
    return rows;
}

static void print_json(json_t *root)
{
    json_dumpf(root, stdout, JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(root);
}

/* giga: whether products are told in GFLOP/s, else in TFLOP/s; peer: a column for it, or NULL. */
static void print_table(const struct qr_bench_row *row, int n, bool giga, const char *peer)
{
    printf("%-12s %-10s %-22s %6s %10s %8s %9s %7s %9s", "kernel", "type", "shape", "tokens", "us", "GB/s",
           giga ? "GFLOP/s" : "TFLOP/s", "share", "error");
    printf(peer ? "  %s, us\n" : "\n", peer);
    for (int i = 0; i < n; i++) {
        printf("%-12s %-10s %-22s %6d %10.1f %8.1f ", row[i].kernel, row[i].variant, row[i].shape, row[i].n_token,
               row[i].seconds * 1e6, row[i].gb_s);
        char rate[16] = "-", share[16] = "-", other[16] = ""; /* "-" where a figure says nothing */
        if (row[i].gflop_s > 0)
            snprintf(rate, sizeof rate, "%.1f", row[i].gflop_s * (giga ? 1 : 1e-3));
        if (row[i].share > 0)
            snprintf(share, sizeof share, "%.0f%%", row[i].share * 100);
        if (row[i].peer > 0)
            snprintf(other, sizeof other, "  %10.1f", row[i].peer * 1e6);
        printf("%9s %7s %9.1e%s\n", rate, share, row[i].error, other);
    }
}

static int measure_cpu(const struct kernels *k, enum qr_isa isa)
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
    if (k->json) {
        print_json(json_pack("{s:s, s:{s:f, s:f, s:f}, s:o}", "isa", qr_isa_name(isa), "peak", "read_gb_s",
                             peak.read_gb_s, "f32_gflop_s", peak.f32_gflop_s, "i16_gflop_s", peak.i16_gflop_s,
                             "kernels", json_of(row, n)));
        return CLI_OK;
    }
    printf("%s: reads %.1f GB/s, fp32 %.0f GFLOP/s, int16 %.0f GOP/s\n\n", qr_isa_name(isa), peak.read_gb_s,
           peak.f32_gflop_s, peak.i16_gflop_s);
    print_table(row, n, true, NULL);
    return CLI_OK;
}

static int measure_gpu(const struct kernels *k)
{
    struct qr_err err;
    struct cli_progress progress;
    struct qr_cuda_peak peak;
    struct qr_bench_row row[QR_BENCH_MAX];
    int n;
    cli_catch_interrupt();
    cli_progress_start(&progress, "measuring", "kernels");
    enum qr_status status = qr_cuda_bench_kernels(0, k->seconds, on_progress, &progress, &peak, row, &n, &err);
    cli_progress_end(&progress);
    if (status == QR_CANCELLED)
        return CLI_INTERRUPTED;
    if (status != QR_OK)
        return cli_fail(&err);
    if (k->json) {
        print_json(json_pack("{s:s, s:s, s:{s:f, s:f}, s:o}", "device", peak.device, "peer", peak.peer, "peak",
                             "read_gb_s", peak.read_gb_s, "bf16_gflop_s", peak.bf16_gflop_s, "kernels",
                             json_of(row, n)));
        return CLI_OK;
    }
    printf("%s: reads %.0f GB/s, bf16 products %.0f TFLOP/s (the best measured here)\n\n", peak.device, peak.read_gb_s,
           peak.bf16_gflop_s * 1e-3);
    print_table(row, n, false, peak.peer[0] ? peak.peer : NULL);
    return CLI_OK;
}

/* Which device: 1 a GPU, 0 the CPU, -1 neither name. Options that are the CPU's mean the CPU. */
static int choose_gpu(const struct kernels *k)
{
    int n;
    if (!k->device || strcmp(k->device, "auto") == 0)
        return !k->isa && !k->n_thread && qr_cuda_count(&n, NULL) == QR_OK;
    return strcmp(k->device, "cuda") == 0 ? 1 : strcmp(k->device, "cpu") == 0 ? 0 : -1;
}

int bench_kernels(const struct cli_command *command, int argc, char **argv)
{
    struct kernels k = {.seconds = 0.1};
    struct cli_positional words;
    const struct cli_option own[] = {
        {"--device", NULL, CLI_TEXT, "NAME", "cpu, cuda or auto (default)", &k.device, 0, 0},
        {"--threads", "-t", CLI_INT, "N", "CPU threads (default: all CPUs)", &k.n_thread, 0, 256},
        {"--seconds", NULL, CLI_REAL, "X", "for each kernel (default: 0.1)", &k.seconds, 0.001, 60},
        {"--isa", NULL, CLI_TEXT, "NAME",
         "of the CPU's kernels: avx512, avx2, c or auto, the best that runs here (default)", &k.isa, 0, 0},
        {"--json", NULL, CLI_FLAG, NULL, "print one JSON object", &k.json, 0, 0},
        {0},
    };
    const struct cli_group groups[] = {{"bench kernels", own}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 0);
    if (code != CLI_GO_ON)
        return code;
    const int gpu = choose_gpu(&k);
    if (gpu < 0)
        return cli_usage_error(command, "--device %s is unknown: cpu, cuda or auto", k.device);
    if (gpu > 0 && (k.isa || k.n_thread))
        return cli_usage_error(command, "%s is an option of the CPU's kernels, not of --device cuda",
                               k.isa ? "--isa" : "--threads");
    if (gpu > 0)
        return measure_gpu(&k);
    enum qr_isa isa;
    struct qr_err err;
    if (qr_isa_choose(k.isa, &isa, &err) != QR_OK)
        return cli_usage_error(command, "%s", err.message);
    return measure_cpu(&k, isa);
}
