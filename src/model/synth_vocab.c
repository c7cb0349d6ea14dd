/* synth_vocab.c - a small byte-level BPE vocabulary that any text can be written in: 256 bytes, three special tokens, a
 * few merges, and words to fill the rest. */
#include <string.h>
#include "base/arena.h"
#include "model/synth_parts.h"

const char *const qr_synth_chat_template =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
    "'\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/* In order of rank; both parts of each stand before it. */
static const char *const merges[] = {"Ġ t", "h e", "Ġ a", "i n", "r e", "o n",   "Ġt he", "e r",
                                     "Ġ s", "a t", "Ġ w", "o u", "n d", "Ġa nd", "in g",  "Ġ o"};
enum { N_MERGE = sizeof(merges) / sizeof(merges[0]) };

/* All code points of the byte alphabet are below 2048: two bytes of UTF-8 at most. */
static void put_code_point(int c, char out[3])
{
    if (c < 0x80) {
        out[0] = (char)c;
        out[1] = '\0';
    } else {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        out[2] = '\0';
    }
}

/* "Ġ t" -> "Ġt" */
static const char *merged(struct qr_arena *arena, const char *merge)
{
    char *s = qr_arena_strdup(arena, merge), *space = s ? strchr(s, ' ') : NULL;
    if (space)
        memmove(space, space + 1, strlen(space));
    return s;
}

/* The special token's place: the id that the config wants when it is free, else the highest free one. */
static int32_t place(struct qr_synth_vocab *v, int32_t wanted, const char *token)
{
    int32_t id = wanted;
    if (id < 0 || id >= v->n || v->token[id])
        for (id = v->n - 1; v->token[id]; id--)
            ;
    v->token[id] = token;
    v->kind[id] = QR_SYNTH_CONTROL;
    return id;
}

/* ChatML's neighbours stand below <|im_end|>, as in SmolLM2 and Qwen; every id that ends a text is special. */
static bool place_specials(const struct qr_config *c, struct qr_synth_vocab *v)
{
    v->im_end = place(v, c->n_eos > 0 ? c->eos[0] : -1, "<|im_end|>");
    v->end_of_text = place(v, c->n_eos > 1 ? c->eos[1] : v->im_end - 2, "<|endoftext|>");
    v->im_start = place(v, v->im_end - 1, "<|im_start|>");
    for (int i = 2; i < c->n_eos && v->n > 300; i++) {
        char s[32];
        snprintf(s, sizeof(s), "<|reserved_%d|>", i);
        const char *token = qr_arena_strdup(v->arena, s);
        if (!token)
            return false;
        place(v, c->eos[i], token);
    }
    return true;
}

/* The k-th character of the byte alphabet of GPT-2 (Radford et al. 2019, bytes_to_unicode): bytes that print stand for
 * themselves, the 68 others get the code points from 256 on. */
static int alphabet(int k)
{
    static const int first[] = {'!', 0xA1, 0xAE, 256}, last[] = {'~', 0xAC, 0xFF, 256 + 67};
    int range = 0;
    for (; k > last[range] - first[range]; range++)
        k -= last[range] - first[range] + 1;
    return first[range] + k;
}

/* Bytes, merges and words into the ids that are free, upwards. */
static bool fill(struct qr_synth_vocab *v)
{
    int n_byte = 0, n_word = 0;
    char s[32];
    for (int32_t id = 0; id < v->n; id++) {
        if (v->token[id])
            continue;
        if (n_byte < 256) {
            put_code_point(alphabet(n_byte++), s);
            v->token[id] = qr_arena_strdup(v->arena, s);
        } else if (v->n_merge < N_MERGE) {
            v->token[id] = merged(v->arena, merges[v->n_merge++]);
        } else { /* no pre-tokenizer keeps a letter and a digit together: text never becomes one of these */
            snprintf(s, sizeof(s), "Ġw%d", n_word++);
            v->token[id] = qr_arena_strdup(v->arena, s);
        }
        v->kind[id] = QR_SYNTH_NORMAL;
        if (!v->token[id])
            return false;
    }
    return true;
}

enum qr_status qr_synth_vocab_make(const struct qr_config *c, struct qr_synth_vocab *v, struct qr_err *err)
{
    memset(v, 0, sizeof(*v));
    if (c->n_vocab < 259)
        return qr_fail(err, QR_INVALID,
                       "a vocabulary of %d tokens is too small: 256 bytes and 3 special tokens need 259", c->n_vocab);
    v->n = c->n_vocab;
    v->merge = merges;
    v->pre = c->arch != QR_ARCH_LLAMA ? "qwen2" : c->rope.kind == QR_ROPE_LLAMA3 ? "llama-bpe" : "smollm";
    v->arena = qr_arena_create(0);
    if (v->arena) {
        v->token = qr_arena_array(v->arena, (size_t)v->n, sizeof(*v->token));
        v->kind = qr_arena_array(v->arena, (size_t)v->n, 1);
    }
    if (v->token && v->kind) {
        if (place_specials(c, v) && fill(v))
            return QR_OK;
    }
    qr_synth_vocab_free(v);
    return qr_fail(err, QR_NOMEM, "no memory for a vocabulary of %d tokens", c->n_vocab);
}

void qr_synth_vocab_free(struct qr_synth_vocab *v)
{
    qr_arena_destroy(v->arena);
    memset(v, 0, sizeof(*v));
}
