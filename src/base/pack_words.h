/* pack_words.h - the codes of a row into the 32-bit words of a panel, and out of them: pack.c says where each stands.
 */
#ifndef QR_BASE_PACK_WORDS_H
#define QR_BASE_PACK_WORDS_H
#include <stdint.h>
#include <string.h>

/* The bytes 0, 2, 4, 6 of x, each under 16, as nibbles of 16 bits. */
static inline uint32_t even_nibbles(uint64_t x)
{
    x &= 0x000f000f000f000f;
    return (uint32_t)(x | x >> 12 | x >> 24 | x >> 36) & 0xffff;
}

static inline uint64_t spread_nibbles(uint32_t half)
{
    uint64_t x = half;
    return (x & 0xf) | (x & 0xf0) << 12 | (x & 0xf00) << 24 | (x & 0xf000) << 36;
}

/* code: the 32 codes of a row in a part; part: the record's part of 32 columns. */
static inline void put_low(const uint8_t code[32], int row, uint8_t *low)
{
    for (int g = 0; g < 4; g++) {
        uint64_t x;
        memcpy(&x, code + g * 8, 8);
        uint32_t word = even_nibbles(x) | even_nibbles(x >> 8) << 16;
        memcpy(low + g * 64 + row * 4, &word, 4);
    }
}

static inline void get_low(const uint8_t *low, int row, uint8_t code[32])
{
    for (int g = 0; g < 4; g++) {
        uint32_t word;
        memcpy(&word, low + g * 64 + row * 4, 4);
        uint64_t x = spread_nibbles(word & 0xffff) | spread_nibbles(word >> 16) << 8;
        memcpy(code + g * 8, &x, 8);
    }
}

static inline void put_high1(const uint8_t code[32], int row, uint8_t *high)
{
    uint32_t word = 0;
    for (int j = 0; j < 16; j++)
        word |= (uint32_t)(code[2 * j] >> 4 & 1) << j | (uint32_t)(code[2 * j + 1] >> 4 & 1) << (16 + j);
    memcpy(high + row * 4, &word, 4);
}

static inline void get_high1(const uint8_t *high, int row, uint8_t code[32])
{
    uint32_t word;
    memcpy(&word, high + row * 4, 4);
    for (int j = 0; j < 16; j++) {
        code[2 * j] |= (uint8_t)((word >> j & 1) << 4);
        code[2 * j + 1] |= (uint8_t)((word >> (16 + j) & 1) << 4);
    }
}

static inline void put_high2(const uint8_t code[32], int row, uint8_t *high)
{
    for (int h = 0; h < 2; h++) {
        uint32_t word = 0;
        for (int j = 0; j < 8; j++)
            word |= (uint32_t)(code[16 * h + 2 * j] >> 4 & 3) << (2 * j) | (uint32_t)(code[16 * h + 2 * j + 1] >> 4 & 3)
                                                                               << (16 + 2 * j);
        memcpy(high + h * 64 + row * 4, &word, 4);
    }
}

static inline void get_high2(const uint8_t *high, int row, uint8_t code[32])
{
    for (int h = 0; h < 2; h++) {
        uint32_t word;
        memcpy(&word, high + h * 64 + row * 4, 4);
        for (int j = 0; j < 8; j++) {
            code[16 * h + 2 * j] |= (uint8_t)((word >> (2 * j) & 3) << 4);
            code[16 * h + 2 * j + 1] |= (uint8_t)((word >> (16 + 2 * j) & 3) << 4);
        }
    }
}

static inline void put_bytes(const uint8_t *code, int row, uint8_t *low)
{
    for (int g = 0; g < 8; g++) {
        const uint8_t word[4] = {code[4 * g] ^ 0x80, code[4 * g + 2] ^ 0x80, code[4 * g + 1] ^ 0x80,
                                 code[4 * g + 3] ^ 0x80};
        memcpy(low + g * 64 + row * 4, word, 4);
    }
}

static inline void get_bytes(const uint8_t *low, int row, uint8_t *code)
{
    for (int g = 0; g < 8; g++) {
        const uint8_t *word = low + g * 64 + row * 4;
        code[4 * g] = word[0] ^ 0x80;
        code[4 * g + 1] = word[2] ^ 0x80;
        code[4 * g + 2] = word[1] ^ 0x80;
        code[4 * g + 3] = word[3] ^ 0x80;
    }
}
#endif
