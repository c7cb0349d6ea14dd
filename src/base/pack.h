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
#endif
