/* hub_gguf.h - between hub_pick.c and hub_gguf.c. */
#ifndef QR_MODEL_HUB_GGUF_H
#define QR_MODEL_HUB_GGUF_H
#include "model/hub_parts.h"

bool qr_hub_is_gguf(const char *path);
/* Marks the files of one GGUF model as taken. */
enum qr_status qr_hub_pick_gguf(struct qr_hub_list *list, const struct qr_hub_name *name,
                                const struct qr_hub_options *options, const struct qr_hub_file **gguf,
                                struct qr_err *err);
#endif
