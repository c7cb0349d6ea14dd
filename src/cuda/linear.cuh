// linear.cuh - what linear.cu and the kernels for single devices share.
#pragma once
#include "cuda/launch.h"
#include "cuda/linear_small.cuh"

constexpr int LINEAR_SPLIT_TOKENS = 256; // up to here a launch may leave partial sums in `work`

// wgmma, for more than 8 tokens (linear_hopper.cu); cudaErrorInvalidConfiguration: not for this shape.
cudaError_t qr_cu_linear_hopper(const qr_cu_on *on, const linear_args &a);
cudaError_t qr_cu_prepare_linear_hopper();
bool qr_cu_linear_hopper_gates(const linear_args &a); // may `gated` be asked for?
