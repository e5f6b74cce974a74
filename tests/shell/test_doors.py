"""Tests come through doors: the internal modules that they import are counted, and become no more."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
MOST = 140
"""May only be lowered: whoever rebuilds the inside has so many names to keep."""


def _module_of(path: Path) -> str:
    parts = path.relative_to(CHECKOUT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module_of(path) for path in (CHECKOUT / "attnscope").rglob("*.py")}


def imported_in(source: str) -> Iterator[str]:
    """The modules of the package that a source imports, or imports names from."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "attnscope":
            for one in node.names:
                whole = f"{node.module}.{one.name}"
                yield whole if whole in MODULES else str(node.module)


def test_that_tests_import_no_more_internal_modules_than_before() -> None:
    found = {
        module
        for path in (CHECKOUT / "tests").rglob("*.py")
        for module in imported_in(path.read_text(encoding="utf-8"))
    }
    assert len(found) <= MOST, (
        f"{len(found)} modules: a new one is better asked through a door (CONTRIBUTING.md)"
    )


def _opened(package: Path) -> dict[str, list[str]]:
    """What a package imports under TYPE_CHECKING beside a door, by file: names, or a star."""
    return {
        str(one.module): [name.name for name in one.names]
        for node in ast.parse((package / "__init__.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and "door_of" in ast.unparse(node)
        for one in node.body
        if isinstance(one, ast.ImportFrom) and one.module in MODULES
    }


def _defined(module: str) -> Iterator[str]:
    """The public names that a module makes itself."""
    path = CHECKOUT / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = [node.name]
        else:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            names = [one.id for one in targets if isinstance(one, ast.Name)]
        yield from (name for name in names if not name.startswith("_"))


DOORS = sorted(path.parent for path in (CHECKOUT / "attnscope").rglob("__init__.py") if _opened(path.parent))


@pytest.mark.parametrize("package", DOORS, ids=lambda package: package.name)
def test_that_a_door_gives_what_type_checkers_read(package: Path) -> None:
    door = import_module(_module_of(package / "__init__.py"))
    for module, names in _opened(package).items():
        inside = import_module(module)
        made = [*_defined(module)] if names == ["*"] else names
        for name in made:
            if names == ["*"] and f"{door.__name__}.{name}" in MODULES:
                continue  # the name of a file stays the file's
            found, meant = getattr(door, name), getattr(inside, name)
            assert found is meant or found == meant, name  # such as aliases of a type
            assert name in dir(door)


@pytest.mark.parametrize("package", DOORS, ids=lambda package: package.name)
def test_that_a_door_says_what_it_lacks(package: Path) -> None:
    door = import_module(_module_of(package / "__init__.py"))
    with pytest.raises(AttributeError, match=rf"module '{door.__name__}' has no attribute 'nothing'"):
        door.nothing  # noqa: B018
    with pytest.raises(ImportError, match=f"cannot import name 'nothing' from '{door.__name__}'"):
        exec(f"from {door.__name__} import nothing")


def test_that_every_way_of_importing_is_counted() -> None:
    source = (
        "import attnscope.errors, attnscope as at\n"
        "from attnscope import labs, lab\n"
        "def late():\n    from attnscope.labs import LABS, cost as other\n"
        "import attnscopes, os.path\n"
    )
    assert sorted(imported_in(source)) == sorted(
        [
            "attnscope.errors",
            "attnscope",
            "attnscope.labs",
            "attnscope",
            "attnscope.labs",
            "attnscope.labs.cost",
        ]
    )
