/* hub.h - the Hugging Face cache: where Org/Name lies on this machine.
 * Layout: huggingface_hub's "Understand caching": models--Org--Name/refs/REVISION holds a commit,
 * models--Org--Name/snapshots/COMMIT/ its files. */
#ifndef QR_MODEL_HUB_H
#define QR_MODEL_HUB_H
#include "base/err.h"

/* Does it look like Org/Name or Org/Name@REVISION? */
bool qr_hub_is_repo(const char *name);
/* *dir: the snapshot's directory, malloc'ed. Looks in HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub;
 * downloads nothing. QR_NOTFOUND says where it looked. */
enum qr_status qr_hub_find(const char *repo, char **dir, struct qr_err *err);
#endif
