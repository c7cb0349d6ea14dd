/* tokenizer_pre.c - what the names in tokenizer.ggml.pre stand for.
 *
 * The names are those that llama.cpp's converter writes (convert_hf_to_gguf.py); the steps are those of the models' own
 * tokenizer.json, where llama.cpp's patterns only come near them; falcon3, falcon-h1, pixtral, midm-2.0, megrez,
 * minerva-7b, trillion, mellum, gigachat and a.x-4.0 stand where llama.cpp puts them. Normalization is not in a GGUF
 * file: nfc is set for models whose tokenizer.json has it. */
#include <string.h>
#include "text/tokenizer_impl.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define OTHER        "[^\\r\\n\\p{L}\\p{N}]?"

static const char llama3[] = CONTRACTIONS "|" OTHER "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES;
static const char qwen2[] = CONTRACTIONS "|" OTHER "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES;
static const char qwen35[] =
    CONTRACTIONS "|" OTHER "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES;
static const char tekken[] =
    OTHER UPPER "*" LOWER "+|" OTHER UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES;
static const char o200k[] = OTHER UPPER "*" LOWER "+" CONTRACTIONS "?|" OTHER UPPER "+" LOWER "*" CONTRACTIONS
                                        "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES;
static const char seed_coder[] = CONTRACTIONS "|" OTHER "\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES;
static const char bailing[] = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++"
                              "[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
static const char bloom[] = " ?[^(\\s|[.,!?…。，、।۔،])]+";
/* letters of scripts with case; the ends of ranges that normalization would change are written as numbers */
/* clang-format off */
static const char deepseek_words[] =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ"
    "Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\\x{1f7d}ᾀ-ᾴᾶ-ᾼ\\x{1fbe}"
    "ῂ-ῄῆ-ῌῐ-\\x{1fd3}ῖ-\\x{1fdb}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\\x{2126}ℨ\\x{212a}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄ"
    "Ⰰ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
/* clang-format on */
static const char deepseek_v3[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES;

enum step { END, GPT2, DIGITS, NUMBERS, LETTERS, PUNCTUATION, REGEX };

struct named_pre {
    const char *names; /* separated by spaces */
    struct qr_pre pre;
    struct {
        enum step step;
        const char *pattern;
    } steps[8];
};

/* nfc, ignore_merges, add_bos */
static const struct named_pre table[] = {
    {"gpt-2 phi-2 trillion mellum gigachat a.x-4.0 jina-es jina-de jina-v2-es jina-v2-de",
     {false, false, false},
     {{GPT2, 0}}},
    {"mpt olmo", {true, false, false}, {{GPT2, 0}}}, /* GPT-NeoX */
    {"smollm starcoder refact codeshell exaone minerva-7b", {false, false, false}, {{DIGITS, 0}, {GPT2, 0}}},
    {"command-r", {true, false, false}, {{DIGITS, 0}, {GPT2, 0}}},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0", {false, true, true}, {{REGEX, llama3}}},
    {"dbrx smaug-bpe glm4 chatglm-bpe", {false, false, false}, {{REGEX, llama3}}},
    {"qwen2 deepseek-r1-qwen", {true, false, false}, {{REGEX, qwen2}}},
    {"stablelm2 megrez", {false, false, false}, {{REGEX, qwen2}}},
    {"qwen35", {true, false, false}, {{REGEX, qwen35}}},
    {"tekken", {false, true, true}, {{REGEX, tekken}}},
    {"gpt-4o llama4", {false, false, false}, {{REGEX, o200k}}},
    {"seed-coder", {false, false, false}, {{REGEX, seed_coder}}},
    {"bailingmoe", {false, false, false}, {{REGEX, bailing}}},
    {"bloom poro-chat gpt3-finnish", {false, false, false}, {{REGEX, bloom}}},
    {"viking", {false, false, false}, {{REGEX, bloom}, {DIGITS, 0}}},
    {"deepseek-llm",
     {false, false, false},
     {{REGEX, "[\\r\\n]"},
      {REGEX, deepseek_words},
      {REGEX, "\\s?[!-/:-~！-／：-～‘-‟　-。]+"},
      {REGEX, "\\s+$"},
      {REGEX, "[一-龥ࠀ-一가-퟿]+"},
      {DIGITS, 0}}},
    {"deepseek-coder",
     {false, false, false},
     {{REGEX, "[\\r\\n]"},
      {REGEX, "\\s?\\p{L}+"},
      {REGEX, "\\s?\\p{P}+"},
      {REGEX, "[一-龥ࠀ-一가-퟿]+"},
      {DIGITS, 0}}},
    {"deepseek-v3",
     {false, false, false},
     {{REGEX, "\\p{N}{1,3}"}, {REGEX, "[一-龥぀-ゟ゠-ヿ]+"}, {REGEX, deepseek_v3}}},
    {"falcon",
     {false, false, false},
     {{PUNCTUATION, 0}, {GPT2, 0}, {LETTERS, 0}, {NUMBERS, 0}, {REGEX, "[0-9][0-9][0-9]"}}},
};

static enum qr_status add_step(struct qr_pretok *pretok, enum step step, const char *pattern, struct qr_err *err)
{
    static const char punctuation[] = "[\\p{P}$+<=>^`|~]"; /* P, and the rest of ASCII's */

    switch (step) {
    case GPT2:
        return qr_pretok_add_gpt2(pretok, err);
    case DIGITS:
        return qr_pretok_add_step(pretok, QR_STEP_NUMERIC, QR_SPLIT_ISOLATED, err);
    case NUMBERS:
        return qr_pretok_add_step(pretok, QR_STEP_NUMERIC, QR_SPLIT_CONTIGUOUS, err);
    case LETTERS:
        return qr_pretok_add_step(pretok, QR_STEP_LETTERS, QR_SPLIT_ISOLATED, err);
    case PUNCTUATION:
        return qr_pretok_add_regex(pretok, punctuation, strlen(punctuation), QR_SPLIT_CONTIGUOUS, false, err);
    default:
        return qr_pretok_add_regex(pretok, pattern, strlen(pattern), QR_SPLIT_ISOLATED, false, err);
    }
}

static bool among(const char *names, const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || strchr(name, ' '))
        return false;
    for (const char *p = names; (p = strstr(p, name)); p += n)
        if ((p == names || p[-1] == ' ') && (p[n] == ' ' || p[n] == 0))
            return true;
    return false;
}

static enum qr_status unknown(const char *name, struct qr_err *err)
{
    char known[400];
    size_t n = 0;

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        size_t more = strlen(table[i].names);

        if (n + more + 2 > sizeof known)
            break;
        memcpy(known + n, table[i].names, more);
        known[n + more] = ' ';
        n += more + 1;
    }
    known[n ? n - 1 : 0] = 0;
    if (!name)
        return qr_fail(
            err, QR_UNSUPPORTED,
            "the file has no tokenizer.ggml.pre, so its way to cut words is unknown: convert it anew (known: "
            "%s)",
            known);
    return qr_fail(err, QR_UNSUPPORTED, "tokenizer.ggml.pre \"%.40s\" is not known (known: %s)", name, known);
}

enum qr_status qr_tokenizer_named_pre(const char *name, struct qr_pretok *pretok, struct qr_pre *pre,
                                      struct qr_err *err)
{
    for (size_t i = 0; name && i < sizeof table / sizeof table[0]; i++) {
        if (!among(table[i].names, name))
            continue;
        *pre = table[i].pre;
        for (size_t k = 0; k < sizeof table[i].steps / sizeof table[i].steps[0] && table[i].steps[k].step != END; k++)
            QR_TRY(add_step(pretok, table[i].steps[k].step, table[i].steps[k].pattern, err));
        return QR_OK;
    }
    return unknown(name, err);
}
