"""Options that would do nothing are refused or said; those that can be applied are."""

import json
import shutil
from pathlib import Path

import pytest

from attnscope.cli import main as cli
from attnscope.figures import read_figure_file

TEXT = ("--text", "the cat sat", "--target", "le chat", "--stack", "cross")
OTHER = ("--layer", "1", "--view", "grid", "--gate", "cross:L0H0=0", "--by-word")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and standard error."""
    code = cli.main(list(arguments))
    return code, capsys.readouterr().err


@pytest.mark.slow
def test_that_a_figure_drawn_again_takes_page_and_look_and_refuses_what_would_do_nothing(
    capsys, tiny_model, tmp_path: Path
):
    first, second = tmp_path / "a.figure.json", tmp_path / "b.figure.json"
    wish = (*TEXT, "--view", "head", "--head", "L0H1", "--scale", "head", "--colour-map", "magma")
    assert run(capsys, "figure", tiny_model, *wish, "-o", str(first)) == (0, "")
    again = ("figure", str(first), "-o", str(second))
    look = ("--scale", "fixed", "--width-mm", "120", "--font-pt", "9", "--dpi", "150", "--title", "T")
    assert run(capsys, *again, *look, "--caption", "--values", "--turn", "45", "--no-bar") == (0, "")
    before, after = read_figure_file(first), read_figure_file(second)
    style = after.style
    assert (style.scale, style.colour_map, style.turn) == ("fixed", "magma", 45)  # the second as it was
    assert (style.show_values, style.has_bar) == (True, False)
    assert (after.width_mm, after.font_pt, after.dpi, after.title, after.has_caption) == (
        120,
        9,
        150,
        "T",
        True,
    )
    assert (before.style.scale, before.title, before.has_caption) == ("head", "", False)
    assert after.height_mm != before.height_mm  # it follows the width
    assert run(capsys, *again, "--size", "slide") == (0, "")
    assert read_figure_file(second).height_mm == 190.5
    code, err = run(capsys, *again, *OTHER)
    assert code == 2
    assert "--by-word, --gate, --layer, --view would have no effect" in err
    assert "no colour map" in run(capsys, *again, "--colour-map", "jet")[1]
    assert "--columns" in run(capsys, *again, "--columns", "2")[1]


def test_that_a_model_is_found_from_the_figure_file(capsys, tiny_model, tmp_path: Path, monkeypatch):
    (tmp_path / "book").mkdir()
    shutil.copytree(tiny_model, tmp_path / "book" / "tiny")
    kept = tmp_path / "book" / "a.figure.json"
    assert run(capsys, "figure", tiny_model, *TEXT, "-o", str(kept))[0] == 0
    content = json.loads(kept.read_bytes())
    content["model"]["source"] = "tiny"  # as written by a program started in that folder
    kept.write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "figure", str(kept), "-o", "a.svg") == (0, "")
    content["model"]["source"] = "gone"
    kept.write_text(json.dumps(content))
    code, err = run(capsys, "figure", str(kept), "-o", "a.svg")
    assert code == 2
    assert str(tmp_path / "book") in err


def test_that_a_run_is_not_written_into_the_folder_of_a_model(capsys, tiny_model, tmp_path: Path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    names = sorted(path.name for path in folder.iterdir())
    code, err = run(capsys, "train", "copy", "--out", str(folder))
    assert code == 2
    assert "holds a model, but no recipe" in err
    assert sorted(path.name for path in folder.iterdir()) == names


@pytest.mark.slow
def test_that_blends_over_a_layer_need_no_head_and_heads_may_name_their_stack(
    capsys, tiny_model, tmp_path: Path
):
    layer, named = tmp_path / "layer.figure.json", tmp_path / "named.figure.json"
    blend = ("--view", "head", "--blend", "mean")
    code, _ = run(
        capsys, "figure", tiny_model, *TEXT, *blend, "--over", "layer", "--layer", "1", "-o", str(layer)
    )
    assert code == 0
    assert {head.layer for head in read_figure_file(layer).heads} == {1}
    assert run(capsys, "figure", tiny_model, *TEXT, *blend, "--over", "stack", "-o", str(layer))[0] == 0
    assert "needs a layer" in run(capsys, "figure", tiny_model, *TEXT, *blend, "-o", str(layer))[1]
    text = TEXT[:4]
    two = ("--panels", "--head", "encoder:L0H0,cross:L1H1")
    assert run(capsys, "figure", tiny_model, *text, *two, "-o", str(named)) == (0, "")
    assert [(h.stack, h.label) for h in read_figure_file(named).heads] == [
        ("encoder", "L0H0"),
        ("cross", "L1H1"),
    ]


@pytest.mark.parametrize("among", [(), ("--corpus", "no-such-file")])
def test_that_an_unknown_column_is_refused_before_anything_is_read(capsys, among):
    code, err = run(capsys, "measure", "no-such-model", *among, "--sort", "foo")
    assert code == 2
    assert "There is no column 'foo'" in err


def test_that_references_with_tabs_are_refused_and_the_used_ones_named(capsys, tiny_model, tmp_path: Path):
    pairs, right = tmp_path / "pairs.tsv", tmp_path / "right.txt"
    pairs.write_text("the cat\tle chat\n")
    right.write_text("le chat\n")
    asked = ("translate", tiny_model, "-f", str(pairs), "--max-tokens", "2", "--reference")
    assert "contain a tab" in run(capsys, *asked, str(pairs))[1]
    assert f"references of {right} are used" in run(capsys, *asked, str(right))[1]


def test_that_idle_options_of_a_ranking_are_said(capsys, tiny_model):
    asked = ("importance", tiny_model, "--ranking", "random", "--max-texts", "1")
    assert (
        "does not use --normalise and --penalty" in run(capsys, *asked, "--penalty", "0.1", "--normalise")[1]
    )


def test_that_a_path_of_gates_that_is_not_there_is_named(capsys, tiny_model, tmp_path: Path):
    out = ("-o", str(tmp_path / "out"))
    err = run(capsys, "prune", tiny_model, "--gates", str(tmp_path / "g.json"), *out)[1]
    assert f"There is no file {tmp_path / 'g.json'}" in err
    assert "Check the path" in err
