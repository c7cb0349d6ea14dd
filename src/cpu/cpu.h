/* cpu.h - the CPU executor: walks the plan with a thread pool. */
#ifndef QR_CPU_CPU_H
#define QR_CPU_CPU_H
#include "base/pool.h"
#include "plan/exec.h"

enum qr_isa { QR_ISA_C, QR_ISA_AVX2, QR_ISA_AVX512, QR_N_ISA };
const char *qr_isa_name(enum qr_isa isa);
bool qr_isa_runs_here(enum qr_isa isa);
enum qr_isa qr_isa_best(void); /* that runs here */
/* By name; NULL or "auto": the best. QR_INVALID: none of that name; QR_UNSUPPORTED: not on this CPU. */
enum qr_status qr_isa_choose(const char *name, enum qr_isa *isa, struct qr_err *err);

/* plan and pool must outlive exec. Allocates exactly what qr_cpu_memory says; a step allocates nothing. */
enum qr_status qr_cpu_exec_create(const struct qr_plan *plan, const struct qr_exec_limits *limits, enum qr_isa isa,
                                  struct qr_pool *pool, struct qr_exec **exec, struct qr_err *err);

struct qr_cpu_memory {
    uint64_t activations, workspace, kv, tables, step; /* bytes */
};
enum qr_status qr_cpu_memory(const struct qr_plan *plan, const struct qr_exec_limits *limits, int n_thread,
                             struct qr_cpu_memory *memory, struct qr_err *err);
uint64_t qr_cpu_block_bytes(const struct qr_plan *plan, enum qr_dtype kv_type); /* one block over all layers */

/* Seconds spent per opcode since creation or the last reset, measured by worker 0 when on. */
void qr_cpu_profile(struct qr_exec *exec, bool on);
void qr_cpu_profile_read(struct qr_exec *exec, double seconds[QR_N_OPCODE], uint64_t count[QR_N_OPCODE]);
#endif
