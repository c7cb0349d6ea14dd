/* main.c - quire: the first word is a command. */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "cli/commands.h"
#include "cli/help.h"

static const struct cli_command commands[] = {
    {"chat", "[MODEL] [options]", "talk in the terminal",
     "Ctrl-C stops an answer; Ctrl-D or /quit ends. /help lists the commands inside.\n"
     "A line that ends in a backslash goes on in the next. What you type is kept for the arrow keys, in\n"
     "~/.local/state/quire/history.",
     cmd_chat},
    {"complete", "[MODEL] -p TEXT [options]", "continue a text",
     "The text comes from -p, from -f FILE, from standard input, or as ids from --prompt-ids.\n"
     "The answer goes to standard output, all else to standard error.\n"
     "Without -n it has at most 512 tokens, with --chat as many as the context holds.",
     cmd_complete},
    {"serve", "[MODEL] [options]", "serve the OpenAI API over HTTP",
     "GET  / (chat page) /health /ready /metrics /version /v1/models /tokenizer_info\n"
     "POST /v1/chat/completions /v1/completions /tokenize /detokenize\n"
     "SIGTERM or Ctrl-C: no new requests, running ones are finished; again: ends at once.",
     cmd_serve},
    {"score", "[MODEL] [options] < TEXT", "log-likelihood and perplexity of a text",
     "Windows of --ctx tokens. Without --stride they do not overlap and the second half of each is scored\n"
     "(llama.cpp's way); with --stride S each window scores its last S tokens (Hugging Face's way).",
     cmd_score},
    {"batch", "[MODEL] -i IN.jsonl -o OUT.jsonl [options]", "answer a file of OpenAI requests",
     "In:  lines {\"custom_id\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", \"body\"}, or "
     "/v1/completions.\n"
     "Out: lines {\"id\", \"custom_id\", \"response\", \"error\"}. A line that is wrong gets an error of its own.\n"
     "Broken off and started again, it goes on where it stopped: what OUT has is not asked again.",
     cmd_batch},
    {"bench", "latency|throughput|kernels|serve|ablate [MODEL] [options]", "measure speed",
     "latency: time to the first token and tokens a second, for one request or --batch of them.\n"
     "throughput: tokens a second over a set of requests of mixed lengths, and how long each waits.\n"
     "kernels: each kernel of the CPU or of a GPU: its error against plain C, its rate and its share of what\n"
     "the machine can do.\n"
     "serve: a load of streamed requests on a running OpenAI server, any one (--url), and what its clients see.\n"
     "ablate: on a GPU, what each fusion is worth under stream launches and under graphs, and where the time goes.",
     cmd_bench},
    {"plan", "[MODEL] [options]", "print the recorded forward pass",
     "The forward pass is recorded once, as a flat list of operations, then rewritten by the fusion passes\n"
     "of --fuse: merge, rmsnorm, add-rmsnorm, rope-store, qk-norm, silu-mul.",
     cmd_plan},
    {"info", "[MODEL] [options]", "configuration, tensors, tokenizer and memory ledger",
     "Reads headers only: it takes no memory for weights.", cmd_info},
    {"tokenize", "[MODEL] [options] < TEXT", "text to token ids",
     "Prints one line of ids. --json: one JSON string a line in, one JSON array a line out.", cmd_tokenize},
    {"detokenize", "[MODEL] [options] < IDS", "token ids to text",
     "Ids with blanks or commas between. --json: one JSON array a line in, one JSON string a line out.",
     cmd_detokenize},
    {"template", "[MODEL] [options] < JSON", "a conversation to the prompt text",
     "Reads {\"messages\":[...],\"tools\":[...],...} and prints what the chat template makes of it.", cmd_template},
    {"fetch", "REPO[@REV]", "download a repository into the Hugging Face cache",
     "REPO is Org/Name; Org/Name:Q4_K_M or Org/Name/FILE.gguf takes one GGUF file, else the best that fits memory.\n"
     "Broken off and started again, it goes on where it stopped. Prints where the model lies.\n"
     "Environment: HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HUB_OFFLINE,\n"
     "HF_HUB_DISABLE_PROGRESS_BARS, and those of libcurl (https_proxy).",
     cmd_fetch},
    {"synth", "SHAPE DIR|FILE.gguf [options]", "write a model with random weights",
     "A directory in Hugging Face layout, or a GGUF file when the name ends in .gguf.", cmd_synth},
    {"version", "[options]", "version, build and devices", NULL, cmd_version},
};
enum { N_COMMAND = sizeof commands / sizeof *commands };

static int unknown_command(const char *word)
{
    const char *names[N_COMMAND];
    for (size_t i = 0; i < N_COMMAND; i++)
        names[i] = commands[i].name;
    const char *near = cli_nearest(word, names, N_COMMAND);
    if (near)
        cli_error("unknown command '%s': did you mean %s?", word, near);
    else
        cli_error("unknown command '%s': quire help lists them", word);
    return CLI_USAGE;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        cli_help_all(commands, N_COMMAND);
        return CLI_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0 || (strcmp(word, "help") == 0 && argc == 2)) {
        cli_help_all(commands, N_COMMAND);
        return CLI_OK;
    }
    if (strcmp(word, "--version") == 0)
        word = "version";
    char *help[] = {"-h"};
    bool wants_help = strcmp(word, "help") == 0;
    for (size_t i = 0; i < N_COMMAND; i++)
        if (strcmp(wants_help ? argv[2] : word, commands[i].name) == 0)
            return wants_help ? commands[i].run(&commands[i], 1, help)
                              : commands[i].run(&commands[i], argc - 2, argv + 2);
    return unknown_command(wants_help ? argv[2] : word);
}

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write over the limit is an error like a full disk */
    int code = run(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == CLI_OK) {
        if (errno != EPIPE)
            cli_error("standard output cannot be written: %s", strerror(errno));
        code = CLI_FAILED;
    }
    return code;
}
