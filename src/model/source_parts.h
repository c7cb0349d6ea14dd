/* source_parts.h - what the source*.c files share: the struct, and filling it. */
#ifndef QR_MODEL_SOURCE_PARTS_H
#define QR_MODEL_SOURCE_PARTS_H
#include "model/names.h"
#include "model/safetensors.h"
#include "model/source.h"

struct qr_source {
    struct qr_config config;
    struct qr_gguf *gguf;       /* NULL when it is none */
    char *dir;                  /* NULL when it is none */
    struct qr_safetensors **st; /* [n_st] the shards of a directory */
    uint64_t n_st;
    struct qr_derived *derived; /* [n_derived] source_quant.c */
    uint64_t n_derived;
    bool random; /* qr_source_rows makes the numbers */
    uint64_t seed;
    uint64_t n_tensor, room;
    struct qr_source_tensor *tensor; /* [n_tensor], room for more */
    const struct qr_map **map;       /* [n_tensor] the file that holds it */
    struct qr_name *name;            /* [n_tensor] sorted by name */
};

/* Makes room for that many tensors in all; once, before the first qr_source_add. */
enum qr_status qr_source_reserve(struct qr_source *source, uint64_t room, struct qr_err *err);
/* A tensor under its canonical name; attn_qkv and ffn_gate_up, which some families merge, come apart. One whose layer the config does not have is left out; one that no family knows is
 * QR_UNSUPPORTED, because it may change the answer. Sets bytes from type and shape. */
enum qr_status qr_source_add(struct qr_source *source, const struct qr_source_tensor *tensor, const struct qr_map *map,
                             struct qr_err *err);
/* Is this a part that the config says is not there? */
bool qr_source_denied(const struct qr_source *source, const char *name);
/* After the last one: sorts, refuses duplicates, and tensors that contradict the config. */
enum qr_status qr_source_finish(struct qr_source *source, struct qr_err *err);

/* Each fills an empty source; the caller closes it on error. */
enum qr_status qr_source_open_gguf(struct qr_source *source, const char *path, struct qr_err *err);
enum qr_status qr_source_open_dir(struct qr_source *source, const char *path, struct qr_err *err);
enum qr_status qr_source_fill_random(struct qr_source *source, enum qr_dtype type, struct qr_err *err);

/* Rows of a random source, by qr_source_rows. */
enum qr_status qr_source_random_rows(const struct qr_source *source, const struct qr_source_tensor *tensor,
                                     uint64_t row, uint64_t n, void *dst, struct qr_err *err);

/* source_quant.c: matrices of quantised safetensors */
/* Scales, zeros and the like, which their matrix brings with it. */
bool qr_source_is_side_tensor(const struct qr_source *source, const char *name);
bool qr_source_is_derived(const struct qr_source *source, const struct qr_st_tensor *tensor);
/* Fills all of out but its name. */
enum qr_status qr_source_derive(struct qr_source *source, const struct qr_st_tensor *main, const struct qr_map *map,
                                struct qr_source_tensor *out, struct qr_err *err);
/* AutoGPTQ gives every matrix a bias, of zeros where the model has none: *empty tells whether this is such a one. */
enum qr_status qr_source_empty_bias(const struct qr_source *source, const char *name, const struct qr_st_tensor *tensor,
                                    const struct qr_map *map, bool *empty, struct qr_err *err);
enum qr_status qr_source_derived_rows(const struct qr_source *source, const struct qr_source_tensor *tensor,
                                      uint64_t row, uint64_t n, void *dst, struct qr_err *err);

/* tensor_names.c */
/* Is this a name that quire knows (source.h)? *layer: its N, or -1. */
bool qr_tensor_name_known(const char *name, int64_t *layer);
/* model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight; false: no such name, *ignored tells whether it is one
 * that means nothing for the answer (rotary tables that old files carry). */
bool qr_tensor_name_from_hf(enum qr_arch arch, const char *hf, char *out, size_t room, bool *ignored);
/* The other way, for messages; phi3's merged matrices by their own names. name itself where there is no other. */
const char *qr_tensor_name_to_hf(enum qr_arch arch, const char *name, char *out, size_t room);

/* "/a/b/model" and "/a/b/model/" -> "model", cut to the room of a config's name. */
void qr_source_set_name(struct qr_source *source, const char *path);
#endif
