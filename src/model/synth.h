/* synth.h - random models on disk, for tests, benchmarks and students. */
#ifndef QR_MODEL_SYNTH_H
#define QR_MODEL_SYNTH_H
#include "base/dtype.h"
#include "model/config.h"

/* Writes a Hugging Face directory (config.json, generation_config.json, model.safetensors or shards with an index,
 * tokenizer.json, tokenizer_config.json with a chat template), or a GGUF v3 file when path ends in .gguf. Numbers are
 * those of dummy:SHAPE with the same seed and type. type: F32 F16 BF16 for a directory, also Q8_0 Q4_0 Q4_1 for GGUF.
 * shard_bytes: 0 one file, else the most bytes of a shard. Refuses a path that exists unless overwrite. */
enum qr_status qr_synth_write(const struct qr_config *config, uint64_t seed, enum qr_dtype type, const char *path,
                              uint64_t shard_bytes, bool overwrite,
                              bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
                              struct qr_err *err);
#endif
