"""Where the program's own files are: resources, settings, cache, logs.

The only place that knows whether the program runs from a checkout or from an installed package.
"""

import os
import sys
from pathlib import Path

import platformdirs

from attnscope.errors import LoadError

_APP = "attnscope"


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


def demo_name(source: str) -> str:
    """The name of the demo model at this path, of this installation or of one that is not here; else empty.

    A name opens the model in every installation, a path in one. Raises LoadError without resources.
    """
    *_, resources, models, name = ["", "", *source.replace("\\", "/").split("/")]
    if (resources, models) != ("resources", "models") or name in ("", ".", ".."):
        return ""
    here = resources_folder() / models / name
    is_ours = Path(source) == here or not os.path.exists(source)
    return name if is_ours and os.path.isdir(here) else ""


def settings_folder() -> Path:
    """The person's settings folder (created when first written)."""
    return Path(platformdirs.user_config_dir(_APP, appauthor=False))


def logs_folder() -> Path:
    """Where crash logs go."""
    return Path(platformdirs.user_log_dir(_APP, appauthor=False))


def runs_folder() -> Path:
    """Where training runs go when the person names no place."""
    return documents_folder() / "AttnScope runs"


def documents_folder() -> Path:
    """Where a person's own files go when no place is named."""
    return Path(platformdirs.user_documents_dir())


def own_command() -> list[str]:
    """The first words of a command that starts this program again, as a process of its own."""
    return [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-m", "attnscope"]
