"""The openai package against `quire serve`, as its users call it; what the server says equals what the commands say."""

import json
import re
import threading

import openai
import pydantic
import pytest

from server import events

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def name(client):
    return client.models.list().data[0].id


def test_models(client, name):
    assert client.models.retrieve(name).id == name
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="no-such-model", messages=QUESTION)


def test_chat_equals_complete(client, name, quire, default_model):
    alone = quire.json(
        "complete", default_model, "--chat", "-p", QUESTION[0]["content"], "--json", "--temperature", 0, "-n", 40
    )
    answer = client.chat.completions.create(model=name, messages=QUESTION, temperature=0, max_tokens=40)
    (choice,) = answer.choices
    assert choice.message.content == alone["text"] and "Paris" in alone["text"]
    assert choice.message.role == "assistant" and choice.finish_reason == alone["finish_reason"]
    assert answer.usage.prompt_tokens == len(alone["prompt_token_ids"])
    assert answer.usage.completion_tokens == len(alone["token_ids"])
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")


@pytest.mark.parametrize("usage", [False, True])
def test_chat_stream(client, name, usage):
    whole = client.chat.completions.create(model=name, messages=QUESTION, temperature=0, max_completion_tokens=30)
    more = {"stream_options": {"include_usage": True}} if usage else {}
    chunks = list(
        client.chat.completions.create(
            model=name, messages=QUESTION, temperature=0, max_completion_tokens=30, stream=True, **more
        )
    )
    assert all(chunk.object == "chat.completion.chunk" and chunk.id == chunks[0].id for chunk in chunks)
    assert chunks[0].choices[0].delta.role == "assistant"
    said = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in said) == whole.choices[0].message.content
    assert [choice.finish_reason for choice in said if choice.finish_reason] == [whole.choices[0].finish_reason]
    if usage:
        assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == whole.usage.total_tokens
        assert all(chunk.usage is None for chunk in chunks[:-1])
    else:
        assert chunks[-1].choices[0].finish_reason


def test_prompts_of_every_kind(client, name, server):
    text = ["Once upon a time", "The sky is"]
    ids = [server.json("/tokenize", {"prompt": one})["tokens"] for one in text]
    options = {"model": name, "temperature": 0, "max_tokens": 6}
    singles = [client.completions.create(prompt=one, **options).choices[0].text for one in text]
    for prompt in (text, ids):
        answer = client.completions.create(prompt=prompt, n=2, **options)
        assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
        assert [choice.text for choice in answer.choices] == [singles[0]] * 2 + [singles[1]] * 2
        assert answer.usage.prompt_tokens == sum(map(len, ids)) and answer.usage.completion_tokens == 24
    assert client.completions.create(prompt=ids[0], **options).choices[0].text == singles[0]
    streamed = ["", "", "", ""]
    for chunk in client.completions.create(prompt=text, n=2, stream=True, **options):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == [singles[0]] * 2 + [singles[1]] * 2
    assert server.json("/detokenize", {"tokens": ids[0]})["prompt"] == text[0]


def test_stop_and_seed(client, name):
    options = {"model": name, "messages": QUESTION, "temperature": 0}
    whole = client.chat.completions.create(**options, max_tokens=20).choices[0].message.content
    word = whole.split()[2]
    for stream in (False, True):
        answer = client.chat.completions.create(**options, max_tokens=20, stop=[word, "\n"], stream=stream)
        if stream:
            text = "".join(chunk.choices[0].delta.content or "" for chunk in answer)
        else:
            text = answer.choices[0].message.content
        assert text == whole[: whole.index(word)]
    drawn = {
        client.completions.create(model=name, prompt="The", temperature=1.5, seed=7, max_tokens=12).choices[0].text
        for _ in range(2)
    }
    assert len(drawn) == 1
    other = client.completions.create(model=name, prompt="The", temperature=1.5, seed=8, max_tokens=12).choices[0].text
    assert other not in drawn


def test_logprobs(client, name):
    options = {"model": name, "messages": QUESTION, "temperature": 0, "max_tokens": 5}
    whole = client.chat.completions.create(**options, logprobs=True, top_logprobs=3).choices[0]
    assert len(whole.logprobs.content) == 5
    for token in whole.logprobs.content:
        assert token.logprob == token.top_logprobs[0].logprob and len(token.top_logprobs) == 3
        assert bytes(token.bytes).decode() == token.token
    streamed = []
    for chunk in client.chat.completions.create(**options, logprobs=True, top_logprobs=3, stream=True):
        if chunk.choices[0].logprobs:
            streamed += chunk.choices[0].logprobs.content
    assert streamed == whole.logprobs.content


@pytest.mark.parametrize("max_tokens", [0, 1, 4])
@pytest.mark.parametrize("n", [1, 2])
def test_echo_equals_score(client, name, quire, default_model, server, max_tokens, n):
    """What lm-eval asks: the log-likelihood of a prompt's tokens, from the echo of the prompt."""
    context, continuation = "The capital of France is", " Paris, a city on the Seine"
    line = json.dumps({"context": context, "continuation": continuation})
    score = json.loads(quire.text("score", default_model, "--jsonl", stdin=line + "\n"))
    n_context = len(server.json("/tokenize", {"prompt": context})["tokens"])
    n_prompt = len(server.json("/tokenize", {"prompt": context + continuation})["tokens"])
    answer = client.completions.create(
        model=name, prompt=context + continuation, echo=True, logprobs=2, max_tokens=max_tokens, temperature=0, n=n
    )
    assert len(answer.choices) == n and answer.choices[0].logprobs == answer.choices[-1].logprobs
    (choice, *_) = answer.choices
    assert choice.text.startswith(context + continuation)
    lists = choice.logprobs
    assert len(lists.tokens) == n_prompt + max_tokens == len(lists.token_logprobs) == len(lists.top_logprobs)
    assert lists.token_logprobs[0] is None and lists.top_logprobs[0] is None
    assert "".join(lists.tokens) == choice.text
    assert all(choice.text[at:].startswith(token) for at, token in zip(lists.text_offset, lists.tokens))
    summed = sum(lists.token_logprobs[n_context:n_prompt])
    assert summed == pytest.approx(score["logprob"], abs=1e-3)


def test_echo_stream(client, name):
    options = {"model": name, "prompt": "The capital of France is", "echo": True, "logprobs": 1, "max_tokens": 3}
    whole = client.completions.create(**options, temperature=0).choices[0]
    chunks = [chunk.choices[0] for chunk in client.completions.create(**options, temperature=0, stream=True)]
    assert "".join(chunk.text for chunk in chunks) == whole.text
    tokens = [token for chunk in chunks if chunk.logprobs for token in chunk.logprobs.tokens]
    assert tokens == whole.logprobs.tokens


@pytest.mark.parametrize("n", [1, 3])
def test_echo_streams_log_probabilities(client, name, n):
    """Each choice's chunks joined are the whole answer's text and lists."""
    options = {"model": name, "prompt": ["The capital of France is", "One two three"], "echo": True, "logprobs": 2,
               "max_tokens": 4, "temperature": 1, "seed": 3, "n": n}  # fmt: skip
    whole = client.completions.create(**options).choices
    text, lists = [""] * 2 * n, [{"tokens": [], "token_logprobs": [], "text_offset": []} for _ in range(2 * n)]
    for chunk in client.completions.create(**options, stream=True):
        (choice,) = chunk.choices
        text[choice.index] += choice.text
        for key, values in lists[choice.index].items():
            values += getattr(choice.logprobs, key) if choice.logprobs else []
    for choice in whole:
        assert text[choice.index] == choice.text
        for key, values in lists[choice.index].items():
            assert values == getattr(choice.logprobs, key), key


def test_cache_salt(server):
    """Beginnings are shared among requests with the same salt, which changes nothing else."""
    body = {"prompt": "A beginning in common. " * 20, "max_tokens": 4, "temperature": 0}
    texts, cached = set(), []
    for salt in ("mine", "mine", "yours", None, "yours"):
        answer = server.json("/v1/completions", {**body, **({"cache_salt": salt} if salt else {})})
        texts.add(answer["choices"][0]["text"])
        cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0)
    assert len(texts) == 1 and cached == [False, True, False, False, True]
    for bad in ("", 5, "a\0b"):
        assert server.json("/v1/completions", {**body, "cache_salt": bad}, status=400)["error"]["param"] == "cache_salt"


def test_tokenizer_info(server):
    info = server.json("/tokenizer_info")
    assert info["eos_token"] == "<|im_end|>" and "messages" in info["chat_template"]
    ids = server.json("/tokenize", {"prompt": info["eos_token"], "add_special_tokens": False})["tokens"]
    assert len(ids) == 1


def test_prompt_logprobs(server):
    body = {"prompt": "The capital of France is", "max_tokens": 1, "prompt_logprobs": 1}
    first, *rest = server.json("/v1/completions", body)["choices"][0]["prompt_logprobs"]
    assert first is None and len(rest) == 4
    for position in rest:
        assert 1 <= len(position) <= 2 and 1 in [token["rank"] for token in position.values()]
    chat = server.json("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 1, "prompt_logprobs": 0})
    assert len(chat["prompt_logprobs"]) == chat["usage"]["prompt_tokens"]


def test_errors_are_its_exceptions(client, name, server):
    bad = [
        {"temperature": -1},
        {"max_tokens": 0},
        {"n": 0},
        {"logit_bias": {"99999999": 1}},
        {"extra_body": {"no_such_field": 1}},
        {"extra_body": {"min_tokens": 10, "max_tokens": 5}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "no such"}}}},
        {"extra_body": {"guided_regex": "(", "max_tokens": 5}},
    ]
    for more in bad:
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model=name, messages=QUESTION, **more)
        assert caught.value.type == "invalid_request_error" and caught.value.param
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        client.completions.create(model=name, prompt="word " * 20000, max_tokens=1)
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model=name, prompt="x", stream=True, temperature=-1)
    _, fields, _ = server.ask("/v1/completions", {"prompt": "x", "max_tokens": 1, "user": "me", "store": False})
    assert "x-quire-ignored-fields: user, store" in fields


class City(pydantic.BaseModel):
    name: str
    country: str
    population: int
    rivers: list[str] = pydantic.Field(max_length=3)


def test_json_schema_with_pydantic(client, name):
    messages = [{"role": "user", "content": "Describe Paris as JSON."}]
    parsed = client.chat.completions.parse(
        model=name, messages=messages, response_format=City, temperature=0, max_tokens=300
    )
    (choice,) = parsed.choices
    assert choice.finish_reason in ("stop", "length")
    if choice.finish_reason == "stop":
        assert isinstance(choice.message.parsed, City)
    for seed in range(4):
        answer = client.chat.completions.create(
            model=name,
            messages=messages,
            temperature=1,
            seed=seed,
            n=2,
            max_tokens=40,
            response_format={
                "type": "json_schema",
                "json_schema": {
                    "name": "x",
                    "strict": True,
                    "schema": {
                        "type": "object",
                        "properties": {"big": {"type": "boolean"}, "kind": {"enum": ["city", "town"]}},
                        "required": ["big", "kind"],
                        "additionalProperties": False,
                    },
                },
            },
        )
        for choice in answer.choices:
            value = json.loads(choice.message.content)
            assert isinstance(value["big"], bool) and value["kind"] in ("city", "town") and len(value) == 2
            assert choice.finish_reason == "stop"


def test_json_object_regex_and_choice(client, name, server):
    options = {"model": name, "messages": QUESTION, "temperature": 1, "seed": 3}
    streamed = client.chat.completions.create(
        **options, response_format={"type": "json_object"}, max_tokens=200, stream=True
    )
    chunks = [chunk.choices[0] for chunk in streamed]
    text = "".join(chunk.delta.content or "" for chunk in chunks)
    assert text.startswith("{") and (chunks[-1].finish_reason == "length" or isinstance(json.loads(text), dict))
    for more, good in [
        ({"structured_outputs": {"regex": "[0-9]{3}-[a-z]{2}"}}, r"[0-9]{3}-[a-z]{2}"),
        ({"guided_choice": ["Paris", "Rome"]}, "Paris|Rome"),
        ({"guided_json": {"type": "integer", "minimum": 5, "maximum": 9}}, "[5-9]"),
    ]:
        answer = client.chat.completions.create(**options, extra_body=more, max_tokens=20)
        assert re.fullmatch(good, answer.choices[0].message.content)


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "maximum": 9}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
TIME = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "maxProperties": 0}}}


def joined(stream):
    """The message of a streamed answer, put together as clients do it."""
    text, calls, finish = "", {}, None
    for chunk in stream:
        (choice,) = chunk.choices
        text += choice.delta.content or ""
        for call in choice.delta.tool_calls or []:
            whole = calls.setdefault(call.index, {"id": None, "name": "", "arguments": ""})
            whole["id"] = call.id or whole["id"]
            whole["name"] += call.function.name or ""
            whole["arguments"] += call.function.arguments or ""
        finish = choice.finish_reason or finish
    return text, list(calls.values()), finish


def test_tool_calls_are_told_from_text(client, name):
    """The small model calls no tools by itself: a pattern makes it write what a trained one writes."""
    call = r'<tool_call>\n\{"name": "get_weather", "arguments": \{"city": "[A-Z][a-z]{2,6}"\}\}\n</tool_call>'
    options = {
        "model": name,
        "messages": QUESTION,
        "tools": [WEATHER, TIME],
        "temperature": 1,
        "seed": 5,
        "max_tokens": 100,
        "extra_body": {"guided_regex": "I look\\.\n" + call + "\n" + call},
    }
    (choice,) = client.chat.completions.create(**options).choices
    assert choice.finish_reason == "tool_calls" and choice.message.content == "I look."
    assert len(choice.message.tool_calls) == 2 and len({call.id for call in choice.message.tool_calls}) == 2
    for call in choice.message.tool_calls:
        assert call.type == "function" and call.function.name == "get_weather"
        assert list(json.loads(call.function.arguments)) == ["city"]
    text, calls, finish = joined(client.chat.completions.create(**options, stream=True))
    assert text == "I look." and finish == "tool_calls"
    assert [call["arguments"] for call in calls] == [
        call.function.arguments for call in choice.message.tool_calls
    ]
    (choice,) = client.chat.completions.create(**options, parallel_tool_calls=False).choices
    assert len(choice.message.tool_calls) == 1
    (choice,) = client.chat.completions.create(**{**options, "tool_choice": "none"}).choices
    assert choice.message.tool_calls is None and "<tool_call>" in choice.message.content


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_forced_tool_calls(client, name, choice):
    options = {
        "model": name,
        "messages": QUESTION,
        "tools": [WEATHER],
        "tool_choice": choice,
        "temperature": 0.5,
        "max_tokens": 400,
        "parallel_tool_calls": False,
    }
    for seed in range(3):
        (whole,) = client.chat.completions.create(**options, seed=seed).choices
        (call,) = whole.message.tool_calls
        arguments = json.loads(call.function.arguments)
        assert call.function.name == "get_weather" and whole.finish_reason == "tool_calls"
        assert isinstance(arguments["city"], str) and arguments["days"] <= 9 and len(arguments) == 2
        _, (streamed,), finish = joined(client.chat.completions.create(**options, seed=seed, stream=True))
        assert json.loads(streamed["arguments"]) == arguments and finish == "tool_calls"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(
            model=name, messages=QUESTION, tools=[TIME],
            tool_choice={"type": "function", "function": {"name": "no_such"}},
        )  # fmt: skip


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_forced_tool_calls_that_are_cut_off(client, name, choice):
    """The limit of tokens leaves the beginning of the arguments in the call, nothing as content."""
    options = {"model": name, "messages": QUESTION, "tools": [WEATHER], "tool_choice": choice, "temperature": 0.5, "seed": 1,
               "parallel_tool_calls": False}  # fmt: skip
    answer = client.chat.completions.create(**options, max_tokens=400)
    (whole,) = answer.choices
    squeezed = "".join(whole.message.tool_calls[0].function.arguments.split())
    seen = set()
    for n in range(1, answer.usage.completion_tokens, 2):
        (cut,) = client.chat.completions.create(**options, max_tokens=n).choices
        assert cut.finish_reason == "length" and not cut.message.content
        text, streamed, finish = joined(client.chat.completions.create(**options, max_tokens=n, stream=True))
        assert finish == "length" and not text
        calls = cut.message.tool_calls or []
        assert [call.function.arguments for call in calls] == [call["arguments"] for call in streamed]
        for call in calls:
            assert call.function.name == "get_weather"
            part = "".join(call.function.arguments.split())
            assert squeezed.startswith(part)
            seen.add(part)
    assert len(seen) > 2


class Stop(pydantic.BaseModel):
    place: City
    minutes: int = pydantic.Field(ge=0, le=9)


class Trip(pydantic.BaseModel):
    """A journey."""

    stops: list[Stop] = pydantic.Field(min_length=1, max_length=2)
    fast: bool | None


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "Trip"}}])
def test_parameters_with_definitions(client, name, choice):
    """References of a tool's parameters, as pydantic writes them, lead to the tool's own definitions; arguments that the tool
    does not list are none."""
    schema = Trip.model_json_schema()
    assert "$defs" in schema and "additionalProperties" not in schema
    tools = [{"type": "function", "function": {"name": "Trip", "parameters": schema}}]
    if choice == "required":
        tools.insert(0, TIME)
    finished = 0
    for seed in range(4):
        (answer,) = client.chat.completions.create(
            model=name, messages=QUESTION, tools=tools, tool_choice=choice, seed=seed, temperature=0.7, max_tokens=500,
            parallel_tool_calls=False,
        ).choices  # fmt: skip
        if answer.finish_reason == "tool_calls":
            (call,) = answer.message.tool_calls
            if call.function.name == "Trip":
                trip = Trip.model_validate_json(call.function.arguments)
                assert set(json.loads(call.function.arguments)) == {"stops", "fast"} and trip.stops[0].minutes <= 9
                finished += 1
    assert finished > 0


def test_tools_that_the_template_does_not_show_are_named(client, name):
    """The default model's template knows no tools: the model cannot be told of them, and the client hears so."""
    raw = client.chat.completions.with_raw_response.create(model=name, messages=QUESTION, tools=[TIME], max_tokens=1)
    assert "tools" in raw.headers["x-quire-ignored-fields"]
    raw = client.chat.completions.with_raw_response.create(model=name, messages=QUESTION, max_tokens=1)
    assert "x-quire-ignored-fields" not in raw.headers


def test_answers_of_tools_go_back(client, name):
    messages = [
        *QUESTION,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "12:00"},
    ]
    answer = client.chat.completions.create(model=name, messages=messages, tools=[TIME], max_tokens=5)
    assert answer.choices[0].message.content is not None


def test_many_clients_get_what_each_gets_alone(client, name):
    prompts = [f"Number {i} is" for i in range(48)]
    options = {"model": name, "temperature": 0, "max_tokens": 12}
    texts = [None] * len(prompts)

    def ask(i):
        stream = client.completions.create(prompt=prompts[i], stream=True, **options)
        texts[i] = "".join(chunk.choices[0].text for chunk in stream)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(len(prompts)):
        assert texts[i] == client.completions.create(prompt=prompts[i], **options).choices[0].text
    assert all(texts)


def test_a_stream_ends_with_done(server):
    status, fields, body = server.ask(
        "/v1/chat/completions", {"messages": QUESTION, "max_tokens": 3, "stream": True, "n": 2}
    )
    assert status == 200 and any(line.startswith("content-type: text/event-stream") for line in fields)
    chunks = events(body)
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    for index in (0, 1):
        mine = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == index]
        assert mine[0]["delta"]["role"] == "assistant" and mine[-1]["finish_reason"] == "length"


# Upper ends of the histograms' buckets, as prometheus_client prints them: vLLM's vllm/v1/metrics/loggers.py.
LATENCY = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]
VLLM_BUCKETS = {
    "time_to_first_token_seconds": [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
                                    20, 40, 80, 160, 640, 2560],
    "inter_token_latency_seconds": [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20,
                                    40, 80],
    "e2e_request_latency_seconds": LATENCY,
    "request_queue_time_seconds": LATENCY,
    "request_prefill_time_seconds": LATENCY,
    "request_decode_time_seconds": LATENCY,
    "request_inference_time_seconds": LATENCY,
    "request_prompt_tokens": [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],  # up to the context, 8,192
    "request_generation_tokens": [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
    "iteration_tokens_total": [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
}  # fmt: skip
VLLM_TYPES = {
    "num_requests_running": "gauge", "num_requests_waiting": "gauge", "kv_cache_usage_perc": "gauge",
    "cache_config_info": "gauge", "prompt_tokens_total": "counter", "generation_tokens_total": "counter",
    "prefix_cache_queries_total": "counter", "prefix_cache_hits_total": "counter", "num_preemptions_total": "counter",
    "request_success_total": "counter", **dict.fromkeys(VLLM_BUCKETS, "histogram"),
}  # fmt: skip


def test_metrics_have_vllms_names_and_buckets(server):
    before = server.metric("vllm:generation_tokens_total")
    steps = server.metric("vllm:iteration_tokens_total_count")
    server.json("/v1/completions", {"prompt": [5] * 300, "max_tokens": 7, "ignore_eos": True})
    assert server.metric("vllm:generation_tokens_total") == before + 7
    text = server.ask("/metrics")[2].decode()
    assert dict(re.findall(r"^# TYPE vllm:(\w+) (\w+)$", text, re.MULTILINE)) == VLLM_TYPES
    for name, bounds in VLLM_BUCKETS.items():
        rows = re.findall(rf'^vllm:{name}_bucket{{engine="0",model_name="[^"]*",le="([^"]*)"}} (\d+)$', text, re.MULTILINE)
        assert [le for le, _ in rows] == [str(float(bound)) for bound in bounds] + ["+Inf"], name
        counts = [int(count) for _, count in rows]
        (count,) = re.findall(rf"^vllm:{name}_count{{.*}} (\d+)$", text, re.MULTILINE)
        assert counts == sorted(counts) and counts[-1] == int(count)
    assert server.metric("vllm:iteration_tokens_total_count") > steps
    long = [int(count) for count in re.findall(r'iteration_tokens_total_bucket{[^}]*le="(?:256.0|512.0)"} (\d+)', text)]
    assert long[0] < long[1]  # the prompt of 300 tokens went in one step, which was counted before the next ones
