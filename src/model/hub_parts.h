/* hub_parts.h - what the hub*.c files share. */
#ifndef QR_MODEL_HUB_PARTS_H
#define QR_MODEL_HUB_PARTS_H
#include <stddef.h>
#include "base/buf.h"
#include "model/hub.h"
#include "model/hub_http.h"

#define QR_HUB_PART 96 /* letters of an organisation, a repository, or one part of a revision */

/* Org/Name[/FILE.gguf][:TAG][@REVISION] */
struct qr_hub_name {
    char repo[2 * QR_HUB_PART + 2]; /* "Org/Name" */
    char revision[256];             /* "main" when it is not said */
    char file[512];                 /* path inside the repository; "" */
    char tag[64];                   /* "Q4_K_M"; "" */
};
/* Letters that a name of the hub may have, none of them leading out of the cache. */
bool qr_hub_plain(const char *s, size_t n);
bool qr_hub_parse(const char *s, struct qr_hub_name *name);

/* Paths in the cache, all malloc'ed. home: .../hub/models--Org--Name */
enum qr_status qr_hub_cache(char **cache, struct qr_err *err);
enum qr_status qr_hub_home(const struct qr_hub_name *name, char **home, struct qr_err *err);
/* The commit of a revision, malloc'ed; NULL when the cache knows no such branch or tag. */
enum qr_status qr_hub_read_ref(const char *home, const char *revision, char **commit, struct qr_err *err);
/* Makes the directories above a path. */
enum qr_status qr_hub_make_dirs(const char *path, struct qr_err *err);

/* hub_env.c */
const char *qr_hub_variable(const char *name); /* NULL when unset or empty */
bool qr_hub_is_true(const char *variable);     /* 1, ON, YES, TRUE as huggingface_hub reads them */
enum qr_status qr_hub_endpoint(char **endpoint, struct qr_err *err); /* without a slash at its end */
/* *token is malloc'ed; NULL when there is none. */
enum qr_status qr_hub_token(char **token, struct qr_err *err);

struct qr_hub_file {
    char *path; /* inside the repository */
    uint64_t size;
    bool sized;     /* size is known */
    char etag[136]; /* the blob's name; "" when it is not known yet */
    bool taken;     /* one of the files that are wanted */
};
struct qr_hub_list {
    struct qr_hub_file *file; /* [n] */
    size_t n, room;
    char commit[QR_HUB_PART + 1];
};
void qr_hub_list_free(struct qr_hub_list *list);
/* Takes a copy of path; refuses one that would lead out of the snapshot. */
enum qr_status qr_hub_list_add(struct qr_hub_list *list, const char *path, struct qr_hub_file **file,
                               struct qr_err *err);
/* The files below a snapshot's directory. */
enum qr_status qr_hub_list_local(const char *dir, struct qr_hub_list *list, struct qr_err *err);

/* hub_pick.c: sets taken. *gguf: the first file of the chosen GGUF model, NULL when the repository is taken as a
 * directory. */
enum qr_status qr_hub_pick(struct qr_hub_list *list, const struct qr_hub_name *name,
                           const struct qr_hub_options *options, const struct qr_hub_file **gguf, struct qr_err *err);

/* A repository that is being fetched. */
struct qr_hub {
    const struct qr_hub_options *options;
    struct qr_hub_name name;
    struct qr_http *http;
    char *endpoint, *token, *cache, *home; /* token NULL: none */
    uint64_t done, total;                  /* bytes */
};
void qr_hub_note(const struct qr_hub_options *options, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Waits that many milliseconds; false when the caller wants to stop. */
bool qr_hub_wait(const struct qr_hub *hub, int ms);

/* hub_ask.c: asks, again after failures that may pass. request->url is set from path by the callee. */
enum qr_status qr_hub_get_json(struct qr_hub *hub, const char *path, struct qr_buf *out, struct qr_err *err);
enum qr_status qr_hub_get_head(struct qr_hub *hub, const char *commit, struct qr_hub_file *file, struct qr_err *err);
/* ENDPOINT/Org/Name/resolve/COMMIT/PATH, percent-encoded. */
bool qr_hub_file_url(const struct qr_hub *hub, const char *commit, const char *path, struct qr_buf *out);
bool qr_hub_may_pass(const struct qr_http_reply *reply, enum qr_status status);
/* Milliseconds to wait after such a failure, the n-th in a row that brought nothing. */
int qr_hub_pause(const struct qr_http_reply *reply, int n);
/* The sentence about an HTTP status that is no success. */
enum qr_status qr_hub_refused(const struct qr_hub *hub, const char *what, const struct qr_http_reply *reply,
                              struct qr_err *err);

/* hub_blob.c: one file into the cache: its blob, then the link in the snapshot. */
enum qr_status qr_hub_get_file(struct qr_hub *hub, const char *commit, const struct qr_hub_file *file,
                               struct qr_err *err);
#endif
