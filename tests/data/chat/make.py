#!/usr/bin/env python3
"""Renders the templates here with Python's jinja2, as transformers sets it up, and writes what the tests expect.

    make.py [--show TEMPLATE CONVERSATION]

Needs jinja2 3.1.6 (a virtual environment will do); the tests never run this. Rewrites the expectations in
expressions.json and rendered.json; --show prints one rendering instead.
"""
import datetime
import json
import sys
from pathlib import Path

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = Path(__file__).parent
NOW = datetime.datetime(2026, 2, 3, 4, 5, 6)


class Generation(Extension):
    """The tag {% generation %}, which marks the assistant's text."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return made


def render(source, context):
    """The text, or the error's type and message."""
    try:
        return {"text": environment().from_string(source).render(**context)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def fnv1a(data):
    """A hash that the tests can repeat in a line."""
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return f"{state:016x}"


def dump(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def expressions():
    path = HERE / "expressions.json"
    content = json.loads(path.read_text())
    for case in content["cases"]:
        template = case["template"]
        refused = {"refused": case["refused"]} if "refused" in case else {}
        case.clear()
        case.update(template=template, **render(template, content["context"]), **refused)
    dump(path, content)


def matrix():
    conversations = json.loads((HERE / "conversations.json").read_text())
    rendered = {}
    for path in sorted(HERE.glob("templates/*.jinja")):
        source = path.read_text()
        rendered[path.stem] = cells = {}
        for name, context in conversations.items():
            result = render(source, context)
            if "text" in result:
                data = result["text"].encode()
                cells[name] = f"{len(data)} {fnv1a(data)}"
            else:
                cells[name] = result["error"]
    dump(HERE / "rendered.json", rendered)


def main():
    if sys.argv[1:2] == ["--show"]:
        source = (HERE / "templates" / f"{sys.argv[2]}.jinja").read_text()
        context = json.loads((HERE / "conversations.json").read_text())[sys.argv[3]]
        print(render(source, context))
        return
    expressions()
    matrix()


if __name__ == "__main__":
    main()
