/* hub_gguf.c - choosing one GGUF model of a repository: by file name, by its quantisation, or the best that fits. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/checked.h"
#include "base/dtype.h"
#include "model/hub_gguf.h"

#define SPARE        (UINT64_C(256) << 20) /* bytes beside the weights that any run takes */
#define MAX_CHOICES  512
#define N_SPLIT_NAME 21 /* letters of "-00001-of-00003.gguf", and one more for the NUL */

bool qr_hub_is_gguf(const char *path)
{
    size_t n = strlen(path);

    return n > 5 && strcasecmp(path + n - 5, ".gguf") == 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* A model by itself, not a projector for images, a calibration table, a drafting head. */
static bool is_model(const char *path)
{
    const char *name = base_name(path);

    return qr_hub_is_gguf(path) && strncasecmp(name, "mmproj", 6) != 0 && !strcasestr(name, "imatrix");
}

/* Is path part *part of *n parts ("-00002-of-00003.gguf")? *stem: letters before. */
static bool is_split(const char *path, int *part, int *n, size_t *stem)
{
    size_t length = strlen(path);
    const char *s = path + (length - (N_SPLIT_NAME - 1));
    char end;

    if (length < N_SPLIT_NAME)
        return false;
    for (int i = 1; i < 15; i++)
        if (i < 6 || i > 9 ? !isdigit((unsigned char)s[i]) : s[i] != "-of-"[i - 6])
            return false;
    *stem = length - (N_SPLIT_NAME - 1);
    return sscanf(s, "-%5d-of-%5d.ggu%c", part, n, &end) == 3 && *n > 0 && *part > 0 && *part <= *n;
}

struct choice {
    size_t first; /* index of its first file */
    uint64_t bytes;
    bool sized, whole; /* every size is known; every part is there */
    char label[24];    /* "Q4_K_M"; "" when the name says nothing */
    bool known;        /* quire reads that type */
};

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Does tag stand in path as a word by itself? */
static bool has_word(const char *path, const char *tag)
{
    size_t n = strlen(tag);

    for (const char *at = path; (at = strcasestr(at, tag)); at++)
        if ((at == path || !word_char(at[-1])) && !word_char(at[n]))
            return true;
    return false;
}

/* A word such as Q4_K_M, IQ2_XXS, BF16, MXFP4: its type, when quire reads it. */
static bool is_label(const char *word, size_t n, char label[24], bool *known)
{
    enum qr_dtype type;
    char *last;
    bool looks;

    if (n < 2 || n > 15)
        return false;
    memcpy(label, word, n);
    label[n] = 0;
    for (size_t i = 0; i < n; i++)
        label[i] = (char)toupper((unsigned char)label[i]);
    *known = qr_dtype_from_name(label, &type);
    looks = (label[0] == 'Q' && isdigit((unsigned char)label[1]) && n > 2) ||
            ((strncmp(label, "IQ", 2) == 0 || strncmp(label, "TQ", 2) == 0) && isdigit((unsigned char)label[2])) ||
            strncmp(label, "MXFP4", 5) == 0 || strncmp(label, "NVFP4", 5) == 0;
    if (!*known && looks) {
        char shorter[24];

        strcpy(shorter, label); /* Q4_K_M: mostly Q4_K */
        last = strrchr(shorter, '_');
        if (last)
            *last = 0;
        *known = qr_dtype_from_name(shorter, &type);
    }
    return looks || (*known && (strcmp(label, "F32") == 0 || strcmp(label, "F16") == 0 || strcmp(label, "BF16") == 0));
}

static void read_label(const char *path, struct choice *c)
{
    c->known = true;
    c->label[0] = 0;
    for (const char *s = base_name(path); *s;) {
        size_t n = 0;
        char label[24];
        bool known;

        while (word_char(s[n]))
            n++;
        if (is_label(s, n, label, &known)) {
            memcpy(c->label, label, sizeof label);
            c->known = known;
        }
        s += n + (s[n] != 0);
    }
}

/* Adds up a model's parts; marks them when take is set. */
static void gather(struct qr_hub_list *list, struct choice *c, bool take)
{
    const char *first = list->file[c->first].path;
    int part, n, found = 0;
    size_t stem;
    bool split = is_split(first, &part, &n, &stem);

    c->bytes = 0;
    c->sized = true;
    for (size_t i = 0; i < list->n; i++) {
        struct qr_hub_file *f = &list->file[i];
        int its_part, its_n;
        size_t its_stem;

        if (split ? !is_split(f->path, &its_part, &its_n, &its_stem) || its_n != n || its_stem != stem ||
                        strncmp(f->path, first, stem) != 0
                  : i != c->first)
            continue;
        found++;
        f->taken = f->taken || take;
        c->sized = c->sized && f->sized;
        if (!qr_add_u64(c->bytes, f->size, &c->bytes))
            c->bytes = UINT64_MAX;
    }
    c->whole = found == (split ? n : 1);
}

static size_t find_choices(struct qr_hub_list *list, struct choice choice[MAX_CHOICES])
{
    size_t n = 0;

    for (size_t i = 0; i < list->n && n < MAX_CHOICES; i++) {
        int part, n_part;
        size_t stem;

        if (!is_model(list->file[i].path) || (is_split(list->file[i].path, &part, &n_part, &stem) && part != 1))
            continue;
        choice[n].first = i;
        read_label(list->file[i].path, &choice[n]);
        gather(list, &choice[n], false);
        n++;
    }
    return n;
}

static bool fits(const struct choice *c, uint64_t memory)
{
    /* an eighth for activations and a KV cache */
    return memory == 0 || !c->sized || (c->bytes < memory - memory / 9 && c->bytes + c->bytes / 8 + SPARE <= memory);
}

/* The bigger of two keeps more of the weights; but 32 bits of what was trained in 16 keep nothing. */
static bool better(const struct choice *a, const struct choice *b)
{
    bool a_wide = strcmp(a->label, "F32") == 0, b_wide = strcmp(b->label, "F32") == 0;

    return a_wide != b_wide ? b_wide : a->bytes > b->bytes;
}

static void name_choices(const struct qr_hub_list *list, const struct choice *choice, size_t n, const char *tag,
                         char *out, size_t room)
{
    size_t used = 0, named = 0;

    out[0] = 0;
    for (size_t i = 0; i < n && used < room; i++) {
        if (tag && !has_word(list->file[choice[i].first].path, tag))
            continue;
        used += (size_t)snprintf(out + used, room - used, "%s%s", named++ ? ", " : "",
                                 choice[i].label[0] && !tag ? choice[i].label : list->file[choice[i].first].path);
    }
}

static enum qr_status by_file(struct qr_hub_list *list, const struct qr_hub_name *name, struct choice *c,
                              struct qr_err *err)
{
    for (size_t i = 0; i < list->n; i++) {
        int part, n;
        size_t stem;

        if (strcmp(list->file[i].path, name->file) != 0)
            continue;
        c->first = i;
        if (is_split(name->file, &part, &n, &stem) && part != 1)
            for (size_t k = 0; k < list->n; k++) {
                int other, other_n;
                size_t other_stem;

                if (is_split(list->file[k].path, &other, &other_n, &other_stem) && other == 1 && other_n == n &&
                    other_stem == stem && strncmp(list->file[k].path, name->file, stem) == 0)
                    c->first = k;
            }
        gather(list, c, false);
        return QR_OK;
    }
    return qr_fail(err, QR_NOTFOUND, "%.150s has no file %.200s", name->repo, name->file);
}

static enum qr_status by_tag(const struct qr_hub_list *list, const struct qr_hub_name *name,
                             const struct choice *choice, size_t n, struct choice *c, struct qr_err *err)
{
    char names[300];
    size_t found = 0;

    for (size_t i = 0; i < n; i++)
        if (has_word(list->file[choice[i].first].path, name->tag) && found++ == 0)
            *c = choice[i];
    if (found == 1)
        return QR_OK;
    name_choices(list, choice, n, found ? name->tag : NULL, names, sizeof names);
    if (found == 0)
        return qr_fail(err, QR_NOTFOUND, "%.120s has no GGUF file %s; it has %s", name->repo, name->tag, names);
    return qr_fail(err, QR_INVALID, "%.100s has several GGUF files %s: name one as REPO/FILE.gguf: %s", name->repo,
                   name->tag, names);
}

static enum qr_status by_memory(const struct qr_hub_list *list, const struct qr_hub_name *name,
                                const struct choice *choice, size_t n, const struct qr_hub_options *options,
                                struct choice *c, struct qr_err *err)
{
    const struct choice *best = NULL, *least = NULL;

    qr_hub_note(options, "%s has %zu GGUF models:", name->repo, n);
    for (size_t i = 0; i < n; i++) {
        const struct choice *one = &choice[i];
        const char *why = !one->known                   ? "  (quire does not read this type)"
                          : !one->whole                 ? "  (parts are missing)"
                          : !fits(one, options->memory) ? "  (does not fit memory)"
                                                        : "";

        if (one->sized)
            qr_hub_note(options, "  %-8s %9.2f GB  %s%s", one->label, (double)one->bytes / 1e9,
                        list->file[one->first].path, why);
        else
            qr_hub_note(options, "  %-8s %12s  %s%s", one->label, "", list->file[one->first].path, why);
        if (!one->known || !one->whole)
            continue;
        if (!least || one->bytes < least->bytes)
            least = one;
        if (fits(one, options->memory) && (!best || better(one, best)))
            best = one;
    }
    if (!least)
        return qr_fail(err, QR_UNSUPPORTED, "%.200s has no whole GGUF file of a type that quire reads", name->repo);
    if (!best)
        return qr_fail(err, QR_LIMIT,
                       "no GGUF file of %.150s fits the %.2f GB of memory; the smallest has %.2f GB: name one as "
                       "REPO:%s to take it all the same",
                       name->repo, (double)options->memory / 1e9, (double)least->bytes / 1e9,
                       least->label[0] ? least->label : "TAG");
    qr_hub_note(options, "taking %s, the best that fits %.2f GB of memory; REPO:%s names another",
                list->file[best->first].path, (double)options->memory / 1e9, best->label[0] ? best->label : "TAG");
    *c = *best;
    return QR_OK;
}

enum qr_status qr_hub_pick_gguf(struct qr_hub_list *list, const struct qr_hub_name *name,
                                const struct qr_hub_options *options, const struct qr_hub_file **gguf,
                                struct qr_err *err)
{
    struct choice *choice = malloc(MAX_CHOICES * sizeof *choice), c = {0};
    size_t n = choice ? find_choices(list, choice) : 0;
    enum qr_status status = QR_OK;

    if (!choice)
        return qr_fail(err, QR_NOMEM, "out of memory");
    if (name->file[0])
        status = by_file(list, name, &c, err);
    else if (n == 0)
        status = qr_fail(err, QR_NOTFOUND, "%.200s has no GGUF file", name->repo);
    else if (name->tag[0])
        status = by_tag(list, name, choice, n, &c, err);
    else if (n == 1)
        c = choice[0];
    else
        status = by_memory(list, name, choice, n, options, &c, err);
    free(choice);
    if (status != QR_OK)
        return status;
    if (!c.whole)
        return qr_fail(err, QR_NOTFOUND, "%.100s: parts of %.200s are missing", name->repo, list->file[c.first].path);
    gather(list, &c, true);
    *gguf = &list->file[c.first];
    return QR_OK;
}
