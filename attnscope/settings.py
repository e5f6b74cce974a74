"""State remembered between two starts: theme, layout, last places.

A typed frozen record, stored as JSON in the user's settings folder. A file that cannot be read is moved aside
under a name with the date, the defaults apply, and the user is told.
"""

import dataclasses
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from attnscope import paths
from attnscope.codec import Caps, Codec
from attnscope.errors import LoadError, UserError
from attnscope.files import replace_file
from attnscope.outside import read_outside_text

SETTINGS_NAME = "settings.json"
_FORMAT = 1
_CODEC = Codec(caps=Caps(whole=1_000_000))
_MAX_BYTES = 1_000_000
_MAX_RECENT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything remembered. `geometry` is x, y, width, height of the window in px (None: default).

    `splitters` holds the sizes in px of each named splitter; `recent` the models last opened, newest first;
    `export_folder` where the last figure went, `export_choices` how it was drawn; `panels` the name, x, y,
    width and height of each panel that has a window of its own; `tours` how many steps of each guided tour
    were seen; `listed_runs` the folders whose runs are laid side by side, without the `removed_runs`, the
    `unticked_runs` not drawn.
    """

    theme: Literal["system", "light", "dark", "projector"] = "system"
    colour_map: str = "viridis"
    scale: str = "fixed"
    device: str = "auto"
    page: str = "explore"
    geometry: tuple[int, int, int, int] | None = None
    is_maximised: bool = False
    splitters: tuple[tuple[str, tuple[int, ...]], ...] = ()
    recent: tuple[str, ...] = ()
    recent_sessions: tuple[str, ...] = ()
    recent_runs: tuple[str, ...] = ()
    listed_runs: tuple[str, ...] = ()
    removed_runs: tuple[str, ...] = ()
    unticked_runs: tuple[str, ...] = ()
    tours: tuple[tuple[str, int], ...] = ()
    size_percent: int = 100
    panels: tuple[tuple[str, int, int, int, int], ...] = ()
    export_folder: str = ""
    export_choices: str = ""

    def with_recent(self, source: str) -> "Settings":
        """The same settings with `source` as the last opened model."""
        others = tuple(name for name in self.recent if name != source)
        return dataclasses.replace(self, recent=(source, *others)[:_MAX_RECENT])


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """How to open the window this time. `source` names a model, run or text; empty: a demo model.

    `device` empty means the remembered one. `is_smoke` leaves again after a trace and an export; with a
    `handout` the kept views of the session are written there, and then it leaves. With `is_new_window` the
    source is not handed to a window that is open. With `may_choose_threads` nobody has said with how many
    threads to compute: runs try which are quickest.
    """

    source: str = ""
    device: str = ""
    is_safe_mode: bool = False
    is_reset: bool = False
    is_smoke: bool = False
    is_json: bool = False
    is_new_window: bool = False
    handout: str = ""
    may_choose_threads: bool = False

    @property
    def is_unattended(self) -> bool:
        """Whether there is no user: windows are drawn into memory, and settings neither read nor written."""
        return self.is_smoke or bool(self.handout)

    @property
    def may_be_handed_over(self) -> bool:
        """Whether an open window can do all of this."""
        is_plain = not (self.is_new_window or self.is_unattended or self.is_safe_mode or self.is_reset)
        return bool(self.source) and not self.device and is_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """Settings read at start, and a sentence for the user if the file was faulty."""

    settings: Settings
    warning: str = ""


def read_settings(folder: Path) -> Remembered:
    """The settings in `folder`, or the defaults; never raises.

    A file that is not understood is renamed to `settings.json.bad-DATE` and named in the warning.
    """
    path = folder / SETTINGS_NAME
    try:
        if not path.exists():
            return Remembered(settings=Settings())
        return Remembered(settings=_read(path))
    except (OSError, LoadError, ValueError, RecursionError) as error:
        return Remembered(settings=Settings(), warning=_move_aside(path, error))


def _read(path: Path) -> Settings:
    """The settings in a file; raises LoadError, ValueError or RecursionError."""
    return settings_from_json(read_outside_text(path, expected="a settings file", max_bytes=_MAX_BYTES))


def known_run_folders(out: str = "") -> tuple[str, ...]:
    """Run folders from which this machine's speed is estimated.

    The usual place, that of the next run, and the runs that the window remembers.
    """
    places = (str(paths.runs_folder()), *((out,) if out else ()))
    path = paths.settings_folder() / SETTINGS_NAME
    try:
        remembered = _read(path)
    except (LoadError, ValueError, RecursionError):
        return places
    return tuple(dict.fromkeys((*places, *remembered.recent_runs, *remembered.listed_runs)))


def write_settings(settings: Settings, folder: Path) -> None:
    """Replace the settings file in one step; raises SaveError with the reason."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        pass  # replace_file gives the reason in the user's words
    replace_file(folder / SETTINGS_NAME, settings_to_json(settings).encode())


def reset_settings(folder: Path) -> Path | None:
    """Move the settings file aside; returns its new name, or None if there was none.

    Raises UserError when it cannot be moved.
    """
    path = folder / SETTINGS_NAME
    if not path.exists():
        return None
    aside = _aside_name(path, "old")
    try:
        path.rename(aside)
    except OSError as error:
        raise UserError(
            f"The settings file {path} cannot be moved: {error.strerror}.",
            action="Delete it yourself, or start with --safe-mode, which does not read it.",
        ) from error
    return aside


def settings_to_json(settings: Settings) -> str:
    """The settings as the text of the settings file."""
    return json.dumps({"format": _FORMAT, **_CODEC.write(settings)}, indent=1)


def settings_from_json(text: str) -> Settings:
    """Read settings strictly; raises ValueError naming the key. Unknown keys are left out.

    Keys of a newer program may be unknown; a known key of the wrong type means a damaged file.
    """
    return _CODEC.read(Settings, json.loads(text))


def _move_aside(path: Path, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    happened = f"The settings file could not be read ({reason}); the program started with its defaults."
    try:
        aside = _aside_name(path, "bad")
        path.rename(aside)
    except OSError:
        return f"{happened} The file {path} is still there."
    return f"{happened} The old file is kept as {aside.name} in {aside.parent}."


def _aside_name(path: Path, why: str) -> Path:
    """A free name beside `path` with the date."""
    date = datetime.now().strftime("%Y-%m-%d")
    aside = path.with_name(f"{path.name}.{why}-{date}")
    n = 1
    while aside.exists():
        n += 1
        aside = path.with_name(f"{path.name}.{why}-{date}-{n}")
    return aside
