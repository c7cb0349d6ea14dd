/* fuzz_safetensors.c - a safetensors file as the weights of a model. The input's first byte says which
 * config.json stands beside it, and (bit 7) whether the length in front of the header is the input's own or made here:
 * then the header ends where a NUL byte is, and changes of it do not all end at that length. */
#include <stdlib.h>
#include <string.h>
#include "fuzz/check.h"
#include "fuzz/memory_files.h"
#include "model/source_parts.h"
#include "model/weights.h"

#define SHAPE(n)                                                                                                       \
    "\"hidden_size\":" n ",\"intermediate_size\":" n ",\"num_hidden_layers\":1,\"num_attention_heads\":1,"             \
    "\"num_key_value_heads\":1,\"head_dim\":" n ",\"vocab_size\":16,\"max_position_embeddings\":64,"                   \
    "\"rms_norm_eps\":1e-5,\"eos_token_id\":2,\"bos_token_id\":1"
#define LLAMA(n) "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_act\":\"silu\"," SHAPE(n)

static const char *const configs[] = {
    "{" LLAMA("16") "}",
    "{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\",\"hidden_act\":\"silu\"," SHAPE("16") "}",
    "{\"architectures\":[\"Phi3ForCausalLM\"],\"model_type\":\"phi3\",\"hidden_act\":\"silu\"," SHAPE("16") "}",
    "{" LLAMA(
        "32") ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"desc_act\":false,"
              "\"sym\":true}}",
    "{" LLAMA(
        "32") ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"desc_act\":true,"
              "\"sym\":false}}",
    "{" LLAMA(
        "32") ",\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32,\"zero_point\":true,"
              "\"version\":\"gemm\"}}",
    "{" LLAMA("32") ",\"quantization_config\":{\"quant_method\":\"fp8\",\"activation_scheme\":\"dynamic\","
                    "\"weight_block_size\":[16,32]}}",
    "{" LLAMA("32") ",\"quantization_config\":{\"quant_method\":\"fp8\",\"activation_scheme\":\"static\"}}",
};
enum { N_CONFIG = sizeof configs / sizeof *configs, RAW = 0x80 };

/* The file that the input stands for, malloc'ed. */
static uint8_t *file_of(const uint8_t *data, size_t n, size_t *n_file)
{
    bool raw = n > 0 && (data[0] & RAW);
    const uint8_t *from = data + (n > 0);
    const uint8_t *end;
    uint64_t n_header;
    uint8_t *file = malloc(n + 8);

    n -= n > 0;
    check(file != NULL, "no memory");
    if (raw) {
        memcpy(file, from, n);
        *n_file = n;
        return file;
    }
    end = n ? memchr(from, 0, n) : NULL;
    n_header = end ? (uint64_t)(end - from) : n;
    memcpy(file, &n_header, 8);
    memcpy(file + 8, from, n_header);
    *n_file = 8 + n_header;
    if (end) {
        memcpy(file + *n_file, end + 1, n - n_header - 1);
        *n_file += n - n_header - 1;
    }
    return file;
}

/* Every tensor's first and last byte lie in the file. */
static void touch(const struct qr_safetensors *st)
{
    volatile uint8_t sum = 0;

    for (uint64_t i = 0; i < qr_safetensors_n_tensor(st); i++) {
        const struct qr_st_tensor *t = qr_safetensors_at(st, i);

        if (t->bytes)
            sum ^= t->data[0] ^ t->data[t->bytes - 1];
    }
    (void)sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *config = configs[n ? (data[0] & 0x7F) % N_CONFIG : 0];
    struct qr_source *source = calloc(1, sizeof *source);
    struct qr_weights *weights = NULL;
    struct qr_err err = {0};
    size_t n_file;
    uint8_t *file = file_of(data, n, &n_file);
    enum qr_status status;

    check(source != NULL, "no memory");
    memory_file("config.json", config, strlen(config));
    memory_file("model.safetensors", file, n_file);
    status = qr_source_open_dir(source, "m", &err);
    check_error(status, &err);
    if (source->n_st)
        touch(source->st[0]);
    if (status == QR_OK) {
        status = qr_weights_load(source, true, NULL, NULL, NULL, &weights, &err);
        check_error(status, &err);
        qr_weights_free(weights);
        weights = NULL;
        status = qr_weights_load(source, false, NULL, NULL, NULL, &weights, &err);
        check_error(status, &err);
        qr_weights_free(weights);
    }
    qr_source_close(source);
    free(file);
    return 0;
}
