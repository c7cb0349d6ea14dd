/* mapguard.c - SIGBUS inside a mapping becomes an error.
 *
 * Reading a mapped page that the file no longer has raises SIGBUS on the reading thread. The process has one
 * handler for it, so this is the one place with state outside a struct: the handler that stood there before, and per thread
 * the guard that is active. A SIGBUS that no guard asked for goes to the earlier handler. */
#include "base/mapfile.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

struct guard {
    const struct qr_map *map;
    struct guard *outer;
    sigjmp_buf jump;
};

static _Thread_local struct guard *volatile active;
static struct sigaction previous;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

static void pass_on(int number, siginfo_t *info, void *context)
{
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(number, info, context);
    } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
        signal(number, SIG_DFL); /* the instruction runs again and the default action follows */
    } else {
        previous.sa_handler(number);
    }
}

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    struct guard *guard = active;

    for (; guard; guard = guard->outer) {
        const uint8_t *at = info->si_addr;

        if (at >= guard->map->data && at < guard->map->data + guard->map->size)
            siglongjmp(guard->jump, 1);
    }
    pass_on(number, info, context);
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
}

enum qr_status qr_map_guard(const struct qr_map *map, enum qr_status (*fn)(void *ctx, struct qr_err *err), void *ctx,
                            struct qr_err *err)
{
    struct guard guard = {.map = map, .outer = active};
    enum qr_status status;

    pthread_once(&installed, install);
    /* SA_NODEFER: the handler runs with SIGBUS unblocked, so the jump need not restore the mask */
    if (sigsetjmp(guard.jump, 0) == 0) {
        active = &guard;
        status = fn(ctx, err);
    } else {
        status =
            qr_fail(err, QR_IO, "%s became shorter than the %llu bytes it had when it was opened, or could not be read",
                    map->path, (unsigned long long)map->size);
    }
    active = guard.outer;
    return status;
}
