"""The tree keeps its own rules (rules.py)."""

import pathlib

import pytest
import rules

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_tree_is_tidy(rule):
    findings = rule(ROOT)
    assert not findings, f"{rule.__doc__}\n" + "\n".join(findings)
