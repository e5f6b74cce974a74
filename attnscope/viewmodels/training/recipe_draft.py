"""The recipe being edited on the training page: its text, its file, what is wrong with it.

Must not import Qt.
"""

import re
from collections.abc import Callable
from pathlib import Path

from attnscope.files import replace_file
from attnscope.last_made import LastMade
from attnscope.viewmodels.training.recipe_text import (
    RecipeProblem,
    check_recipe_text,
    line_of_value,
    read_recipe_text,
    recipe_value,
    watched_sentences,
    with_recipe_value,
    with_written_value,
)


class RecipeDraft:
    """One text at a time; edits of other recipes are kept for coming back.

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
        """What a run of it would be called."""
        return Path(self.path).stem or self.origin or "run"

    @property
    def folder(self) -> str:
        """Where the relative paths in the text begin; empty for a text that belongs to no file."""
        return str(Path(self.path).parent) if self.path else ""

    @property
    def watched(self) -> tuple[tuple[str, str | None], ...]:
        """The sentences it watches, with their targets."""
        return watched_sentences(self.text)

    @property
    def is_changed(self) -> bool:
        """Whether the text differs from the file it came from."""
        return self.path in self._drafts

    @property
    def problem(self) -> RecipeProblem | None:
        """The first fault of its form; None for TOML."""
        return self._problem.of(self.text, lambda: check_recipe_text(self.text))

    @property
    def marked_line(self) -> int | None:
        """The line that the engine found fault with: it sets the `section.key` that is blamed."""
        named = re.findall(r"\b([a-z_]+)\.([a-z_0-9]+)\b", self._blame)
        lines = (line_of_value(self.text, section, key) for section, key in named)
        return next((line for line in lines if line is not None), None)

    @property
    def is_ready(self) -> bool:
        """Whether there is a text, and it is TOML."""
        return self.problem is None and bool(self.text.strip())

    @property
    def needs_data(self) -> bool:
        """Whether it learns from a file; a task makes its own data."""
        return recipe_value(self.text, "data", "kind") != "task"

    @property
    def lacks_data(self) -> bool:
        """Whether it says that it learns from a file, and not from which."""
        return recipe_value(self.text, "data", "kind") not in (None, "task") and not self.data_path

    @property
    def can_run(self) -> bool:
        """Whether a run of it can begin, as far as its form tells."""
        return self.is_ready and not self.lacks_data

    @property
    def unsaved(self) -> dict[str, object]:
        """What was edited and is in no file, to be kept for the next start; empty when nothing is."""
        return {"path": self.path, "origin": self.origin, "texts": dict(self._drafts)} if self._drafts else {}

    def take_unsaved(self, kept: object) -> bool:
        """Bring back what `unsaved` gave; whether the text that is shown has changed by it."""
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
        """Take the text of a file. Raises LoadError; the draft is then as it was."""
        text = self._drafts[path] if path in self._drafts else read_recipe_text(Path(path))
        self.path = path
        self._set(text)

    def take(self, text: str, origin: str = "") -> None:
        """Take a text that belongs to no file, for instance of the run `origin`."""
        self.path, self.origin = "", origin
        self._drafts.pop("", None)
        self._set(text)

    def edit(self, text: str) -> None:
        """Take what the person typed."""
        if text != self.text:
            self._drafts[self.path] = text
            self._set(text)

    def revert(self) -> None:
        """Go back to the text of the file. Raises LoadError; the draft is then as it was."""
        if self.path and self.is_changed:
            text = read_recipe_text(Path(self.path))
            del self._drafts[self.path]
            self._set(text)

    def save(self, path: str) -> None:
        """Write the text to a file, which it belongs to from then on. Raises SaveError."""
        replace_file(Path(path), self.text.encode("utf-8"))
        self._drafts.pop(self.path, None)
        self._drafts.pop(path, None)
        self.path = path
        self._changed()

    @property
    def data_path(self) -> str:
        """The data file the recipe names, empty when it names none."""
        value = recipe_value(self.text, "data", "path")
        return value if isinstance(value, str) else ""

    def set_data_path(self, path: str) -> None:
        """Write another data file into the text."""
        self.edit(with_recipe_value(self.text, "data", "path", path))

    def mark_blamed_line(self, message: str) -> None:
        """Mark the line that sets the `section.key` a message speaks of, until the next edit."""
        self._blame = message
        self._changed()

    @property
    def n_steps(self) -> int:
        """How long it says that the run is, 0 when it does not say."""
        value = recipe_value(self.text, "training", "n_steps")
        return value if isinstance(value, int) else 0

    def set_n_steps(self, n_steps: int) -> None:
        """Write another length of the run into the text."""
        self.edit(with_written_value(self.text, "training", "n_steps", str(n_steps)))

    def _set(self, text: str) -> None:
        self.text, self._blame = text, ""
        self._changed()
