/* fuzz_config.c - a config.json and, behind a NUL byte, a generation_config.json: what is accepted keeps the promises of
 * the gate that all the rest relies on. */
#include "base/json.h"
#include "fuzz/check.h"
#include "model/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct parts parts = parts_of(data, n);
    json_t *config = NULL, *generation = NULL;
    struct qr_config out;
    struct qr_err err = {0};
    enum qr_status status = qr_json_parse_file(parts.first, parts.n_first, "config.json", &config, &err);

    if (status == QR_OK && parts.rest)
        status = qr_json_parse_file(parts.rest, parts.n_rest, "generation_config.json", &generation, &err);
    if (status == QR_OK)
        status = qr_config_from_hf(config, generation, &out, &err);
    check_error(status, &err);
    if (status == QR_OK) {
        check(qr_config_check(&out, &err) == QR_OK, "a config is accepted that its own gate refuses");
        check(out.n_layer > 0 && out.n_embd > 0 && out.n_head > 0 && out.n_kv_head > 0 && out.head_dim > 0 &&
                  out.n_ff > 0 && out.n_vocab > 0 && out.max_len > 0,
              "a size is not positive");
        check(out.n_head % out.n_kv_head == 0 && out.head_dim % 2 == 0, "heads do not divide");
        check(out.norm_eps >= 0 && out.rope.theta > 0, "a number is out of its range");
    }
    json_decref(config);
    json_decref(generation);
    parts_free(&parts);
    return 0;
}
