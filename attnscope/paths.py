"""The program's own files: resources, settings, cache, logs.

The only place that knows whether the program runs from a checkout or from an installed package.
"""

import os
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from attnscope.errors import LoadError

if TYPE_CHECKING:
    from platformdirs import PlatformDirs

_APP = "attnscope"
_RENAMED, _RENAMED_IN = {"english-french": "grammar"}, (0, 9)
_GONE = {"shakespeare": ("0.9", "stories")}
"""Demo models that came no longer than with a version, and the one that does in their stead what they did."""


def resources_folder() -> Path:
    """The folder of icons, samples, recipes and demo models."""
    package = Path(__file__).resolve().parent
    for folder in (package / "resources", package.parent / "resources"):
        if folder.is_dir():
            return folder
    raise LoadError(
        f"The program's resources are missing beside {package}.",
        kind="missing",
        expected="a folder named resources",
        action="Install AttnScope again.",
    )


def checkout_file(name: str) -> Path | None:
    """A file of the checkout that the program runs from; None if it is installed, or the file is missing."""
    checkout = Path(__file__).resolve().parents[1]
    path = checkout / name
    return path if (checkout / "pyproject.toml").is_file() and path.is_file() else None


def import_file(path: Path, name: str) -> ModuleType:
    """The module in a file outside the package, imported under `name`.

    A module that was imported under the name is returned as it is.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python module")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def demo_name(source: str) -> str:
    """The name of the demo model at this path, of this or a missing installation; else empty.

    A name opens the model in every installation, a path in one. Raises LoadError without resources.
    """
    name = _name_in_resources(source)
    here = resources_folder() / "models" / name
    is_ours = Path(source) == here or not os.path.exists(source)
    return name if name and is_ours and os.path.isdir(here) else ""


def _name_in_resources(source: str) -> str:
    """End of a path of demo models, of any installation; else empty."""
    *_, resources, models, name = ["", "", *source.replace("\\", "/").split("/")]
    is_demo = (resources, models) == ("resources", "models") and name not in ("", ".", "..")
    return name if is_demo else ""


def gone_demo(source: str) -> tuple[str, str, str] | None:
    """A demo model that is no longer included: its name, the last version with it, and a substitute.

    None for everything else. `source` is a name, or its path in an installation.
    """
    name = _name_in_resources(source) or source
    return (name, *_GONE[name]) if name in _GONE else None


def rename_demos(values: dict[str, object]) -> None:
    """Replace old names of demo models in the content of an older program's file.

    Until version 0.8 the translator of the made-up grammar was called english-french.
    """
    if not _is_older(values.get("program"), _RENAMED_IN):
        return
    rest: list[object] = [values]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            for name in ("source", "model"):
                if isinstance(found := part.get(name), str):
                    part[name] = _RENAMED.get(demo_name(found) or found, found)
        rest += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()


def _is_older(program: object, version: tuple[int, int]) -> bool:
    """Whether a file from "AttnScope 0.7.0", say, is older; one without a version is."""
    found = re.search(r"(\d{1,4})\.(\d{1,4})", program) if isinstance(program, str) else None
    return found is None or (int(found[1]), int(found[2])) < version


def relative_source(source: str, folder: Path | None) -> str:
    """A demo model's name, or the path from `folder` of a model under it; other sources unchanged."""
    path = Path(source)
    if name := demo_name(source):
        return name
    if folder is None or not path.is_absolute() or not path.is_relative_to(folder.absolute()):
        return source
    return "./" + path.relative_to(folder.absolute()).as_posix()


def _person() -> "PlatformDirs":
    """The user's folders; a page of help is printed without them."""
    from platformdirs import PlatformDirs

    return PlatformDirs(_APP, appauthor=False)


def settings_folder() -> Path:
    """The user's settings folder (created on first write)."""
    return Path(_person().user_config_dir)


def logs_folder() -> Path:
    """Folder for crash logs."""
    return Path(_person().user_log_dir)


def sockets_folder() -> Path:
    """Folder of the socket on which an open window listens for later starts (created on first use)."""
    return Path(_person().user_cache_dir) / "window"


def runs_folder() -> Path:
    """Folder for training runs, if the user names none."""
    return documents_folder() / "AttnScope runs"


def documents_folder() -> Path:
    """Folder for a user's own files, if none is named."""
    return Path(_person().user_documents_dir)


def own_command() -> list[str]:
    """The first words of a command that starts this program again, as a process of its own."""
    return [sys.executable] if is_bundle() else [sys.executable, "-m", "attnscope"]


def is_bundle() -> bool:
    """Whether this program brings its own Python, as packages for Linux do, which cannot install anything."""
    return bool(getattr(sys, "frozen", False))
