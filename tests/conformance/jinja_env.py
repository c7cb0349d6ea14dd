"""jinja2 set up as transformers does it for chat templates (transformers/utils/chat_template_utils.py)."""

import functools
import json
from datetime import datetime

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """{% generation %} ... {% endgeneration %} marks the assistant's text; for the prompt it only prints it."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_print")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(lineno)

    def _print(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@functools.cache
def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda fmt: datetime.now().strftime(fmt)
    return env


@functools.cache
def compiled(template):
    return environment().from_string(template)


def render(template, context):
    """(text, None) or (None, error)."""
    try:
        return compiled(template).render(**context), None
    except Exception as e:  # whatever jinja2 or Python raises: quire must report an error as well
        return None, f"{type(e).__name__}: {e}"
