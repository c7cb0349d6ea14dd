/* ui.h - what a person sees on standard error: colours, a progress bar, notes. Results go to standard output. */
#ifndef QR_CLI_UI_H
#define QR_CLI_UI_H
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Is this stream a terminal that wants colours (NO_COLOR unset, TERM not dumb)? */
bool cli_fancy(FILE *stream);

struct cli_progress {
    const char *what; /* "loading" */
    const char *unit; /* "B" (printed as MB, GB) or a word: "tokens" */
    int64_t start_ns, last_ns;
    bool on;
};
void cli_progress_start(struct cli_progress *progress, const char *what, const char *unit);
/* Redraws at most 10 times a second; appears after 0.3 s, so that short work shows none. */
void cli_progress_update(struct cli_progress *progress, uint64_t done, uint64_t total);
void cli_progress_end(struct cli_progress *progress); /* wipes the bar */

/* "1.54 GB", powers of 1000, into text. */
const char *cli_bytes(uint64_t bytes, char text[32]);

/* Off: the terminal takes Ctrl-D for a letter, which waits for whoever reads next; as the end of the input it would be lost while
 * nobody reads. On: as it was. */
void cli_end_key(bool on);

/* Ctrl-C sets this; a second Ctrl-C while it is set ends the program at once. */
extern volatile sig_atomic_t cli_interrupted;
void cli_catch_interrupt(void);
#endif
