"""What maructl --json prints, held to the schema that users get (conf/maructl.schema.json)."""

import functools
import json
import pathlib

import jsonschema

FILE = pathlib.Path(__file__).resolve().parents[2] / "conf/maructl.schema.json"


@functools.cache
def document():
    return json.loads(FILE.read_text())


@functools.cache
def names():
    """The commands that have a schema, by their words: "status", "client disconnect"."""
    definitions = document()["$defs"]
    referred = {name for name in definitions if f'"#/$defs/{name}"' in FILE.read_text()}
    return frozenset(definitions) - referred


@functools.cache
def validator(name):
    return jsonschema.Draft202012Validator({**document(), "$ref": f"#/$defs/{name}"})


def name_of(arguments):
    """Which schema the output of these arguments has; None when no command is among them."""
    words = [word for word in map(str, arguments) if not word.startswith("-") or word == "--repair"]
    for position, word in enumerate(words):
        if word in {name.split()[0] for name in names()}:
            longer = [f"{word} {other}" for other in words[position + 1:] if f"{word} {other}" in names()]
            return longer[0] if longer else word
    return None


def check(arguments, output):
    """Fails unless the output is what the schema of the command promises."""
    name = name_of(arguments)
    assert name in names(), f"conf/maructl.schema.json has nothing for {arguments}"
    in_lines = name == "dump" or name.startswith("top")
    documents = output.splitlines() if in_lines else [output]
    for text in documents:
        faults = [f"{fault.json_path}: {fault.message}" for fault in validator(name).iter_errors(json.loads(text))]
        assert not faults, f"maructl {name}: {faults[:5]}"
