/* ui.c - colours, progress, Ctrl-C. */
#include "cli/ui.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include "base/clock.h"

bool cli_fancy(FILE *stream)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fileno(stream)) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

const char *cli_bytes(uint64_t bytes, char text[32])
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    double v = (double)bytes;
    int u = 0;
    while (v >= 1000 && u < 4) {
        v /= 1000;
        u++;
    }
    snprintf(text, 32, u ? "%.3g %s" : "%.0f %s", v, unit[u]);
    return text;
}

void cli_progress_start(struct cli_progress *progress, const char *what, const char *unit)
{
    *progress = (struct cli_progress){.what = what, .unit = unit, .on = cli_fancy(stderr)};
    progress->start_ns = progress->last_ns = qr_now_ns();
}

void cli_progress_update(struct cli_progress *progress, uint64_t done, uint64_t total)
{
    int64_t now = qr_now_ns();
    if (!progress->on || !total || now - progress->start_ns < 300000000 || now - progress->last_ns < 100000000)
        return;
    progress->last_ns = now;
    struct winsize size = {0};
    int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 60 ? size.ws_col - 50 : 20;
    width = width > 40 ? 40 : width;
    double part = done < total ? (double)done / (double)total : 1, seconds = (double)(now - progress->start_ns) * 1e-9;
    char bar[41];
    for (int i = 0; i < width; i++)
        bar[i] = i < (int)(part * width) ? '=' : ' ';
    bar[width] = 0;
    char amount[80], a[32], b[32];
    if (strcmp(progress->unit, "B") == 0)
        snprintf(amount, sizeof amount, "%s of %s", cli_bytes(done, a), cli_bytes(total, b));
    else
        snprintf(amount, sizeof amount, "%llu of %llu %s", (unsigned long long)done, (unsigned long long)total,
                 progress->unit);
    fprintf(stderr, "\r%s [%s] %3.0f%% %s", progress->what, bar, part * 100, amount);
    if (part > 0)
        fprintf(stderr, ", %.0f s left", seconds / part - seconds);
    fputs(" \033[K", stderr);
    fflush(stderr);
}

void cli_progress_end(struct cli_progress *progress)
{
    if (progress->on)
        fputs("\r\033[K", stderr);
    progress->on = false;
}

static struct termios terminal; /* as it was before cli_end_key(false) */
static volatile sig_atomic_t end_key_off;

void cli_end_key(bool on)
{
    if (!on && !end_key_off && tcgetattr(STDIN_FILENO, &terminal) == 0) {
        struct termios without = terminal;
        without.c_cc[VEOF] = _POSIX_VDISABLE;
        end_key_off = tcsetattr(STDIN_FILENO, TCSANOW, &without) == 0;
    } else if (on && end_key_off) {
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
        end_key_off = 0;
    }
}

volatile sig_atomic_t cli_interrupted;

static void on_interrupt(int number)
{
    (void)number;
    if (cli_interrupted) {
        cli_end_key(true);
        _exit(130);
    }
    cli_interrupted = 1;
}

void cli_catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART: a read at the prompt must return */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}
