"""TOML from outside: of a size that can be read at once, and every fault of it told as one error."""

import re
import tomllib
from pathlib import Path
from typing import Any

from attnscope.outside import read_outside_text

MAX_BYTES = 1_000_000
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{64}}")
"""The library takes time and memory with the square of a dotted key's depth."""


def read_toml_text(path: Path, *, what: str = "", action: str = "Choose a recipe, or check its path.") -> str:
    """The text of a recipe in a file, not yet parsed; raises LoadError."""
    return read_outside_text(path, expected="a TOML file", max_bytes=MAX_BYTES, what=what, action=action)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text; raises TOMLDecodeError whatever is wrong with it."""
    if len(text) > MAX_BYTES:
        raise tomllib.TOMLDecodeError(f"it has {len(text):,} characters, at most {MAX_BYTES:,} are read")
    if deep := _DEEP_KEY.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise tomllib.TOMLDecodeError(f"Key of more than 64 parts (at line {line}, column 1)")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from error
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise tomllib.TOMLDecodeError(str(error).split(";")[0]) from error
