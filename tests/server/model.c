/* model.c - the tests' model. */
#include "model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "common/tmp.h"
#include "model/synth.h"

struct qr_model *server_model(void **state)
{
    struct qr_config config;
    struct qr_model *model;
    struct qr_err err;
    assert_int_equal(tmp_setup(state), 0);
    const char *path = tmp_path(state, "tiny.gguf");
    if (qr_config_from_shape("tiny-llama", &config, &err) != QR_OK ||
        qr_synth_write(&config, 3, QR_BF16, path, 0, false, NULL, NULL, &err) != QR_OK ||
        qr_model_open(path, NULL, &model, &err) != QR_OK)
        fail_msg("%s", err.message);
    return model;
}
