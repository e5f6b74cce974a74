"""The library of Hugging Face's Hub: where its cache is, which server it means. It is kept off the network.

What is downloaded goes through `fetching`, which can pause, resume and verify; the library's own switch for
the network, one for the whole process, stays off.
"""

import importlib
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attnscope.errors import LoadError
from attnscope.paths import is_bundle

_INSTALL = "Install it with: pip install 'attnscope[hf]'"
_OTHER_BUNDLE = (
    "This bundle was built without it: take the one with -hf in its name, or install AttnScope for its own "
    "Python with: pip install 'attnscope[hf]'"
)


def how_to_install() -> str:
    """What to do where the library is missing: a bundle has no pip."""
    return _OTHER_BUNDLE if is_bundle() else _INSTALL


def import_hub() -> Any:
    """The module `huggingface_hub`, offline and without telemetry; raises LoadError without it."""
    try:
        hub = importlib.import_module("huggingface_hub")
        constants: Any = importlib.import_module("huggingface_hub.constants")
    except ImportError as error:
        raise missing_library("huggingface_hub", str(error)) from error
    constants.HF_HUB_DISABLE_TELEMETRY = True
    _is_offline_by_choice()
    constants.HF_HUB_OFFLINE = True
    return hub


def require_network() -> None:
    """Raises LoadError where the person's environment forbids the network, or the library is missing."""
    import_hub()
    if _is_offline_by_choice():
        raise LoadError(
            "Downloads are switched off by HF_HUB_OFFLINE.",
            kind="offline",
            expected="a model that is already on this computer",
            action="Unset HF_HUB_OFFLINE and start again to download.",
        )


def hub_cache() -> Path:
    """The folder of the library's cache; raises LoadError without the library."""
    return Path(import_hub().constants.HF_HUB_CACHE)


def hub_address() -> str:
    """The address of the server, as HF_ENDPOINT names it; raises LoadError for what is none."""
    address = str(import_hub().constants.ENDPOINT).rstrip("/")
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise LoadError(
            f"HF_ENDPOINT is {address[:100]!r}.",
            kind="endpoint",
            expected="the address of a server, such as https://huggingface.co",
            action="Correct it, or unset it, and start again.",
        )
    return address


def hub_host() -> str:
    """The name of the server, for people; raises LoadError."""
    return urlsplit(hub_address()).netloc.rpartition("@")[2]


def hub_token() -> str:
    """What the person logged in to the Hub with; empty for nobody."""
    return str(import_hub().get_token() or "")


def missing_library(name: str, reason: str) -> LoadError:
    """The error where an optional library is not there."""
    return LoadError(
        f"This is a Hugging Face model and the library {name} is not installed ({reason[:120]}).",
        kind="library",
        expected="transformers from 5.3 to below 6",
        action=how_to_install(),
    )


@cache
def _is_offline_by_choice() -> bool:
    """Whether the person's environment forbids the network, looked at before anything here forbids it."""
    return bool(importlib.import_module("huggingface_hub.constants").HF_HUB_OFFLINE)
