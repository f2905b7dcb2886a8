"""maru.plugin under its earlier name."""

try:
    from maru.plugin import PLUGIN_ALLOWLIST_ENV, PLUGIN_GROUP, MaruHandlerPlugin, load_handler_plugins
except ImportError as problem:
    raise ImportError("the module 'maru' that was found is another project that uses the same name: remove the "
                      "distribution 'maru' and install 'maru-kvcache'") from problem

__all__ = ["PLUGIN_ALLOWLIST_ENV", "PLUGIN_GROUP", "MaruHandlerPlugin", "load_handler_plugins"]
