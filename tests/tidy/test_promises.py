"""tests/README.md names a test for each promise: those tests are there."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "tests/README.md"
ROW = re.compile(r"^\|(?P<promise>.*)\|(?P<tests>[^|]*)\|$")
NAMED = re.compile(r"`(tests/[\w/]+\.(?:py|cpp))::([^`]+)`")


def rows(text):
    """(promise, what stands beside it) of the chapter about promises."""
    chapter = text.split("## What is promised", 1)[1]
    found = [ROW.match(line) for line in chapter.splitlines() if line.startswith("|")]
    return [(row["promise"].strip(), row["tests"].strip()) for row in found
            if row and not row["promise"].strip().startswith("---") and row["tests"].strip() != "test"]


def is_there(file, name, root=ROOT):
    path = root / file
    if not path.exists():
        return False
    text = path.read_text()
    if path.suffix == ".py":
        return re.search(rf"^def {re.escape(name)}\(", text, re.MULTILINE) is not None
    joined = re.sub(r'"\s*\n\s*"', "", text)  # a long text is written in pieces
    return f'TEST_CASE("{name}")' in joined


def test_each_named_test_is_there():
    missing = [f"{file}::{name}" for _, tests in rows(PAGE.read_text()) for file, name in NAMED.findall(tests)
               if not is_there(file, name)]
    assert not missing, missing


def test_each_promise_has_a_test_or_says_that_it_is_not_there_yet():
    found = rows(PAGE.read_text())
    assert len(found) > 80
    assert [promise for promise, tests in found if not NAMED.search(tests) and "not there yet" not in tests] == []


def test_a_name_that_no_test_has_is_seen(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/a_test.cpp").write_text('TEST_CASE("one thing "\n          "and another") {\n')
    (tmp_path / "tests/test_b.py").write_text("def test_long_name():\n    pass\n")
    assert is_there("tests/a_test.cpp", "one thing and another", tmp_path)
    assert not is_there("tests/a_test.cpp", "one thing", tmp_path)
    assert is_there("tests/test_b.py", "test_long_name", tmp_path)
    assert not is_there("tests/test_b.py", "test_long", tmp_path)
    assert not is_there("tests/test_c.py", "test_long_name", tmp_path)
    assert rows("## What is promised\n| promise | test |\n|---|---|\n| a | `tests/x.py::y` |\n") == [
        ("a", "`tests/x.py::y`")]
