"""What a person asks for when several runs are to be trained, and what of it was left unfinished.

The wish lies as `sweep.wish` in the folder of the runs until they have ended, so that another window finds
it after this one was closed over them. Must not import Qt.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from pathlib import Path

from attnscope import paths
from attnscope.errors import LoadError, RecipeError
from attnscope.files import replace_file
from attnscope.outside import read_outside
from attnscope.records.runs import MAX_RUNS, SweepRun, parse_axes, sweep_runs
from attnscope.strict_toml import read_toml_text
from attnscope.viewmodels.new_folder import place_problem
from attnscope.viewmodels.training.recipe_text import read_recipe_text

RECIPE_FILE, _WISH_FILE = "sweep.toml", "sweep.wish"
_MAX_BYTES = 100_000
_MOST_DIGITS = 12
_DAMAGED = (ValueError, TypeError, KeyError, RecursionError, OverflowError)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepWish:
    """What the person asks for: `values` are texts like `model.d_model=64,128`, `seeds` a number or a list.

    With `keep_best` only so many runs go on after the step `after`.
    """

    values: tuple[str, ...] = ()
    seeds: str = ""
    keep_best: int | None = None
    after: int | None = None
    out: str = ""

    @property
    def seed_list(self) -> str:
        """The seeds by comma; a number alone means as many, from 0. Raises RecipeError for 0 or too many."""
        text = self.seeds.strip()
        if not text.isdecimal():
            return text
        if len(text) > _MOST_DIGITS or not 1 <= int(text) <= MAX_RUNS:
            told = f"{int(text):,}" if len(text) <= _MOST_DIGITS else f"{text[:_MOST_DIGITS]}…"
            raise RecipeError(
                f"{told} seeds cannot be trained.",
                expected=f"1 to {MAX_RUNS}, or a list such as 0,1,2",
                action="Change it.",
            )
        return ",".join(map(str, range(int(text))))

    @property
    def runs(self) -> tuple[SweepRun, ...]:
        """The runs it makes; raises RecipeError for values that are no list, and for too many runs."""
        axes = parse_axes(self.values, self.seed_list)
        if not axes:
            raise RecipeError(
                "There is nothing to vary.",
                expected="seeds, or a key with its values",
                action="Give the seeds 0,1,2 for instance.",
            )
        return sweep_runs(axes)

    @property
    def place_problem(self) -> str:
        """Why no runs can be written into its folder; empty where they can."""
        return place_problem(self.out, "runs") if self.out.strip() else ""

    def words(self, recipe: Path, device: str) -> list[str]:
        """The command of it."""
        words = [*paths.own_command(), "train", str(recipe), "--out", self.out, "--json", "--device", device]
        words.append("--stop-at-eof")
        for value in self.values:
            words += ["--sweep", value]
        if self.seed_list:
            words += ["--seeds", self.seed_list]
        if self.keep_best is not None:
            words += ["--keep-best", str(self.keep_best), "--after", str(self.after)]
        return words


def keep_wish(wish: SweepWish) -> None:
    """Write down in the folder of its runs what is asked for; raises SaveError."""
    replace_file(Path(wish.out) / _WISH_FILE, json.dumps(asdict(wish)).encode("utf-8"))


def forget_wish(folder: str) -> None:
    """The runs have ended: nothing of the wish is left to do."""
    try:
        (Path(folder) / _WISH_FILE).unlink(missing_ok=True)
    except OSError:
        return  # a folder that cannot be written to any more offers to go on, which does no harm


def unfinished_wish(where: Path, name: str, recipe: str) -> SweepWish | None:
    """The newest wish for runs of this very recipe, in folders of `where` named so, that has not ended."""
    try:
        files = [file for file in where.glob(f"*/{_WISH_FILE}") if file.parent.name.startswith(name)]
        files.sort(key=lambda file: file.stat().st_mtime, reverse=True)
    except OSError:
        return None
    for file in files:
        try:
            if read_toml_text(file.parent / RECIPE_FILE) == recipe:
                return replace(_read_wish(file), out=str(file.parent))
        except (LoadError, *_DAMAGED):
            continue  # damaged: an older one may be whole
    return None


def newest_unfinished(folders: Iterable[Path]) -> tuple[str, float]:
    """The folder of runs that was left last, among these and below them, and when; empty and 0 for none."""
    newest = ("", 0.0)
    for folder in folders:
        for pattern in (_WISH_FILE, f"*/{_WISH_FILE}"):
            for file in folder.glob(pattern):
                try:
                    left_at = max(path.stat().st_mtime for path in file.parent.glob("sweep.*"))
                except (OSError, ValueError):
                    continue
                newest = max(newest, (str(file.parent), left_at), key=itemgetter(1))
    return newest


def read_unfinished(folder: Path) -> tuple[SweepWish, str]:
    """What was asked for in a folder of runs, and their recipe; raises LoadError."""
    try:
        wish = replace(_read_wish(folder / _WISH_FILE), out=str(folder))
        return wish, read_recipe_text(folder / RECIPE_FILE)
    except (OSError, *_DAMAGED) as error:
        raise LoadError(
            f"The settings of the runs in {folder} cannot be read.",
            kind="run",
            expected="the files sweep.wish and sweep.toml",
            action="Set up the runs again in the same folder: complete runs are kept.",
        ) from error


def _read_wish(file: Path) -> SweepWish:
    """What `keep_wish` wrote; raises one of _DAMAGED for anything else."""
    told = json.loads(read_outside(file, expected="wished runs", max_bytes=_MAX_BYTES))
    keep_best, after = (None if told[key] is None else int(told[key]) for key in ("keep_best", "after"))
    return SweepWish(
        values=tuple(map(str, told["values"])), seeds=str(told["seeds"]), keep_best=keep_best, after=after
    )
