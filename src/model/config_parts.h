/* config_parts.h - what the config*.c files share. */
#ifndef QR_MODEL_CONFIG_PARTS_H
#define QR_MODEL_CONFIG_PARTS_H
#include "model/config.h"

/* Zero, and what is not zero when a file does not say it: no BOS, no generation defaults, rope_theta 10000. */
void qr_config_clear(struct qr_config *config);
/* rope_theta, rope_scaling, rope_parameters of a config.json. Wants out->max_len. */
enum qr_status qr_config_rope_from_hf(const json_t *config, struct qr_config *out, struct qr_err *err);
/* What all Gemma 2 and 3 models have, in whatever file; wants arch and n_embd. */
void qr_config_set_gemma(struct qr_config *config);
/* quantization_config of a config.json. */
enum qr_status qr_config_quant_from_hf(const json_t *config, struct qr_config *out, struct qr_err *err);
/* The one of quant_method compressed-tensors. */
enum qr_status qr_config_quant_compressed(const json_t *q, struct qr_quant *out, struct qr_err *err);
/* [rows, columns] that share a scale, under a key. */
enum qr_status qr_config_quant_block(const json_t *q, const char *key, struct qr_quant *out, struct qr_err *err);
#endif
