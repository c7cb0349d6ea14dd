/* hub_pick.c - which files of a repository quire needs. */
#include <stdlib.h>
#include <string.h>
#include "model/hub_gguf.h"

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), n_end = strlen(end);

    return n > n_end && strcmp(s + n - n_end, end) == 0;
}

static bool is_weights(const char *path)
{
    return ends_in(path, ".safetensors");
}

/* Configuration, tokenizer and templates: small files that stand at the top. */
static bool is_about(const char *path)
{
    static const char *const ends[] = {".json", ".jinja", ".model", ".txt"};

    if (strncmp(path, "additional_chat_templates/", 26) == 0 && ends_in(path, ".jinja"))
        return true;
    if (strchr(path, '/'))
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_in(path, ends[i]))
            return true;
    return strncmp(path, "LICENSE", 7) == 0;
}

/* config.json first: it says whether the rest is worth its time. Weights last: a snapshot that has them is whole. */
static int rank(const struct qr_hub_file *f)
{
    return strcmp(f->path, "config.json") == 0 ? 0 : is_weights(f->path) || qr_hub_is_gguf(f->path) ? 2 : 1;
}

static int in_order(const void *a, const void *b)
{
    const struct qr_hub_file *x = a, *y = b;

    return rank(x) != rank(y) ? rank(x) - rank(y) : strcmp(x->path, y->path);
}

enum qr_status qr_hub_pick(struct qr_hub_list *list, const struct qr_hub_name *name,
                           const struct qr_hub_options *options, const struct qr_hub_file **gguf, struct qr_err *err)
{
    bool any_weights = false, named_model = false, any_gguf = false, any_pickle = false;

    if (list->n > 0)
        qsort(list->file, list->n, sizeof *list->file, in_order);
    *gguf = NULL;
    for (size_t i = 0; i < list->n; i++) {
        const char *path = list->file[i].path;

        list->file[i].taken = false;
        any_gguf = any_gguf || qr_hub_is_gguf(path);
        any_pickle = any_pickle || ends_in(path, ".bin") || ends_in(path, ".pth") || ends_in(path, ".pt");
        if (strchr(path, '/') || !is_weights(path))
            continue;
        any_weights = true;
        named_model = named_model || strncmp(path, "model", 5) == 0;
    }
    if (name->file[0] || name->tag[0] || (!any_weights && any_gguf))
        return qr_hub_pick_gguf(list, name, options, gguf, err);
    if (!any_weights && !options->tokenizer_only)
        return qr_fail(err, QR_UNSUPPORTED, "%.200s holds neither safetensors nor GGUF files%s", name->repo,
                       any_pickle ? ": pickled weights (.bin, .pt) are not read" : "");
    for (size_t i = 0; i < list->n; i++) {
        struct qr_hub_file *f = &list->file[i];

        /* some repositories hold the weights twice: model-*.safetensors and consolidated.safetensors */
        if (is_weights(f->path))
            f->taken = !options->tokenizer_only && !strchr(f->path, '/') &&
                       (!named_model || strncmp(f->path, "model", 5) == 0);
        else
            f->taken = is_about(f->path);
    }
    return QR_OK;
}
