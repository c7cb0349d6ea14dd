/* ref_forward.h - the oracle: a forward pass in plain loops, written from the papers, that shares no code with arch/,
 * plan/, cpu/ or model/weights. It reads a source's rows, converts them to fp32 and computes one sequence from position 0.
 * Slow; activations are kept in fp32, sums are made in double. tests/conformance checks it against numpy. */
#ifndef TESTS_WHOLE_REF_FORWARD_H
#define TESTS_WHOLE_REF_FORWARD_H
#include "model/source.h"

/* Logits [n, n_vocab] of all positions, malloc'ed. A test fails when the source lacks a tensor. */
float *ref_forward(const struct qr_source *source, const int32_t *token, int n);
/* The same with keys and values kept in fp8: each token's head in E4M3, times the least power of two that lets it be held. */
float *ref_forward_fp8(const struct qr_source *source, const int32_t *token, int n);
#endif
