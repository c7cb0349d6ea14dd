/* gpu.h - a model from a file to logits on the GPU: tests/whole/runner.h with the CUDA executor in it. */
#ifndef TESTS_CUDA_GPU_H
#define TESTS_CUDA_GPU_H
#include "cuda/cuda.h"
#include "whole/runner.h"

/* Skips the test where there is no GPU; fails it instead where the environment variable QUIRE_GPU says that there is. */
void need_gpu(void);
/* What gpu_open makes its executor for. */
struct qr_exec_limits gpu_limits(enum qr_dtype kv_type);
/* Graphs; launches one by one; both, with the kernels that every device has. */
enum way { BY_GRAPH, BY_STREAM, PLAINLY, N_WAY };
/* isa and n_thread of the setting are for the host's part. */
void gpu_open(struct runner *runner, const struct model *model, struct setting setting, enum way way);
void gpu_open_as(struct runner *runner, const struct model *model, struct setting setting,
                 const struct qr_cuda_options *options);
/* Logits [n, n_vocab] of one sequence: n - n_decode tokens in chunks, then one by one; malloc'ed. */
float *gpu_logits(const struct model *model, struct setting setting, enum way way, const int32_t *token, int n,
                  int n_decode, int chunk);
float *gpu_logits_as(const struct model *model, struct setting setting, const struct qr_cuda_options *options,
                     const int32_t *token, int n, int n_decode, int chunk);
/* norm_error of a prompt's logits and of n_decode steps' behind it against want [n, n_vocab]: all fusions, graphs, bf16. */
void gpu_errors(const struct model *model, const int32_t *token, int n, int n_decode, const float *want,
                double error[2]);
/* Writes a tiny model of a shape with such heads, random weights in bf16, to a .gguf file. n_embd 0: as wide as the shape. */
void heads_write(const char *shape, int n_embd, int n_head, int n_kv_head, int head_dim, const char *path);
void heads_write_as(const char *shape, int n_embd, int n_head, int n_kv_head, int head_dim, enum qr_dtype type,
                    const char *path);
/* |a - b| / |b|, norms over n numbers; fails the test on NaN. */
double norm_error(const float *a, const float *b, size_t n);
#endif
