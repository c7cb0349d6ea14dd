/* isa.c - which instruction sets this CPU has, and which one to use. */
#include <string.h>
#include "cpu/kernel.h"

static const char *const names[QR_N_ISA] = {"c", "avx2", "avx512"};

const char *qr_isa_name(enum qr_isa isa)
{
    return (unsigned)isa < QR_N_ISA ? names[isa] : "?";
}

bool qr_isa_runs_here(enum qr_isa isa)
{
    __builtin_cpu_init();
    switch (isa) {
    case QR_ISA_C:
        return true;
    case QR_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    case QR_ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vnni") && qr_isa_runs_here(QR_ISA_AVX2);
    case QR_N_ISA:
        break;
    }
    return false;
}

enum qr_isa qr_isa_best(void)
{
    enum qr_isa best = QR_ISA_C;
    for (int i = 0; i < QR_N_ISA; i++)
        if (qr_isa_runs_here(i))
            best = i;
    return best;
}

enum qr_status qr_isa_choose(const char *name, enum qr_isa *isa, struct qr_err *err)
{
    *isa = qr_isa_best();
    if (!name || strcmp(name, "auto") == 0)
        return QR_OK;
    for (int i = 0; i < QR_N_ISA; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        if (!qr_isa_runs_here(i))
            return qr_fail(err, QR_UNSUPPORTED,
                           "isa is %s, which this CPU does not run: leave it out for the best here, %s", names[i],
                           names[*isa]);
        *isa = i;
        return QR_OK;
    }
    return qr_fail(err, QR_INVALID, "isa is \"%.50s\": it must be auto, c, avx2 or avx512", name);
}

const struct qr_cpu_table *qr_cpu_table(enum qr_isa isa)
{
    return isa == QR_ISA_AVX512 ? &qr_cpu_table_avx512 : isa == QR_ISA_AVX2 ? &qr_cpu_table_avx2 : &qr_cpu_table_c;
}
