"""Each rule fires on a tree that breaks it, and is quiet on one that does not."""

import shutil

import pytest
import rules

CLANG_FORMAT = "BasedOnStyle: Google\nIndentWidth: 4\nColumnLimit: 110\n"
GOOD = {
    ".clang-format": CLANG_FORMAT,
    ".ci/run": "echo hidden files are no matter of the top level\n",
    "LICENSE": "Apache\n",
    "README.md": "A home page at /usr/share/doc; the folder /tmp/maru-1; mktemp -d /tmp/maru.XXXXXX\n",
    "meson.build": "project('small')\n",
    "build/junk.cpp": "int  unformatted ;\n",
    "src/base/meson.build": "static_library('base')\n",
    "src/base/size.hpp": "#pragma once\n#include <cstdint>\n",
    "src/shm/README.md": "Words.\n",
    "src/shm/mapping.hpp": '#include "base/size.hpp"\nauto* table = reinterpret_cast<int*>(bytes);\n',
    "src/table/meson.build": "static_library('table')\n",
    "src/table/index.cpp": '#include "shm/mapping.hpp"\n// Not a std::atomic: a Word.\nint hops = 0;\n',
    "src/client/meson.build": "shared_library('maru-client')\n",
    "src/client/connection.cpp": '#include "maru/maru.h"\n#include "wire/messages.hpp"\n'
                                 "auto* address = reinterpret_cast<const sockaddr*>(&name);\n",
    "tests/unit/index.cpp": "while (clock() < deadline) {\n    std::this_thread::sleep_for(one_millisecond);\n}\n",
    "tests/e2e/test_store.py": "def wait_until(condition, deadline):\n"
                               "    while time.monotonic() < deadline and not condition():\n"
                               "        time.sleep(0.01)\n",
}
BAD = [
    (rules.top_level, "notes.txt", "something\n", "notes.txt"),
    (rules.top_level, "scripts/run", "something\n", "scripts"),
    (rules.include_arrows, "src/base/result.cpp", '#include "shm/mapping.hpp"\n', "result.cpp:1"),
    (rules.include_arrows, "src/wire/frame.cpp", '#include "base/size.hpp"\n#include "table/index.hpp"\n', "frame.cpp:2"),
    (rules.include_arrows, "src/table/sweep.cpp", '#include "daemon/config.hpp"\n', "sweep.cpp:1"),
    (rules.include_arrows, "src/table/sweep.cpp", '#include "wire/messages.hpp"\n', "sweep.cpp:1"),
    (rules.include_arrows, "src/client/arena.cpp", '#include "pool/pool.hpp"\n', "arena.cpp:1"),
    (rules.include_arrows, "src/client/arena.cpp", '#include "daemon/config.hpp"\n', "arena.cpp:1"),
    (rules.include_arrows, "src/daemon/main.cpp", '#include "client/client.hpp"\n', "main.cpp:1"),
    (rules.include_arrows, "src/daemon/main.cpp", '#include "../table/index.hpp"\n', "main.cpp:1"),
    (rules.include_arrows, "include/maru/maru.hpp", '#include "base/result.hpp"\n', "maru.hpp:1"),
    (rules.include_arrows, "tools/demo/decode.cpp", '#include "table/control.hpp"\n', "decode.cpp:1"),
    (rules.include_arrows, "tools/bench/micro.cpp", '#include <daemon/admin.hpp>\n', "micro.cpp:1"),
    (rules.file_lengths, "src/base/long.cpp", "int i;\n" * 801, "801 lines"),
    (rules.file_lengths, "tools/long", "echo\n" * 801, "801 lines"),
    (rules.unfinished_work, "src/base/size.cpp", "// TODO later\n", "size.cpp:1"),
    (rules.unfinished_work, "tools/run", "# FIXME\n", "tools/run:1"),
    (rules.unfinished_work, "README.md", "first\nXXX: explain\n", "README.md:2"),
    (rules.unfinished_work, "src/base/size.cpp", "int stub() { return 0; }\n", "size.cpp:1"),
    (rules.sleeps_in_tests, "tests/unit/pins.cpp", "int i;\nstd::this_thread::sleep_for(wait);\n", "pins.cpp:2"),
    (rules.sleeps_in_tests, "tests/e2e/test_kill.py", "start()\ntime.sleep(1)\ncheck()\n", "test_kill.py:2"),
    (rules.sleeps_in_tests, "tests/fault/run.sh", "daemon &\nsleep 1\n", "run.sh:2"),
    (rules.hidden_failures, "tests/unit/pins.cpp", 'TEST_CASE("pins" * doctest::skip()) {}\n', "pins.cpp:1"),
    (rules.hidden_failures, "tests/e2e/test_kill.py", "@pytest.mark.xfail\ndef test(): pass\n", "test_kill.py:1"),
    (rules.formatted, "src/base/size.cpp", "int  main( ) {return 0 ;}\n", "size.cpp: not formatted"),
    (rules.casts, "src/table/index.cpp", "auto* bucket = reinterpret_cast<Bucket*>(at);\n", "index.cpp:1"),
    (rules.casts, "src/client/arena.cpp", "use(reinterpret_cast<sockaddr*>(a), reinterpret_cast<int*>(b));\n",
     "arena.cpp:1"),
    (rules.atomics_in_table, "src/table/index.cpp", "std::atomic<int> hops;\n", "index.cpp:1"),
    (rules.atomics_in_table, "src/table/index.cpp", "std::atomic_ref(hops)++;\n", "index.cpp:1"),
    (rules.folders_explain_themselves, "src/remote/node.cpp", "int node;\n", "src/remote"),
    (rules.machine_paths, "src/base/size.cpp", 'auto path = "/home/somebody/maru";\n', "size.cpp:1"),
    (rules.machine_paths, "tools/run", "cd /root/maru\n", "tools/run:1"),
]


def make_tree(root, contents):
    for name, text in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_rule_is_quiet_on_a_good_tree(rule, tmp_path):
    make_tree(tmp_path, GOOD)
    assert rule(tmp_path) == []


@pytest.mark.parametrize("rule, name, text, place", BAD, ids=[f"{bad[0].__name__}-{bad[1]}" for bad in BAD])
def test_rule_fires(rule, name, text, place, tmp_path):
    make_tree(tmp_path, GOOD | {name: text})
    findings = rule(tmp_path)
    assert len(findings) == 1 and place in findings[0]


def test_every_rule_has_a_bad_example():
    assert {bad[0] for bad in BAD} == set(rules.RULES)


def test_a_missing_formatter_is_a_finding(tmp_path, monkeypatch):
    make_tree(tmp_path, GOOD)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "not installed" in rules.formatted(tmp_path)[0]
