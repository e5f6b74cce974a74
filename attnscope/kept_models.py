"""The bundled models' descriptions of themselves, each in its folder of resources/models.

    about.toml   shows    what one sees in it, in a sentence
                 search   further words of lectures that find it
                 head     the head to look at first, such as "encoder:L1H2"; may be left out
                 extra    the extra of the package that it needs, such as "hf"; may be left out
                 sample   texts worth looking at, in the place of those for every model of its kind

Each file is read when somebody asks; a folder without one is a model all the same.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Any

from attnscope.errors import LoadError
from attnscope.outside import parse_toml, read_toml_text
from attnscope.paths import resources_folder
from attnscope.records.models import Sample

ABOUT = "about.toml"
_LIBRARIES = {"hf": "transformers"}
_ACTION = "Install AttnScope again."


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptModel:
    """One of the models; each field comes from its file, empty if not given."""

    name: str
    shows: str = ""
    search: str = ""
    head: str = ""
    extra: str = ""
    samples: tuple[Sample, ...] = ()

    @property
    def lacks(self) -> str:
        """Missing requirements, in a few words; empty if there are none."""
        library = _LIBRARIES.get(self.extra)
        if library is None or importlib.util.find_spec(library) is not None:
            return ""
        return f"needs {library}, which is not installed (the extra {self.extra})"


def kept_models_folder() -> Path:
    """Folder of the bundled models; raises LoadError without resources."""
    return resources_folder() / "models"


def kept_names() -> list[str]:
    """Their names, sorted, those that need a further library last; empty if the program came without any."""
    folder = kept_models_folder()
    names = [entry.name for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []
    return sorted(names, key=lambda name: (bool(kept_model(name).extra), name))


@cache
def kept_model(name: str) -> KeptModel:
    """A model's description of itself; only its name if it has none. Raises LoadError."""
    path = kept_models_folder() / name / ABOUT
    if not path.is_file():
        return KeptModel(name=name)
    try:
        values = parse_toml(read_toml_text(path, action=_ACTION))
        samples = tuple(Sample(**entry) for entry in values.pop("sample", ()))
        return KeptModel(name=name, samples=samples, **_texts(values))
    except (TOMLDecodeError, TypeError, ValueError) as error:
        raise LoadError(
            f"What {path} says cannot be read: {error}.",
            kind="samples",
            expected="the texts shows, search, head and extra, and [[sample]] tables",
            action=_ACTION,
        ) from error


def kept_model_at(folder: Path) -> KeptModel:
    """The description of the model in a folder; empty if it is not one of these."""
    is_kept = folder.resolve().parent == kept_models_folder().resolve()
    return kept_model(folder.resolve().name) if is_kept else KeptModel(name=folder.name)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    for key, value in values.items():
        if not isinstance(value, str):
            raise ValueError(f"{key} is {value!r}")
    return dict(values)
