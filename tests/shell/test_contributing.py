"""What CONTRIBUTING.md names is there: paths, names, commands, markers, options."""

import re
import tomllib
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))
COMMANDS = [
    command.strip()
    for block in re.findall(r"```bash\n(.*?)```", TEXT, flags=re.DOTALL)
    for line in block.splitlines()
    for command in re.split(r"&&", line.partition(" #")[0])
    if command.strip()
]
PROGRAMS = ("ruff", "mypy", "lint-imports", "python")
FOREIGN = {
    "QSettings", "QThread", "QSvgGenerator", "QPdfWriter", "ImageItem", "PanicException", "None", "dict",
    "list", "PySide6", "torch.save", "head_mask", "output_attentions", "json.loads",
}  # fmt: skip
"""Names of libraries, which need not stand in our code."""


def is_path(name: str) -> bool:
    return re.fullmatch(r"[\w./-]+", name) is not None and (
        "/" in name or name.endswith((".py", ".md", ".toml"))
    )


def test_that_the_page_is_short() -> None:
    assert len(TEXT.splitlines()) <= 250


@pytest.mark.parametrize("path", sorted({name for name in QUOTED if is_path(name)}))
def test_that_every_path_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_that_every_name_stands_in_the_code() -> None:
    folders = (ROOT / "attnscope", ROOT / "tests")
    code = "\n".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py"))
    words = set(re.findall(r"\w+", code))
    plain = {name for name in QUOTED if re.fullmatch(r"@?[A-Za-z][\w.]*(\(…\))?", name) and not is_path(name)}
    named = {part for name in plain - FOREIGN for part in re.findall(r"\w+", name)}
    assert not {name for name in named if name not in words}


def test_that_a_name_beside_a_path_stands_in_that_file() -> None:
    pairs = re.findall(r"`@?([A-Za-z_][\w.]*)`\s\(`(attnscope/[\w/]+\.py|tests/[\w/]+\.py)`", TEXT)
    assert len(pairs) >= 15
    missing = [
        (name, path)
        for name, path in pairs
        for part in name.split(".")
        if not re.search(rf"\b{part}\b", (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not missing


@pytest.mark.parametrize("command", COMMANDS)
def test_that_every_command_can_be_run(command: str) -> None:
    if command.startswith(". "):
        return
    program, *arguments = command.split()
    assert program in PROGRAMS
    if program == "python":
        assert arguments[0] == "-m"
        assert find_spec(arguments[1]) is not None
    elif find_spec("ruff") is not None:  # the extra dev is installed
        assert program == "ruff" or entry_points(group="console_scripts", name=program)
    for argument in arguments:
        assert not argument.startswith("tests/") or (ROOT / argument).is_file()


def test_that_markers_options_and_extras_are_known(pytestconfig: pytest.Config) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    markers = {one.partition(":")[0] for one in project["tool"]["pytest"]["ini_options"]["markers"]}
    (chosen,) = re.findall(r'-m "([^"]+)"', TEXT)
    assert set(re.findall(r"\w+", chosen)) - {"not", "and", "or"} <= markers
    (extras,) = re.findall(r'install "\.\[([\w,]+)\]"', TEXT)
    assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])
    for option in re.findall(r"--update-\w+", TEXT):
        assert pytestconfig.getoption(option) is False
