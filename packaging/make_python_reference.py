"""Writes the Python reference of the help from the docstrings of every public name.

Run from the repository's root after a change of a public name: python packaging/make_python_reference.py
"""

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args, get_origin

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, not an installed copy

import attnscope
from attnscope.codec import AllowedNames
from attnscope.counting import listed
from attnscope.fields import options_of
from attnscope.figures import page

PAGE = Path(__file__).parents[1] / "resources" / "help" / "python.md"
MADE = {
    "Figure": "figure",
    "Findings": "measure_texts",
    "GateTable": "Model.gates",
    "Model": "load",
    "Recording": "record",
    "Trace": "Model.trace",
}
"""Classes that nobody makes by hand, and what gives them."""
ARGUMENTS = {
    "batch_size": "texts that are read at once",
    "caption": "what stands below the figure",
    "device": '"auto", "cpu", "cuda", "mps" or a name of PyTorch',
    "dpi": "dots per inch of a PNG, 36 to 2400",
    "font_pt": "size of token labels and caption in points",
    "gates": "multipliers of head outputs, 0 to 1",
    "has_caption": "whether a caption stands below",
    "head": 'a head: "L0H1", "cross:L0H1", a record, or (stack, layer, head)',
    "height_mm": "height of the page in millimetres",
    "interventions": "changes of single heads: one, or several in their order",
    "max_px": "the most cells a side",
    "model": "what `load` gave",
    "past_trained": "whether texts longer than those of the training are read",
    "path": "the file",
    "seed": "random seed",
    "settings": "how the next token is chosen; of a lab: its settings by name",
    "site": 'an attention module: ("cross", 1), a number from 0, or a record',
    "size": "a page by its name, such as a column of a journal",
    "target": "the second text, for a model that reads or generates one",
    "text": "the text that the model reads",
    "title": "title above the figure",
    "top": "how many candidates to return at each position",
    "trace": "a trace from a model, a recording or arrays",
    "width_mm": "width of the page in millimetres",
}
"""What arguments mean wherever they stand; all others are explained where they stand."""
_INTRO = """# Python reference

`import attnscope as at`. This page is made from what Python's own `help(at.figure)` says; `help(at)` lists the names. For a first look see [Command line and Python](help:command-line), for the words [Words](help:words).

**Heads** are named `"L0H1"`, `"cross:L0H1"` where there are several stacks, as `("cross", 0, 1)`, or by their record. **Sites** (attention modules) are named `("cross", 1)` or by number. Layers, heads, queries and keys are counted from 0.

**Units.** Weights, gates and shares lie between 0 and 1. Entropies, losses and divergences are in nats, distances in tokens. Pages are in millimetres, type in points, PNG in dots per inch. `[n_queries, n_keys]` is the shape of an array; NaN stands for what the mask does not allow, or for no value.

**Errors.** `UserError` says what happened, what was expected and what to do; `LoadError` and `SaveError` are kinds of it. Any function may raise `UserError` for an argument of the wrong kind. Anything else is an error in the program.
"""  # noqa: E501


def reference() -> str:
    """The whole page."""
    return "\n\n".join([_INTRO.strip(), *_names()]) + "\n"


def members_of(kind: type) -> dict[str, Any]:
    """The public methods and properties of a class itself, in the order of its source."""
    return {
        name: one.__func__ if isinstance(one, staticmethod | classmethod) else one
        for name, one in vars(kind).items()
        if not name.startswith("_")
        and (inspect.isfunction(one) or isinstance(one, property | staticmethod | classmethod))
    }


def arguments_of(function: Callable[..., Any]) -> list[ast.arg]:
    """The arguments as they stand in the source, without `self`; options that are shared, one by one."""
    of, shared = _definition(function).args, options_of(function)
    last = filter(None, [of.kwarg]) if shared is None else _shared_options(shared)
    every = [*of.posonlyargs, *of.args, *filter(None, [of.vararg]), *of.kwonlyargs, *last]
    return [one for one in every if one.arg not in ("self", "cls")]


def _shared_options(kind: type) -> list[ast.arg]:
    """Every option of a `TypedDict`: its own, and then those of the kinds that it is made from."""
    own = [
        ast.arg(name, ast.parse(type_, mode="eval").body) for name, type_ in _class_annotations(kind).items()
    ]
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    named = [ast.unparse(base) for base in tree.bases] if isinstance(tree, ast.ClassDef) else []
    bases = [getattr(inspect.getmodule(kind), name) for name in named if name != TypedDict.__name__]
    return [*own, *(option for base in bases for option in _shared_options(base))]


def about(one: object) -> str:
    """The docstring as Markdown."""
    text = inspect.getdoc(one) or ""
    parts = [part if part.startswith("    ") else " ".join(part.split()) for part in re.split(r"\n\n+", text)]
    return "\n\n".join(_code(part) if part.startswith("    ") else part for part in parts)


def _names() -> Iterator[str]:
    for name in sorted(attnscope.__all__, key=str.lower):
        one = getattr(attnscope, name)
        if inspect.isclass(one):
            yield from _class(name, one)
        elif callable(one):
            yield from _function("##", name, one)


def _class(name: str, kind: type) -> Iterator[str]:
    yield f"## {name}"
    if name in MADE:
        yield f"Given by `{MADE[name]}`."
    elif dataclasses.is_dataclass(kind):
        yield f"`at.{name}({', '.join(one.name for one in dataclasses.fields(kind))})`"
    yield about(kind)
    if name not in MADE and dataclasses.is_dataclass(kind):
        fields = _class_annotations(kind)
        made = dataclasses.fields(kind)
        lines = [_line(one.name, fields[one.name], _default(one), kind, words="") for one in made]
        yield "\n".join(lines)
    for member, one in members_of(kind).items():
        if isinstance(one, property):
            yield f"### {name}.{member}"
            yield f"`{_short(one.fget.__annotations__.get('return'), one.fget)}`. {about(one)}"
        else:
            yield from _function("###", f"{name}.{member}", one)


def _function(marks: str, name: str, function: Callable[..., Any]) -> Iterator[str]:
    of = _definition(function)
    first = [one.arg for one in (*of.args.posonlyargs, *of.args.args) if one.arg not in ("self", "cls")]
    given = ", ".join([*first, *(["*, …"] if of.args.kwonlyargs or of.args.kwarg else [])])
    gives = f" → `{ast.unparse(of.returns)}`".replace("'", "") if of.returns is not None else ""
    yield f"{marks} {name}"
    yield f"`{'at.' + name if marks == '##' else name.split('.')[1]}({given})`{gives}"
    yield about(function)
    defaults = inspect.signature(function).parameters
    lines = []
    for one in arguments_of(function):
        default = defaults[one.arg].default
        said = None if default is inspect.Parameter.empty else _value(default)
        lines.append(_line(one.arg, _type(one.annotation), said, function))
    if lines:
        yield "\n".join(lines)


def _line(name: str, kind: str, default: str | None, of: Any, *, words: str | None = None) -> str:
    words = ARGUMENTS.get(name, "") if words is None else words
    chosen = _choices(kind, of)
    parts = [f"`{kind}`", *([words] if words else []), *([chosen] if chosen else [])]
    return f"- `{name}`: {', '.join(parts)}" + (f" (default `{default}`)" if default is not None else "")


def _choices(kind: str, of: Any) -> str:
    """Members of a literal alias, or of one for the names of a list, if the type names one."""
    modules = (inspect.getmodule(of), page)
    for name in re.findall(r"[A-Z]\w+", kind):
        found = next((getattr(one, name) for one in modules if hasattr(one, name)), None)
        for one in (found, *get_args(found)):
            literals = get_args(one) if get_origin(one) is Literal else ()
            if names := one.names if isinstance(one, AllowedNames) else literals:
                return listed([f'"{name}"' if isinstance(name, str) else str(name) for name in names], "or")
    return ""


def _definition(function: Callable[..., Any]) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef):
        raise TypeError(f"{function} is no function")
    return found


def _class_annotations(kind: type) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        one.target.id: ast.unparse(_plain(one.annotation))
        for one in body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }


def _type(annotation: ast.expr | None) -> str:
    """A type as it is written, without the quotes of one that is imported late."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation) if annotation else ""


def _plain(annotation: ast.expr) -> ast.expr:
    """A type without what is only for files: `Annotated[T, …]` is T."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        inner = annotation.slice
        return inner.elts[0] if isinstance(inner, ast.Tuple) else inner
    return annotation


def _default(one: dataclasses.Field[Any]) -> str | None:
    return None if one.default is dataclasses.MISSING else _value(one.default)


def _value(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, int | float | bool | None) or value == ():
        return repr(value)
    return f"{type(value).__name__}()"


def _short(annotation: object, of: Any) -> str:
    returns = _definition(of).returns
    return ast.unparse(returns) if returns is not None else str(annotation)


def _code(part: str) -> str:
    return "\n".join(f"- `{' '.join(line.split())}`" for line in part.splitlines() if line.strip())


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
