"""Chat templates: quire renders as jinja2 does. jinja2 is set up as transformers sets it up (jinja_env.py); the expected texts are
made here, written to a table, and a test program of C checks the table (one process for all cases)."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from chat_templates import CONVERSATIONS, TEMPLATES
from jinja_cases import BLOCKS, CONTEXT, SNIPPETS
from jinja_env import render
from jinja_random import Gen

ROOT = Path(__file__).resolve().parents[2]


def table_program():
    binary = Path(os.environ.get("QUIRE") or ROOT / "build" / "quire")
    path = binary.parent / "test" / "text" / "test_jinja_table"
    if not path.exists():
        pytest.fail(f"{path} is not built: run make tests")
    return path


def snippets():
    """Lines; one that ends inside of a string literal goes on in the next."""
    lines = iter(SNIPPETS.split("\n"))
    for line in lines:
        while line.endswith("\\") and not line.endswith("\\\\"):
            line += "\n" + next(lines)
        if not line.endswith("|skip"):
            yield line


def run_table(rows, tmp_path):
    table = tmp_path / "table.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = subprocess.run(
        [table_program()], env={**os.environ, "QUIRE_JINJA_TABLE": str(table)}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, (done.stderr + done.stdout)[-20000:]


def row(name, template, context):
    expected, error = render(template, context)
    out = {"name": name, "template": template, "context": context}
    return {**out, "expected": expected} if error is None else {**out, "error": error}


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # of what some cases hold on purpose
def test_snippets(tmp_path):
    rows = [row(f"snippet {i}", s, CONTEXT) for i, s in enumerate([*snippets(), *BLOCKS])]
    assert len(rows) > 350
    assert sum("error" in r for r in rows) > 80  # errors are half of the language
    run_table(rows, tmp_path)


def test_chat_templates(tmp_path):
    rows = [
        row(f"{template} / {talk}", text, {"bos_token": "<s>", "eos_token": "</s>", "tools": None, "documents": None, **context})
        for template, text in TEMPLATES().items()
        for talk, context in CONVERSATIONS.items()
    ]
    assert sum("expected" in r for r in rows) > len(rows) // 3
    for name in TEMPLATES():
        assert sum("expected" in r for r in rows if r["name"].startswith(f"{name} /")) >= 15, name
    run_table(rows, tmp_path)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_random_expressions(tmp_path):
    """Left out: addresses of objects, integers beyond 64 bits (an error in quire), the repr of Markup (quire's safe and escape
    give plain strings, which print the same)."""
    rows = [row(f"random {i}", Gen(i).template(), CONTEXT) for i in range(3000)]
    unlike = re.compile(r"object at 0x|generator object|\d{20}|Markup\(")
    rows = [r for r in rows if not unlike.search(r.get("expected", ""))]
    assert len(rows) > 2900
    assert sum("expected" in r for r in rows) > 2000
    run_table(rows, tmp_path)
