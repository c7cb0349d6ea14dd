/* half.h - 16- and 8-bit floats. Conversions round to nearest, ties to even; NaN stays NaN; overflow
 * gives infinity (f16, bf16), for fp8 e4m3 (OCP 8-bit Floating Point Specification) the largest value. */
#ifndef QR_BASE_HALF_H
#define QR_BASE_HALF_H
#include <stdint.h>
#include <string.h>

static inline float qr_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

uint16_t qr_f32_to_bf16(float f);
float qr_f16_to_f32(uint16_t h);
uint16_t qr_f32_to_f16(float f);
float qr_e4m3_to_f32(uint8_t e);
uint8_t qr_f32_to_e4m3(float f);
#endif
