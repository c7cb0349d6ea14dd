/* table.c - this instruction set's table, and its small kernels for tests and measurements. */
#include "cpu/isa/kernels.h"
#include "cpu/isa/vec_math.h"

void QR_NAME(qr_k_exp)(float *x, int n)
{
    for (int i = 0; i < n; i += 16)
        v_store_n(x + i, v_exp(v_load_n(x + i, v_count(n - i))), v_count(n - i));
}

void QR_NAME(qr_k_tanh)(float *x, int n)
{
    for (int i = 0; i < n; i += 16)
        v_store_n(x + i, v_tanh(v_load_n(x + i, v_count(n - i))), v_count(n - i));
}

double QR_NAME(qr_k_read_sum)(const void *data, size_t bytes)
{
    const uint8_t *p = data;
    vi a = i_set1(0), b = a, c = a, d = a;
    for (size_t i = 0; i + 256 <= bytes; i += 256) {
        a = i_or(a, i_load(p + i));
        b = i_or(b, i_load(p + i + 64));
        c = i_or(c, i_load(p + i + 128));
        d = i_or(d, i_load(p + i + 192));
    }
    return (double)v_sum(i_to_f(i_or(i_or(a, b), i_or(c, d))));
}

/* Independent chains of products, so that latency hides. The results are returned so that nothing is left out; they
 * stay finite. */
double QR_NAME(qr_k_fma_peak)(int64_t n, bool integer, double *products)
{
    vf f[V_CHAINS], x = v_set1(0.5f);
    vi s[V_CHAINS], w = i_set1(0x00010001);
    for (int i = 0; i < V_CHAINS; i++) {
        f[i] = v_set1((float)i);
        s[i] = i_set1(i);
    }
    if (integer)
        for (int64_t k = 0; k < n; k++) {
            for (int i = 0; i < V_CHAINS; i++)
                s[i] = i_dot(s[i], w, s[i]);
        }
    else
        for (int64_t k = 0; k < n; k++)
            for (int i = 0; i < V_CHAINS; i++)
                f[i] = v_fma(f[i], x, x);
    double sum = 0;
    for (int i = 0; i < V_CHAINS; i++)
        sum += (double)v_sum(integer ? i_to_f(s[i]) : f[i]);
    *products = (double)n * V_CHAINS * (integer ? 32 : 16);
    return sum;
}

const struct qr_cpu_table QR_NAME(qr_cpu_table) = {
    .act_i16 = QR_NAME(qr_k_act_i16),
    .act_f32 = QR_NAME(qr_k_act_f32),
    .dot =
        {
            [QR_F32] = QR_NAME(qr_k_dot_f32),     [QR_F16] = QR_NAME(qr_k_dot_f16),
            [QR_BF16] = QR_NAME(qr_k_dot_bf16),   [QR_Q8_0] = QR_NAME(qr_k_dot_q8_0),
            [QR_Q4_0] = QR_NAME(qr_k_dot_q4_0),   [QR_Q4_1] = QR_NAME(qr_k_dot_q4_1),
            [QR_Q5_0] = QR_NAME(qr_k_dot_q5_0),   [QR_Q5_1] = QR_NAME(qr_k_dot_q5_1),
            [QR_Q4_K] = QR_NAME(qr_k_dot_q4_k),   [QR_Q5_K] = QR_NAME(qr_k_dot_q5_k),
            [QR_Q6_K] = QR_NAME(qr_k_dot_q6_k),   [QR_Q2_K] = QR_NAME(qr_k_dot_q2_k),
            [QR_Q3_K] = QR_NAME(qr_k_dot_q6_k), /* base/recode.h: packed as these */
            [QR_IQ4_NL] = QR_NAME(qr_k_dot_q8_0), [QR_IQ4_XS] = QR_NAME(qr_k_dot_i8s),
            [QR_MXFP4] = QR_NAME(qr_k_dot_i8s),   [QR_I8S] = QR_NAME(qr_k_dot_i8s),
            [QR_F8S] = QR_NAME(qr_k_dot_f8s),     [QR_FP8] = QR_NAME(qr_k_dot_f8s),
        },
    .mean_square = QR_NAME(qr_k_mean_square),
    .rsqrt = QR_NAME(qr_k_rsqrt),
    .scale_rows = QR_NAME(qr_k_scale_rows),
    .scale_cols = QR_NAME(qr_k_scale_cols),
    .rmsnorm = QR_NAME(qr_k_rmsnorm),
    .add = QR_NAME(qr_k_add),
    .add_rmsnorm = QR_NAME(qr_k_add_rmsnorm),
    .silu = QR_NAME(qr_k_silu),
    .gelu = QR_NAME(qr_k_gelu),
    .scale = QR_NAME(qr_k_scale),
    .soft_cap = QR_NAME(qr_k_soft_cap),
    .mul = QR_NAME(qr_k_mul),
    .silu_mul = QR_NAME(qr_k_silu_mul),
    .rope_store = QR_NAME(qr_k_rope_store),
    .attention = QR_NAME(qr_k_attention),
    .attention_merge = QR_NAME(qr_k_attention_merge),
    .exp = QR_NAME(qr_k_exp),
    .tanh = QR_NAME(qr_k_tanh),
    .read_sum = QR_NAME(qr_k_read_sum),
    .fma_peak = QR_NAME(qr_k_fma_peak),
};
