"""Clients that people have, unchanged, against `quire serve` with the default model: lm-eval, LangChain, aiperf.

lm-eval and aiperf bring a gigabyte of packages (but no torch): `make clients`, which `make test-long` runs, installs them into
build/venv-clients; without them their tests are skipped. QUIRE_CLIENTS names another environment that has them."""

import json
import os
import shutil
import subprocess

import pytest

from conftest import client_program

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@pytest.fixture(scope="module")
def name(server):
    return server.json("/v1/models")["data"][0]["id"]


# ---------------------------------------------------------------- lm-eval

FACTS = [
    ("The capital of France is", ["Paris", "London", "a river in Asia"], 0),
    ("Water is made of hydrogen and", ["oxygen", "iron and some more iron"], 0),
    ("Two plus two is", ["four", "eleven", "a kind of music"], 0),
    ("The sun rises in the", ["north", "east"], 1),
    ("A triangle has", ["seven sides", "three sides"], 1),
    ("Ein Satz mit Umlauten: für", ["Übung — 東京", "nothing"], 0),
]
TASK = """task: {task}
dataset_path: json
dataset_kwargs:
  data_files: {{test: {data}}}
test_split: test
"""
CHOICES = TASK + """\
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: choices
doc_to_target: answer
metric_list: [{{metric: acc}}]
"""
ROLLING = TASK + """\
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{question}}}}"
metric_list: [{{metric: word_perplexity}}]
"""
WRITING = TASK + """\
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{choices[answer]}}}}"
generation_kwargs: {{until: ["\\n"], max_gen_toks: 12, temperature: 0}}
metric_list: [{{metric: exact_match}}]
"""


def lm_eval(server, name, tmp_path, yaml, model, path, *more):
    """Runs a task over FACTS as its users do, returns the samples' records in the order of FACTS."""
    lm_eval_program = client_program("lm_eval")
    data, tasks, out = tmp_path / "data.jsonl", tmp_path / "tasks", tmp_path / "out"
    tasks.mkdir()
    data.write_text("".join(json.dumps({"question": q, "choices": c, "answer": a}) + "\n" for q, c, a in FACTS))
    (tasks / "own.yaml").write_text(yaml.format(task="own_facts", data=data))
    arguments = f"model={name},base_url=http://127.0.0.1:{server.port}{path},num_concurrent=4,max_retries=1"
    done = subprocess.run(
        [lm_eval_program, "run", "--model", model, "--model_args", arguments, "--tasks", "own_facts",
         "--include_path", tasks, "--output_path", out, "--log_samples", "--batch_size", "1", *more],
        capture_output=True, timeout=300, env={**os.environ, **OFFLINE, "HF_HOME": str(tmp_path / "hf")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    (samples,) = out.rglob("samples_own_facts_*.jsonl")
    records = [json.loads(line) for line in samples.read_text().splitlines()]
    return sorted(records, key=lambda record: record["doc_id"])


def score(quire, model, pairs):
    lines = "".join(json.dumps({"context": c, "continuation": t}) + "\n" for c, t in pairs)
    return [json.loads(line) for line in quire.text("score", model, "--jsonl", stdin=lines).splitlines()]


def test_lm_eval_loglikelihoods_equal_score(server, name, tmp_path, quire, default_model):
    records = lm_eval(server, name, tmp_path, CHOICES, "local-completions", "/v1/completions")
    pairs = [(question, " " + choice) for question, choices, _ in FACTS for choice in choices]
    wanted = score(quire, default_model, pairs)
    got = [resp[0] for record in records for resp in record["resps"]]
    assert len(got) == len(wanted)
    for (logprob, greedy), want, pair in zip(got, wanted, pairs):
        assert float(logprob) == pytest.approx(want["logprob"], abs=1e-3), pair
        assert str(greedy) == str(want["is_greedy"]), pair
    assert records[0]["acc"] == 1.0  # Paris


def test_lm_eval_rolling_loglikelihood(server, name, tmp_path, quire, default_model):
    """A text as a whole, behind the token that lm-eval puts before it: the model's first or last special token."""
    records = lm_eval(server, name, tmp_path, ROLLING, "local-completions", "/v1/completions")
    info = server.json("/tokenizer_info")
    wanted = score(quire, default_model, [(info["bos_token"] or info["eos_token"], question) for question, _, _ in FACTS])
    for record, want in zip(records, wanted):
        got = record["resps"][0]
        got = float(got[0] if isinstance(got, list) else got)
        assert got == pytest.approx(want["logprob"], abs=1e-3)


def test_lm_eval_generates_by_completions(server, name, tmp_path):
    records = lm_eval(server, name, tmp_path, WRITING, "local-completions", "/v1/completions")
    for (question, _, _), record in zip(FACTS, records):
        body = {"prompt": question, "max_tokens": 12, "temperature": 0, "stop": ["\n"]}
        assert record["resps"] == [[server.json("/v1/completions", body)["choices"][0]["text"]]]


def test_lm_eval_generates_by_chat(server, name, tmp_path):
    records = lm_eval(
        server, name, tmp_path, WRITING, "local-chat-completions", "/v1/chat/completions", "--apply_chat_template"
    )
    for (question, _, _), record in zip(FACTS, records):
        messages = [{"role": "user", "content": question}]
        body = {"messages": messages, "max_tokens": 12, "temperature": 0, "stop": ["\n"]}
        assert record["resps"] == [[server.json("/v1/chat/completions", body)["choices"][0]["message"]["content"]]]


# ---------------------------------------------------------------- LangChain

@pytest.fixture
def langchain(server, name):
    package = pytest.importorskip("langchain_openai")
    options = {"base_url": f"http://127.0.0.1:{server.port}/v1", "api_key": "none", "model": name, "temperature": 0}
    return lambda **more: package.ChatOpenAI(**{**options, "max_tokens": 30, **more})


def test_langchain_invoke_stream_and_batch(langchain, server):
    question = "What is the capital of France?"
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 30, "temperature": 0}
    want = server.json("/v1/chat/completions", body)
    text = want["choices"][0]["message"]["content"]
    answer = langchain().invoke(question)
    assert answer.content == text and answer.response_metadata["finish_reason"] == want["choices"][0]["finish_reason"]
    assert answer.usage_metadata["total_tokens"] == want["usage"]["total_tokens"]
    chunks = list(langchain(stream_usage=True).stream([("system", "Answer."), ("human", question)]))
    assert len(chunks) > 5 and sum((c.usage_metadata or {}).get("output_tokens", 0) for c in chunks) > 0
    assert "".join(chunk.content for chunk in chunks)
    assert [one.content for one in langchain().batch([question] * 3)] == [text] * 3
    assert langchain(stop=[text.split()[2]]).invoke(question).content == text[: text.index(text.split()[2])]
    assert langchain(logprobs=True, top_logprobs=2).invoke(question).response_metadata["logprobs"]["content"]


def test_langchain_structured_output_and_tools(langchain):
    pydantic = pytest.importorskip("pydantic")

    class City(pydantic.BaseModel):
        """A city."""

        big: bool
        inhabitants: int = pydantic.Field(ge=0, le=99)

    for method in ("json_schema", "function_calling"):
        city = langchain(max_tokens=400).with_structured_output(City, method=method).invoke("Describe Paris.")
        assert isinstance(city, City) and 0 <= city.inhabitants <= 99
    answer = langchain(max_tokens=400).bind_tools([City], tool_choice="City").invoke("Describe Paris.")
    (call,) = answer.tool_calls
    assert call["name"] == "City" and City(**call["args"])


# ---------------------------------------------------------------- a load client

def test_aiperf(server, name, tmp_path, shared):
    """NVIDIA's load client: every request of a small load is answered, and it reads what it measures from the stream."""
    cache = tmp_path / "hf" / "hub" / "models--own--tokenizer"  # it wants one, though the server's counts are asked for
    shutil.copytree(shared / "tokenizers" / "qwen2.5", cache / "snapshots" / ("0" * 40))
    (cache / "snapshots" / ("0" * 40) / "config.json").write_text('{"model_type": "qwen2"}')
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0" * 40)
    questions = tmp_path / "questions.jsonl" # of one's own: the tool's synthetic ones ask for a tokenizer from the network
    questions.write_text("".join(json.dumps({"text": question, "output_length": 8}) + "\n" for question, _, _ in FACTS))
    done = subprocess.run(
        [client_program("aiperf"), "profile", "--model", name, "--url", f"http://127.0.0.1:{server.port}", "--endpoint-type", "chat",
         "--streaming", "--concurrency", "4", "--request-count", "12", "--use-server-token-count", "--ui", "none",
         "--tokenizer", "own/tokenizer",
         "--input-file", questions, "--custom-dataset-type", "single_turn", "--output-artifact-dir", tmp_path],
        capture_output=True, timeout=300, env={**os.environ, **OFFLINE, "HF_HOME": str(tmp_path / "hf")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:]
    (found,) = tmp_path.rglob("profile_export_aiperf.json")
    report = json.loads(found.read_text())
    assert report["request_count"]["avg"] == 12 and not report.get("error_summary")
    assert report["time_to_first_token"]["avg"] > 0 and report["output_token_throughput"]["avg"] > 0
