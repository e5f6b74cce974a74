"""The shelf in resources/shelf.toml, read strictly: users may add to it.

Which models are on this computer: in the cache of Hugging Face's library, or carried by an installed package.
That library is kept off the network; what is downloaded goes through `fetching`, which can pause, resume and
verify.
"""

import importlib
import importlib.util
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from tomllib import TOMLDecodeError
from typing import Any
from urllib.parse import urlsplit

from attnscope.codec import Codec, Fault, keys_of
from attnscope.errors import LoadError
from attnscope.files import sha256_of
from attnscope.outside import as_object, parse_toml, read_json, read_outside, read_toml_text
from attnscope.paths import is_bundle, resources_folder
from attnscope.records.models import HubFile, ShelfEntry, ShelfRow, unlisted

_INSTALL = "Install it with: pip install 'attnscope[hf]'"
_OTHER_BUNDLE = (
    "This bundle was built without it: take the one with -hf in its name, or install AttnScope for its own "
    "Python with: pip install 'attnscope[hf]'"
)


def how_to_install() -> str:
    """How to install the missing library; a bundle has no pip."""
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
    """Raise LoadError if the user's environment forbids the network, or the library is missing."""
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
    """The server's address, from HF_ENDPOINT; raises LoadError if it is invalid."""
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
    """The server's name, for display; raises LoadError."""
    return urlsplit(hub_address()).netloc.rpartition("@")[2]


def hub_token() -> str:
    """The user's token for the Hub; empty if not logged in."""
    return str(import_hub().get_token() or "")


def missing_library(name: str, reason: str) -> LoadError:
    """The error for a missing optional library."""
    return LoadError(
        f"This is a Hugging Face model and the library {name} is not installed ({reason[:120]}).",
        kind="library",
        expected="transformers from 5.3 to below 6",
        action=how_to_install(),
    )


@cache
def _is_offline_by_choice() -> bool:
    """Whether the user's environment forbids the network, checked before this program forbids it."""
    return bool(importlib.import_module("huggingface_hub.constants").HF_HUB_OFFLINE)


_FIELDS = keys_of(ShelfEntry)
_CODEC = Codec()
_OF_PACKAGE = ("package", "file", "sha256")
_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_SHORT = re.compile(r"[a-z][a-z0-9-]{0,30}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def is_model_id(source: str) -> bool:
    """Whether `source` could be the id of a model on the Hub."""
    return _ID.fullmatch(source) is not None and ".." not in source and "--" not in source


@cache
def shelf_entries() -> tuple[ShelfEntry, ...]:
    """The models of the shelf in order; raises LoadError if the file is invalid."""
    return read_shelf(resources_folder() / "shelf.toml")


def full_name(name: str) -> str:
    """The owner/name of a shelf model with this short name; else the name unchanged."""
    said = name.casefold()
    for entry in shelf_entries():
        names = (entry.name, entry.name.rpartition("/")[2], entry.title, entry.short)
        if said and said in (known.casefold() for known in names):
            return entry.name
    return name


def read_shelf(path: Path) -> tuple[ShelfEntry, ...]:
    """The models that a file lists under [[model]]; raises LoadError."""
    text = read_toml_text(path, action="Install AttnScope again.")
    try:
        listed = parse_toml(text).get("model", [])
    except TOMLDecodeError as error:
        raise _wrong(path, str(error)) from error
    if not isinstance(listed, list):
        raise _wrong(path, "its models are not listed under [[model]]")
    entries = tuple(_entry(path, number, values) for number, values in enumerate(listed, start=1))
    names = [name for entry in entries for name in (entry.name, entry.short) if name]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise _wrong(path, f"it lists {twice[0]} twice")
    return entries


def _entry(path: Path, number: int, values: object) -> ShelfEntry:
    what = f"model {number}"
    if not isinstance(values, dict):
        raise _wrong(path, f"{what} is not a table")
    what = f"{what} ({str(values.get('name', ''))[:80]})"
    if unknown := sorted(set(values) - set(_FIELDS)):
        raise _wrong(path, f"{what} has the unknown key {unknown[0][:40]!r}")
    try:
        entry = _CODEC.read(ShelfEntry, values)
    except Fault as fault:
        key = fault.place
        reason = f"{what}: {key} is {str(values[key])[:40]!r}" if key in values else f"{what} has no {key}"
        raise _wrong(path, reason) from fault
    if not is_model_id(entry.name) or "/" not in entry.name:
        raise _wrong(path, f"{what} is not an owner/name")
    _check_package(path, what, entry)
    return entry


def _check_package(path: Path, what: str, entry: ShelfEntry) -> None:
    given = [key for key in _OF_PACKAGE if getattr(entry, key)]
    if entry.short and not (given and _SHORT.fullmatch(entry.short)):
        raise _wrong(
            path,
            f"{what} has the short name {entry.short[:40]!r}, which does not belong to a package's model",
        )
    if not given:
        return
    if len(given) < len(_OF_PACKAGE):
        raise _wrong(path, f"{what} names {given[0]} without {', '.join(set(_OF_PACKAGE) - set(given))}")
    inside = PurePosixPath(entry.file)
    if inside.is_absolute() or ".." in inside.parts or "\\" in entry.file:
        raise _wrong(path, f"{what} names the file {entry.file[:80]!r}, which is not inside its package")
    if not entry.package.isidentifier() or not _SHA256.fullmatch(entry.sha256):
        raise _wrong(path, f"{what} needs the name a package is imported by and 64 hexadecimal digits")


def _wrong(path: Path, reason: str) -> LoadError:
    return LoadError(
        f"The shelf of models {path} cannot be read: {reason}.",
        kind="shelf",
        expected="[[model]] with " + ", ".join(_FIELDS),
        action="Restore the file, or install AttnScope again.",
    )


CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PART_ENDING = ".part"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MODELS = "models--"
_INDEX_BYTES = 64_000_000


def repository_folder(name: str) -> Path:
    """The folder of the cache for a model id, whether it exists or not; raises LoadError."""
    return hub_cache() / f"{_MODELS}{name.replace('/', '--')}"


def cached_snapshot(name: str) -> Path | None:
    """The newest snapshot of a model id in the local cache; None if there is none."""
    if not is_model_id(name):
        return None
    try:
        repository = repository_folder(name)
    except LoadError:
        return None
    snapshots = repository / "snapshots"
    try:
        place = repository / "refs" / "main"
        reference = read_outside(place, expected="a commit", max_bytes=100).decode("ascii").strip()
        if _COMMIT.fullmatch(reference) and (snapshots / reference / CONFIG).is_file():
            return snapshots / reference
    except (LoadError, ValueError):
        pass
    try:
        found = [entry for entry in snapshots.iterdir() if (entry / CONFIG).is_file()]
        return max(found, key=lambda entry: entry.stat().st_mtime, default=None)
    except OSError:
        return None


def whole_snapshot(name: str) -> Path | None:
    """As `cached_snapshot`, but None also if its weights are incomplete."""
    snapshot = cached_snapshot(name)
    return snapshot if snapshot is not None and _has_weights(snapshot) else None


def folder_here(name: str) -> Path | None:
    """Local folder of a complete model; also by the short or former name of one on the shelf.

    Raises LoadError as `carried_folder` does.
    """
    for called in _names_of(full_name(name), name):
        if found := whole_snapshot(called) or carried_folder(called):
            return found
    return None


def entry_of(name: str) -> ShelfEntry | None:
    """The shelf's model with that name or short name."""
    return next((entry for entry in shelf_entries() if name and name in (entry.name, entry.short)), None)


def carried_models() -> tuple[str, ...]:
    """The short names of the models in installed packages."""
    return tuple(entry.short for entry in shelf_entries() if entry.short and package_weights(entry))


def carried_folder(name: str) -> Path | None:
    """The folder of a model in an installed package, its weights verified; None if there is none.

    Raises LoadError when the weights are not those that were published.
    """
    entry = entry_of(name)
    weights = package_weights(entry) if entry is not None else None
    if entry is None or weights is None:
        return None
    if sha256_of(weights) != entry.sha256:
        raise LoadError(
            f"The weights {weights} are not those of {entry.name}: their SHA-256 differs.",
            kind="checksum",
            expected=f"SHA-256 {entry.sha256}",
            action=f"Nothing was opened. Install the package {entry.package} again.",
        )
    return weights.parent


def package_weights(entry: ShelfEntry) -> Path | None:
    """The weights named by the entry inside the package; no code of the package is run."""
    if not entry.package:
        return None
    try:
        spec = importlib.util.find_spec(entry.package)
    except (ImportError, ValueError):
        return None
    places = spec.submodule_search_locations if spec is not None else None
    paths = (Path(place) / entry.file for place in places or ())
    return next((path for path in paths if path.is_file()), None)


def shelf_rows() -> tuple[ShelfRow, ...]:
    """The shelf and other models in the cache: packages first, then the cache, then the rest."""
    entries = shelf_entries()
    rows = [_row(entry) for entry in entries]
    known = {row.source for row in rows} | {entry.name for entry in entries}
    rows += [_row(unlisted(name)) for name in _cached_names() if name not in known]
    rank = {"package": 0, "cache": 1, "partial": 2, "away": 3}
    listed = [row for row in rows if row.entry.look_for or row.place != "away"]
    return tuple(sorted(listed, key=lambda row: rank[row.place]))


def find_row(name: str) -> ShelfRow:
    """Find a model, on the shelf or not."""
    return _row(next((entry for entry in shelf_entries() if entry.name == name), unlisted(name)))


def part_paths(name: str) -> list[Path]:
    """Files of an interrupted download."""
    try:
        return sorted((repository_folder(name) / "blobs").glob(f"*{PART_ENDING}"))
    except (LoadError, OSError):
        return []


def bytes_here(name: str, file: HubFile) -> int:
    """Bytes of a file in the cache, complete or partial."""
    whole = repository_folder(name) / "blobs" / file.digest
    for path in (whole, whole.with_name(whole.name + PART_ENDING)):
        if path.is_file():
            return min(path.stat().st_size, file.n_bytes)
    return 0


def _names_of(name: str, given: str = "") -> Iterable[str]:
    """Names that the cache may use for a model: models of the shelf once had no owner."""
    is_listed = any(entry.name == name for entry in shelf_entries())
    older = (name.rpartition("/")[2],) if is_listed else ()
    return dict.fromkeys((given or name, name, *older))


def _row(entry: ShelfEntry) -> ShelfRow:
    try:
        return _found(entry)
    except OSError:  # what may not be read is not here
        return ShelfRow(entry=entry, place="away")


def _found(entry: ShelfEntry) -> ShelfRow:
    weights = package_weights(entry)
    if weights is not None:
        return ShelfRow(entry=entry, place="package", source=entry.name, n_bytes=_size(weights.parent))
    for name in _names_of(entry.name):
        snapshot = whole_snapshot(name)
        if snapshot is not None:
            return ShelfRow(entry=entry, place="cache", source=name, n_bytes=_size(snapshot))
    n_bytes = sum(path.stat().st_size for path in part_paths(entry.name))
    return ShelfRow(entry=entry, place="partial" if n_bytes else "away", n_bytes=n_bytes)


def _cached_names() -> Iterator[str]:
    try:
        folders = sorted(hub_cache().glob(f"{_MODELS}*"))
    except (LoadError, OSError):
        return
    for folder in folders:
        name = folder.name.removeprefix(_MODELS).replace("--", "/", 1)
        if is_model_id(name):
            yield name


def _has_weights(snapshot: Path) -> bool:
    if (snapshot / WEIGHTS).is_file():
        return True
    index = snapshot / INDEX
    if not index.is_file():
        return False
    try:
        content = as_object(read_json(index, max_bytes=_INDEX_BYTES), what=str(index))
        shards = set(as_object(content.get("weight_map"), what=str(index)).values())
    except LoadError:
        return False
    return bool(shards) and all(isinstance(name, str) and (snapshot / name).is_file() for name in shards)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
