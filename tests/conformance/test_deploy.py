"""deploy/: every metric that the dashboard and the autoscaler name is one that the server prints; the options of the
files are options of `quire serve`."""

import json
import re
import shlex
from pathlib import Path

import pytest

from server import Server

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


@pytest.fixture(scope="module")
def metrics(quire, tmp_path_factory):
    model = tmp_path_factory.mktemp("deploy") / "tiny.gguf"
    quire.run("synth", "tiny-llama", model, "--seed", 1)
    server = Server(quire.path, model)
    server.json("/v1/completions", {"prompt": "x", "max_tokens": 3})
    text = server.ask("/metrics")[2].decode()
    assert server.stop() == 0
    return set(re.findall(r"^([a-z0-9_:]+)(?:\{| )", text, re.MULTILINE))


def test_the_dashboard_names_metrics_that_exist(metrics):
    board = json.loads((DEPLOY / "grafana.json").read_text())
    named = set()
    for panel in board["panels"]:
        for target in panel["targets"]:
            named |= set(re.findall(r"(?:vllm|quire):[a-z0-9_]+", target["expr"]))
    assert len(named) > 15 and named <= metrics


def test_the_autoscaler_names_a_metric_that_exists(metrics):
    (name,) = re.findall(r"metric: \{ name: (\w+) \}", (DEPLOY / "kubernetes.yaml").read_text())
    assert name.replace("vllm_", "vllm:", 1) in metrics


def test_options_exist(quire):
    known = set(re.findall(r"--[a-z-]+", quire.text("serve", "-h")))
    used = set(re.findall(r"--[a-z-]+", re.search(r"args: \[(.*?)\]", (DEPLOY / "kubernetes.yaml").read_text(), re.S)[1]))
    for line in (DEPLOY / "quire.yaml").read_text().splitlines():
        if found := re.match(r"(?:# )?([a-z-]+): ", line):
            used.add("--" + found[1])
    start = re.search(r"ExecStart=(.*)", (DEPLOY / "quire.service").read_text())[1]
    used |= {word for word in shlex.split(start) if word.startswith("--")}
    assert used <= known
