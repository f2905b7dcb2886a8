"""The logger `maru`. Its level comes from MARU_LOG_LEVEL, else LMCACHE_LOG_LEVEL, else it is INFO."""

import logging
import os

LEVEL_VARIABLES = ("MARU_LOG_LEVEL", "LMCACHE_LOG_LEVEL")
LEVELS = {"TRACE": logging.DEBUG, "DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING,
          "WARNING": logging.WARNING, "ERROR": logging.ERROR, "CRITICAL": logging.CRITICAL}


def configure() -> None:
    """Sets the level, unless the program has set one. Adds no handler: the program's logging, or Python's handler of
    last resort for warnings, shows the messages."""
    logger = logging.getLogger("maru")
    if logger.level != logging.NOTSET:
        return
    for variable in LEVEL_VARIABLES:
        text = os.environ.get(variable, "").strip().upper()
        if not text:
            continue
        if text in LEVELS:
            logger.setLevel(LEVELS[text])
            return
        logger.warning("%s is %r; the levels are %s", variable, os.environ[variable], ", ".join(LEVELS))
    logger.setLevel(logging.INFO)


def logger_of(module: str) -> logging.Logger:
    """The child logger of a module of this package."""
    return logging.getLogger(module if module.startswith("maru") else f"maru.{module}")


configure()
