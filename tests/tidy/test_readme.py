"""README.md stays true: its programs are the tested ones, and the files and parts it names are there."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("language, source", [("c", "tools/demo/example.c"), ("cpp", "tools/demo/example.cpp")])
def test_examples_are_the_tested_programs(language, source):
    assert blocks(README.read_text(), language) == [(ROOT / source).read_text()]


def test_files_that_are_named_exist():
    named = set(re.findall(r"(?<![\w/])((?:tools|tests|src|include|conf)/[\w./-]*\w)", README.read_text()))
    assert {"tools/check", "tools/quickstart"} <= named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
