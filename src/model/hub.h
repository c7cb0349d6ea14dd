/* hub.h - repositories of the Hugging Face hub and their cache on this machine.
 *
 * Layout, as huggingface_hub's "Understand caching" describes it: below models--Org--Name, refs/REVISION holds a commit,
 * blobs/ETAG the bytes of a file, snapshots/COMMIT/PATH a link to a blob; .locks/models--Org--Name/ETAG.lock is held by
 * who writes a blob. A cache that either program wrote serves the other. */
#ifndef QR_MODEL_HUB_H
#define QR_MODEL_HUB_H
#include <stdint.h>
#include "base/err.h"

/* Does it look like Org/Name or Org/Name@REVISION? */
bool qr_hub_is_repo(const char *name);
/* The same, or with a choice behind it: Org/Name:Q4_K_M, Org/Name/FILE.gguf. */
bool qr_hub_is_name(const char *name);
/* *dir: the snapshot's directory, malloc'ed. Looks in HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub;
 * downloads nothing. QR_NOTFOUND says where it looked. */
enum qr_status qr_hub_find(const char *repo, char **dir, struct qr_err *err);

struct qr_hub_options {
    uint64_t memory;     /* bytes that a model may take, for choosing among GGUF files; 0: not known */
    bool tokenizer_only; /* a cache that has the tokenizer's files will do */
    /* Called while bytes arrive and while waiting; false stops (QR_CANCELLED), and what has come is kept. May be NULL. */
    bool (*progress)(void *ctx, uint64_t bytes_done, uint64_t bytes_total);
    /* A line for the person who waits: what was chosen, what is tried again. May be NULL. */
    void (*note)(void *ctx, const char *line);
    void *ctx;
};

/* Downloads what quire needs of a repository, or the named file of it, into the cache; what is there already is not
 * asked for again. *path, malloc'ed: the snapshot's directory, or the (first) GGUF file. Environment: HF_ENDPOINT,
 * HF_TOKEN, HF_TOKEN_PATH; with HF_HUB_OFFLINE=1 it is an error. A token goes to no other host than the endpoint's. */
enum qr_status qr_hub_fetch(const char *name, const struct qr_hub_options *options, char **path, struct qr_err *err);
/* What to open for a name: from the cache when all of it is there, else fetched. *path as above, but for a snapshot's
 * directory the name itself. */
enum qr_status qr_hub_resolve(const char *name, const struct qr_hub_options *options, char **path, struct qr_err *err);
#endif
