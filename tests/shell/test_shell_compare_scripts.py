"""The scripts of the Compare page make one figure, and the page's own."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attnscope import from_arrays
from attnscope.cli.main import main
from attnscope.records import Gates, HeadRef, MakeUniform
from attnscope.viewmodels.compare import SideWish
from attnscope.viewmodels.session import ShownComparison, comparison_command, comparison_script

HEAD = HeadRef(stack="cross", layer=1, head=1)


def wish(text: str, target: str | None = None, *, gates: Gates = Gates()) -> SideWish:  # noqa: B008
    return SideWish(source="grammar", model="", text=text, target=target, gates=gates, interventions=())


BEFORE = wish("the area is large", "la zone est grande")
OFF = Gates.of({HeadRef(stack="encoder", layer=0, head=0): 0.0})
CASES = (
    ShownComparison(
        first=BEFORE, second=replace(BEFORE, gates=OFF), head=HEAD, second_head=HEAD, end=0.25, way="pieces"
    ),
    ShownComparison(
        first=replace(BEFORE, gates=OFF),
        second=wish("the small area is large"),
        head=HEAD,
        second_head=replace(HEAD, stack="decoder"),
        way="position",
    ),
)


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as data:
        return {name: data[name] for name in data.files if name.startswith("cross")}


@pytest.mark.slow
def test_that_script_and_command_make_the_same_difference(tmp_path: Path, capsys) -> None:
    for k, shown in enumerate(CASES):
        by_python, by_command = tmp_path / f"{k}a.npz", tmp_path / f"{k}b.npz"
        exec(compile(comparison_script(shown, str(by_python)), "script", "exec"), {})
        assert main(shlex.split(comparison_command(shown, str(by_command)))[1:]) == 0
        first, second = arrays(by_python), arrays(by_command)
        assert first.keys() == second.keys()
        assert len(first) >= 3
        for name, values in first.items():
            np.testing.assert_array_equal(values, second[name], err_msg=name)
        assert np.nanmax(np.abs(first["cross_L1H1_difference"])) > 0
    printed = capsys.readouterr().out.splitlines()[0]
    assert json.loads(printed.replace("(", "[").replace(",)", "]").replace(")", "]"))[0] > 0  # KL in nats


def test_that_recorded_attention_is_loaded_and_has_its_own_text(tmp_path: Path) -> None:
    words, rng = ["the", "cat", "sat"], np.random.default_rng(0)
    files = []
    for name in "ab":
        files.append(str(tmp_path / f"{name}.safetensors"))
        from_arrays(rng.dirichlet(np.ones(3), size=(1, 2, 3)), words, name=name).save(Path(files[-1]))
    head = HeadRef(stack="encoder", layer=0, head=1)
    first, second = (replace(wish("the cat sat"), source=file) for file in files)
    shown = ShownComparison(
        first=first, second=second, head=head, second_head=head, are_recorded=(True, True)
    )
    by_python, by_command = tmp_path / "a.npz", tmp_path / "b.npz"
    exec(compile(comparison_script(shown, str(by_python)), "script", "exec"), {})
    assert main(shlex.split(comparison_command(shown, str(by_command)))[1:]) == 0
    with np.load(by_python) as one, np.load(by_command) as other:
        name = next(name for name in one.files if name.endswith("difference"))
        np.testing.assert_array_equal(one[name], other[name])
        assert np.abs(one[name]).max() > 0


def test_that_changes_of_single_heads_are_in_the_script_and_told_as_missing_in_the_command() -> None:
    changed = replace(BEFORE, interventions=(MakeUniform(head=HEAD),))
    shown = replace(CASES[0], second=changed)
    assert "second_changes" in comparison_script(shown)
    assert shown.left_out == changed.interventions
    assert CASES[0].left_out == ()
