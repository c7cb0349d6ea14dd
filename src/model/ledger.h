/* ledger.h - the memory account: what a run takes, known before anything is allocated. */
#ifndef QR_MODEL_LEDGER_H
#define QR_MODEL_LEDGER_H
#include <jansson.h>
#include "base/buf.h"
#include "base/dtype.h"

#define QR_LEDGER_MAX 48
struct qr_ledger {
    int n;
    struct {
        char name[64];
        uint64_t bytes;
        char note[96];
    } line[QR_LEDGER_MAX];
    uint64_t total;
    uint64_t room; /* that there is where it will lie; 0: not known */
};
void qr_ledger_add(struct qr_ledger *ledger, uint64_t bytes, const char *name, const char *note_fmt, ...)
    __attribute__((format(printf, 4, 5)));
void qr_ledger_print(const struct qr_ledger *ledger, uint64_t available, struct qr_buf *out);
json_t *qr_ledger_json(const struct qr_ledger *ledger, uint64_t available);
#endif
