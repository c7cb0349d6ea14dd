/* fuzz_chat.c - a client's chat request: JSON with messages, tools and what else it likes, through templates of two styles
 * (the first byte says which): an error for the client, or a prompt. */
#include "base/json.h"
#include "fuzz/check.h"
#include "text/chat.h"

static const char plain[] =
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m['content'] | trim }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";
static const char tools[] =
    "{%- if tools %}{% for t in tools %}{{ t | tojson }}\n{% endfor %}{% endif %}{% for m in messages %}{{ m.role }}:"
    "{% if m.content is string %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}{% else %}{% for p in m.content %}"
    "{{ p.type }}{{ p.text }}{% endfor %}{% endif %}{% if m.tool_calls %}{% for c in m.tool_calls %}"
    "{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}{% endif %}\n{% endfor %}"
    "{{ documents }}{{ enable_thinking | default(true) }}{{ eos_token }}";

static struct qr_chat *chats[2];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct qr_chat_template both[2][2] = {
        {{"default", plain, sizeof plain - 1}},
        {{"default", plain, sizeof plain - 1}, {"tool_use", tools, sizeof tools - 1}}};
    struct qr_err err = {0};

    (void)argc;
    (void)argv;
    for (size_t i = 0; i < 2; i++)
        check(qr_chat_create(both[i], i + 1, "<s>", "</s>", &chats[i], &err) == QR_OK, err.message);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct parts parts = parts_of(data + (n > 0), n ? n - 1 : 0);
    json_t *request = NULL;
    struct qr_err err = {0};
    struct qr_buf out;
    enum qr_status status = qr_json_parse(parts.first, parts.n_first, "the request", &request, &err);

    qr_buf_init(&out, 0);
    if (status == QR_OK)
        status = qr_chat_render(chats[n ? data[0] % 2 : 0], request, &out, &err);
    check_error(status, &err);
    check(status == QR_OK || out.len == 0, "output in spite of an error");
    qr_buf_free(&out);
    json_decref(request);
    parts_free(&parts);
    return 0;
}
