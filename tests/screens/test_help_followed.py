"""What help, tours and README name is in the window: menus and what is in them, keys, the key of a name."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QMenuBar

from attnscope.app import Program
from attnscope.paths import resources_folder

pytestmark = [pytest.mark.qt, pytest.mark.slow]

RESOURCES = resources_folder()
PAGES = (
    *sorted((RESOURCES / "help").glob("*.md")),
    *sorted((RESOURCES / "tours").glob("*.toml")),
    Path(__file__).parents[2] / "README.md",
)
KEY = r"(?:Ctrl|Alt|Shift)\+(?:(?:Shift|Alt)\+)*(?:Page (?:Up|Down)|Return|[A-Z](?!\w)|\d|[.+])|F\d+"
NAMED = re.compile(rf"(\*\*?)([^*\n]+)\1 \(`?({KEY}|[A-Z])`?\)")
OF_A_PART = {"F2"}  # of the list of kept views alone
OF_TERMINALS = {"Ctrl+C"}
AS_SHOWN = {"Rows to 1": "Renormalise rows"}
"""The words of a small button, and those of the command that it gives."""


def _texts() -> Iterator[tuple[str, str]]:
    return ((page.name, page.read_text(encoding="utf-8")) for page in PAGES)


def _plain(words: str) -> str:
    return words.replace("&", "").strip().rstrip("…")


def _paths(menu: QMenu | QMenuBar, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for action in menu.actions():
        path = (*above, _plain(action.text()))
        yield path
        if action.menu() is not None:
            yield from _paths(action.menu(), path)


def test_that_every_menu_and_key_that_a_page_names_is_there(start: Callable[..., Program]) -> None:
    window = start("grammar", width_px=1280, height_px=800, theme="light").window
    paths = {path for bar in window.findChildren(QMenuBar) for path in _paths(bar)}
    menus = {path[0] for path in paths}
    assert {"File", "Edit", "View", "Model", "Window", "Help"} <= menus
    names: dict[str, set[str]] = {}
    for action in (*window.actions_by_name.values(), *window.findChildren(QAction)):
        for key in action.shortcuts():
            names.setdefault(key.toString(), set()).add(_plain(action.text()))
    wrong = []
    for page, text in _texts():
        for said in re.findall(r"\*([^*\n]+ ▸ [^*\n]+)\*", text):
            path = tuple(map(_plain, said.split("▸")))
            if path[0] in menus and path not in paths:
                wrong.append(f"{page}: no {said}")
        for said in set(re.findall(rf"(?<![\w+])({KEY})", text)) - OF_A_PART - OF_TERMINALS:
            if _of_qt(said) not in names:
                wrong.append(f"{page}: no key {said}")
        for _, said, key in NAMED.findall(text):
            name = AS_SHOWN.get(said, _plain(said.split("▸")[-1])).lower()
            found = {one.lower() for one in names.get(_of_qt(key), ())}
            if not any(name in one or one in name for one in found):
                wrong.append(f"{page}: {said} has not the key {key}, which is {found}")
    assert not wrong, "\n".join(wrong)


def _of_qt(key: str) -> str:
    return key.replace("Page Up", "PgUp").replace("Page Down", "PgDown")
