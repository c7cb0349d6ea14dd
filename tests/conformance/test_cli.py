"""What people type and mistype at the command line."""

import os
import pty
import re
import select
import signal
import subprocess
import threading
import time

import pytest


@pytest.mark.parametrize(
    "words, nearest",
    [
        (["complete", "--tempertaure", "1"], "--temperature"),
        (["complete", "--max-token", "1"], "--max-tokens"),
        (["complete", "--jsno"], "--json"),
        (["complete", "--xyz"], None),
        (["complete", "--foo"], None),
        (["complete", "--tree"], None),
        (["serve", "--hots", "x"], "--host"),
        (["bench", "latency", "--imput-len", "1"], "--input-len"),
        (["compelte"], "complete"),
        (["frob"], None),
        (["git"], None),
    ],
)
def test_guesses_are_near(quire, words, nearest):
    done = quire.run(*words, check=False)
    said = done.stderr.decode()
    assert done.returncode == 2 and "unknown" in said
    assert re.findall(r"did you mean (.+?)\?", said) == ([nearest] if nearest else [])


def test_a_wrong_key_of_a_config_file_is_told_with_its_line(quire, tmp_path):
    path = tmp_path / "quire.yaml"
    path.write_text("# keys\nseed: 1\nprot: 8000\n")
    done = quire.run("serve", "--config", path, check=False)
    assert done.returncode == 2 and f"{path} line 3: unknown option --prot: did you mean --port?" in done.stderr.decode()


@pytest.mark.parametrize("option, value", [("--api-key", ""), ("--served-model-name", ""), ("--served-model-name", "\udcff")])
def test_a_server_is_given_no_empty_key_or_name(quire, option, value):
    done = quire.run("serve", option, value, check=False)
    assert done.returncode == 2 and f"error: {option} " in done.stderr.decode()


def test_an_empty_key_of_the_environment_is_none(quire):
    """No address of documentation's network can be listened on, so the server ends behind its note."""
    for key, noted in (("", True), ("secret", False)):
        done = quire.run("serve", "dummy:tiny-llama", "--host", "192.0.2.1", env={"QUIRE_API_KEY": key}, check=False)
        assert done.returncode == 1 and ("asks for no key" in done.stderr.decode()) == noted


def test_info_says_how_much_of_a_head_turns(quire):
    assert "12 of a head's 16 numbers turn" in quire.text("info", "dummy:tiny-phi4")
    assert "turn" not in quire.text("info", "dummy:tiny-phi3").split("tensors")[0]


def test_a_host_without_an_address_is_told(quire):
    said = quire.run("bench", "serve", "--url", "http://nope.invalid:80", check=False).stderr.decode()
    assert "'nope.invalid' has no address" in said


@pytest.mark.parametrize("option", ["--model", "-m"])
def test_who_names_the_model_with_an_option_is_told_how(quire, option):
    done = quire.run("serve", option, "x.gguf", check=False)
    assert done.returncode == 2 and "MODEL is a word of its own" in done.stderr.decode()


def test_a_path_that_could_be_a_repository_is_told(quire, tmp_path):
    for name, noted in (("models/none", True), ("./models/none", False)):
        variables = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
        done = quire.run("info", name, env=variables, check=False)
        assert done.returncode == 1 and (f"no file or directory {name} here" in done.stderr.decode()) == noted


@pytest.mark.parametrize("kind", ["latency", "throughput", "kernels", "serve", "ablate"])
def test_kinds_of_bench_name_themselves(quire, kind):
    assert f"see: quire bench {kind} -h" in quire.run("bench", kind, "--no-such-thing", check=False).stderr.decode()
    assert quire.text("bench", kind, "-h").startswith(f"usage: quire bench {kind} [")


def test_a_context_that_is_too_short_is_told(quire, default_model):
    options = ("-p", "One, two,", "--temperature", 0, "--regex", "[a-c]{2}", "--max-model-len", 64)
    for number, told in ((63, True), (5, False), (None, False)):
        done = quire.run("complete", default_model, *options, *(("-n", number) if number else ()))
        notes = [line for line in done.stderr.decode().splitlines() if line.startswith("note: ")]
        assert bool(notes) == told and all("--max-tokens 63" in note and "64" in note for note in notes)


def test_a_schema_is_told_from_the_name_of_its_file(quire, default_model, tmp_path):
    path = tmp_path / "schema.json"
    path.write_text('{"enum": [7]}')

    def ask(schema):
        return quire.run("complete", default_model, "-p", "x", "--json-schema", schema, check=False)

    assert f"@{path}" in ask(path).stderr.decode()
    assert "@FILE" in ask("nofile.json").stderr.decode()
    assert ask(f"@{path}").stdout == b"7\n" == ask('{"enum": [7]}').stdout


def test_files_may_be_pipes(quire, default_model, tmp_path):
    """As `-f <(command)` of a shell names them."""
    schema = '{"enum": [7]}'

    def ask(*words, texts):
        """Each text comes by a pipe, whose path stands in place of {}."""
        paths = [tmp_path / f"pipe{i}" for i in range(len(texts))]
        for path, text in zip(paths, texts):
            os.mkfifo(path)
            threading.Thread(target=path.write_bytes, args=(text,), daemon=True).start()
        free = iter(paths)
        done = quire.run("complete", default_model, *[re.sub("{}", lambda _: str(next(free)), str(w)) for w in words], check=False)
        for path in paths:
            path.unlink()
        return done

    prompt = "The capital of France is " * 8000  # more than a pipe holds at once
    options = ("--temperature", 0, "-n", 4, "--max-model-len", 256)
    assert b"40001 tokens" in (ask("-f", "{}", *options, texts=[prompt.encode()])).stderr
    assert ask("-f", "{}", *options, texts=[b"One, two,"]).stdout == quire.run("complete", default_model, "-p", "One, two,", *options).stdout
    config = b"json-schema: " + schema.encode()
    assert ask("-f", "{}", "--json-schema", "@{}", texts=[b"x", schema.encode()]).stdout == b"7\n"
    assert ask("--config={}", "-f", "{}", texts=[config, b"x"]).stdout == b"7\n"
    done = ask("--config", "{}", texts=[b"#" * (1 << 20) + b"\n"])
    assert done.returncode == 1 and "pipe0 holds more than 1048576 bytes" in done.stderr.decode()
    done = quire.run("complete", default_model, "-f", tmp_path, check=False)
    assert done.returncode == 1 and f"{tmp_path} cannot be read: Is a directory" in done.stderr.decode()


def test_a_pipe_that_nobody_writes_is_left_by_ctrl_c(quire, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    process = subprocess.Popen([quire.path, "complete", "dummy:tiny-llama", "-f", tmp_path / "pipe"])
    time.sleep(1)  # it waits for a writer
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130


@pytest.mark.parametrize("pattern, words", [("[a", "a [ that nothing closes"), ("(a", "a ( that nothing closes"), ("a\\b", "word boundary")])
def test_patterns_that_are_wrong_are_told(quire, default_model, pattern, words):
    said = quire.run("complete", default_model, "-p", "x", "--regex", pattern, check=False).stderr.decode()
    assert words in said and ("not supported" in said) == ("boundary" in words)


class Terminal:
    """`quire chat` in a terminal of its own."""

    def __init__(self, quire, *words, home):
        self.leader, follower = pty.openpty()
        self.process = subprocess.Popen(
            [str(quire.path), "chat", *map(str, words)], stdin=follower, stdout=follower, stderr=follower,
            start_new_session=True, env={**os.environ, "XDG_STATE_HOME": str(home), "TERM": "dumb"},
        )  # fmt: skip
        os.close(follower)
        self.seen = b""

    def read_until(self, pattern, seconds=60):
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < end, self.seen
            if select.select([self.leader], [], [], 0.1)[0]:
                self.seen += os.read(self.leader, 4096)
        self.seen = self.seen[found.end() :]
        return found

    def type(self, text):
        os.write(self.leader, text)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.leader)


def test_the_end_key_during_an_answer_ends_the_chat_behind_it(quire, default_model, tmp_path):
    """Ctrl-D while an answer is written is neither lost nor breaks it off: it is for the prompt that follows."""
    terminal = Terminal(quire, default_model, "--temperature", 0, "-n", 150, "--stats", home=tmp_path)
    try:
        terminal.read_until(rb"> ")
        terminal.type(b"Tell me a long story.\r")
        terminal.read_until(rb"story\.[^\n]*\n.{20}")  # the answer has begun
        terminal.type(b"\x04")
        terminal.read_until(rb"\d+ tokens in ")
        assert terminal.process.wait(10) == 0
    finally:
        terminal.close()
