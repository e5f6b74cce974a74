"""What a path is that somebody opens or drops: a session, a figure, a text, a picture, a run, a model.

Recorded attention opens like a model: the engine tells them apart.
"""

from pathlib import Path
from typing import Literal

from attnscope.errors import LoadError
from attnscope.figures.figure_file import ENDING as FIGURE_ENDING
from attnscope.figures.figure_file import is_figure_file
from attnscope.strict_json import as_object, read_json
from attnscope.viewmodels.session.file import ENDING

Opened = Literal["session", "figure", "text", "picture", "run", "model"]
_TEXT_ENDINGS = (".txt", ".md", ".text")
_PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
_MODEL_ENDINGS = (".safetensors", ".json", ".toml", ".bin", ".pt")
_MAX_SIBLINGS = 60


def kind_of(path: str) -> Opened:
    """What `path` is to be opened as; raises LoadError for what is nothing of this."""
    place = Path(path)
    try:
        is_file, is_folder = place.is_file(), place.is_dir()
    except (OSError, ValueError) as error:
        raise _unknown(path, "it is not a path") from error
    if "\0" in path:
        raise _unknown(path.replace("\0", "‹NUL›"), "it is not a path")
    ending = place.suffix.lower()
    if ending == ENDING:
        return "session"
    if is_file and is_figure_file(path):
        return "figure"
    if is_folder:
        return "run" if (place / "recipe.toml").is_file() else "model"
    if is_file and ending in _TEXT_ENDINGS:
        return "text"
    if is_file and is_picture(path):
        return "picture"
    if is_file and ending in _MODEL_ENDINGS:
        return "model"
    if not is_file and place.name == path:
        return "model"  # a demo model's name, or a name the engine knows
    raise _unknown(path, "it does not exist" if not is_file else f"'{ending or place.name}' is not known")


def is_picture(path: str) -> bool:
    """Whether a file's name says that it is a picture."""
    return Path(path).suffix.lower() in _PICTURE_ENDINGS


def find_moved_model(source: str, sha256: str, near: Path) -> str:
    """Where the model of a session is now: its own path, or a folder beside the session with its hash.

    Empty when it is in neither place. Folders are compared by their manifest, so nothing large is read.
    """
    if not source or Path(source).name == source:
        return source
    try:
        if Path(source).exists():
            return source
        candidates = [near / Path(source).name, *sorted(near.iterdir())[:_MAX_SIBLINGS]]
    except (OSError, ValueError):
        return ""
    return next((str(folder) for folder in candidates if sha256 and _holds(folder, sha256)), "")


def _holds(folder: Path, sha256: str) -> bool:
    """Whether a model folder's manifest names weights with this hash."""
    manifest = folder / "manifest.json"
    try:
        entries = as_object(read_json(manifest, max_bytes=1_000_000), what=str(manifest))
        return any(isinstance(entry, dict) and entry.get("sha256") == sha256 for entry in entries.values())
    except LoadError:
        return False


def _unknown(path: str, reason: str) -> LoadError:
    return LoadError(
        f"{path[:200]} cannot be opened: {reason}.",
        kind="unknown",
        expected=f"a session (*{ENDING}), a figure file (*{FIGURE_ENDING}), a model or run folder, recorded "
        "attention, a text or a picture",
        action="Open or drop one of these.",
    )
