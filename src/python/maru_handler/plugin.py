"""maru.plugin under its earlier name."""

from maru.plugin import PLUGIN_ALLOWLIST_ENV, PLUGIN_GROUP, MaruHandlerPlugin, load_handler_plugins

__all__ = ["PLUGIN_ALLOWLIST_ENV", "PLUGIN_GROUP", "MaruHandlerPlugin", "load_handler_plugins"]
