"""In what several recipes differ: only the keys whose values are not the same in all of them.

Must not import Qt.
"""

import csv
import io
import tomllib
from collections.abc import Sequence
from functools import lru_cache

from attnscope.strict_toml import parse_toml

Settings = tuple[tuple[str, str], ...]
_QUIET = ("training.name", "data.about")
"""Names of runs; they say nothing about what differs."""


@lru_cache(maxsize=256)
def settings_of(recipe: str) -> Settings:
    """Every `section.key` of a recipe with its value as people read it; none of what is not TOML."""
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
    """A value of a recipe as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def told_apart(names: Sequence[str]) -> tuple[str, ...]:
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
    """Whether a run is meant by all of the words: parts of its name, or of `key=value` of its recipe."""
    facts = [name.lower(), *(f"{key}={value}".lower() for key, value in settings)]
    return all(any(word in fact for fact in facts) for word in words.lower().replace(" = ", "=").split())


def csv_of_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as CSV; cells that a spreadsheet would compute get an apostrophe before them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in (header, *rows):
        writer.writerow([f"'{cell}" if cell[:1] in tuple("=+@") else cell for cell in row])
    return out.getvalue()
