/* sampler.h - one row of logits to one token, the same whatever ran beside it.
 *
 * Order, fixed on every device:
 *   1 logit_bias is added
 *   2 repetition_penalty over prompt and output: l > 0 ? l / r : l * r (Keskar et al. 2019, CTRL)
 *   3 frequency_penalty * count and presence_penalty are taken away, over the output
 *   4 before min_tokens: ids that would end the text become impossible; so do those that the mask leaves out
 *   5 temperature under 1e-5: the best token; else the logits are divided by it, and of the softmax stay
 *   6 top_k, the k most probable
 *   7 top_p, of these the fewest with that share of their sum (Holtzman et al. 2020)
 *   8 min_p, of these those with at least that share of the best one's probability (Nguyen et al. 2024)
 *   9 one number of (seed, choice, position) picks, walking up the ids
 * Among equals the lower id counts as better. Log-probabilities are those of the model: before all of this.
 *
 * A sampler is scratch memory for one thread; a pick allocates nothing. */
#ifndef QR_ENGINE_SAMPLER_H
#define QR_ENGINE_SAMPLER_H
#include "base/err.h"
#include "engine/tally.h"
#include "plan/pick.h"

struct qr_sampler;

enum qr_status qr_sampler_create(int n_vocab, struct qr_sampler **sampler, struct qr_err *err);
void qr_sampler_destroy(struct qr_sampler *sampler);
uint64_t qr_sampler_bytes(int n_vocab); /* what create allocates */

/* QR_INTERNAL when the logits hold NaN or +inf, QR_INVALID when the filters leave no token. */
enum qr_status qr_sampler_pick(struct qr_sampler *sampler, const float *logits, const struct qr_pick *pick, int32_t *id,
                               struct qr_err *err);
/* What a status of a pick means, as an error; returns it. */
enum qr_status qr_sampler_fail(enum qr_status status, uint32_t position, struct qr_err *err);
/* Log-probability and rank of id, and the n_top (0 .. 20) best. out->top: room for n_top. */
enum qr_status qr_sampler_logprob(struct qr_sampler *sampler, const float *logits, int32_t id, int n_top,
                                  struct qr_token_logprob *out, struct qr_err *err);
#endif
