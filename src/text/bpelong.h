/* bpelong.h - between bpe.c, bpeword.c and bpelong.c. */
#ifndef QR_TEXT_BPELONG_H
#define QR_TEXT_BPELONG_H
#include "text/bpe.h"

#define QR_SHORT_WORD 48 /* symbols up to which looking at every pair beats a heap */
#define QR_NO_MERGE   UINT32_MAX

/* Slot of the merge of two ids. */
uint32_t qr_bpe_find(const struct qr_bpe *bpe, uint32_t left, uint32_t right);
/* Merges id [n], long. */
enum qr_status qr_bpe_merge_long(const struct qr_bpe *bpe, const int32_t *id, size_t n, struct qr_bpe_scratch *scratch,
                                 struct qr_ids *ids, struct qr_err *err);
/* Stands for a character in joins: ASCII for itself, U+2581, which most words begin with, for DEL. */
static inline uint8_t qr_bpe_key(int32_t cp)
{
    if (cp == 0x2581)
        return 0x7F;
    return (uint8_t)(cp < 0x7F ? (uint64_t)cp : 0x80 | (qr_hash_mix((uint64_t)cp) & 0x7F));
}
#endif
