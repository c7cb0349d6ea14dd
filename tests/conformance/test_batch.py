"""`quire batch`: every line is answered once, as `quire complete` answers it alone, whatever stops the run in between; a bad
line gets an error and stops nothing. `quire bench throughput`: its fields and what adds up among them."""

import json
import os
import random
import signal
import subprocess
import time

import pytest

from server import Server

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


@pytest.fixture(scope="module")
def tiny(quire, tmp_path_factory):
    path = tmp_path_factory.mktemp("batch") / "tiny.gguf"
    quire.run("synth", "tiny-llama", path, "--seed", 3)
    return path


def line(custom_id, body, url=COMPLETIONS):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def write(path, lines):
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    return path


def results(path):
    """custom_id -> line; fails on a line that is broken or there twice."""
    found = {}
    for text in path.read_text().splitlines():  # also cuts at U+2028 and the like, which must not stand in a line
        one = json.loads(text)
        key = one["custom_id"] if one["custom_id"] is not None else f"line {one['input_line']}"
        assert key not in found, f"{key} is there twice"
        found[key] = one
    return found


def answer(one):
    """All that two runs of one request must agree on."""
    body = one["response"]["body"]
    assert one["error"] is None and one["response"]["status_code"] == 200, one
    usage = {k: v for k, v in body["usage"].items() if k != "prompt_tokens_details"}
    return body["choices"], usage, body["object"]


def mixed_lines(n):
    """Greedy and seeded requests of all forms, with lengths that end out of order."""
    pick = random.Random(7)
    out = []
    for i in range(n):
        body = {"max_tokens": pick.randrange(1, 40), "ignore_eos": True, "temperature": pick.choice([0, 1])}
        body["seed"] = i
        if i % 4 == 0:
            body["messages"] = [{"role": "user", "content": f"question {i}"}]
        else:
            body["prompt"] = [f"text {i}", [i % 300, 5, 6], ["one", f"two {i}"]][i % 4 - 1]
            body["n"] = pick.choice([1, 2])
        if i % 5 == 0:
            body["logprobs"] = True if i % 4 == 0 else 2
        out.append(line(f"id-{i}", body, CHAT if i % 4 == 0 else COMPLETIONS))
    return out


def test_answers_as_complete_does(quire, tiny, tmp_path):
    texts = ["hello world", "a", "one two three four five six seven"]
    lines = [line(t, {"prompt": t, "temperature": 0, "max_tokens": 12, "logprobs": 2}) for t in texts]
    lines += [line(f"{t}-seed", {"prompt": t, "max_tokens": 12, "seed": 5, "top_k": 9}) for t in texts]
    out = tmp_path / "out.jsonl"
    quire.run("batch", tiny, "-i", write(tmp_path / "in.jsonl", lines), "-o", out)
    found = results(out)
    for t in texts:
        for key, options in ((t, ["--temperature", 0, "--logprobs", 2]), (f"{t}-seed", ["--seed", 5, "--top-k", 9])):
            alone = quire.json("complete", tiny, "-p", t, "--max-tokens", 12, "--json", *options)
            (choice,), usage, _ = answer(found[key])
            assert choice["text"] == alone["text"]
            assert choice["finish_reason"] == alone["finish_reason"]
            assert usage["prompt_tokens"] == len(alone["prompt_token_ids"])
            assert usage["completion_tokens"] == len(alone["token_ids"])
            if "logprobs" in alone:
                assert choice["logprobs"]["token_logprobs"] == [one["logprob"] for one in alone["logprobs"]]


def test_chat_of_the_default_model(quire, default_model, tmp_path):
    question = "What is the capital of France?"
    body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_completion_tokens": 16}
    out = tmp_path / "out.jsonl"
    source = write(tmp_path / "in.jsonl", [line("q", body, CHAT)])
    quire.run("batch", default_model, "-i", source, "-o", out, "--max-model-len", 512)
    options = ["--temperature", 0, "--max-tokens", 16, "--json", "--max-model-len", 512]
    alone = quire.json("complete", default_model, "--chat", "-p", question, *options)
    (choice,), usage, kind = answer(results(out)["q"])
    assert kind == "chat.completion"
    assert choice["message"] == {"role": "assistant", "content": alone["text"]}
    assert "Paris" in alone["text"]
    assert usage["total_tokens"] == len(alone["prompt_token_ids"]) + len(alone["token_ids"])


@pytest.mark.parametrize("kind", ["file", "directory", "no UTF-8"])
def test_the_model_has_the_name_that_serve_gives_it(quire, tiny, tmp_path, kind):
    path, name = tiny, "tiny.gguf"
    if kind == "directory":
        path, name = f"{tmp_path}/some-dir///", "some-dir"
        quire.run("synth", "tiny-llama", path)
    elif kind == "no UTF-8":
        path, name = os.fsdecode(os.fsencode(tmp_path) + b"/a\xffb.gguf"), "a?b.gguf"
        os.symlink(tiny, path)
    out = tmp_path / "out.jsonl"
    quire.run("batch", path, "-i", write(tmp_path / "in.jsonl", [line("q", {"prompt": "x", "max_tokens": 1})]), "-o", out)
    assert results(out)["q"]["response"]["body"]["model"] == name
    server = Server(quire.path, path)
    try:
        body = {"prompt": "x", "max_tokens": 1}
        assert server.json("/v1/completions", body)["model"] == name == server.json("/v1/models")["data"][0]["id"]
    finally:
        assert server.stop() == 0


BAD = {  # custom_id -> (line, field that the error must name)
    "temperature": (line("temperature", {"prompt": "x", "temperature": -1}), "temperature"),
    "bias": (line("bias", {"prompt": "x", "logit_bias": {"99999": 1}}), "logit_bias"),
    "suffix": (line("suffix", {"prompt": "x", "suffix": "y"}), "suffix"),
    "format": (line("format", {"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "yaml"}}, CHAT), "response_format"),
    "typo": (line("typo", {"prompt": "x", "temprature": 1}), "temprature"),
    "empty": (line("empty", {"messages": []}, CHAT), "messages"),
    "long": (line("long", {"prompt": [1] * 100000}), "prompt"),
    "min": (line("min", {"prompt": "x", "min_tokens": 9, "max_tokens": 8}), "min_tokens"),
    "stream": (line("stream", {"prompt": "x", "stream": True}), "stream"),
    "url": (line("url", {"input": "x"}, "/v1/embeddings"), "url"),
    "method": ({**line("method", {"prompt": "x"}), "method": "GET"}, "method"),
    "body": ({"custom_id": "body", "method": "POST", "url": COMPLETIONS}, None),
    "line 14": ("{broken", None),
    "line 15": ("[1, 2]", None),
    "line 16": (line(7, {"prompt": "x"}), "custom_id"),
    "line 17": ('{"custom_id": "u", "body": "\\ud800"}', None),
    "line 18": ("[" * 100000, None),
}


def test_bad_lines_stop_nothing(quire, tiny, tmp_path):
    good = line("good", {"prompt": "x", "max_tokens": 4})
    source = write(tmp_path / "in.jsonl", [good, *(one for one, _ in BAD.values()), {**good, "custom_id": "good 2"}])
    out = tmp_path / "out.jsonl"
    for again in range(2):
        done = quire.run("batch", tiny, "-i", source, "-o", out)
        assert (b"were there before" in done.stderr) and (f"{len(BAD) + 2 if again else 0} were" in done.stderr.decode())
        found = results(out)
        assert set(found) == {"good", "good 2", *BAD}
        answer(found["good"]), answer(found["good 2"])
        for key, (_, field) in BAD.items():
            one = found[key]
            assert one["response"]["status_code"] == 400 and one["error"]["message"]
            error = one["response"]["body"]["error"]
            assert error["type"] == "invalid_request_error" and error["param"] == field
            assert not field or field in error["message"]


def test_killed_again_and_again_loses_and_repeats_nothing(quire, tiny, tmp_path):
    lines = mixed_lines(400)
    source = write(tmp_path / "in.jsonl", lines)
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    quire.run("batch", tiny, "-i", source, "-o", whole)
    pick, kills, cut = random.Random(1), 0, 0
    command = [quire.path, "batch", tiny, "-i", source, "-o", out, "--max-num-seqs", "4"]
    for _ in range(100):
        before = out.read_bytes().count(b"\n") if out.exists() else 0
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        enough, until = before + pick.randrange(1, 80), time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            if out.exists() and out.read_bytes().count(b"\n") >= enough:
                break
            time.sleep(0.002)
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
        data = out.read_bytes()
        if kills % 2 and data:  # what a crash may leave: the last line in part
            start = data.rstrip(b"\n").rfind(b"\n") + 1
            out.write_bytes(data[: pick.randrange(start + 1, len(data))])
            cut += 1
    assert process.returncode == 0 and kills >= 3 and cut >= 2
    got, want = results(out), results(whole)
    assert list(sorted(got)) == sorted(one["custom_id"] for one in lines)
    for key, one in want.items():
        assert answer(got[key]) == answer(one), key


def test_ctrl_c_ends_cleanly_and_goes_on(quire, tiny, tmp_path):
    source = write(tmp_path / "in.jsonl", mixed_lines(300))
    out = tmp_path / "out.jsonl"
    command = [quire.path, "batch", tiny, "-i", source, "-o", out, "--max-num-seqs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    while not (out.exists() and out.read_bytes().count(b"\n") >= 5):
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=30)
    assert process.returncode == 130 and b"start again to go on" in text
    assert 5 <= len(results(out)) < 300 and out.read_bytes().endswith(b"\n")
    quire.run("batch", tiny, "-i", source, "-o", out)
    assert len(results(out)) == 300


def test_refusals(quire, tiny, tmp_path):
    good = line("a", {"prompt": "x", "max_tokens": 1})
    source, out = write(tmp_path / "in.jsonl", [good, good]), tmp_path / "out.jsonl"

    def refused(word, *args, code=1):
        done = quire.run("batch", tiny, *args, check=False)
        assert done.returncode == code and word in done.stderr.decode(), done.stderr

    refused("'a' was used by line 1", "-i", source, "-o", out)
    assert not out.exists()
    refused("-o OUT.jsonl", "-i", source, code=2)
    refused("No such file", "-i", tmp_path / "none", "-o", out)
    source = write(tmp_path / "in.jsonl", [good])
    refused("the input too", "-i", source, "-o", source)
    assert json.loads(source.read_text()) == good
    refused("no regular file", "-i", source, "-o", "/dev/null")
    for text in ("a letter to my mother\n", "without an end", '{"custom_id": "a"}\n'):  # someone's file is not touched
        other = tmp_path / "other"
        other.write_text(text)
        refused("not written by quire batch", "-i", source, "-o", other)
        assert other.read_text() == text


def test_more_than_the_queue_holds(quire, tiny, tmp_path):
    lines = [line(f"{i}", {"prompt": [[1, i % 300]] * 64, "max_tokens": 1, "temperature": 0}) for i in range(40)]
    out = tmp_path / "out.jsonl"
    source = write(tmp_path / "in.jsonl", lines)
    quire.run("batch", tiny, "-i", source, "-o", out, "--max-num-seqs", 1024, "--max-num-batched-tokens", 1024)
    found = results(out)
    assert len(found) == 40
    for one in found.values():
        choices, _, _ = answer(one)
        assert [c["index"] for c in choices] == list(range(64)) and len({c["text"] for c in choices}) == 1


def test_throughput(quire, tiny):
    options = ["--num-prompts", 40, "--input-len", "10:50", "--output-len", "5:30", "--seed", 4, "--json"]
    out = quire.json("bench", "throughput", tiny, *options)
    names = {"requests", "prompt_tokens", "output_tokens", "wall_s", "output_tok_s", "total_tok_s", "ttft_ms", "itl_ms"}
    assert names | {"preemptions", "peak_running"} <= set(out)
    assert out["requests"] == 40 and 1 <= out["peak_running"] <= 16
    assert 400 <= out["prompt_tokens"] <= 2000 and 200 <= out["output_tokens"] <= 1200
    assert out["output_tok_s"] == pytest.approx(out["output_tokens"] / out["wall_s"])
    assert out["total_tok_s"] == pytest.approx((out["prompt_tokens"] + out["output_tokens"]) / out["wall_s"])
    for key in ("ttft_ms", "itl_ms"):
        assert 0 < out[key]["p50"] <= out[key]["p99"] <= 1e3 * out["wall_s"]
    again = quire.json("bench", "throughput", tiny, *options, "--kv-cache-tokens", 160)
    assert (again["prompt_tokens"], again["output_tokens"]) == (out["prompt_tokens"], out["output_tokens"])
    assert again["preemptions"] > 0 and out["preemptions"] == 0


def test_throughput_of_a_dataset(quire, tiny, tmp_path):
    lines = [{"prompt": [1, 2, 3], "max_tokens": 5, "ignore_eos": True}] * 3
    lines.append(line("x", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 7, "ignore_eos": True}, CHAT))
    out = quire.json("bench", "throughput", tiny, "--dataset", write(tmp_path / "d.jsonl", lines), "--json")
    assert out["requests"] == 4 and out["output_tokens"] == 22
    bad = quire.run("bench", "throughput", tiny, "--dataset", write(tmp_path / "d.jsonl", ["{}"]), check=False)
    assert bad.returncode == 1 and b"line 1" in bad.stderr
    bad = quire.run("bench", "throughput", tiny, "--input-len", "9:3", check=False)
    assert bad.returncode == 2


def test_a_byte_order_mark_is_no_part_of_the_first_line(quire, tiny, tmp_path):
    lines = [line(name, {"prompt": [5], "max_tokens": 2}) for name in "ab"]
    text = "".join(json.dumps(one) + "\n" for one in lines).encode()
    (tmp_path / "in.jsonl").write_bytes(b"\xef\xbb\xbf" + text)
    done = quire.run("batch", tiny, "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl")
    assert b"2 answered, 0 with an error" in done.stderr
    assert set(results(tmp_path / "out.jsonl")) == {"a", "b"}


def test_an_input_that_shrinks_meanwhile_is_told(quire, tiny, tmp_path):
    path = write(tmp_path / "in.jsonl", [line(f"r{i}", {"prompt": [5] * 50, "max_tokens": 200, "ignore_eos": True}) for i in range(400)])
    process = subprocess.Popen(
        [quire.path, "batch", tiny, "-i", path, "-o", tmp_path / "out.jsonl", "--max-num-seqs", "1"], stderr=subprocess.PIPE
    )
    while not (tmp_path / "out.jsonl").exists() or not (tmp_path / "out.jsonl").read_bytes().count(b"\n"):
        assert process.poll() is None
        time.sleep(0.01)
    os.truncate(path, path.stat().st_size // 2)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1 and b"had 400 requests when the batch began and 20" in said
