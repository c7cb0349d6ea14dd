/* prompt.c - a line from the user. The history is kept in $XDG_STATE_HOME/quire/history (~/.local/state/quire). */
#include "cli/prompt.h"
#include <errno.h>
#include <histedit.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/buf.h"
#include "cli/ui.h"

enum { HISTORY_LINES = 1000 };

struct cli_prompt {
    bool interactive, more; /* more: inside a line that goes on */
    EditLine *edit;
    History *history;
    char history_path[PATH_MAX];
    struct qr_buf line;
    char *raw; /* getline's */
    size_t raw_room;
};

static char *prompt_text(EditLine *edit)
{
    struct cli_prompt *prompt;
    static char first[] = "> ", next[] = "... ";
    el_get(edit, EL_CLIENTDATA, &prompt);
    return prompt->more ? next : first;
}

static bool history_path(char *path, size_t room)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char folder[PATH_MAX - 16];
    if (state && *state)
        snprintf(folder, sizeof folder, "%s/quire", state);
    else if (home && *home)
        snprintf(folder, sizeof folder, "%s/.local/state/quire", home);
    else
        return false;
    for (char *slash = folder + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(folder, 0700);
        *slash = '/';
    }
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return false;
    snprintf(path, room, "%s/history", folder);
    return true;
}

static bool start_editing(struct cli_prompt *prompt)
{
    HistEvent event;
    prompt->edit = el_init("quire", stdin, stderr, stderr);
    prompt->history = history_init();
    if (!prompt->edit || !prompt->history)
        return false;
    history(prompt->history, &event, H_SETSIZE, HISTORY_LINES);
    history(prompt->history, &event, H_SETUNIQUE, 1);
    if (history_path(prompt->history_path, sizeof prompt->history_path))
        history(prompt->history, &event, H_LOAD, prompt->history_path);
    el_set(prompt->edit, EL_CLIENTDATA, prompt);
    el_set(prompt->edit, EL_PROMPT, prompt_text);
    el_set(prompt->edit, EL_EDITOR, "emacs");
    el_set(prompt->edit, EL_HIST, history, prompt->history);
    el_set(prompt->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(prompt->edit, NULL);
    return true;
}

struct cli_prompt *cli_prompt_create(void)
{
    struct cli_prompt *prompt = calloc(1, sizeof *prompt);
    if (!prompt)
        return NULL;
    qr_buf_init(&prompt->line, 1 << 26);
    prompt->interactive = isatty(STDIN_FILENO);
    if (prompt->interactive && !start_editing(prompt)) {
        cli_prompt_destroy(prompt);
        return NULL;
    }
    return prompt;
}

void cli_prompt_destroy(struct cli_prompt *prompt)
{
    HistEvent event;
    if (!prompt)
        return;
    if (prompt->history) {
        if (*prompt->history_path)
            history(prompt->history, &event, H_SAVE, prompt->history_path);
        history_end(prompt->history);
    }
    if (prompt->edit)
        el_end(prompt->edit);
    qr_buf_free(&prompt->line);
    free(prompt->raw);
    free(prompt);
}

bool cli_prompt_interactive(const struct cli_prompt *prompt)
{
    return prompt->interactive;
}

/* One raw line with its end; NULL at the end of input or after Ctrl-C (cli_interrupted is set then). */
static const char *read_raw(struct cli_prompt *prompt, size_t *n)
{
    if (prompt->interactive) {
        int count = 0;
        const char *raw = el_gets(prompt->edit, &count);
        *n = raw && count > 0 ? (size_t)count : 0;
        return *n ? raw : NULL;
    }
    ssize_t got = getline(&prompt->raw, &prompt->raw_room, stdin);
    *n = got > 0 ? (size_t)got : 0;
    return got > 0 ? prompt->raw : NULL;
}

char *cli_prompt_read(struct cli_prompt *prompt, size_t *n)
{
    HistEvent event;
    qr_buf_clear(&prompt->line);
    qr_buf_puts(&prompt->line, "");
    for (prompt->more = false;; prompt->more = true) {
        size_t n_raw;
        const char *raw = read_raw(prompt, &n_raw);
        if (!raw && cli_interrupted && prompt->interactive) {
            fputs("\n", stderr);
            qr_buf_clear(&prompt->line);
            qr_buf_puts(&prompt->line, "");
            break;
        }
        if (!raw && prompt->interactive)
            fputs("\n", stderr); /* after the ^D */
        if (!raw && !prompt->line.len)
            return NULL;
        if (!raw)
            break;
        while (n_raw && (raw[n_raw - 1] == '\n' || raw[n_raw - 1] == '\r'))
            n_raw--;
        bool goes_on = n_raw && raw[n_raw - 1] == '\\';
        qr_buf_append(&prompt->line, raw, n_raw - goes_on);
        if (!goes_on)
            break;
        qr_buf_putc(&prompt->line, '\n');
    }
    if (prompt->line.failed || !qr_buf_reserve(&prompt->line, 1))
        return NULL;
    prompt->line.data[prompt->line.len] = 0;
    if (prompt->interactive && prompt->line.len)
        history(prompt->history, &event, H_ENTER, prompt->line.data);
    *n = prompt->line.len;
    return prompt->line.data;
}
