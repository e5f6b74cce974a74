"""Recipes as older versions wrote them into their run folders, made into ones that can be read today.

Until version 0.3 a recipe could set choices of Transformers for a recurrent body, which did nothing. A new
recipe that does is refused; one of a run that has begun is read without them, so that the run can go on.
Before version 0.8 the random blocks of BigBird were linked both ways, and a share of a text's lines was held
out: runs that began so go on so.
"""

import re
import tomllib
from collections.abc import Mapping

from attnscope.nn.config import ModelConfig
from attnscope.nn.config_checks import OF_TRANSFORMERS, ignored_choices
from attnscope.strict_toml import parse_toml

_READ = OF_TRANSFORMERS | {"body", "transform_head"}
_PLAIN = ModelConfig(form="encoder-decoder", vocab_size=1)


def mended_recipe(text: str) -> tuple[str, str]:
    """The text without the keys that its body ignores, and a note that names them, empty without any."""
    model, data = _table(text, "model"), _table(text, "data")
    if model.get("mask") == "bigbird" and "random_links" not in model:
        text = _with_key(text, "model", 'random_links = "both"')
    if data.get("kind") == "text" and "held_out_by" not in data:
        text = _with_key(text, "data", 'held_out_by = "lines"')
    ignored = _ignored(model)
    if not ignored:
        return text, ""
    found = ", ".join(f"model.{name} = {value}" for name, value in ignored.items())
    note = f"Removed from the recipe, since the body does not use it: {found}."
    return _without(text, tuple(ignored)), note


def _with_key(text: str, section: str, line: str) -> str:
    return re.sub(rf"(?m)^([ \t]*\[[ \t]*{section}[ \t]*\].*)$", rf"\1\n{line}", text, count=1)


def _table(text: str, section: str) -> Mapping[str, object]:
    try:
        table = parse_toml(text).get(section)
    except tomllib.TOMLDecodeError:
        return {}
    return table if isinstance(table, Mapping) else {}


def _ignored(table: Mapping[str, object]) -> dict[str, object]:
    if table.get("body") not in ("rnn", "gru", "lstm"):
        return {}
    config = ModelConfig(**{**_PLAIN.to_dict(), **{k: v for k, v in table.items() if k in _READ}})
    return dict(ignored_choices(config, _PLAIN))


def _without(text: str, names: tuple[str, ...]) -> str:
    """The lines of the text but for those of these keys under [model]."""
    kept, section = [], ""
    for line in text.splitlines():
        heading = re.match(r"\s*\[+\s*([\w-]+)", line)
        section = heading[1] if heading else section
        written = re.match(r"\s*([\w-]+)\s*=", line)
        if not (section == "model" and written and written[1] in names):
            kept.append(line)
    return "\n".join([*kept, ""])
