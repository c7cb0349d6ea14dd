/* make_gguf.h - builds a GGUF file in memory, right or deliberately wrong, for tests. Written from docs/gguf.md of the
 * ggml repository; test_model_files.py compares such files with what gguf-py writes. */
#ifndef TESTS_MODEL_MAKE_GGUF_H
#define TESTS_MODEL_MAKE_GGUF_H
#include <stdint.h>
#include "base/buf.h"

struct make_gguf {
    uint32_t version; /* 3 */
    uint64_t n_key;   /* counts in the header: may be set to lies before mk_finish */
    uint64_t n_tensor;
    uint64_t alignment; /* of offsets and data: 32, as without general.alignment */
    struct qr_buf keys, tensors, data;
    struct qr_buf file; /* after mk_finish */
    uint64_t header;    /* bytes of it before the data, without padding */
};

void mk_init(struct make_gguf *m);
void mk_free(struct make_gguf *m);

void mk_raw(struct make_gguf *m, const char *key, uint32_t kind, const void *value, size_t n);
void mk_u8(struct make_gguf *m, const char *key, uint8_t value);
void mk_u32(struct make_gguf *m, const char *key, uint32_t value);
void mk_u64(struct make_gguf *m, const char *key, uint64_t value);
void mk_f32(struct make_gguf *m, const char *key, float value);
void mk_f64(struct make_gguf *m, const char *key, double value);
void mk_bool(struct make_gguf *m, const char *key, uint8_t value);
void mk_str(struct make_gguf *m, const char *key, const char *value);
void mk_array(struct make_gguf *m, const char *key, uint32_t kind, uint64_t n, const void *data, size_t n_byte);
void mk_strings(struct make_gguf *m, const char *key, const char *const *values, uint64_t n);

/* A tensor behind the last one, with n_byte bytes of data (zeros when data is NULL). Returns its offset. */
uint64_t mk_tensor(struct make_gguf *m, const char *name, uint32_t type, uint32_t n_dim, const uint64_t *dim,
                   const void *data, size_t n_byte);
/* A tensor's entry alone, its offset as given. */
void mk_entry(struct make_gguf *m, const char *name, uint32_t type, uint32_t n_dim, const uint64_t *dim,
              uint64_t offset);

/* Puts header, keys, tensors and data into m->file. */
void mk_finish(struct make_gguf *m);

/* The keys of a small Llama, and its tensors with data that differ by row: 2 layers, 32 wide, 2 heads of 16, 1
 * key-value head, 64 inside, 40 tokens, F32 and Q8_0. arch: "llama", "qwen2", "qwen3". */
void mk_model_keys(struct make_gguf *m, const char *arch);
void mk_model_tensors(struct make_gguf *m, const char *arch);
#endif
