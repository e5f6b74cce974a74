"""Tests come through doors: the internal modules that they import are counted, and become no more."""

import ast
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
MOST = 316
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
