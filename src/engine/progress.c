/* progress.c - a sign of life from within a step. */
#include "engine/core.h"

uint64_t qr_engine_progress(const struct qr_engine *engine)
{
    return __atomic_load_n(&engine->parts.exec->progress, __ATOMIC_RELAXED);
}
