"""Finding a Hugging Face model on this machine, and downloading one when its name was given for that.

hf:owner/name        a download, the only thing in AttnScope that reads the network
owner/name or name   the snapshot in the local cache (models--owner--name/snapshots/<commit>)
a folder             with a config.json that names a `model_type`
"""

import re
from dataclasses import dataclass
from pathlib import Path

from attnscope.errors import LoadError
from attnscope.hub.shelf import is_model_id
from attnscope.models.huggingface.library import import_hub, library_faults, network_allowed
from attnscope.outside import read_outside, regular_size
from attnscope.records.downloads import DOWNLOAD_PREFIX, is_download
from attnscope.strict_json import as_object, read_json

CONFIG = "config.json"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_WANTED = ("*.json", "*.txt", "*.model", "*.spm", "*.safetensors", "README.md", "merges.txt")
_UNWANTED = ("*/*", "*.bin", "*.msgpack", "*.h5", "*.onnx", "optimizer*", "training_args*")
_REASONS = {
    "GatedRepoError": "it is given only to those who have accepted its terms on the Hub",
    "RepositoryNotFoundError": "the Hub has no public model of this name",
    "RevisionNotFoundError": "the Hub has no files of this model",
    "LocalEntryNotFoundError": "the Hub cannot be reached, and no copy is on this machine",
    "OfflineModeIsEnabled": "downloads are switched off",
    "ConnectionError": "the Hub cannot be reached",
    "TransportError": "the Hub cannot be reached",
    "TimeoutError": "the Hub did not answer in time",
}
"""Faults of the download library by their class or one above it, the narrower first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The folder of a foreign model, and what people call it ('' for the folder's own name)."""

    folder: Path
    name: str = ""


def find_huggingface(source: str | Path) -> Found | None:
    """The Hugging Face model that `source` means; None when it means something else.

    Raises LoadError when a download that was asked for fails.
    """
    text = str(source)
    if is_download(text):
        name = text.removeprefix(DOWNLOAD_PREFIX).strip()
        cached = cached_snapshot(name)
        is_whole = cached is not None and any((cached / file).exists() for file in _WEIGHTS)
        return Found(folder=cached if cached is not None and is_whole else download(name), name=name)
    path = Path(source)
    try:
        if path.exists():
            folder = path.parent if path.suffix == ".safetensors" and path.is_file() else path
            return Found(folder=folder) if is_huggingface_folder(folder) else None
    except (OSError, ValueError):
        return None
    snapshot = cached_snapshot(text)
    return None if snapshot is None else Found(folder=snapshot, name=text)


def is_huggingface_folder(folder: Path) -> bool:
    """Whether the folder's config.json is one of this family: it names a model type or architectures."""
    path = folder / CONFIG
    if not path.is_file():
        return False
    try:
        values = as_object(read_json(path, has_infinity=True), what=str(path))
    except LoadError:
        return False
    return "format" not in values and ("model_type" in values or "architectures" in values)


def cached_snapshot(name: str) -> Path | None:
    """The newest snapshot of a model id in the local cache; None when there is none."""
    if not is_model_id(name):
        return None
    try:
        cache = Path(import_hub().constants.HF_HUB_CACHE)
    except LoadError:
        return None
    repository = cache / f"models--{name.replace('/', '--')}"
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


def download(name: str) -> Path:
    """Fetch a model from the Hub into the local cache: configuration, tokenizer and safetensors only.

    Raises LoadError with the reason. No code and no pickle is fetched.
    """
    if not is_model_id(name):
        raise LoadError(
            f"{name[:100]!r} is not the name of a model on the Hub.",
            kind="missing",
            expected=f"{DOWNLOAD_PREFIX}owner/name",
            action="Copy the name from the model's page.",
        )
    action = "Check the name and the connection, or open a folder instead."
    with (
        network_allowed() as hub,
        library_faults(f"The model {name} could not be downloaded", kind="download", action=action),
    ):
        try:
            folder = hub.snapshot_download(
                name, allow_patterns=list(_WANTED), ignore_patterns=list(_UNWANTED)
            )
        except Exception as error:
            if not (reason := _plain_reason(error)):
                raise
            told = f"The model {name} could not be downloaded: {reason}."
            raise LoadError(told, kind="download", action=action) from error
    return Path(folder)


def _plain_reason(error: Exception) -> str:
    """Why a download failed, in own words; empty when the library's words say it better."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return next((words for name, words in _REASONS.items() if name in names), "")


def storage_root(folder: Path) -> Path:
    """The folder that the files of a model must lie in once links are followed.

    A snapshot of the local cache holds links into the `blobs` beside it; elsewhere it is the folder itself.
    """
    resolved = folder.resolve()
    if resolved.parent.name == "snapshots" and resolved.parent.parent.name.startswith("models--"):
        return resolved.parent.parent
    return resolved


def contained_file(folder: Path, name: str) -> Path:
    """The path of a file named by a model's own files; raises LoadError when it leads outside its folder."""
    path = folder / name
    is_plain = bool(name) and Path(name).name == name and "\0" not in name and "\\" not in name
    if is_plain:
        try:
            if path.resolve().is_relative_to(storage_root(folder)):
                if path.exists():
                    regular_size(path, expected="a regular file")
                return path
        except (OSError, RuntimeError):
            pass
    raise LoadError(
        f"{folder} names the file {name[:120]!r}, which lies outside the folder.",
        kind="outside",
        expected="files inside the model's own folder",
        action="Nothing was opened. Download the model again from its origin.",
    )
