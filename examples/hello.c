/* hello.c - asks a model one question and prints the answer as it comes. Uses quire.h and nothing else.
 *
 *     make && build/examples/hello MODEL.gguf "What is the capital of France?"
 *
 * In a program of your own: cc hello.c -lquire -ljansson -lpcre2-8 -lutf8proc -lm -ldl -pthread */
#include <quire.h>
#include <stdio.h>
#include <string.h>

/* Every fallible call fills an error with one sentence. */
static int failed(const struct qr_err *err)
{
    fprintf(stderr, "hello: %s\n", err->message);
    return 1;
}

/* The question as the conversation that the model was trained on. The request is JSON: escape what needs it. */
static enum qr_status make_prompt(const struct qr_model *model, const char *question, int32_t **ids, size_t *n_ids,
                                  struct qr_err *err)
{
    char json[4096], *to = json + sprintf(json, "{\"messages\":[{\"role\":\"user\",\"content\":\""), *text;
    size_t n_text;
    for (; *question && to < json + sizeof json - 16; question++) {
        if (*question == '"' || *question == '\\' || (unsigned char)*question < 0x20)
            to += sprintf(to, "\\u%04x", *question);
        else
            *to++ = *question;
    }
    strcpy(to, "\"}]}");
    enum qr_status status = qr_chat_prompt(model, json, &text, &n_text, err);
    if (status == QR_OK) {
        /* parse_special: the template's marks such as <|im_start|> are single tokens. */
        status = qr_tokenize(model, text, n_text, true, false, ids, n_ids, err);
        qr_free(text);
    }
    return status;
}

int main(int argc, char **argv)
{
    struct qr_err err;
    struct qr_model *model;   /* weights and tokenizer, read only */
    struct qr_engine *engine; /* KV cache, scheduler and a thread that computes */
    if (argc != 3) {
        fprintf(stderr, "usage: hello MODEL QUESTION\n");
        return 2;
    }
    if (qr_model_open(argv[1], NULL, &model, &err) != QR_OK)
        return failed(&err);
    if (qr_engine_create(model, NULL, &engine, &err) != QR_OK)
        return failed(&err);

    struct qr_request request = {0};
    int32_t *ids;
    uint64_t id; /* tells this request's events from those of others */
    if (make_prompt(model, argv[2], &ids, &request.n_prompt, &err) != QR_OK)
        return failed(&err);
    request.prompt = ids;
    qr_sampling_defaults(model, &request.sampling);
    request.sampling.temperature = 0; /* always the most probable token */
    request.sampling.max_tokens = 200;
    if (qr_engine_submit(engine, &request, &id, &err) != QR_OK)
        return failed(&err);
    qr_free(ids); /* submit took a copy */

    for (bool done = false; !done;) {
        struct qr_event event;
        bool got;
        if (qr_engine_next(engine, &event, -1, &got, &err) != QR_OK)
            return failed(&err);
        if (event.kind == QR_EVENT_TOKEN) {
            fwrite(event.text, 1, event.n_text, stdout);
            fflush(stdout);
        }
        done = event.kind == QR_EVENT_DONE; /* one choice, so one such event */
        if (done && event.finish == QR_FINISH_ERROR)
            return failed(&event.error);
        qr_event_clear(&event);
    }
    putchar('\n');
    qr_engine_destroy(engine);
    qr_model_close(model);
    return 0;
}
