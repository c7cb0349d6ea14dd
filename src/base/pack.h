/* pack.h - the order in which CPU kernels read a matrix: panels of 16 rows.
 *
 * A panel holds 16 consecutive rows over all columns; inside, 16 rows lie side by side so that one vector
 * lane is one row: no horizontal sums, and each row's arithmetic is the same for any number of tokens. The
 * last panel of a matrix is padded with rows of zero. The exact layout of each type stands in pack.c. */
#ifndef QR_BASE_PACK_H
#define QR_BASE_PACK_H
#include <stdint.h>
#include "base/dtype.h"

#define QR_PANEL_ROWS 16

bool qr_pack_supported(enum qr_dtype type, uint64_t n_col);
uint64_t qr_panel_bytes(enum qr_dtype type, uint64_t n_col);
/* rows: n_row (1 .. 16) rows as in a file, qr_row_bytes each. panel: qr_panel_bytes, 64-byte aligned. */
void qr_pack_panel(enum qr_dtype type, uint64_t n_col, const void *rows, int n_row, void *panel);
/* One row (0 .. 15) of a panel as fp32: equal to qr_dequant of the row that was packed, bit for bit. */
void qr_unpack_row(enum qr_dtype type, uint64_t n_col, const void *panel, int row, float *dst);

/* Where the parts of a record stand, for kernels: a record is 32 columns of the 16 rows, or 256 columns for the K types
 * (then a head, and 8 parts of 32 columns behind it). Offsets in bytes; 0xffff: the type has none. */
struct qr_pack_layout {
    uint16_t columns; /* of a record */
    uint16_t bytes;   /* of a record */
    uint16_t part;    /* bytes of a part of 32 columns; a record without head is one part */
    uint16_t head;    /* bytes in front of the parts: d [16] f16, then dmin [16] f16 where the type has it */
    uint16_t scale;   /* in a part: f16 d [16] (then m [16]), or sub-scales (8 bits) [16] (then sub-mins [16]) */
    uint16_t low;     /* in a part: the low 4 bits, or the whole 8 */
    uint16_t high;    /* in a part: the 5th bit, or bits 5 and 6 */
};

/* Only for the block types (not F32, F16, BF16, whose panels are [n_col][16] elements). */
const struct qr_pack_layout *qr_pack_layout(enum qr_dtype type);
#endif
