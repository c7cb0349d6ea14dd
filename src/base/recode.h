/* recode.h - blocks of one type written as blocks of another that holds just the same numbers, so that a few packings and
 * kernels serve many types:
 *   Q3_K -> Q6_K   codes and scales of 16 columns fit in wider fields
 *   IQ4_NL -> Q8_0 the table's entries are 8-bit integers
 *   IQ4_XS -> I8S  so are these; 32 columns share the fp32 product of the block's and the part's scale
 *   FP8 -> F8S     a bf16 scale is an fp32 number
 *   MXFP4 -> I8S   the values of E2M1, doubled, are integers up to 12; half of 2^(e - 127) is an fp32 number */
#ifndef QR_BASE_RECODE_H
#define QR_BASE_RECODE_H
#include "base/dtype.h"

#define QR_RECODE_BYTES 288 /* of the longest result: 256 columns of I8S */

/* The type that stands for this one; itself when there is no need. */
enum qr_dtype qr_recode_type(enum qr_dtype type);
/* One block of such a type; out gets as many columns of qr_recode_type. */
void qr_recode(enum qr_dtype type, const uint8_t *block, uint8_t *out);
/* An E4M3 number (OCP 8-bit Floating Point Specification): no infinities, 0x7f and 0xff are NaN. */
float qr_f8_e4m3_to_f32(uint8_t code);
#endif
