"""deploy/: every metric that the dashboard and the autoscaler name is one that the server prints; the options of the
files are options of `quire serve`; the files are what systemd, Kubernetes and hadolint take for right."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import client_program
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


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, timeout=60)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_the_unit_is_what_systemd_takes(quire, tmp_path):
    """No unknown key, no bad value; the binary is the one that was built."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "quire.service"
    text = (DEPLOY / "quire.service").read_text().replace("/usr/local/bin/quire", str(quire.path))
    unit.write_text(text)
    assert run("systemd-analyze", "verify", "--man=no", unit) == (0, "")
    unit.write_text(text.replace("Restart=", "Restrat="))  # it would say so
    assert "Restrat" in run("systemd-analyze", "verify", "--man=no", unit)[1]


def test_the_manifest_is_what_kubernetes_takes(tmp_path):
    program, manifest = client_program("kubernetes-validate"), DEPLOY / "kubernetes.yaml"
    code, said = run(program, "--strict", manifest)
    assert code == 0 and said.count(" passed ") == 4, said
    broken = tmp_path / "broken.yaml"
    broken.write_text(manifest.read_text().replace("periodSeconds: 5", "periodSecond: 5"))
    assert run(program, "--strict", broken)[0] != 0


def test_the_image_file_is_clean():
    assert run(client_program("hadolint"), DEPLOY / "Dockerfile") == (0, "")
