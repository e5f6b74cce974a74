"""The optional libraries, imported when one of their models is opened, silent and offline. Finding a model on
this machine, and downloading one if its name was given for that.

hf:owner/name        a download, the only thing in AttnScope that reads the network
owner/name or name   the snapshot in the local cache (models--owner--name/snapshots/<commit>)
a folder             with a config.json that names a `model_type`
"""

import gc
import importlib
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnscope.collector import OneThread, collector_resting
from attnscope.errors import LoadError, UserError
from attnscope.hub.shelf import (
    CONFIG,
    cached_snapshot,
    folder_here,
    full_name,
    how_to_install,
    import_hub,
    missing_library,
    whole_snapshot,
)
from attnscope.nn import stop_if_unwanted, tell
from attnscope.nn.long_work import Stopped
from attnscope.outside import as_object, read_json, regular_size
from attnscope.records.models import DOWNLOAD_PREFIX, FetchStep, is_download, progress_words

MIN_VERSION, END_VERSION = (5, 3), (6, 0)
_JOIN_S = 5.0


def import_transformers() -> Any:
    """The module `transformers`, silent and offline; raises LoadError if it is not usable."""
    import_hub()
    try:
        library = importlib.import_module("transformers")
    except ImportError as error:
        raise missing_library("transformers", str(error)) from error
    version = _numbers(library.__version__)
    if not MIN_VERSION <= version < END_VERSION:
        raise LoadError(
            f"The library transformers has version {library.__version__}.",
            kind="library",
            expected="at least 5.3 and below 6",
            action=how_to_install(),
        )
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    return library


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from scanning the objects of the first import of transformers, inside or
    later.

    That is more than half a million objects, which stay: with the collector on, it holds the interpreter, and
    with it the window, four times for 20 to 100 ms meanwhile and again at every full collection. Later on
    nothing is changed, so that no model which has been closed is kept.
    """
    if "transformers" in sys.modules or not (gc.isenabled() or OneThread.now()):
        yield
        return
    with collector_resting():
        yield


@contextmanager
def library_faults(happened: str, *, kind: str, action: str) -> Iterator[None]:
    """Turn any error of the library inside into one LoadError, and silence its warnings.

    Its own classes raise nearly every kind of exception for a configuration they cannot use.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, Stopped, LoadError):
        raise
    except UserError as error:
        told = f"{happened}. {error.happened}"
        raise LoadError(told, kind=kind, expected=error.expected, action=error.action) from error
    except BaseException as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise LoadError(f"{happened}: {reason}", kind=kind, action=action) from error


@contextmanager
def joined_threads() -> Iterator[None]:
    """Wait for threads that the library's loading starts and leaves running."""
    before = set(threading.enumerate())
    try:
        yield
    finally:
        for thread in set(threading.enumerate()) - before:
            if thread.name.startswith("ThreadPoolExecutor"):
                thread.join(_JOIN_S)


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) if part.isdigit() else 0 for part in parts)


_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFolder:
    """The folder of a foreign model, and its display name ('' for the folder's own name)."""

    folder: Path
    name: str = ""


def find_huggingface(source: str | Path) -> FoundFolder | None:
    """The Hugging Face model that `source` refers to; None if it refers to something else.

    Raises LoadError when a download that was asked for fails.
    """
    text = str(source)
    if is_download(text):
        name = text.removeprefix(DOWNLOAD_PREFIX).strip()
        return FoundFolder(folder=folder_here(name) or download(full_name(name)), name=name)
    path = Path(source)
    try:
        if path.exists():
            folder = path.parent if path.suffix == ".safetensors" and path.is_file() else path
            return FoundFolder(folder=folder) if is_huggingface_folder(folder) else None
    except (OSError, ValueError):
        return None
    here = folder_here(text) or cached_snapshot(text)
    return None if here is None else FoundFolder(folder=here, name=text)


def is_huggingface_folder(folder: Path) -> bool:
    """Whether the folder's config.json is in this format: it names a model type or architectures."""
    path = folder / CONFIG
    if not path.is_file():
        return False
    try:
        values = as_object(read_json(path, has_infinity=True), what=str(path))
    except LoadError:
        return False
    return "format" not in values and ("model_type" in values or "architectures" in values)


def download(name: str) -> Path:
    """Fetch a model from the Hub into the local cache: configuration, tokenizer and safetensors only.

    Raises LoadError with the reason. No code and no pickle is fetched.
    """
    from attnscope.hub.fetching import ask_hub, fetch_now

    def hear(step: FetchStep) -> None:
        stop_if_unwanted()
        tell(progress_words(step))

    fetch_now(ask_hub(name), hear, pause=_pause)
    snapshot = whole_snapshot(name)
    assert snapshot is not None, "a download that ends without an error is whole"
    return snapshot


def _pause(seconds: float) -> None:
    """Wait, unless the model is no longer wanted."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        stop_if_unwanted()
        time.sleep(_PAUSE_S)


def storage_root(folder: Path) -> Path:
    """The folder that must contain the files of a model once links are resolved.

    A snapshot of the local cache holds links into the `blobs` beside it; elsewhere it is the folder itself.
    """
    resolved = folder.resolve()
    if resolved.parent.name == "snapshots" and resolved.parent.parent.name.startswith("models--"):
        return resolved.parent.parent
    return resolved


def contained_file(folder: Path, name: str) -> Path:
    """The path of a file named by a model's own files; raises LoadError if it is outside its folder."""
    path = folder / name
    is_plain = bool(name) and Path(name).name == name and "\0" not in name and "\\" not in name
    if is_plain:
        try:
            if path.resolve().is_relative_to(storage_root(folder)):
                if path.exists():
                    regular_size(path)
                return path
        except (OSError, RuntimeError):
            pass
    raise LoadError(
        f"{folder} names the file {name[:120]!r}, which lies outside the folder.",
        kind="outside",
        expected="files inside the model's own folder",
        action="Nothing was opened. Download the model again from its origin.",
    )
