"""What “Copy as Python” and “Copy as command line” give does make the figure again."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnscope as at
from attnscope.cli.main import main
from attnscope.records import (
    CopyPattern,
    Gates,
    HeadRef,
    MakeMean,
    MakeUniform,
    RemoveEdge,
    UseMask,
    as_interventions,
)
from attnscope.viewmodels.maps import Aspect
from attnscope.viewmodels.session import Shown, command_line, python_script


def cross(layer: int, head: int) -> HeadRef:
    return HeadRef(stack="cross", layer=layer, head=head)


SHOWN = Shown(
    source="grammar",
    text='the "european" economic area; it\'s',
    target="la zone",
    gates=Gates.of({cross(0, 1): 0.0, cross(1, 1): 0.5}),
    heads=(cross(0, 2), cross(1, 1)),
    view="lines",
    aspect=Aspect(hidden="both", is_renormalised=True, is_by_word=True),
    colour_map="magma",
    scale="row",
    least_weight=0.1,
    n_strongest=2,
)
BLEND = Shown(
    source="grammar",
    text="the area is large",
    heads=(cross(0, 2), cross(1, 1)),
    aspect=Aspect(blend="mean", over="layer"),
)
CHANGED = Shown(
    source="grammar",
    text="the area is large",
    heads=(cross(1, 1),),
    interventions=(RemoveEdge(head=cross(1, 1), query=1, key=3), MakeUniform(head=cross(0, 0))),
)


@pytest.mark.slow
@pytest.mark.parametrize("shown", [SHOWN, BLEND], ids=["lines", "blend"])
def test_that_script_and_command_make_the_same_figure(shown: Shown, tmp_path: Path):
    by_python, by_command = tmp_path / "python.svg", tmp_path / "command.svg"
    exec(compile(python_script(shown, str(by_python)), "script", "exec"), {})
    words = shlex.split(command_line(shown, str(by_command)))
    assert words[0] == "attnscope"
    assert main(words[1:]) == 0
    assert by_python.read_bytes() == by_command.read_bytes()
    assert len(by_python.read_bytes()) > 2000


def test_that_changes_of_single_heads_are_in_the_script(tmp_path: Path):
    figures = []
    for shown in (CHANGED, dataclasses.replace(CHANGED, interventions=())):
        out = tmp_path / "figure.svg"
        exec(compile(python_script(shown, str(out)), "script", "exec"), {})
        figures.append(out.read_bytes())
    assert figures[0] != figures[1]


def test_that_a_script_needs_public_names_only_and_makes_the_very_changes():
    head = cross(1, 1)
    cells = np.tril(np.ones((4, 4), bool))
    cells[3, 1] = False
    changes = (
        *CHANGED.interventions,
        MakeMean(head=head),
        CopyPattern(head=head, from_head=cross(0, 2), text='the "area"\n', target=None),
        UseMask.of_cells("encoder", cells, "of a file's list"),
    )
    script = python_script(dataclasses.replace(CHANGED, interventions=changes))
    assert [line for line in script.splitlines() if "import" in line] == ["import attnscope as at"]
    told = script[script.index("changes = ") : script.index("trace = ")]
    found: dict[str, Any] = {"at": at}
    exec(told, found)
    assert as_interventions(found["changes"], at.load("grammar").sites) == changes
    assert "'0 2-3'" in told


def test_that_a_script_keeps_to_defaults_and_quotes_what_it_must():
    script = python_script(Shown(source="nano", text='it\'s "a" \\ \n test', heads=(cross(0, 0),)))
    assert "colour_map" not in script
    assert "gates" not in script
    assert repr('it\'s "a" \\ \n test') in script
    assert command_line(Shown(source="-x", text="$(rm -rf)", heads=(cross(0, 0),))).count("'") >= 2
