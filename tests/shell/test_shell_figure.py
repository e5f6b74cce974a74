"""`attnscope figure`: panels, figure files, pages, and one figure for every line of a file."""

import json
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from PIL import Image

import attnscope as at
from attnscope.cli import main as cli
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.records import HeadRef
from attnscope.viewmodels.training import Quantity

pytestmark = pytest.mark.slow

TEXT = ("--text", "the cat sat", "--target", "le chat", "--stack", "cross")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and standard error."""
    code = cli.main(["figure", *arguments])
    return code, capsys.readouterr().err


def test_that_a_figure_file_draws_the_same_page_again(capsys, tiny_model, tmp_path: Path):
    wish = (*TEXT, "--head", "L0H1,L1H0", "--panels", "--also", "lines,grid", "--size", "double", "--caption")
    wish = (*wish, "--gate", "cross:L0H0=0", "--turn", "45", "--scale", "head", "--title", "T")
    kept, first, second = (tmp_path / name for name in ("p.figure.json", "first.svg", "second.svg"))
    assert run(capsys, tiny_model, *wish, "-o", str(kept)) == (0, "")
    assert run(capsys, tiny_model, *wish, "-o", str(first)) == (0, "")
    assert run(capsys, str(kept), "-o", str(second)) == (0, "")
    assert first.read_bytes() == second.read_bytes()
    content = json.loads(kept.read_bytes())
    content["model"]["sha256"] = "0" * 64
    kept.write_text(json.dumps(content))
    code, err = run(capsys, str(kept), "-o", str(tmp_path / "third.pdf"))
    assert code == 0
    assert "warning: the weights" in err
    content["heads"] = [["cross", 7, 0]]
    kept.write_text(json.dumps(content))
    assert run(capsys, str(kept), "-o", str(second))[0] == 2


def test_that_no_view_is_offered_that_the_command_does_not_know(capsys, tiny_model, tmp_path: Path):
    assert cli.main(["figure", "--help"]) == 0
    offered = re.search(r"--view \{([^}]*)\}", capsys.readouterr().out)
    assert offered is not None
    wish = (tiny_model, *TEXT, "--head", "L0H0", "-o", str(tmp_path / "a.svg"), "--view")
    told = {view: run(capsys, *wish, view) for view in offered[1].split(",")}
    assert len(told) > 10
    assert not {view: err for view, (_, err) in told.items() if "has no view" in err}


def test_that_a_page_shows_every_head_of_the_grid(capsys, tiny_model, tmp_path: Path):
    assert run(capsys, tiny_model, *TEXT, "-o", str(tmp_path / "page.html"))[0] == 0
    names = re.findall(r'"name":"(L\dH\d) cross"', (tmp_path / "page.html").read_text())
    assert names == ["L0H0", "L0H1", "L1H0", "L1H1"]


def test_that_every_line_and_head_has_a_file_and_none_is_replaced_unasked(capsys, tiny_model, tmp_path: Path):
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat\n\nle chat\tthe mat\nthe ../../x <b>\n")
    wish = (tiny_model, "-f", str(lines), "--each", "--stack", "cross", "--layer", "1")
    out = ("-o", str(tmp_path / "out" / "{n}-{head}-{text}.svg"))
    assert run(capsys, *wish, *out) == (0, "")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert len(names) == 6
    assert names[0] == "1-L1H0-the-cat.svg"
    assert names[4].startswith("3-L1H0-the-x-b")
    code, err = run(capsys, *wish, *out)
    assert code == 2
    assert "6 of 6 files exist" in err
    assert run(capsys, *wish, *out, "--overwrite", "--head", "0") == (0, "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("{x}.svg", "unknown field"),
        ("a{n.svg", "unknown field"),
        ("one.svg", "one file"),
        ("{text}.svg", "Two figures"),
    ],
)
def test_that_names_that_cannot_tell_figures_apart_are_refused(
    capsys, tiny_model, tmp_path: Path, name: str, words: str
):
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat\nthe cat\n")
    code, err = run(capsys, tiny_model, "-f", str(lines), "--each", "-o", str(tmp_path / name))
    assert code == 2
    assert words in err
    assert len(list(tmp_path.iterdir())) == 1


def test_that_a_line_of_three_texts_is_named_before_any_figure_is_drawn(capsys, tiny_model, tmp_path: Path):
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat ||| le chat\n\nthe ||| le ||| la\n")
    code, err = run(capsys, tiny_model, "-f", str(lines), "--each", "-o", str(tmp_path / "{n}.svg"))
    assert code == 2
    assert f"Line 3 of {lines} has 3 texts with three bars between: 'the ||| le ||| la'" in err
    assert list(tmp_path.iterdir()) == [lines]


def test_that_a_line_that_cannot_be_drawn_is_told_and_the_others_are_drawn(
    capsys, tiny_model, tmp_path: Path, monkeypatch
):
    trace = Model.trace

    def traced(model, text, *rest, **more):
        if "mat" in text:
            raise UserError("No.")
        return trace(model, text, *rest, **more)

    monkeypatch.setattr(Model, "trace", traced)
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat\nthe mat\n" + "the cat sat " * 40)
    wish = (tiny_model, "-f", str(lines), "--each", "--stack", "encoder", "-o", str(tmp_path / "{n}.svg"))
    code, err = run(capsys, *wish)
    assert (code, len(list(tmp_path.glob("*.svg")))) == (2, 2)
    assert "line 2: No." in err
    assert "line 3: only the first" in err
    assert "2 of 3 lines were drawn; not line 2" in err


def test_that_panels_and_batches_need_what_they_are_made_of(capsys, tiny_model, tmp_path: Path):
    out = ("-o", str(tmp_path / "x.svg"))
    assert "--panels" in run(capsys, tiny_model, *TEXT, "--also", "grid", *out)[1]
    assert "needs a layer" in run(capsys, tiny_model, *TEXT, "--panels", *out)[1]
    assert "needs a layer" in run(capsys, tiny_model, *TEXT, "--view", "panels", "--also", "grid", *out)[1]
    assert "reads text, not pictures" in run(capsys, tiny_model, *TEXT, "--view", "picture", *out)[1]
    assert "-f FILE" in run(capsys, tiny_model, *TEXT, "--each", *out)[1]


def test_that_words_are_not_asked_of_what_has_none(capsys, tmp_path: Path) -> None:
    model = at.load("pictures", device="cpu")
    picture = Image.new("RGB", (32, 32), "red")
    picture.save(tmp_path / "red.png")
    wish = ("pictures", "--text", str(tmp_path / "red.png"), "--by-word", "-o", str(tmp_path / "x.svg"))
    assert model.info.reads == "picture"
    code, err = run(capsys, *wish)
    assert code == 2
    assert "reads a picture, which has no words" in err


def test_that_the_only_head_of_a_stack_needs_no_name(capsys, tmp_path: Path) -> None:
    trace = at.from_arrays(
        {"cross": np.full((1, 1, 3, 2), 0.5), "decoder": np.full((1, 2, 3, 3), 1 / 3)},
        list("ab"),
        list("xyz"),
    )
    path = str(tmp_path / "trace.safetensors")
    trace.save(path)
    kept = tmp_path / "x.figure.json"
    assert run(capsys, path, "--view", "head", "--stack", "cross", "-o", str(kept)) == (0, "")
    assert at.load_figure(kept).spec.maps[0].head == HeadRef(stack="cross", layer=0, head=0)
    code, err = run(capsys, path, "--view", "head", "--stack", "decoder", "-o", str(tmp_path / "y.svg"))
    assert code == 2
    assert "needs a layer" in err


def test_that_panels_of_several_stacks_and_texts_share_a_page_and_a_file(capsys, tiny_model, tmp_path: Path):
    kept, first, second = (tmp_path / name for name in ("p.figure.json", "first.svg", "second.svg"))
    wish = (tiny_model, "--text", "the cat sat", "--target", "le chat", "--columns", "2", "--caption")
    wish += (
        "--panel",
        "encoder L0H1",
        "--panel",
        "cross L1H0 | text=the | target=le",
        "--panel",
        "grid cross",
    )
    wish += ("--panel", "lines cross:L0H0, L0H1 | title=both | gate=cross:L0H0=0")
    assert run(capsys, *wish, "-o", str(kept)) == (0, "")
    assert run(capsys, *wish, "-o", str(first)) == (0, "")
    assert run(capsys, str(kept), "-o", str(second)) == (0, "")
    assert first.read_bytes() == second.read_bytes()
    shown = first.read_text(encoding="utf-8")
    for words in ("L0H1 encoder", "L1H0 cross", "“the”", "“the cat sat”", "cross, all heads", "both"):
        assert f">{words}</text>" in shown
    assert "d: gates cross L0H0 off" in " ".join(re.findall(">([^<]*)</text>", shown))
    assert run(capsys, str(kept), "--size", "single", "--colour-map", "greys", "-o", str(second)) == (0, "")
    assert run(capsys, str(kept), "--hidden", "first", "-o", str(second))[0] == 2


@pytest.mark.parametrize(
    ("panel", "words"),
    [
        ("cross L9H0", "Panel b ('cross L9H0'): The model has no head L9H0"),
        ("L0H0", "Panel b ('L0H0'): The model has 3 stacks"),
        ("pool L0H0", 'for instance --panel "cross L0H0"'),
        ("cross L0H0 | model=nowhere", "Panel b ('cross L0H0 | model=nowhere'): There is no model"),
        ("cross L0H0 | txt=x", "Panel b ('cross L0H0 | txt=x') is not understood"),
        ("cross L0H0,L0H1", "is not understood"),
        ("grid nothing", "Panel b ('grid nothing'): The model has no stack 'nothing'"),
        ("cross L0H0 | text=", "Panel b ('cross L0H0 | text='): There is no text"),
    ],
)
def test_that_an_error_names_its_panel(capsys, tiny_model, tmp_path: Path, panel: str, words: str):
    wish = ("--text", "the cat", "--panel", "encoder L0H0", "--panel", panel, "-o", str(tmp_path / "x.svg"))
    code, err = run(capsys, tiny_model, *wish)
    assert code == 2
    assert words in err
    assert not list(tmp_path.iterdir())


def test_that_panels_leave_nothing_to_options_of_one_head(capsys, tiny_model, tmp_path: Path):
    wish = ("--text", "the cat", "--panel", "encoder L0H0", "-o", str(tmp_path / "x.svg"))
    for extra in (("--head", "L0H0"), ("--view", "lines"), ("--layer", "0"), ("--each",)):
        code, err = run(capsys, tiny_model, *wish, *extra)
        assert (code, extra[0] in err) == (2, True)


def test_that_an_option_that_the_view_does_not_read_is_told(capsys, tiny_model, tmp_path: Path):
    wish = (tiny_model, *TEXT[:2], "--head", "encoder:L0H0", "-o", str(tmp_path / "x.svg"))
    for view in ("head", "lines", "grid"):
        for extra, meant in (
            (("--query", "1"), "picture and graph"),
            (("--threshold", "0.1"), "graph"),
            (("--charts", "loss"), "curves"),
            (("--only", "1"), "waves"),
            (("--with-text", "the dog"), "difference"),
        ):
            code, err = run(capsys, *wish, "--view", view, *extra)
            told = f"attnscope: {extra[0]} has no effect on the view {view}: it is for {meant}.\n"
            assert (code, told in err) == (0, True), err


def test_that_the_help_and_the_docstring_name_every_chart_of_a_run(capsys):
    cli.main(["figure", "--help"])
    help_page = " ".join(capsys.readouterr().out.split())
    names = get_args(Quantity)
    assert f"some of {', '.join(names)} (default" in help_page
    told = " ".join((at.curves_figure.__doc__ or "").split())
    assert f"some of {', '.join(names[:-1])} and {names[-1]} (empty" in told


def test_that_figures_of_no_text_are_kept_and_drawn_again(capsys, tiny_model, tmp_path: Path):
    kept, first, second = (tmp_path / name for name in ("p.figure.json", "first.svg", "second.svg"))
    for wish in (
        (tiny_model, "--view", "positions", "--caption"),
        (tiny_model, *TEXT[:4], "--view", "graph", "--query", "1", "--threshold", "0.05", "--caption"),
        (tiny_model, *TEXT, "--view", "difference", "--head", "L0H1", "--with-text", "the mat"),
    ):
        assert run(capsys, *wish, "-o", str(kept)) == (0, "")
        assert run(capsys, *wish, "-o", str(first)) == (0, "")
        assert run(capsys, str(kept), "-o", str(second)) == (0, "")
        assert first.read_bytes() == second.read_bytes()
    assert (
        "--query 'x'"
        in run(capsys, tiny_model, *TEXT, "--view", "graph", "--query", "x", "-o", str(first))[1]
    )
    assert "--caption" in run(capsys, str(kept), "--caption", "-o", str(second))[1]
    assert "--columns" in run(capsys, str(kept), "--columns", "2", "-o", str(second))[1]
    assert run(capsys, str(kept), "--title", "T", "--width-mm", "120", "-o", str(second)) == (0, "")
    assert ">T</text>" in second.read_text(encoding="utf-8")


def test_that_the_command_line_takes_rows(tiny_model, tmp_path: Path, capsys):
    wish = ("--text", "the cat sat", "--target", "le chat", "--view", "head", "--head", "cross:L0H0")
    kept, out = tmp_path / "a.figure.json", tmp_path / "a.csv"
    for rows in ("written", "read"):
        assert cli.main(["figure", tiny_model, *wish, "--rows", rows, "-o", str(out)]) == 0
        assert ("written token" in out.read_text()) == (rows == "written")
    assert cli.main(["figure", tiny_model, *wish, "--rows", "read", "-o", str(kept)]) == 0
    assert json.loads(kept.read_text())["aspect"]["rows"] == "read"
    assert cli.main(["figure", str(kept), "--rows", "written", "-o", str(out)]) == 0
    assert "written token" in out.read_text()
    capsys.readouterr()


def test_that_the_command_line_takes_axes_fonts_and_special_tokens(capsys, tiny_model, tmp_path: Path):
    wish = (tiny_model, *TEXT, "--view", "head", "--head", "L0H0")
    kept, out, table = (tmp_path / name for name in ("a.figure.json", "a.svg", "a.csv"))
    look = ("--key-name", "Key (English)", "--query-name", "Query (French)", "--no-special", "--badge")
    assert run(capsys, *wish, *look, "-o", str(kept)) == (0, "")
    assert run(capsys, *wish, *look, "-o", str(out)) == (0, "")
    again = tmp_path / "b.svg"
    assert run(capsys, str(kept), "-o", str(again)) == (0, "")
    assert again.read_bytes() == out.read_bytes()
    assert "Key (English)" in out.read_text()
    assert "Query (French)" in out.read_text()
    assert run(capsys, *wish, *look, "-o", str(table)) == (0, "")
    assert "<s>" not in {row.split(",")[-3] for row in table.read_text().splitlines()}
    strange = ("grammar", "--text", "the zebra sleeps", "--view", "head", "--head", "encoder:L0H1")
    assert run(capsys, *strange, "--no-special", "-o", str(table))[0] == 0
    queries = [row.split(",")[4] for row in table.read_text().splitlines()[1:]]
    assert list(dict.fromkeys(queries)) == ['"the"', '"<unk>"', '"sleeps"']
    code, err = run(capsys, *wish, "--font", "Nonesuch Sans", "-o", str(out))
    assert code == 2
    assert "no font 'Nonesuch Sans'" in err
    assert run(capsys, str(kept), "--key-name", "K", "-o", str(again)) == (0, "")
    assert "Key (English)" not in again.read_text()
