"""The public names: what help says of them, the page of the help that has them all, and their types."""

import ast
import importlib.util
import inspect
import os
import pydoc
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import attnscope as at
from attnscope.viewmodels import MAX_BYTES, read_help

CHECKOUT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location(
    "make_python_reference", CHECKOUT / "packaging" / "make_python_reference.py"
)
maker = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(maker)

PAGE = maker.PAGE.read_text(encoding="utf-8")
PARTS = dict(part.split("\n", 1) for part in re.split(r"^##+ ", PAGE, flags=re.M)[1:])
NAMES = [name for name in at.__all__ if name != "__version__"]
CLASSES = [name for name in NAMES if isinstance(getattr(at, name), type)]
FUNCTIONS = {
    **{name: getattr(at, name) for name in NAMES if name not in CLASSES},
    **{
        f"{name}.{member}": one
        for name in CLASSES
        for member, one in maker.members_of(getattr(at, name)).items()
        if not isinstance(one, property)
    },
}


def test_that_the_page_is_what_the_docstrings_say():
    assert maker.reference() == PAGE, "run python packaging/make_python_reference.py"
    assert len(PAGE.encode()) <= MAX_BYTES


@pytest.mark.slow
def test_that_the_page_is_written_from_this_checkout_wherever_one_stands(tmp_path: Path) -> None:
    script = CHECKOUT / "packaging" / "make_python_reference.py"
    told = f"import runpy; runpy.run_path({str(script)!r}); import attnscope; print(attnscope.__file__)"
    settings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    found = subprocess.run(
        [sys.executable, "-c", told], cwd=tmp_path, env=settings, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str(CHECKOUT / "attnscope" / "__init__.py")


def test_that_every_script_of_packaging_puts_this_checkout_first():
    for script in (CHECKOUT / "packaging").glob("*.py"):
        lines = script.read_text(encoding="utf-8").splitlines()
        own = [k for k, line in enumerate(lines) if re.match(r"(import|from) (attnscope|shipping)\b", line)]
        if own and script.name != "entry.py":  # which is bundled
            assert any(line.startswith("sys.path") for line in lines[: own[0]]), script.name


def test_that_help_names_every_public_name_once_in_a_line():
    lines = re.findall(r"^    (\w+) {2,}\w", at.__doc__, re.M)
    assert sorted(lines) == sorted(NAMES)
    assert max(map(len, at.__doc__.splitlines())) <= 110
    assert len(at.__doc__.splitlines()) < 80
    assert set(dir(at)) == {*NAMES, "__version__"}
    source = ast.parse(Path(at.__file__).read_text(encoding="utf-8"))
    behind = [
        node for node in ast.walk(source) if isinstance(node, ast.ImportFrom) and "." in str(node.module)
    ]
    offered = [one.name for node in behind if node.module != "attnscope.doors" for one in node.names]
    assert sorted(offered) == sorted(NAMES)


def test_that_help_is_a_page_one_would_print():
    told = pydoc.render_doc(at, renderer=pydoc.plaintext)
    assert len(told.splitlines()) < 140
    assert at.__doc__.splitlines()[-1].strip() in told
    assert "CLASSES" not in told
    assert at.__version__ in told
    assert "Trace" in pydoc.render_doc(at.Trace, renderer=pydoc.plaintext)  # a name's own help is whole


def test_that_other_readers_see_every_name():
    found = dict(inspect.getmembers(at))
    assert set(found) == {*NAMES, "__version__"}
    assert [name for name, _ in inspect.getmembers(at, inspect.isclass)] == sorted(CLASSES)


@pytest.mark.parametrize("name", NAMES)
def test_that_every_name_has_a_part_with_words(name):
    assert name in PARTS
    assert (getattr(at, name).__doc__ or "").strip()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_that_every_argument_is_there_and_explained(name):
    function = FUNCTIONS[name]
    words = function.__doc__ or ""
    assert words.strip(), f"{name} has no docstring"
    for one in maker.arguments_of(function):
        assert f"- `{one.arg}`: " in PARTS[name], one.arg
        said = one.arg in maker.ARGUMENTS or re.search(rf"\b{one.arg}\b", words)
        assert said, f"{name} does not say what {one.arg} is"
    for error in re.findall(r"\b\w+Error\b", words):
        assert error in PARTS[name]


@pytest.mark.parametrize("name", [name for name in CLASSES if name not in maker.MADE])
def test_that_every_field_is_there_and_explained(name):
    kind = getattr(at, name)
    for field in getattr(kind, "__dataclass_fields__", ()):
        assert f"- `{field}`: " in PARTS[name]
        assert re.search(rf"\b{field}s?\b", kind.__doc__), f"{name} does not say what {field} is"


def test_that_units_are_told():
    assert not [
        unit for unit in ("nats", "millimetres", "points", "dots per inch", "tokens") if unit not in PAGE
    ]
    for name, part in PARTS.items():
        for field, unit in (("width_mm", "millimetres"), ("font_pt", "points"), ("dpi", "dots per inch")):
            assert f"`{field}`" not in part or unit in part, name


def test_that_the_help_has_the_pages():
    pages = {page.name: page for page in read_help(CHECKOUT / "resources" / "help")}
    assert pages["python"].text.count("## ") > len(NAMES)
    for call in re.findall(r"\bat\.(\w+)", pages["coming-from"].text):
        assert call in NAMES, call


def test_that_the_package_says_it_is_typed():
    assert (CHECKOUT / "attnscope" / "py.typed").is_file()


def test_that_the_program_of_a_user_names_every_name():
    text = (CHECKOUT / "tests" / "user_program.py").read_text(encoding="utf-8")
    assert {name for name in at.__all__ if not re.search(rf"\bat\.{name}\b", text)} == set()


def test_that_the_program_of_a_user_is_typed_strictly_with_the_rest():
    mypy = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert mypy["strict"]
    assert "tests/user_program.py" in mypy["files"]
