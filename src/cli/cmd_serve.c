/* cmd_serve.c - the OpenAI-compatible server: it listens first, then loads, then serves until SIGTERM or Ctrl-C. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/notify.h"
#include "cli/session.h"
#include "cli/ui.h"
#include "server/serve.h"
#include "text/utf8.h"

static struct qr_server *_Atomic draining; /* for the signal handler: the server to drain; NULL: none */

/* The first signal drains, a second one ends at once. */
static void on_signal(int number)
{
    struct qr_server *server = draining;
    (void)number;
    if (!server || cli_interrupted)
        _exit(CLI_INTERRUPTED);
    cli_interrupted = 1;
    qr_server_drain(server);
}

static void catch_signals(struct qr_server *server)
{
    struct sigaction action = {.sa_handler = on_signal};
    draining = server;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

struct serve {
    struct cli_session session;
    struct qr_serve_options options;
    const char *host, *tool_parser, *reasoning_parser;
    struct cli_list keys, names, hosts, origins;
    char name[CLI_NAME]; /* of the model, where names has none */
    int64_t port, drain_s, max_conn, n_worker, idle_s, head_s, body_s, body_mb;
    double temperature, top_p; /* of requests that name none; below 0: the model's */
    bool log_requests;
};

/* One line, whole or not at all: a reader of standard error that does not read must not stop the server. */
static void log_line(void *ctx, const char *line, size_t n)
{
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    char text[1024];
    (void)ctx;
    int length = snprintf(text, sizeof text, "%.*s\n", (int)(n < 1000 ? n : 1000), line);
    if (poll(&ready, 1, 0) == 1 && write(STDERR_FILENO, text, (size_t)length) < 0)
        return; /* nobody reads it */
}

/* One descriptor per client: as many as the system allows. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* A key may also come from the environment, where `ps` does not show it. */
static void take_keys(struct serve *v)
{
    const char *key = getenv("QUIRE_API_KEY");
    if (v->keys.n == 0 && key && *key)
        v->keys.item[v->keys.n++] = key;
    v->options.api_key = v->keys.item;
    v->options.n_api_key = v->keys.n;
}

static void take_options(struct serve *v, const char *model)
{
    struct qr_serve_options *o = &v->options;
    qr_serve_options_default(o);
    o->host = v->host;
    o->port = (int)v->port;
    o->drain_ms = (int)v->drain_s * 1000;
    o->limits.max_conn = (int)v->max_conn;
    o->limits.idle_ms = (int)v->idle_s * 1000;
    o->limits.head_ms = (int)v->head_s * 1000;
    o->limits.body_ms = (int)v->body_s * 1000;
    o->max_body_bytes = v->body_mb << 20;
    if (v->n_worker)
        o->n_worker = (int)v->n_worker;
    take_keys(v);
    if (v->names.n == 0 && model) { /* and the path as it was given */
        cli_model_name(model, v->name);
        v->names.item[v->names.n++] = v->name;
        if (strcmp(model, v->name) != 0 && qr_utf8_valid(model, strlen(model)) == strlen(model))
            v->names.item[v->names.n++] = model;
    }
    o->model_name = v->names.item;
    o->n_model_name = v->names.n;
    o->allowed_host = v->hosts.item;
    o->n_allowed_host = v->hosts.n;
    o->allowed_origin = v->origins.item;
    o->n_allowed_origin = v->origins.n;
    o->has_seed = v->session.seed >= 0;
    o->seed = (uint64_t)v->session.seed;
    o->has_temperature = v->temperature >= 0;
    o->temperature = (float)v->temperature;
    o->has_top_p = v->top_p >= 0;
    o->top_p = (float)v->top_p;
    if (v->log_requests)
        o->log = log_line;
}

static bool is_open_to_all(const char *host)
{
    return strncmp(host, "127.", 4) != 0 && strcmp(host, "localhost") != 0 && strcmp(host, "::1") != 0;
}

/* Between listening and the end. */
static int load_and_wait(const struct cli_command *command, struct serve *v, struct qr_server *server,
                         const char *model)
{
    struct qr_err err;
    int code = cli_open(command, &v->session, model, CLI_NEED_ENGINE);
    catch_signals(server); /* loading had its own */
    if (cli_interrupted)
        qr_server_drain(server);
    if (code != CLI_GO_ON)
        qr_server_drain(server);
    else if (qr_server_attach(server, v->session.model, v->session.engine, &err) != QR_OK) {
        code = cli_fail(&err);
        qr_server_drain(server);
    } else {
        fprintf(stderr, "ready: http://%s%s%s:%d/v1 serves %s (loaded in %.1f s)\n", strchr(v->host, ':') ? "[" : "",
                v->host, strchr(v->host, ':') ? "]" : "", qr_server_port(server), v->options.model_name[0],
                v->session.load_s);
        cli_notify("READY=1\nSTATUS=serving");
    }
    if (qr_server_wait(server) == QR_SERVE_DEAD) {
        cli_error("the engine stopped working; the process ends so that it can be started again");
        _exit(CLI_FAILED); /* its thread cannot be joined */
    }
    return code;
}

static int serve(const struct cli_command *command, struct serve *v, const char *model)
{
    struct qr_err err;
    struct qr_server *server;
    if (is_open_to_all(v->host) && v->keys.n == 0)
        fprintf(stderr, "note: %s is open to the network and asks for no key: see --api-key\n", v->host);
    raise_descriptors();
    if (qr_server_create(&v->options, &server, &err) != QR_OK)
        return cli_fail(&err);
    int code = load_and_wait(command, v, server, model);
    cli_notify("STOPPING=1");
    draining = NULL;
    qr_server_stop(server);
    qr_engine_destroy(v->session.engine); /* before what its requests point to */
    v->session.engine = NULL;
    qr_server_destroy(server);
    cli_close(&v->session);
    return code == CLI_GO_ON ? CLI_OK : code;
}

int cmd_serve(const struct cli_command *command, int argc, char **argv)
{
    struct serve v = {.host = "127.0.0.1",
                      .port = 8000,
                      .drain_s = 30,
                      .max_conn = 4096,
                      .idle_s = 75,
                      .head_s = 10,
                      .body_s = 120,
                      .body_mb = 256,
                      .temperature = -1,
                      .top_p = -1};
    struct cli_positional words;
    cli_session_init(&v.session);
    const struct cli_option own[] = {
        {"--host", NULL, CLI_TEXT, "NAME", "address to listen on (default: 127.0.0.1, this machine only)", &v.host, 0,
         0},
        {"--port", "-p", CLI_INT, "N", "port to listen on; 0: any (default: 8000)", &v.port, 0, 65535},
        {"--api-key", NULL, CLI_LIST, "KEY", "that clients must send; may be given again (or QUIRE_API_KEY)", &v.keys,
         0, 0},
        {"--served-model-name", NULL, CLI_LIST, "NAME", "the model's name in requests; may be given again", &v.names, 0,
         0},
        {"--allowed-host", NULL, CLI_LIST, "NAME", "a further name of this server in Host fields; * for any", &v.hosts,
         0, 0},
        {"--allowed-origin", NULL, CLI_LIST, "URL", "web pages from there may ask (CORS); * for any", &v.origins, 0, 0},
        {"--max-connections", NULL, CLI_INT, "N", "clients at once (default: 4096)", &v.max_conn, 1, 1 << 20},
        {"--idle-timeout", NULL, CLI_INT, "S", "seconds that an idle connection stays open (default: 75)", &v.idle_s, 1,
         86400},
        {"--header-timeout", NULL, CLI_INT, "S", "seconds that a request's header may take (default: 10)", &v.head_s, 1,
         86400},
        {"--body-timeout", NULL, CLI_INT, "S", "seconds that a request's body may take (default: 120)", &v.body_s, 1,
         86400},
        {"--max-body-memory", NULL, CLI_INT, "MB", "of all requests that were not read yet (default: 256)", &v.body_mb,
         32, 1 << 20},
        {"--drain-timeout", NULL, CLI_INT, "S", "seconds that running requests get after SIGTERM (default: 30)",
         &v.drain_s, 0, 86400},
        {"--request-threads", NULL, CLI_INT, "N", "threads that read requests (default: by the CPUs)", &v.n_worker, 0,
         16},
        {"--tool-call-parser", NULL, CLI_TEXT, "NAME",
         "hermes, llama3_json, mistral, none, or auto: as the chat template says (default)", &v.tool_parser, 0, 0},
        {"--reasoning-parser", NULL, CLI_TEXT, "NAME",
         "none: think tags stay in the text; auto: they become reasoning_content (default)", &v.reasoning_parser, 0, 0},
        {"--temperature", NULL, CLI_REAL, "X", "of requests that name none (default: the model's, else 1)",
         &v.temperature, 0, 100},
        {"--top-p", NULL, CLI_REAL, "X", "of requests that name none (default: the model's, else 1)", &v.top_p, 1e-6,
         1},
        {"--log-requests", NULL, CLI_FLAG, NULL, "a JSON line on standard error for each answer", &v.log_requests, 0,
         0},
        {0},
    };
    const struct cli_group groups[] = {
        {"Server", own}, {"Model", v.session.model_options}, {"Engine", v.session.engine_options}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 1);
    if (code != CLI_GO_ON)
        return code;
    const char *model = words.n ? words.arg[0] : NULL;
    static char fallback[4096];
    if (!model && !cli_default_model(fallback, sizeof fallback))
        return CLI_FAILED;
    model = model ? model : fallback;
    for (size_t i = 0; i < v.keys.n; i++)
        if (!v.keys.item[i][0])
            return cli_usage_error(command, "--api-key is empty: give the key that clients must send, or leave it out");
    for (size_t i = 0; i < v.names.n; i++)
        if (!v.names.item[i][0] || qr_utf8_valid(v.names.item[i], strlen(v.names.item[i])) != strlen(v.names.item[i]))
            return cli_usage_error(command, "--served-model-name must be a name in UTF-8");
    take_options(&v, model);
    if (v.tool_parser && strcmp(v.tool_parser, "auto") != 0) {
        v.options.has_tools = true;
        if (!qr_tool_format_named(v.tool_parser, &v.options.tools))
            return cli_usage_error(command, "--tool-call-parser is '%s': auto, none, hermes, llama3_json or mistral",
                                   v.tool_parser);
    }
    v.options.no_thoughts = v.reasoning_parser && strcmp(v.reasoning_parser, "none") == 0;
    return serve(command, &v, model);
}
