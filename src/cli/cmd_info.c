/* cmd_info.c - configuration, tensors, tokenizer and memory ledger, from headers alone. */
#include <stdio.h>
#include <string.h>
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/ui.h"
#include "engine/model.h"

static json_t *config_json(const struct qr_config *c)
{
    json_t *eos = json_array();
    for (int i = 0; i < c->n_eos; i++)
        json_array_append_new(eos, json_integer(c->eos[i]));
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:b, s:b, s:b, s:i, s:s, s:f, s:i, s:i, s:o}", "name",
        c->name, "arch", qr_arch_name(c->arch), "n_layer", c->n_layer, "n_embd", c->n_embd, "n_head", c->n_head,
        "n_kv_head", c->n_kv_head, "head_dim", c->head_dim, "n_ff", c->n_ff, "n_vocab", c->n_vocab, "max_len",
        c->max_len, "norm_eps", (double)c->norm_eps, "tie_embd", c->tie_embd, "qkv_bias", c->qkv_bias, "qk_norm",
        c->qk_norm, "window", c->window, "rope", qr_rope_kind_name(c->rope.kind), "rope_theta", c->rope.theta,
        "rope_dim", qr_config_rope_dim(c), "bos", c->bos, "eos", eos);
}

/* Parameters and bytes as they lie in the file. */
static uint64_t count_parameters(const struct qr_source *source, uint64_t *bytes)
{
    uint64_t n = 0;
    *bytes = 0;
    for (uint64_t i = 0; i < qr_source_n_tensor(source); i++) {
        const struct qr_source_tensor *t = qr_source_at(source, i);
        n += t->n_row * t->n_col;
        *bytes += t->bytes;
    }
    return n;
}

static json_t *tensors_json(const struct qr_source *source)
{
    json_t *array = json_array();
    for (uint64_t i = 0; i < qr_source_n_tensor(source); i++) {
        const struct qr_source_tensor *t = qr_source_at(source, i);
        json_array_append_new(array, json_pack("{s:s, s:s, s:[I,I], s:I}", "name", t->name, "type",
                                               qr_dtype_info(t->type)->name, "shape", (json_int_t)t->n_row,
                                               (json_int_t)t->n_col, "bytes", (json_int_t)t->bytes));
    }
    return array;
}

static json_t *tokenizer_json(const struct qr_model *m)
{
    if (!m->tok)
        return json_pack("{s:s}", "error", m->tok_error.message);
    return json_pack("{s:i, s:i, s:i, s:b}", "n_vocab", qr_tokenizer_n_vocab(m->tok), "bos", qr_tokenizer_bos(m->tok),
                     "eos", qr_tokenizer_eos(m->tok), "chat_template", m->chat != NULL);
}

static void print_json(const struct qr_model *m, const struct qr_ledger *ledger, uint64_t available)
{
    uint64_t bytes, n = count_parameters(m->source, &bytes);
    json_t *root = json_pack("{s:o, s:I, s:I, s:o, s:o, s:o}", "config", config_json(&m->config), "parameters",
                             (json_int_t)n, "file_bytes", (json_int_t)bytes, "tokenizer", tokenizer_json(m), "ledger",
                             qr_ledger_json(ledger, available), "tensors", tensors_json(m->source));
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(root);
}

static void print_config(const struct qr_config *c)
{
    printf("  family        %s\n  layers        %d\n  hidden size   %d\n  heads         %d query, %d key/value, of %d\n"
           "  MLP           %d\n  vocabulary    %d%s\n  context       %d tokens\n",
           qr_arch_name(c->arch), c->n_layer, c->n_embd, c->n_head, c->n_kv_head, c->head_dim, c->n_ff, c->n_vocab,
           c->tie_embd ? ", head tied to the embedding" : "", c->max_len);
    bool scaled = c->rope.kind != QR_ROPE_DEFAULT;
    printf("  rope          theta %g%s%s%s", c->rope.theta, scaled ? ", " : "",
           scaled ? qr_rope_kind_name(c->rope.kind) : "", scaled ? " scaling" : "");
    if (qr_config_rope_dim(c) != c->head_dim)
        printf(", %d of a head's %d numbers turn", qr_config_rope_dim(c), c->head_dim);
    putchar('\n');
    if (c->qkv_bias || c->qk_norm || c->window)
        printf("  attention     %s%s%s%s%s\n", c->qkv_bias ? "q, k, v with bias" : "",
               c->qkv_bias && (c->qk_norm || c->window) ? ", " : "", c->qk_norm ? "q, k norms" : "",
               c->qk_norm && c->window ? ", " : "", c->window ? "sliding window" : "");
}

static void print_tensors(const struct qr_source *source, bool each)
{
    uint64_t count[QR_N_DTYPE] = {0}, bytes[QR_N_DTYPE] = {0};
    for (uint64_t i = 0; i < qr_source_n_tensor(source); i++) {
        const struct qr_source_tensor *t = qr_source_at(source, i);
        count[t->type]++;
        bytes[t->type] += t->bytes;
        if (each)
            printf("  %-34s %-5s [%llu, %llu]\n", t->name, qr_dtype_info(t->type)->name, (unsigned long long)t->n_row,
                   (unsigned long long)t->n_col);
    }
    for (int k = 0; k < QR_N_DTYPE; k++) {
        char text[32];
        if (count[k])
            printf("  %-5s         %llu, %s\n", qr_dtype_info((enum qr_dtype)k)->name, (unsigned long long)count[k],
                   cli_bytes(bytes[k], text));
    }
}

static int print_text(const struct qr_model *m, const struct qr_ledger *ledger, uint64_t available, bool each)
{
    char text[32];
    struct qr_buf table;
    uint64_t bytes, n = count_parameters(m->source, &bytes);
    printf("%s\n", m->config.name);
    print_config(&m->config);
    printf("\ntensors\n  parameters    %.4g million, %s in the file\n", (double)n / 1e6, cli_bytes(bytes, text));
    print_tensors(m->source, each);
    printf("\ntokenizer\n");
    if (m->tok)
        printf("  tokens        %d, bos %d, eos %d\n  chat template %s\n", qr_tokenizer_n_vocab(m->tok),
               qr_tokenizer_bos(m->tok), qr_tokenizer_eos(m->tok), m->chat ? "yes" : "none");
    else
        printf("  none: %s\n", m->tok_error.message);
    printf("\nmemory, computed from headers\n");
    qr_buf_init(&table, 0);
    qr_ledger_print(ledger, available, &table);
    if (!table.failed)
        fwrite(table.data, 1, table.len, stdout);
    qr_buf_free(&table);
    return CLI_OK;
}

int cmd_info(const struct cli_command *command, int argc, char **argv)
{
    struct cli_session session;
    struct cli_positional words;
    struct qr_engine_options options;
    struct qr_ledger ledger;
    struct qr_err err;
    bool json = false, each = false;
    cli_session_init(&session);
    const struct cli_option own[] = {
        {"--json", NULL, CLI_FLAG, NULL, "one JSON object, with every tensor", &json, 0, 0},
        {"--tensors", NULL, CLI_FLAG, NULL, "list every tensor", &each, 0, 0},
        {0},
    };
    const struct cli_group groups[] = {
        {"Options", own}, {"Model", session.model_options}, {"Engine", session.engine_options}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 1);
    if (code != CLI_GO_ON)
        return code;
    code = cli_open(command, &session, words.n ? words.arg[0] : NULL, CLI_NEED_HEADERS);
    if (code == CLI_GO_ON)
        code = cli_engine_options(command, &session, &options);
    if (code != CLI_GO_ON)
        return code;
    if (qr_model_ledger(session.model, &options, &ledger, &err) != QR_OK)
        code = cli_fail(&err);
    else if (json)
        print_json(session.model, &ledger, ledger.room);
    else
        code = print_text(session.model, &ledger, ledger.room, each);
    cli_close(&session);
    return code == CLI_GO_ON ? CLI_OK : code;
}
