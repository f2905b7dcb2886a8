"""Names, signatures, defaults: what programs import and how they call it."""

import dataclasses
import inspect

import pytest

import maru

CONFIG = [
    ("server_url", "tcp://localhost:5555"), ("instance_id", None), ("pool_size", 104_857_600),
    ("chunk_size_bytes", 1_048_576), ("auto_connect", True), ("timeout_ms", 2000), ("use_async_rpc", True),
    ("max_inflight", 64), ("eager_map", True), ("storage_backend", "cxl"), ("engine_id", None),
    ("cache_namespace", None), ("rdma_device", ""), ("rdma_staging_size", None), ("rdma_timeout_s", 30.0),
    ("rdma_load_reserve", 0.0), ("remote_cxl_agent_key_file", "~/.maru/remote-cxl-agent.key"), ("auto_expand", True),
    ("expand_size", None), ("enable_stats", False), ("rm_address", ""),
]

CALLS = {
    "connect": "(self)", "close": "(self)", "alloc": "(self, /, size)", "free": "(self, /, handle)",
    "store": "(self, /, key, handle=None, *, data=None)", "retrieve": "(self, /, key)", "exists": "(self, /, key)",
    "pin": "(self, /, key)", "unpin": "(self, /, key)", "delete": "(self, /, key)",
    "delete_status": "(self, /, key)", "batch_store": "(self, /, keys, handles)", "batch_retrieve": "(self, /, keys)",
    "batch_exists": "(self, /, keys)", "batch_pin": "(self, /, keys)", "batch_unpin": "(self, /, keys)",
    "match_prefix": "(self, /, keys, pin=False)", "healthcheck": "(self)", "get_stats": "(self)",
    "get_buffer_view": "(self, /, region_id, offset, size)", "get_region_page_count": "(self, region_id)",
    "get_owned_region_ids": "(self)", "get_chunk_size": "(self)", "set_on_region_added": "(self, cb)",
    "is_region_mapped": "(self, region_id)", "get_region_dax_path": "(self, region_id)", "last_error": "(self)",
}


def test_the_package_has_its_names():
    for name in ("MaruConfig", "MaruHandler", "AllocHandle", "MemoryInfo", "MaruError", "__version__"):
        assert hasattr(maru, name), name
    assert maru.__version__.split(".")[0].isdigit()


def test_errors_are_also_the_built_in_ones():
    assert issubclass(maru.MaruUnavailableError, (maru.MaruError, ConnectionError, RuntimeError))
    for built_in in (maru.MaruError, ConnectionError, RuntimeError):
        assert issubclass(maru.MaruUnavailableError, built_in)
    assert issubclass(maru.MaruFullError, ValueError) and issubclass(maru.MaruFullError, maru.MaruError)
    assert issubclass(maru.MaruTimeoutError, TimeoutError) and issubclass(maru.MaruTimeoutError, maru.MaruUnavailableError)
    assert issubclass(maru.MaruForkedError, RuntimeError)


def test_earlier_names_are_the_same_objects():
    import maru.memory
    import maru.plugin
    import maru_common
    import maru_handler
    import maru_handler.memory
    import maru_handler.memory.types
    import maru_handler.plugin

    assert maru_common.MaruConfig is maru.MaruConfig
    assert maru_handler.MaruHandler is maru.MaruHandler
    for module in (maru_handler.memory, maru_handler.memory.types):
        assert module.AllocHandle is maru.AllocHandle and module.MemoryInfo is maru.MemoryInfo
        assert module.MappedRegion is maru.memory.MappedRegion
    for name in ("MaruHandlerPlugin", "load_handler_plugins", "PLUGIN_GROUP", "PLUGIN_ALLOWLIST_ENV"):
        assert getattr(maru_handler.plugin, name) is getattr(maru.plugin, name)


def test_config_fields_and_defaults():
    fields = dataclasses.fields(maru.MaruConfig)
    assert [(field.name, field.default) for field in fields] == CONFIG
    assert list(inspect.signature(maru.MaruConfig).parameters) == [name for name, _ in CONFIG]


@pytest.mark.parametrize("name", CALLS)
def test_signature(name):
    method = getattr(maru.MaruHandler, name)
    signature = inspect.signature(method)
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    shown = str(inspect.Signature(plain))
    assert shown == CALLS[name]


@pytest.mark.parametrize("name", [*CALLS, "connected", "instance_id", "pool_handle", "allocator", "mapper"])
def test_everything_has_a_docstring(name):
    assert inspect.getdoc(getattr(maru.MaruHandler, name)), name


@pytest.mark.parametrize("cls", [maru.MaruHandler, maru.MaruConfig, maru.MemoryInfo, maru.AllocHandle])
def test_types_have_docstrings(cls):
    assert len(inspect.getdoc(cls)) > 80


def test_arguments_by_name_and_wrong_ones(handler):
    handle = handler.alloc(size=4)
    assert handler.store(key="k", handle=handle) is True
    assert handler.exists(key="k") and handler.batch_exists(keys=["k"]) == [True]
    for call in (lambda: handler.exists(), lambda: handler.exists("k", "l"), lambda: handler.exists(name="k"),
                 lambda: handler.exists("k", key="k"), lambda: handler.store("k", handle, b"x"),
                 lambda: handler.match_prefix()):
        with pytest.raises(TypeError):
            call()


def test_typed_marker_is_there():
    import pathlib
    assert (pathlib.Path(maru.__file__).parent / "py.typed").exists()
    assert "def retrieve" in (pathlib.Path(maru.__file__).parent / "_maru.pyi").read_text()
