"""`attnscope bench` tells each row once it is measured, what could not be measured, and how it ended."""

import io
import json
import os
import sys
from pathlib import Path
from types import MappingProxyType

import pytest

from attnscope.cli.main import main
from attnscope.errors import UserError
from bench import groups
from bench.groups import Group, Wish
from bench.report import Doing, Measurement, NotRun, Rows

KEPT = Measurement(name="quick", value=1.0, unit="ms", target=2.0)
MISSED = Measurement(name="slow", value=3.0, unit="ms", target=2.0)
TOLD = Measurement(name="told", value=7.0, unit="tokens/s")
ABSENT = NotRun(name="beside BertViz", reason="bertviz is not installed")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[object]]:
    """What each group gives, to be filled; an exception is raised."""
    found: dict[str, list[object]] = {"grid": [], "lag": []}

    def group(name: str) -> Group:
        def measure(wish: Wish) -> Rows:
            for row in found[name]:
                if isinstance(row, BaseException):
                    raise row
                assert isinstance(row, Measurement | NotRun | Doing)
                yield row

        return Group(f"what {name} is about", measure)

    monkeypatch.setattr(groups, "GROUPS", MappingProxyType({name: group(name) for name in found}))
    return found


@pytest.mark.parametrize(
    ("rows", "code", "told"),
    [
        ([KEPT, TOLD], 0, "2 rows: 1 ok. "),
        ([KEPT, MISSED], 1, "2 rows: 1 ok. 1 too high: slow. "),
        ([KEPT, ABSENT], 0, "2 rows: 1 ok. 1 not run: beside BertViz. "),
        ([KEPT, UserError("No demo model.")], 1, "2 rows: 1 ok. 1 not run: the rest of grid. "),
    ],
)
def test_that_the_summary_and_the_exit_code_say_how_it_went(
    measured: dict[str, list[object]],
    capsys: pytest.CaptureFixture[str],
    rows: list[object],
    code: int,
    told: str,
) -> None:
    measured["grid"] = rows
    assert main(["bench", "grid"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "grid: what grid is about"
    assert lines[-1].startswith(told)


def test_that_what_could_not_be_measured_is_told_with_its_reason_and_the_next_group_runs(
    measured: dict[str, list[object]], capsys: pytest.CaptureFixture[str]
) -> None:
    measured["grid"] = [ABSENT, UserError("There is no demo model to measure with.")]
    measured["lag"] = [KEPT]
    assert main(["bench"]) == 1
    out = capsys.readouterr().out
    assert "NOT RUN  bertviz is not installed" in out
    assert "NOT RUN  There is no demo model to measure with." in out
    assert "quick" in out


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="this system does not say how busy it is")
def test_that_a_busy_machine_is_told(
    measured: dict[str, list[object]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured["grid"] = [KEPT]
    for load, is_told in ((0.1, False), (1e3, True)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, load, load))
        main(["bench", "grid"])
        assert ("The machine had other work" in capsys.readouterr().out) is is_told


def test_that_a_row_is_printed_before_the_next_is_measured(
    measured: dict[str, list[object]], capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    class Looking(list[object]):
        def __iter__(self):
            yield KEPT
            seen.append(capsys.readouterr().out)
            yield MISSED

    measured["grid"] = Looking()
    main(["bench", "grid"])
    assert "quick" in seen[0]
    assert "slow" not in seen[0]


def test_that_lines_of_json_come_as_they_are_measured_and_a_file_holds_all(
    measured: dict[str, list[object]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    measured["grid"] = [MISSED, ABSENT]
    assert main(["bench", "grid", "--json"]) == 1
    first, second, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first | {"group": "grid", "name": "slow", "value": 3.0, "is_met": False} == first
    assert second["not_run"] == "bertviz is not installed"
    assert last["machine"]["n_cores"] >= 1
    file = tmp_path / "bench.json"
    assert main(["bench", "grid", "--json", str(file)]) == 1
    assert [row["name"] for row in json.loads(file.read_text())["groups"]["grid"]] == [
        "slow",
        "beside BertViz",
    ]


def test_that_what_was_measured_is_in_the_file_when_the_rest_is_given_up(
    measured: dict[str, list[object]], tmp_path: Path
) -> None:
    measured["grid"], measured["lag"] = [KEPT], [MISSED, KeyboardInterrupt()]
    file = tmp_path / "bench.json"
    assert main(["bench", "--json", str(file)]) == 130
    found = json.loads(file.read_text())["groups"]
    assert {name: [row["name"] for row in rows] for name, rows in found.items()} == {
        "grid": ["quick"],
        "lag": ["slow"],
    }


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_that_a_terminal_is_told_what_is_measured_and_a_file_is_not(
    measured: dict[str, list[object]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured["grid"] = [Doing("the grid of 144 heads"), KEPT]
    main(["bench"])
    assert capsys.readouterr().err == ""
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    main(["bench"])
    assert "grid (1 of 2), 0 s: the grid of 144 heads" in terminal.getvalue()
    assert terminal.getvalue().endswith(f"\r{' ' * 79}\r")
    assert "\x1b" not in terminal.getvalue()  # a terminal may know no escapes


def test_that_the_help_tells_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    assert "Exit status 0: every measured limit was kept" in " ".join(capsys.readouterr().out.split())


def test_that_an_installed_program_says_where_the_benchmarks_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    installed = tmp_path / "site-packages" / "attnscope" / "paths.py"
    monkeypatch.setattr("attnscope.paths.__file__", str(installed))
    assert main(["bench", "grid"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "attnscope: The benchmarks are not installed with AttnScope. "
        "Run 'python -m attnscope bench' in the root of a checkout of its source.\n"
    )
    assert main(["bench", "--help"]) == 0
    assert "an installed copy has none" in " ".join(capsys.readouterr().out.split())
