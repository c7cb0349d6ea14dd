/* quant_pack.h - which storages stay quantised on the device, and their strips out of the host's panels. */
#ifndef QR_CUDA_QUANT_PACK_H
#define QR_CUDA_QUANT_PACK_H
#include "base/weight.h"
#include "cuda/quant.h"

/* QR_CU_NO_QUANT: it is converted, since a kernel reads not all of its types, or they differ. */
enum qr_cu_quant qr_cuda_quant_type(const struct qr_storage *storage);
/* A strip out of a panel (base/pack.h) of n_col columns; k: n_col padded to 64. */
void qr_cuda_quant_strip(enum qr_cu_quant type, const void *panel, uint32_t n_col, int k, void *strip);
#endif
