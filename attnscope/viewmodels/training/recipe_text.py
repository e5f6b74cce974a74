"""The text of a recipe being edited: its origin, its faults, its changes.

A new one is made from a model of the literature, or goes on from the open model.
"""

import csv
import io
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope import paths
from attnscope.errors import LoadError
from attnscope.files import replace_file
from attnscope.last_made import LastMade
from attnscope.outside import parse_toml, read_toml_text
from attnscope.records.models import ModelInfo
from attnscope.records.plans import PresetRow
from attnscope.schemes.objectives import OBJECTIVES

if TYPE_CHECKING:
    from attnscope.viewmodels.training.state import TrainingState

_WHERE = re.compile(r"\s*\((?:at line (\d+), column \d+|at end of document)\)$")
_ADVICE = {
    "Invalid statement": ": write n_steps = 500, or a heading such as [training].",
    "Invalid value": ': texts need quotes, such as kind = "task".',
}
"""Hints for faults that Python's own messages leave unclear."""
_SECTION = re.compile(r"^\s*\[+\s*([^\[\]]+?)\s*\]+\s*(?:#.*)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeFile:
    """A selectable recipe: its name and its path."""

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeProblem:
    """Why a text is not TOML; `line` counts from 1."""

    line: int
    message: str

    @property
    def sentence(self) -> str:
        """The problem in words."""
        return f"Line {self.line}: {self.message}"


def list_recipes(folder: Path) -> tuple[RecipeFile, ...]:
    """The recipes in a folder by name; none if there is no such folder."""
    if not folder.is_dir():
        return ()
    return tuple(RecipeFile(name=path.stem, path=str(path)) for path in sorted(folder.glob("*.toml")))


def offered_recipes() -> tuple[RecipeFile, ...]:
    """The bundled recipes; none if the resources are missing."""
    try:
        return list_recipes(paths.resources_folder() / "recipes")
    except LoadError:
        return ()


def fresh_folder(where: Path, name: str) -> Path:
    """A new folder named `name`, `name-2`, … in `where`."""
    folder, number = where / name, 2
    while folder.exists():
        folder = where / f"{name}-{number}"
        number += 1
    return folder


def read_recipe_text(path: Path) -> str:
    """The text of a recipe file; raises LoadError if it cannot be a recipe."""
    return read_toml_text(path, what=path.name)


def words_of_recipe(text: str) -> str:
    """Description in a recipe: its leading comment, as one line of text."""
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(" ".join(line.lstrip("#").split()) for line in lines).strip()


def check_recipe_text(text: str) -> RecipeProblem | None:
    """The first fault of the text as TOML, None if there is none."""
    try:
        parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        words = str(error)
        found = _WHERE.search(words)
        n_lines = max(1, text.count("\n") + (not text.endswith("\n")))
        line = int(found.group(1)) if found and found.group(1) else n_lines
        fault = _WHERE.sub("", words)
        return RecipeProblem(line=line, message=fault + _ADVICE.get(fault, "."))
    return None


def recipe_value(text: str, section: str, key: str) -> object | None:
    """The value of `section.key`, None if the text is not TOML or lacks it."""
    table = _tables(text).get(section)
    return table.get(key) if isinstance(table, dict) else None


@lru_cache(maxsize=2)
def _tables(text: str) -> Mapping[str, object]:
    """Cached: values are read at every news of a run, while the text seldom changes."""
    try:
        return parse_toml(text)
    except tomllib.TOMLDecodeError:
        return {}


def watched_sentences(text: str) -> tuple[tuple[str, str | None], ...]:
    """The sentences that a recipe watches, each with its target, if it has one."""
    found = ((table.get("text"), table.get("target")) for table in _watches(text))
    return tuple(
        (sentence, target if isinstance(target, str) and target.strip() else None)
        for sentence, target in found
        if isinstance(sentence, str)
    )


def watched_head(text: str) -> str:
    """The head that a recipe selects first, such as `cross:L1H0`; empty if it names none."""
    return next((str(table.get("head", "")) for table in _watches(text)), "")


def _watches(text: str) -> list[dict[str, object]]:
    try:
        watches = parse_toml(text).get("watch")
    except tomllib.TOMLDecodeError:
        return []
    return [watch for watch in watches if isinstance(watch, dict)] if isinstance(watches, list) else []


def with_recipe_value(text: str, section: str, key: str, value: str) -> str:
    """The text with the string `section.key` set, and the rest (comments too) unchanged."""
    return with_written_value(text, section, key, json.dumps(value, ensure_ascii=False))


def with_written_value(text: str, section: str, key: str, value: str) -> str:
    """The text with `section.key` set to `value`, which is TOML already, and the rest unchanged."""
    written = f"{key} = {value}"
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if _section_of(line) == section), None)
    if start is None:
        gap = [""] if lines and lines[-1].strip() else []
        return "\n".join([*lines, *gap, f"[{section}]", written]) + "\n"
    stop = next((i for i in range(start + 1, len(lines)) if _section_of(lines[i])), len(lines))
    for i in range(start + 1, stop):
        if re.match(rf"^\s*{re.escape(key)}\s*=", lines[i]):
            lines[i] = written
            return "\n".join(lines) + "\n"
    lines.insert(start + 1, written)
    return "\n".join(lines) + "\n"


def with_model(text: str, keys: Sequence[tuple[str, str]]) -> str:
    """The text with these keys, TOML values, as the whole of [model]; comments in it stay."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if _section_of(line) == "model"), None)
    written = [f"{key} = {value}" for key, value in keys]
    if start is None:
        return "\n".join(["[model]", *written, "", *lines]) + "\n"
    stop = next((i for i in range(start + 1, len(lines)) if _section_of(lines[i])), len(lines))
    kept = [line for line in lines[start + 1 : stop] if line.lstrip().startswith("#")]
    gap = [""] if stop < len(lines) else []
    return "\n".join([*lines[: start + 1], *kept, *written, *gap, *lines[stop:]]) + "\n"


def line_of_value(text: str, section: str, key: str) -> int | None:
    """The line, from 1, that sets `section.key`; None if no line does."""
    present = ""
    for number, line in enumerate(text.splitlines(), start=1):
        present = _section_of(line) or present
        if present == section and re.match(rf"^\s*{re.escape(key)}\s*=", line):
            return number
    return None


def _section_of(line: str) -> str:
    found = _SECTION.match(line)
    return found.group(1) if found else ""


Settings = tuple[tuple[str, str], ...]
_QUIET = ("training.name", "data.about")
"""Names of runs; they say nothing about what differs."""


@lru_cache(maxsize=256)
def settings_of(recipe: str) -> Settings:
    """Every `section.key` of a recipe with its displayed value; none if it is not TOML."""
    try:
        tables = parse_toml(recipe)
    except tomllib.TOMLDecodeError:
        return ()
    return tuple(
        (f"{section}.{key}", recipe_value_text(value))
        for section, table in tables.items()
        if isinstance(table, dict)
        for key, value in table.items()
    )


def recipe_value_text(value: object) -> str:
    """A value of a recipe as displayed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def without_shared_parts(names: Sequence[str]) -> tuple[str, ...]:
    """Names without the parts between commas that all of them share: `d_model=16,seed=0` is `d_model=16`.

    They stay whole where one would lose everything, or two would be the same.
    """
    parts = [name.split(",") for name in names]
    common = set(parts[0]).intersection(*parts) if len(parts) > 1 else set()
    left = tuple(",".join(part for part in of if part not in common) for of in parts)
    return left if all(left) and len(set(left)) == len(set(names)) else tuple(names)


def differing_keys(recipes: Sequence[Settings]) -> tuple[str, ...]:
    """The keys whose values differ, in the order of the recipes; a key that one lacks differs."""
    if len(recipes) < 2:
        return ()
    tables = [dict(settings) for settings in recipes]
    keys = dict.fromkeys(key for settings in recipes for key, _ in settings)
    return tuple(key for key in keys if key not in _QUIET and len({table.get(key) for table in tables}) > 1)


def is_match(words: str, name: str, settings: Settings) -> bool:
    """Whether a run matches all of the words: parts of its name, or of `key=value` of its recipe."""
    facts = [name.lower(), *(f"{key}={value}".lower() for key, value in settings)]
    return all(any(word in fact for fact in facts) for word in words.lower().replace(" = ", "=").split())


def csv_of_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as CSV; cells that a spreadsheet would evaluate get a leading apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in (header, *rows):
        writer.writerow([f"'{cell}" if cell[:1] in tuple("=+@") else cell for cell in row])
    return out.getvalue()


class RecipeDraft:
    """One text at a time; edits of other recipes are kept.

    `path` is empty for a text that belongs to no file.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.path = ""
        self.text = ""
        self.origin = ""
        self._blame = ""
        self._problem: LastMade[RecipeProblem | None] = LastMade()
        self._drafts: dict[str, str] = {}

    @property
    def name(self) -> str:
        """Name of a run of this recipe."""
        return Path(self.path).stem or self.origin or "run"

    @property
    def folder(self) -> str:
        """Base folder for relative paths in the text; empty for a text without a file."""
        return str(Path(self.path).parent) if self.path else ""

    @property
    def watched(self) -> tuple[tuple[str, str | None], ...]:
        """The sentences it watches, with their targets."""
        return watched_sentences(self.text)

    @property
    def is_changed(self) -> bool:
        """Whether the text differs from its file."""
        return self.path in self._drafts

    @property
    def problem(self) -> RecipeProblem | None:
        """The first fault of its form; None for TOML."""
        return self._problem.of(self.text, lambda: check_recipe_text(self.text))

    @property
    def marked_line(self) -> int | None:
        """The line at fault according to the engine: it sets the `section.key` that was named."""
        named = re.findall(r"\b([a-z_]+)\.([a-z_0-9]+)\b", self._blame)
        lines = (line_of_value(self.text, section, key) for section, key in named)
        return next((line for line in lines if line is not None), None)

    @property
    def is_ready(self) -> bool:
        """Whether there is a text, and it is TOML."""
        return self.problem is None and bool(self.text.strip())

    @property
    def needs_data(self) -> bool:
        """Whether it learns from a file; a task generates its own data."""
        return recipe_value(self.text, "data", "kind") != "task"

    @property
    def lacks_data(self) -> bool:
        """Whether it says that it learns from a file, but not which."""
        return recipe_value(self.text, "data", "kind") not in (None, "task") and not self.data_path

    @property
    def can_run(self) -> bool:
        """Whether a run of it can begin, as far as its form shows."""
        return self.is_ready and not self.lacks_data

    @property
    def unsaved(self) -> dict[str, object]:
        """Edited text that is in no file, kept for the next start; empty if there is none."""
        return {"path": self.path, "origin": self.origin, "texts": dict(self._drafts)} if self._drafts else {}

    def take_unsaved(self, kept: object) -> bool:
        """Restore the result of `unsaved`; returns whether the current text has changed."""
        match kept:
            case {"path": str(path), "origin": str(origin), "texts": dict(texts)}:
                self._drafts |= {str(name): str(text) for name, text in texts.items()}
            case _:
                return False
        if path not in self._drafts:
            return False
        self.path, self.origin = path, origin
        self._set(self._drafts[path])
        return True

    def open(self, path: str) -> None:
        """Open the text of a file. Raises LoadError; the draft is then unchanged."""
        text = self._drafts[path] if path in self._drafts else read_recipe_text(Path(path))
        self.path = path
        self._set(text)

    def take(self, text: str, origin: str = "") -> None:
        """Take a text without a file, for instance of the run `origin`."""
        self.path, self.origin = "", origin
        self._drafts.pop("", None)
        self._set(text)

    def edit(self, text: str) -> None:
        """Set the text typed by the user."""
        if text != self.text:
            self._drafts[self.path] = text
            self._set(text)

    def revert(self) -> None:
        """Return to the text of the file. Raises LoadError; the draft is then unchanged."""
        if self.path and self.is_changed:
            text = read_recipe_text(Path(self.path))
            del self._drafts[self.path]
            self._set(text)

    def save(self, path: str) -> None:
        """Save the text to a file, to which it belongs from then on. Raises SaveError."""
        replace_file(Path(path), self.text.encode("utf-8"))
        self._drafts.pop(self.path, None)
        self._drafts.pop(path, None)
        self.path = path
        self._changed()

    @property
    def data_path(self) -> str:
        """The data file named in the recipe, empty if there is none."""
        value = recipe_value(self.text, "data", "path")
        return value if isinstance(value, str) else ""

    def set_data_path(self, path: str) -> None:
        """Write another data file into the text, and remove its remarks on the former one."""
        text = with_recipe_value(self.text, "data", "path", path)
        is_told = not self.data_path and recipe_value(text, "data", "about")
        self.edit(with_recipe_value(text, "data", "about", "") if is_told else text)

    def mark_blamed_line(self, message: str) -> None:
        """Mark the line that sets the `section.key` named in a message, until the next edit."""
        self._blame = message
        self._changed()

    @property
    def n_steps(self) -> int:
        """Number of steps according to the recipe, 0 if it gives none."""
        value = recipe_value(self.text, "training", "n_steps")
        return value if isinstance(value, int) else 0

    def set_n_steps(self, n_steps: int) -> None:
        """Write another length of the run into the text."""
        self.edit(with_written_value(self.text, "training", "n_steps", str(n_steps)))

    def _set(self, text: str) -> None:
        self.text, self._blame = text, ""
        self._changed()


_RATES = ((200e6, "6e-4"), (500e6, "3e-4"), (1e9, "2.5e-4"), (float("inf"), "2e-4"))
"""Learning rates up to a number of parameters: Brown et al. 2020, table 2.1."""
_MASKED_RATE = "1e-4"
"""Devlin et al. 2018, appendix A.2."""


def take_preset(state: "TrainingState", row: PresetRow) -> None:
    """Put a preset into the recipe being edited; a new recipe goes into a run folder of its own."""
    text = state.recipe.text
    if is_fitting(text, row):
        state.recipe.edit(with_preset(text, row))
        return
    state.take_recipe(new_recipe(row), row.name)
    if state.place.holds_run:
        state.place.take_fresh()


def is_fitting(text: str, row: PresetRow) -> bool:
    """Whether the data of a recipe are of the preset's kind: texts, not a small task."""
    return recipe_value(text, "data", "kind") in (None, _data_kind(row))


def with_preset(text: str, row: PresetRow) -> str:
    """The text with the preset's [model], objective and vocabulary, and the rest unchanged."""
    text = with_model(text, row.keys)
    text = with_written_value(text, "objective", "kind", f'"{row.objective}"')
    return with_written_value(text, "tokenizer", "vocab_size", str(row.vocab_size))


def new_recipe(row: PresetRow) -> str:
    """A complete recipe of a preset, except for the path of its data."""
    masked = row.objective == "masked"
    rate = _MASKED_RATE if masked else next(r for most, r in _RATES if row.n_parameters < most)
    keys = "\n".join(f"{key} = {value}" for key, value in row.keys)
    data = "pairs: a source, a tab, its translation" if _data_kind(row) == "pairs" else "text in UTF-8"
    return f"""# {row.name}, a published model. Give it your own data: a file of {data}.

[model]
{keys}

[tokenizer]
kind = "byte-bpe"
vocab_size = {row.vocab_size}

[data]
kind = "{_data_kind(row)}"
path = ""

[objective]
kind = "{row.objective}"

[optimizer]
kind = "adamw"
learning_rate = {rate}
weight_decay = 0.01

[schedule]
kind = "cosine"
warmup_steps = 2000

[training]
n_steps = 100000
batch_size = 8
evaluate_every = 1000
save_every = 5000
seed = 1
name = "{row.name}"
"""


def _data_kind(row: PresetRow) -> str:
    return "pairs" if row.objective == "translation" else "text"


_RATE = "5e-5"
"""The highest of the rates that Devlin et al. 2018, appendix A.3, fine-tune with."""
_WORDS = {
    "text": "text in UTF-8",
    "pairs": "pairs: a source, a tab, its translation",
    "labelled": "a label, a tab and a text in each line",
    "tagged": "word/LABEL pairs, a sentence in each line, or CoNLL-U",
}
_SEGMENTS = [
    "# It reads two texts at once if a tab separates them; trained on single texts it becomes a model of "
    "one text.",
]


def why_not_finetune(model: ModelInfo | None) -> str:
    """Why the open model cannot be trained on texts, in words; empty if it can, as far as known."""
    if model is None:
        return "Open a model first; then it can be fine-tuned."
    if model.reads != "text":
        return f"{model.name} reads no text. Only models that read text can be fine-tuned."
    return ""


def finetune_recipe(model: ModelInfo) -> str:
    """The recipe, complete except for the path of its data; a sample of the model is watched."""
    objective = model.objective if model.objective in OBJECTIVES else "masked"
    kind = OBJECTIVES[objective].data[0]
    name = " ".join(model.name.split())
    lines = [
        f"# Fine-tuning {name}. Give it your own data: a file of {_WORDS[kind]}.",
        "# To predict labels instead, write classification under [objective] and labelled under [data]:",
        f"# {_WORDS['labelled']}. For labels of words: labels and tagged, {_WORDS['tagged']}.",
        *_SEGMENTS * model.reads_pairs,
        "",
        "[start]",
        f"from = {_quoted(model.source)}",
        "layer_decay = 0.95",
        "",
        "[data]",
        f'kind = "{kind}"',
        'path = ""',
        "",
        "[objective]",
        f'kind = "{objective}"',
        "",
        "[optimizer]",
        'kind = "adamw"',
        f"learning_rate = {_RATE}",
        "weight_decay = 0.01",
        "",
        "[schedule]",
        'kind = "linear"',
        "warmup_steps = 100",
        "",
        "[training]",
        "n_steps = 1000",
        "batch_size = 16",
        "evaluate_every = 100",
        "save_every = 200",
        "seed = 1",
        f"name = {_quoted(finetune_name(model))}",
    ]
    for sample in model.samples[:1]:
        lines += ["", "[[watch]]", f"text = {_quoted(sample.text)}"]
        lines += [f"target = {_quoted(sample.target)}"] if sample.target else []
    return "\n".join(lines) + "\n"


def finetune_name(model: ModelInfo) -> str:
    """Name of the run."""
    return f"{model.name}-further"


def _quoted(text: str) -> str:
    """The text as a TOML string, which is like JSON's except for one letter that TOML escapes."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
