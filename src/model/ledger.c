/* ledger.c - the memory account: lines, their sum, a table for people and JSON for programs. */
#include "model/ledger.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/checked.h"

static uint64_t saturating_add(uint64_t a, uint64_t b)
{
    uint64_t sum = UINT64_MAX;
    qr_add_u64(a, b, &sum);
    return sum;
}

/* A 49th line is added to the last one, so that the total stays right. */
void qr_ledger_add(struct qr_ledger *ledger, uint64_t bytes, const char *name, const char *note_fmt, ...)
{
    ledger->total = saturating_add(ledger->total, bytes);
    if (ledger->n == QR_LEDGER_MAX) {
        int last = QR_LEDGER_MAX - 1;
        ledger->line[last].bytes = saturating_add(ledger->line[last].bytes, bytes);
        snprintf(ledger->line[last].name, sizeof(ledger->line[last].name), "further lines");
        ledger->line[last].note[0] = '\0';
        return;
    }
    int i = ledger->n++;
    ledger->line[i].bytes = bytes;
    snprintf(ledger->line[i].name, sizeof(ledger->line[i].name), "%s", name);
    ledger->line[i].note[0] = '\0';
    if (note_fmt) {
        va_list args;
        va_start(args, note_fmt);
        vsnprintf(ledger->line[i].note, sizeof(ledger->line[i].note), note_fmt, args);
        va_end(args);
    }
}

/* "1.50 GiB": powers of 1024, three digits. */
static void human(uint64_t bytes, char out[16])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double x = (double)bytes;
    int u = 0;
    while (x >= 999.5 && u < 6) {
        x /= 1024;
        u++;
    }
    int decimals = u == 0 || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2;
    snprintf(out, 16, "%.*f %s", decimals, x, unit[u]);
}

/* "1,234,567" */
static void grouped(uint64_t bytes, char out[32])
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)bytes), k = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = '\0';
}

static void print_line(struct qr_buf *out, int width, const char *name, uint64_t bytes, const char *note)
{
    char short_form[16], exact[32];
    human(bytes, short_form);
    grouped(bytes, exact);
    qr_buf_printf(out, "%-*s  %10s  %18s%s%s\n", width, name, short_form, exact, note[0] ? "  " : "", note);
}

void qr_ledger_print(const struct qr_ledger *ledger, uint64_t available, struct qr_buf *out)
{
    int width = (int)strlen("available");
    for (int i = 0; i < ledger->n; i++) {
        int n = (int)strlen(ledger->line[i].name);
        width = n > width ? n : width;
    }
    qr_buf_printf(out, "%-*s  %10s  %18s\n", width, "memory", "size", "bytes");
    for (int i = 0; i < ledger->n; i++)
        print_line(out, width, ledger->line[i].name, ledger->line[i].bytes, ledger->line[i].note);
    print_line(out, width, "total", ledger->total, "");
    if (available > 0)
        print_line(out, width, "available", available, ledger->total > available ? "too little" : "");
}

json_t *qr_ledger_json(const struct qr_ledger *ledger, uint64_t available)
{
    json_t *lines = json_array();
    for (int i = 0; i < ledger->n; i++) {
        json_t *line = json_pack("{s:s, s:I, s:s}", "name", ledger->line[i].name, "bytes",
                                 (json_int_t)ledger->line[i].bytes, "note", ledger->line[i].note);
        if (!line || json_array_append_new(lines, line) != 0) {
            json_decref(lines);
            return NULL;
        }
    }
    return json_pack("{s:o, s:I, s:I}", "lines", lines, "total", (json_int_t)ledger->total, "available",
                     (json_int_t)available);
}
