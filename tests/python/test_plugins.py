"""Plug-ins: discovery, hooks, and that none of them can break an operation."""

import sys
import textwrap

import pytest

import maru
from maru import plugin

MODULE = """
    calls = []
    class Base:
        def on_init(self, handler):
            calls.append(("init", handler.connected))
        def on_batch_retrieve(self, handler, keys, batch_resp):
            calls.append(("retrieve", list(keys), batch_resp, handler.get_owned_region_ids()))
        def on_close(self, handler):
            calls.append(("close", handler.connected, handler.healthcheck(), handler.store("from on_close", data=b"v")))
        def contribute_stats(self):
            return {"calls": len(calls)}
    class Good(Base): pass
    class Second(Base): pass
    class Nothing: pass
    class Raises:
        def on_init(self, handler): raise RuntimeError("in on_init")
        def on_batch_retrieve(self, handler, keys, batch_resp): raise RuntimeError("in on_batch_retrieve")
        def on_close(self, handler): raise RuntimeError("in on_close")
        def contribute_stats(self): raise RuntimeError("in contribute_stats")
    class Quiet(Base):
        def contribute_stats(self): return None
    def none(): return None
    def fails(): raise ValueError("no plug-in today")
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Makes a distribution that registers entry points, without pip; the module with its calls."""
    count = 0

    def make(**entries):
        nonlocal count
        count += 1
        (tmp_path / "maru_test_plugin.py").write_text(textwrap.dedent(MODULE))
        info = tmp_path / f"maru_test_plugin{count}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: maru-test-plugin{count}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[{plugin.PLUGIN_GROUP}]\n" + "".join(
            f"{name} = {value}\n" for name, value in entries.items()))
        if str(tmp_path) not in sys.path:
            monkeypatch.syspath_prepend(str(tmp_path))
        sys.modules.pop("maru_test_plugin", None)
        import maru_test_plugin
        return maru_test_plugin

    yield make
    sys.modules.pop("maru_test_plugin", None)


def test_the_contract_with_plugins():
    """Changing any of these takes a deprecation cycle."""
    assert plugin.PLUGIN_GROUP == "maru.handler_plugins" and plugin.PLUGIN_ALLOWLIST_ENV == "MARU_PLUGINS"
    assert plugin.HOOKS == ("on_init", "on_batch_retrieve", "on_close", "contribute_stats")
    for hook in plugin.HOOKS:
        assert hasattr(plugin.MaruHandlerPlugin, hook)
    assert list(plugin.BatchEntry.__dataclass_fields__) == ["found", "handle", "kv_offset", "kv_length"]
    for name in ("is_region_mapped", "get_region_dax_path", "get_owned_region_ids", "get_region_page_count"):
        assert hasattr(maru.MaruHandler, name)


def test_every_hook_is_called(install, domain, connect):
    module = install(good="maru_test_plugin:Good")
    handler = connect(domain)
    assert module.calls == [("init", False)], "before connect"
    handler.store("k", data=b"value")
    handler.batch_retrieve(["k", "absent"])
    _, keys, response, owned = module.calls[-1]
    assert keys == ["k", "absent"] and len(response.entries) == 2
    hit, miss = response.entries
    assert (miss.found, miss.handle) == (False, None)
    info = handler.retrieve("k")
    assert hit.found and hit.handle.region_id == info.region_id in owned and hit.kv_length == 5
    with open(handler.get_region_dax_path(hit.handle.region_id), "rb") as device:
        device.seek(hit.handle.offset + hit.kv_offset)
        assert device.read(hit.kv_length) == b"value"
    assert hit.kv_offset + hit.kv_length <= hit.handle.length
    assert handler.get_stats()["plugins"] == {"Good": {"calls": len(module.calls)}}
    del info
    handler.close()
    assert module.calls[-1] == ("close", True, True, True)
    handler.close()
    assert [call[0] for call in module.calls].count("close") == 1
    handler.connect()
    assert handler.exists("from on_close")


def test_single_lookups_do_not_call_the_hook(install, domain, connect):
    module = install(good="maru_test_plugin:Good")
    handler = connect(domain)
    handler.retrieve("k")
    assert [call[0] for call in module.calls] == ["init"]


def test_on_close_is_for_handlers_that_were_connected(install, domain, connect):
    module = install(good="maru_test_plugin:Good")
    connect(domain, auto_connect=False).close()
    assert [call[0] for call in module.calls] == ["init"]


@pytest.mark.parametrize("value, said", [("maru_test_plugin:absent", "cannot be loaded"),
                                         ("no_such_module:Plugin", "cannot be loaded"),
                                         ("maru_test_plugin:fails", "cannot be loaded"),
                                         ("maru_test_plugin:none", "returned None")])
def test_a_plugin_that_cannot_be_loaded(install, domain, connect, messages, value, said):
    module = install(bad=value, good="maru_test_plugin:Good")
    handler = connect(domain)
    assert handler.store("k", data=b"v") and module.calls
    assert any("bad" in text and said in text for text in messages())


def test_a_plugin_that_raises_in_each_hook(install, domain, connect, messages):
    module = install(a="maru_test_plugin:Raises", b="maru_test_plugin:Good")
    handler = connect(domain)
    assert handler.store("k", data=b"v")
    assert [info is not None for info in handler.batch_retrieve(["k", "absent"])] == [True, False]
    assert handler.get_stats()["plugins"].keys() == {"Good"}
    handler.close()
    for hook in plugin.HOOKS:
        assert any(f"Raises.{hook} raised" in text for text in messages()), hook
    assert [call[0] for call in module.calls] == ["init", "retrieve", "close"], "the others go on"


def test_hooks_may_be_missing(install, domain, connect, messages):
    install(nothing="maru_test_plugin:Nothing", quiet="maru_test_plugin:Quiet")
    handler = connect(domain)
    handler.batch_retrieve(["k"])
    assert handler.get_stats()["plugins"] == {}
    handler.close()
    assert not any("raised" in text for text in messages())


def test_allow_list(install, monkeypatch, messages):
    install(first="maru_test_plugin:Good", second="maru_test_plugin:Second")
    names = lambda: sorted(type(one).__name__ for one in plugin.load_handler_plugins())  # noqa: E731
    for value, expected in ((None, ["Good", "Second"]), ("", ["Good", "Second"]), (" , ", ["Good", "Second"]),
                            ("second", ["Second"]), ("first, second", ["Good", "Second"]), ("absent", [])):
        if value is not None:
            monkeypatch.setenv(plugin.PLUGIN_ALLOWLIST_ENV, value)
        assert names() == expected, value
    assert any("absent" in text and "not installed" in text for text in messages())


def test_a_name_that_stands_twice(install, messages):
    install(same="maru_test_plugin:Good")
    install(same="maru_test_plugin:Second")
    assert len(plugin.load_handler_plugins()) == 1
    assert any("twice" in text for text in messages())


def test_no_plugin_no_hook(domain, handler):
    import gc
    assert handler._plugins == [] and not any(f.__name__ == "_run_retrieve_hooks" for f in gc.get_referents(handler)
                                               if callable(f) and hasattr(f, "__name__"))
