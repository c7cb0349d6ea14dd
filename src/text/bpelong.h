/* bpelong.h - between bpe.c and bpelong.c. */
#ifndef QR_TEXT_BPELONG_H
#define QR_TEXT_BPELONG_H
#include "text/bpe.h"

#define QR_SHORT_WORD 48 /* symbols up to which looking at every pair beats a heap */
#define QR_NO_MERGE   UINT32_MAX

/* Slot of the merge of two ids. */
uint32_t qr_bpe_find(const struct qr_bpe *bpe, uint32_t left, uint32_t right);
/* Merges id [n]. */
enum qr_status qr_bpe_merge_long(const struct qr_bpe *bpe, const int32_t *id, size_t n, struct qr_bpe_scratch *scratch,
                                 struct qr_ids *ids, struct qr_err *err);
#endif
