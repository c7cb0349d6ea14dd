/* pack_words.h - the codes of a row into the 32-bit words of a panel, and out of them: pack.c says where each stands.
 * Four codes are handled at once, one to a byte of a little-endian word. */
#ifndef QR_BASE_PACK_WORDS_H
#define QR_BASE_PACK_WORDS_H
#include <stdint.h>
#include <string.h>

static inline uint32_t get_word(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, 4);
    return word;
}

static inline void put_word(uint8_t *p, uint32_t word)
{
    memcpy(p, &word, 4);
}

/* code: the 32 codes of a row in a part; low, high: those of the record's part of 32 columns. */
static inline void put_low(const uint8_t code[32], int row, uint8_t *low)
{
    for (int g = 0; g < 4; g++) {
        uint32_t a = get_word(code + g * 8) & 0x0f0f0f0f, b = get_word(code + g * 8 + 4) & 0x0f0f0f0f;
        put_word(low + g * 64 + row * 4, a | b << 4);
    }
}

static inline void get_low(const uint8_t *low, int row, uint8_t code[32])
{
    for (int g = 0; g < 4; g++) {
        uint32_t word = get_word(low + g * 64 + row * 4);
        put_word(code + g * 8, word & 0x0f0f0f0f);
        put_word(code + g * 8 + 4, word >> 4 & 0x0f0f0f0f);
    }
}

static inline void put_high1(const uint8_t code[32], int row, uint8_t *high)
{
    uint32_t word = 0;
    for (int j = 0; j < 8; j++)
        word |= (get_word(code + 4 * j) >> 4 & 0x01010101) << j;
    put_word(high + row * 4, word);
}

static inline void get_high1(const uint8_t *high, int row, uint8_t code[32])
{
    uint32_t word = get_word(high + row * 4);
    for (int j = 0; j < 8; j++)
        put_word(code + 4 * j, get_word(code + 4 * j) | (word >> j & 0x01010101) << 4);
}

static inline void put_high2(const uint8_t code[32], int row, uint8_t *high)
{
    for (int h = 0; h < 2; h++) {
        uint32_t word = 0;
        for (int j = 0; j < 4; j++)
            word |= (get_word(code + 16 * h + 4 * j) >> 4 & 0x03030303) << (2 * j);
        put_word(high + h * 64 + row * 4, word);
    }
}

static inline void get_high2(const uint8_t *high, int row, uint8_t code[32])
{
    for (int h = 0; h < 2; h++) {
        uint32_t word = get_word(high + h * 64 + row * 4);
        uint8_t *c = code + 16 * h;
        for (int j = 0; j < 4; j++)
            put_word(c + 4 * j, get_word(c + 4 * j) | (word >> (2 * j) & 0x03030303) << 4);
    }
}

static inline void put_bytes(const uint8_t *code, int row, uint8_t *low)
{
    for (int g = 0; g < 8; g++)
        put_word(low + g * 64 + row * 4, get_word(code + 4 * g) ^ 0x80808080);
}

static inline void get_bytes(const uint8_t *low, int row, uint8_t *code)
{
    for (int g = 0; g < 8; g++)
        put_word(code + 4 * g, get_word(low + g * 64 + row * 4) ^ 0x80808080);
}
#endif
