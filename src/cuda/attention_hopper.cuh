// attention_hopper.cuh - the kernels of ATTENTION for sm_90a alone (attention_hopper.cu).
#pragma once
#include "cuda/launch.h"

// Units of many pairs by wgmma; cudaErrorInvalidConfiguration: not for this step.
cudaError_t qr_cu_attention_wide(const qr_cu_on *on, const qr_cu_attention &a);
cudaError_t qr_cu_prepare_attention_wide(int head_dim);
