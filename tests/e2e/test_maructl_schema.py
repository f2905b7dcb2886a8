"""maructl --json keeps to its schema; every other test that asks for JSON is held to it too (harness.run)."""

import copy
import json
import re

import jsonschema
import pytest
import maructl_schema as schema
from harness import MARUCTL, run

GROUPS = {"device": ["list", "init", "show", "clear"], "client": ["disconnect"], "host": ["release"],
          "pool": ["add", "drain", "remove"], "trace": ["on", "off"],
          "namespace": ["create", "set", "rm"]}
WITHOUT_JSON = {"get"}  # its output is the value


def test_the_schema_is_sound():
    jsonschema.Draft202012Validator.check_schema(schema.document())


def test_every_command_has_a_schema():
    shown = run(MARUCTL, "--help").text.split("Subcommands:")[1].split("Exit codes:")[0]
    commands = set(re.findall(r"^  (\w[\w-]*) ", shown, re.MULTILINE))
    assert {"status", "dump", "device"} <= commands
    wanted = {"check --repair", "top pool", "top usage", "top stats"}
    for command in commands - WITHOUT_JSON:
        wanted |= {f"{command} {word}" for word in GROUPS.get(command, [])} or {command}
    assert schema.names() == wanted


@pytest.mark.parametrize("command", ["status", "pools", "regions", "clients", "hosts", "namespaces", "ping", "keys",
                                     "check", "dump"])
def test_what_is_printed(domain, engine, command):
    engine.good("put_many", prefix="k", count=3, size=1000)
    engine.good("alloc", size=1)
    ended = domain.maructl("--json", command)
    assert ended.code == 0 and ended.out
    schema.check([command], ended.out)
    engine.good("free")


def test_another_field_or_a_missing_one_is_seen(domain):
    answer = domain.status()
    added, missing, other = copy.deepcopy(answer), copy.deepcopy(answer), copy.deepcopy(answer)
    added["daemon"]["mood"] = "good"
    del missing["bytes"]["free"]
    other["objects"]["count"] = "two"
    for wrong in (added, missing, other):
        with pytest.raises(AssertionError, match="maructl status"):
            schema.check(["status"], json.dumps(wrong).encode())


def test_values_from_the_shell(domain):
    assert domain.maructl("--json", "put", "hex:00ff", "/dev/stdin", given=b"x").json()["key"] == "hex:00ff"
    assert domain.maructl("--json", "exists", "hex:00ff").json()["exists"] is True
    assert domain.maructl("--json", "rm", "hex:00ff", "absent").json()["keys"][0]["removed"] is True
