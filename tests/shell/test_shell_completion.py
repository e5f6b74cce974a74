"""What shells complete, asked of real shells; and the examples in the help of each command."""

import argparse
import contextlib
import io
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from attnscope.cli import main as cli
from attnscope.cli.main import EXAMPLES, examples_text

CASES = [
    ("attnscope fig", {"figure"}),
    ("attnscope --ver", {"--version"}),
    ("attnscope --device cp", {"cpu"}),
    ("attnscope --device cpu fig", {"figure"}),
    ("attnscope figure gramm", {"grammar"}),
    ("attnscope figure not", {"notes.txt"}),
    ("attnscope figure grammar --view posi", {"positions"}),
    ("attnscope figure --view grid gramm", {"grammar"}),
    ("attnscope figure --caption gramm", {"grammar"}),
    ("attnscope figure grammar --colour", {"--colour-map"}),
    ("attnscope figure grammar -o not", {"notes.txt"}),
    ("attnscope train --resume not", {"notes.txt"}),
    (
        "attnscope train rever",
        {
            "reverse",
            "reverse-additive",
            "reverse-bahdanau",
            "reverse-deep",
            "reverse-labels",
            "reverse-lamb",
            "reverse-luong",
        },
    ),
    ("attnscope info gpt-2-", {"gpt-2-medium", "gpt-2-large", "gpt-2-xl"}),
    ("attnscope lab 'Scaling by", {"Scaling by √d"}),
    ("attnscope bench ty", {"typing"}),
    ("attnscope completion z", {"zsh"}),
    ("attnscope weights grammar gramm", set()),
    ("attnscope open not", {"notes.txt"}),
    ("attnscope not", {"notes.txt"}),
]
ASK_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_attnscope
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script of each shell, and a file to complete."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        written = io.StringIO()
        with contextlib.redirect_stdout(written):
            assert cli.main(["completion", shell]) == 0
        (folder / shell).write_text(written.getvalue(), encoding="utf-8")
    (folder / "notes.txt").write_text("", encoding="utf-8")
    return folder


def told(folder: Path, *command: str) -> str:
    """What a shell prints, in that folder."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


@pytest.mark.slow
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_that_bash_completes(scripts: Path, line: str, expected: set[str]) -> None:
    needs("bash")
    words, quote, quoted = line.partition("'")
    given = [*words.split(), quote + quoted] if quote else words.split(" ")
    assert set(told(scripts, "bash", "-c", ASK_BASH, "bash", "./bash", *given).split("\n")) - {""} == expected


@pytest.mark.slow
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_that_fish_completes(scripts: Path, line: str, expected: set[str]) -> None:
    needs("fish")
    found = told(scripts, "fish", "-c", f"source fish; complete -C {shlex.quote(line)}")
    assert {row.partition("\t")[0].replace("\\", "") for row in found.splitlines()} == expected


def test_that_zsh_understands_its_script(scripts: Path) -> None:
    needs("zsh")
    assert told(scripts, "zsh", "-f", "-n", "zsh") == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_that_a_script_names_every_command_and_option(scripts: Path, shell: str) -> None:
    script = (scripts / shell).read_text(encoding="utf-8")
    parser = cli.build_parser(tuple(cli.COMMANDS))
    (commands,) = (one.choices for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    assert [*commands] == ["open", *cli.COMMANDS]
    for command, branch in commands.items():
        assert re.search(rf"\b{command}\b", script)
        shown = [one for one in branch._actions if one.help != argparse.SUPPRESS]
        for name in (name for option in shown for name in option.option_strings):
            assert (
                name if shell != "fish" else f"-{'l' * name.startswith('--') or 's'} {name.lstrip('-')}"
            ) in script


def test_that_an_unknown_shell_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "tcsh"]) == 2
    assert "tcsh" in capsys.readouterr().err


def test_that_every_command_has_two_examples() -> None:
    assert [*EXAMPLES] == ["open", *cli.COMMANDS]
    assert all(len(examples) == 2 for examples in EXAMPLES.values())


LINES = [line for examples in EXAMPLES.values() for _, line in examples]

CHEAP = (
    "info", "lab", "study", "completion", "ask", "get", "models", "lens", "predict", "weights", "rollout"
)  # fmt: skip
DEAR = ("attnscope get gpt2", "attnscope study collapse --out studies")  # the network, minutes of training


def words_of(line: str) -> list[str]:
    """The arguments of an example, without the shell around them."""
    line = line.removeprefix('eval "$(').removesuffix(')"').partition(" > ")[0]
    program, *words = shlex.split(line)
    assert program == "attnscope"
    return words


@pytest.mark.parametrize("line", LINES)
def test_that_the_parser_takes_every_example(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = words_of(line)
    assert cli.build_parser(words).parse_args(words).command == words[0]


@pytest.mark.qt
@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in LINES if line.split()[1] in CHEAP and line not in DEAR])
def test_that_a_cheap_example_runs(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(words_of(line)) == 0, capsys.readouterr().err


def test_that_help_ends_with_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", "--help"]) == 0
    assert capsys.readouterr().out.endswith(examples_text("info"))


def test_that_no_line_of_an_example_is_wider_than_a_terminal() -> None:
    folded = [line for command in EXAMPLES for line in examples_text(command).splitlines()]
    assert max(map(len, folded)) <= 100
    for line in LINES:
        command = line.split("attnscope ")[1].split()[0]
        assert line in examples_text(command).replace(" \\\n    ", " ")
