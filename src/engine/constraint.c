/* constraint.c - constraints that keep an answer to a form: compiled grammars, shared by all requests made with them. */
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "engine/model.h"

/* What a constraint's ctx is: a compiled grammar that lives until the last state on it is gone. */
struct form {
    struct qr_grammar *grammar;
    atomic_int n_user; /* the constraint itself and its clones */
};

struct clone {
    struct form *form;
    struct qr_grammar_state *state;
};

static void release(struct form *form)
{
    if (atomic_fetch_sub(&form->n_user, 1) > 1)
        return;
    qr_grammar_destroy(form->grammar);
    free(form);
}

static enum qr_status mask(void *ctx, uint32_t *bits, struct qr_err *err)
{
    const struct clone *c = ctx;
    return qr_grammar_mask(c->state, bits, err);
}

static enum qr_status accept(void *ctx, int32_t id, struct qr_err *err)
{
    const struct clone *c = ctx;
    return qr_grammar_accept(c->state, id, err);
}

static void *clone_state(const void *ctx)
{
    struct form *form = (struct form *)ctx;
    struct clone *c = malloc(sizeof(*c));
    if (!c)
        return NULL;
    if (qr_grammar_state_create(form->grammar, &c->state, NULL) != QR_OK) {
        free(c);
        return NULL;
    }
    c->form = form;
    atomic_fetch_add(&form->n_user, 1);
    return c;
}

static void destroy_state(void *ctx)
{
    struct clone *c = ctx;
    qr_grammar_state_destroy(c->state);
    release(c->form);
    free(c);
}

static enum qr_status vocab_of(struct qr_model *model, const struct qr_grammar_vocab **vocab, struct qr_err *err)
{
    enum qr_status status = QR_OK;
    if (!model->tok)
        return qr_fail(err, QR_UNSUPPORTED, "an answer cannot be kept to a form: %s", model->tok_error.message);
    pthread_mutex_lock(&model->grammar_mutex);
    if (!model->grammar_vocab)
        status = qr_grammar_vocab_create(model->tok, qr_model_vocab_size(model), model->eos, (size_t)model->n_eos,
                                         &model->grammar_vocab, err);
    *vocab = model->grammar_vocab;
    pthread_mutex_unlock(&model->grammar_mutex);
    return status;
}

static enum qr_status compile_schema(const struct qr_grammar_vocab *vocab, const char *text,
                                     struct qr_grammar **grammar, struct qr_err *err)
{
    json_t *schema;
    QR_TRY(qr_json_parse(text, strlen(text), "the schema", &schema, err));
    enum qr_status status = qr_grammar_compile_json_schema(vocab, schema, NULL, grammar, err);
    json_decref(schema);
    return status;
}

static enum qr_status compile(const struct qr_grammar_vocab *vocab, enum qr_form form, const char *const *text,
                              size_t n_text, struct qr_grammar **grammar, struct qr_err *err)
{
    if (form != QR_FORM_JSON_OBJECT && n_text == 0)
        return qr_fail(err, QR_INVALID, "a form needs its text: a schema, a pattern or choices");
    switch (form) {
    case QR_FORM_JSON_SCHEMA:
        return compile_schema(vocab, text[0], grammar, err);
    case QR_FORM_JSON_OBJECT:
        return qr_grammar_compile_json_object(vocab, NULL, grammar, err);
    case QR_FORM_REGEX:
        return qr_grammar_compile_regex(vocab, text[0], strlen(text[0]), NULL, grammar, err);
    case QR_FORM_CHOICE:
        return qr_grammar_compile_choice(vocab, text, n_text, NULL, grammar, err);
    }
    return qr_fail(err, QR_INVALID, "form is %d: it must be one of enum qr_form", (int)form);
}

enum qr_status qr_constraint_create(struct qr_model *model, enum qr_form form, const char *const *text, size_t n_text,
                                    struct qr_constraint *constraint, struct qr_err *err)
{
    const struct qr_grammar_vocab *vocab = NULL;
    *constraint = (struct qr_constraint){0};
    QR_TRY(vocab_of(model, &vocab, err));
    struct form *f = calloc(1, sizeof(*f));
    if (!f)
        return qr_fail(err, QR_NOMEM, "out of memory for a constraint");
    enum qr_status status = compile(vocab, form, text, n_text, &f->grammar, err);
    if (status != QR_OK) {
        free(f);
        return status;
    }
    atomic_store(&f->n_user, 1);
    *constraint = (struct qr_constraint){f, mask, accept, clone_state, destroy_state};
    return QR_OK;
}

void qr_constraint_free(struct qr_constraint *constraint)
{
    if (constraint && constraint->ctx)
        release(constraint->ctx);
    if (constraint)
        *constraint = (struct qr_constraint){0};
}
