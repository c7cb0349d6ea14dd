/* bytelevel.h - the 256 letters that byte-level BPE writes bytes as (Radford et al. 2019, GPT-2's encoder.py): printable
 * Latin-1 characters stand for themselves, the others for U+0100 and up in order. */
#ifndef QR_TEXT_BYTELEVEL_H
#define QR_TEXT_BYTELEVEL_H
#include "base/buf.h"
#include <stdint.h>

int32_t qr_byte_letter(unsigned char byte); /* code point */
int qr_letter_byte(int32_t cp);             /* -1: no letter */
/* out gets the bytes that s, well-formed UTF-8, spells; false (and nothing appended) when a character is no letter. out
 * needs room for n bytes. *n_out counts. */
bool qr_letters_to_bytes(const char *s, size_t n, char *out, size_t *n_out);
bool qr_bytes_to_letters(const char *s, size_t n, struct qr_buf *out);
#endif
