/* test_advice.c - a model that does not fit into a GPU: the sentence names what would help, and nothing that would not. */
#include "engine/advice.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define GB UINT64_C(1000000000)

/* weights of one type and activations, in GB, on a GPU of 16 of which 15 are free and 14.4 may be taken. */
static const char *told(enum qr_dtype type, uint64_t weights, uint64_t activations)
{
    static struct qr_err err;
    const struct qr_setup setup = {.gpu = {.name = "A GPU", .memory = 16 * GB, .available = 15 * GB},
                                   .budget = 144 * GB / 10,
                                   .limits = {.max_token = 2048}};
    const struct qr_cuda_memory need = {.weights = weights, .activations = activations, .total = weights + activations};
    struct qr_weights held = {.bytes = weights};
    held.bytes_by_type[type] = type == QR_F32 ? 2 * weights : weights;
    assert_int_equal(qr_gpu_too_small(&setup, &need, &held, 0.9, &err), QR_LIMIT);
    assert_non_null(strstr(err.message, "into A GPU, of whose 15259 MiB 14305 are available and 13733 may be used"));
    assert_non_null(strstr(err.message, ", or use device cpu"));
    return err.message;
}

static bool says(const char *message, const char *part)
{
    return strstr(message, part) != NULL;
}

static void what_would_help(void **state)
{
    static const enum qr_dtype wide[] = {QR_BF16, QR_F16, QR_F32};
    (void)state;
    for (int i = 0; i < 3; i++) { /* 20 GB become 10.6 */
        const char *m = told(wide[i], 20 * GB, GB);
        assert_true(says(m, "use quantization fp8, which saves 8941 MiB") &&
                    says(m, "weights 19073, activations and workspace 954"));
        assert_false(says(m, "raise") || says(m, "lower") || says(m, "fewer bits"));
    }
    const char *m = told(QR_BF16, 40 * GB, GB); /* 21 are too many still */
    assert_true(says(m, "fewer bits") && !says(m, "fp8") && !says(m, "raise"));
    m = told(QR_Q8_0, 20 * GB, GB); /* cannot become FP8 */
    assert_true(says(m, "fewer bits") && !says(m, "fp8"));
    m = told(QR_BF16, 12 * GB, 4 * GB); /* the weights fit */
    assert_true(says(m, "lower max_num_batched_tokens from 2048") && !says(m, "raise") && !says(m, "fp8"));
    m = told(QR_Q4_0, 145 * GB / 10, GB / 10); /* 14.6 of 15 that are free */
    assert_true(says(m, "raise gpu_memory_utilization from 0.90, take a file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_would_help)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
