/* mapguard.c - SIGBUS inside a mapping becomes an error.
 *
 * Reading a mapped page that the file no longer has raises SIGBUS on the reading thread, and a process has one
 * handler for it. So this is the one place with state outside a struct: the handler that stood there before, and
 * per thread the guard that is active. A SIGBUS that no guard asked for goes to the earlier handler. */
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
static _Thread_local volatile bool passing; /* this thread is in the earlier handler */
static struct sigaction previous;
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;

/* When the earlier handler passes on to this one in turn, the default action ends the circle. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    bool circle = passing;

    passing = true;
    if (circle || previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN)
        signal(number, SIG_DFL); /* the instruction runs again and the default action follows */
    else if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(number, info, context);
    else
        previous.sa_handler(number);
    passing = circle;
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

/* Looked at each time, since the program or a library may have set another handler after ours. */
static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction now;

    pthread_mutex_lock(&install_lock);
    sigaction(SIGBUS, NULL, &now);
    if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != on_sigbus) {
        previous = now;
        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, NULL);
    }
    pthread_mutex_unlock(&install_lock);
}

enum qr_status qr_map_guard(const struct qr_map *map, enum qr_status (*fn)(void *ctx, struct qr_err *err), void *ctx,
                            struct qr_err *err)
{
    struct guard guard = {.map = map, .outer = active};
    enum qr_status status;

    install();
    if (sigsetjmp(guard.jump, 1) == 0) { /* with the mask: in the handler SIGBUS is blocked */
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
