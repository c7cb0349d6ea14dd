/* kernels.h - the external names of this instruction set's kernels; table.c puts them into its table. */
#ifndef QR_CPU_ISA_KERNELS_H
#define QR_CPU_ISA_KERNELS_H
#include "cpu/kernel.h"
#include "cpu/isa/vec.h"

void QR_NAME(qr_k_act_i16)(const struct qr_act *act, const float *x, size_t stride, int t0, int t1);
void QR_NAME(qr_k_act_f32)(const struct qr_act *act, const float *x, size_t stride, int t0, int t1);

void QR_NAME(qr_k_dot_f32)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_f16)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_bf16)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_q8_0)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_q4_0)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_q4_1)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_q5_0)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_q5_1)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_q4_k)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_q5_k)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_q6_k)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_q2_k)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_i8s)(const struct qr_dot *job);
void QR_NAME(qr_k_dot_f8s)(const struct qr_dot *job);

void QR_NAME(qr_k_mean_square)(const struct qr_rows_job *job);
void QR_NAME(qr_k_rsqrt)(const struct qr_rows_job *job);
void QR_NAME(qr_k_scale_rows)(const struct qr_rows_job *job);
void QR_NAME(qr_k_scale_cols)(const struct qr_rows_job *job);
void QR_NAME(qr_k_rmsnorm)(const struct qr_rows_job *job);
void QR_NAME(qr_k_add)(const struct qr_rows_job *job);
void QR_NAME(qr_k_add_rmsnorm)(const struct qr_rows_job *job);
void QR_NAME(qr_k_silu)(const struct qr_rows_job *job);
void QR_NAME(qr_k_gelu)(const struct qr_rows_job *job);
void QR_NAME(qr_k_scale)(const struct qr_rows_job *job);
void QR_NAME(qr_k_soft_cap)(const struct qr_rows_job *job);
void QR_NAME(qr_k_mul)(const struct qr_rows_job *job);
void QR_NAME(qr_k_silu_mul)(const struct qr_rows_job *job);

void QR_NAME(qr_k_rope_store)(const struct qr_rope_job *job);
void QR_NAME(qr_k_attention)(const struct qr_attn_job *job);
void QR_NAME(qr_k_attention_merge)(const struct qr_attn_merge_job *job);

void QR_NAME(qr_k_exp)(float *x, int n);
void QR_NAME(qr_k_tanh)(float *x, int n);
double QR_NAME(qr_k_read_sum)(const void *data, size_t bytes);
double QR_NAME(qr_k_fma_peak)(int64_t n, bool integer, double *products);
#endif
