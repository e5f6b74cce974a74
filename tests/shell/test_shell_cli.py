"""Every command, and how it ends."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import attnscope as at
from attnscope import __version__
from attnscope.cli import main as cli
from attnscope.cli.terminal import draw_over
from attnscope.trace import load_trace
from attnscope.viewmodels.session import KeptView, LookSaved, SavedSession, Setting, session_bytes

CHECKOUT = Path(__file__).parents[2]
TEXT = ("--text", "the cat sat", "--target", "le chat")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command in this process."""
    code = cli.main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_that_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"attnscope {__version__}\n", "")


def test_that_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in ("open", "train", "trace", "figure", "measure", "info", "bench", "--smoke", "--reset"):
        assert command in out


def test_that_info_is_text_or_json(capsys: pytest.CaptureFixture[str], tiny_model: str) -> None:
    code, out, _ = run(capsys, "info", tiny_model)
    assert code == 0
    assert "encoder-decoder" in out
    code, out, _ = run(capsys, "info", tiny_model, "--json")
    facts = json.loads(out)
    assert facts["name"] == "tiny"
    assert len(facts["sites"]) == 6


def test_that_measure_covers_every_head(capsys: pytest.CaptureFixture[str], tiny_model: str) -> None:
    code, out, _ = run(capsys, "measure", tiny_model, *TEXT)
    assert code == 0
    table, legend = out.split("\n\n")
    assert len(table.splitlines()) == 2 + 12
    assert [line.split()[0] for line in legend.splitlines()] == table.splitlines()[1].split()[1:]
    code, out, _ = run(capsys, "measure", tiny_model, *TEXT, "--json")
    measured = json.loads(out)
    assert len(measured["heads"]) == 12
    assert measured["check"]["row_sum_error"] < 1e-5


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_that_a_trace_is_written_whole(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"trace.{ending}"
    code, out, _ = run(capsys, "trace", tiny_model, *TEXT, "-o", str(path))
    assert code == 0
    assert "6 sites" in out
    if ending == "npz":
        with np.load(path, allow_pickle=False) as arrays:
            assert arrays["cross.1"].shape == (2, 3, 4)
            assert list(arrays["cross.1.queries"])[1:] == ["le", "chat"]
    else:
        assert len(load_trace(path).sites) == 6


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["svg", "pdf", "png", "csv", "npz"])
def test_that_a_figure_is_written_in_every_format(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"figure.{ending}"
    place = ("--view", "head", "--stack", "cross", "--layer", "1", "--head", "0")
    code, out, err = run(capsys, "figure", tiny_model, *TEXT, *place, "--dpi", "60", "-o", str(path))
    assert (code, err) == (0, "")
    assert "figure" in out
    assert path.stat().st_size > 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--view", "grid"),
        ("--view", "grid", "--stack", "decoder"),
        ("--view", "lines", "--stack", "cross", "--layer", "0", "--head", "0,1"),
        ("--view", "head", "--stack", "encoder", "--layer", "0", "--head", "1", "--scale", "row", "--values"),
        (
            "--caption",
            "--title",
            "A title",
            "--colour-map",
            "magma",
            "--width-mm",
            "100",
            "--height-mm",
            "90",
        ),
        ("--gate", "encoder:L0H1=0", "--gate", "cross:L1H0=0.5"),
    ],
)
def test_that_every_view_and_option_draws(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "figure.svg"
    code, _, err = run(capsys, "figure", tiny_model, *TEXT, *options, "-o", str(path))
    assert (code, err) == (0, "")
    ElementTree.fromstring(path.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--view", "head"), "3 stacks"),
        (("--view", "head", "--stack", "cross"), "needs a layer and a head"),
        (("--view", "head", "--stack", "cross", "--layer", "9", "--head", "0"), "L9H0"),
        (("--view", "head", "--stack", "cross", "--layer", "0", "--head", "x"), "not a number"),
        (("--view", "head", "--stack", "cross", "--layer", "0", "--head", "0,1"), "shows one head"),
        (("--stack", "pool"), "no stack 'pool'"),
        (("--gate", "L0H0=0"), "3 stacks"),
        (("--gate", "encoder:L0H0=2"), "0 (head removed) to 1"),
        (("--gate", "encoder:L0H0=nan"), "not understood"),
        (("--gate", "encoder:L0H7=0"), "L0H7"),
        (("--gate", "rubbish"), "not understood"),
        (("--colour-map", "rainbow"), "viridis"),
        (("--width-mm", "1"), "20 to 1200 mm"),
        (("--device", "quantum"), "quantum"),
        (("--view", "spiral"), "spiral"),
    ],
)
def test_that_a_wrong_option_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "figure.svg"
    code, out, err = run(capsys, "figure", tiny_model, *TEXT, *options, "-o", str(path))
    assert code == 2
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1
    assert not path.exists()


@pytest.mark.parametrize("name", ["figure.docx", "missing/figure.svg"])
def test_that_f57_a_figure_that_cannot_be_written_says_why(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path, name: str
) -> None:
    code, _, err = run(capsys, "figure", tiny_model, *TEXT, "-o", str(tmp_path / name))
    assert code == 2
    assert len(err.splitlines()) == 1


def test_that_an_empty_text_is_refused(capsys: pytest.CaptureFixture[str], tiny_model: str) -> None:
    code, _, err = run(capsys, "measure", tiny_model, "--text", "  ")
    assert code == 2
    assert "There is no text" in err


def test_that_a_fault_of_the_program_is_exit_code_1_and_a_named_log(
    capsys: pytest.CaptureFixture[str], tiny_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise ZeroDivisionError("of ours\x1b[31m")

    monkeypatch.setattr("attnscope.models.load", fail)
    code, out, err = run(capsys, "info", tiny_model)
    assert code == 1
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "\x1b" not in err
    log = Path(err.split("The log is ")[1].strip().rstrip("."))
    assert "ZeroDivisionError" in log.read_text()


def test_that_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "bench", "everything")
    assert code == 2
    assert "typing" in err


def test_that_neither_help_nor_version_imports_torch_or_qt() -> None:
    code = (
        "import sys; from attnscope.cli.main import main; main(['--version']); main(['--help'])\n"
        "print(sorted({'torch', 'PySide6', 'numpy', 'tokenizers'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_that_the_smoke_test_opens_traces_exports_and_ends_with_0(tiny_model: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "attnscope", "open", tiny_model, "--smoke"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 1
    assert "12 heads" in result.stdout


@pytest.mark.slow
def test_that_the_smoke_test_of_a_missing_model_fails_with_the_reason(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "attnscope", "open", str(tmp_path / "nothing"), "--smoke"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert result.returncode == 1
    assert "nothing" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def session_of(model: str, path: Path, *views: KeptView) -> str:
    """A session file with views of a model."""
    setting = Setting(text="the cat sat", target="le chat")
    saved = SavedSession(source=model, model="tiny", sha256=sha256_of(model), setting=setting)
    kept = (replace(view, saved=replace(saved, look=view.saved.look)) for view in views)
    path.write_bytes(session_bytes(replace(saved, views=tuple(kept))))
    return str(path)


def sha256_of(model: str) -> str:
    return at.load(model).info.sha256 if Path(model).is_dir() else "0" * 64


def view(name: str, **look: str) -> KeptView:
    return KeptView(name=name, saved=SavedSession(look=LookSaved(**look)), note=f"of {name}")


@pytest.mark.slow
def test_that_a_handout_of_a_session_is_made_without_a_window(tiny_model: str, tmp_path: Path) -> None:
    views = (view("a head"), view("lines", view="lines"), view("encodings", page="positions"))
    session = session_of(tiny_model, tmp_path / "talk.attnscope", *views)
    content = at.handout(session, tmp_path / "talk.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert content.count(b"/Type /Page\n") == 3
    gone = session_of(str(tmp_path / "gone"), tmp_path / "gone.attnscope", *views)
    with pytest.raises(at.UserError, match="The session's model tiny was not found"):
        at.handout(gone, tmp_path / "gone.pdf")
    assert not (tmp_path / "gone.pdf").exists()


def test_that_a_handout_needs_a_session_with_views_and_a_name_of_a_pdf(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bare = session_of("grammar", tmp_path / "bare.attnscope")
    out = str(tmp_path / "talk.pdf")
    for session, path, told in (
        (bare, out, f"No views are kept in {bare}. Keep some in the window (Ctrl+Shift+K), and save"),
        (str(tmp_path / "none.attnscope"), out, "does not exist"),
        (bare.replace("attnscope", "json"), out, ".attnscope"),
        (bare, str(tmp_path / "talk.txt"), "does not end in .pdf"),
    ):
        code, _, said = run(capsys, "handout", session, "-o", path)
        assert code == 2
        assert told in said


@pytest.mark.parametrize("command", ["", "measure", "info"])
def test_that_an_unknown_option_names_the_help_that_lists_the_known_ones(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code, out, err = run(capsys, *command.split(), *(["grammar"] if command else []), "--nothing")
    name = f"attnscope {command}".strip()
    assert (code, out) == (2, "")
    assert err == f"{name}: unrecognized arguments: --nothing. See {name} --help.\n"


@pytest.mark.qt
def test_that_a_caption_names_the_target_that_was_made(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path
) -> None:
    captions = []
    for target in ((), ("--target", "le chat")):
        path = str(tmp_path / "kept.figure.json")
        assert run(capsys, "figure", tiny_model, *TEXT[:2], *target, "--caption", "-o", path)[0] == 0
        captions.append(at.load_figure(path).spec.caption)
    assert captions[0].target is not None
    assert captions[1].target == "le chat"


@pytest.mark.parametrize("encodings", ["sinusoidal,rotary,model", "binary,learned"])
def test_that_positions_are_drawn_without_a_text(tiny_model: str, tmp_path: Path, encodings: str) -> None:
    path = tmp_path / "positions.svg"
    words = [
        "figure",
        tiny_model,
        "--view",
        "positions",
        "--encodings",
        encodings,
        "--caption",
        "-o",
        str(path),
    ]
    assert cli.main(words) == 0
    texts = [e.text or "" for e in ElementTree.parse(path).iter() if e.tag.endswith("}text")]
    assert all(any(name in text for text in texts) for name in encodings.split(","))


def test_that_an_encoding_nobody_knows_is_refused(
    capsys: pytest.CaptureFixture[str], tiny_model: str, tmp_path: Path
) -> None:
    words = [
        "figure",
        tiny_model,
        "--view",
        "positions",
        "--encodings",
        "spiral",
        "-o",
        str(tmp_path / "a.svg"),
    ]
    assert cli.main(words) == 2
    assert "spiral" in capsys.readouterr().err


@pytest.mark.slow
def test_that_the_curves_of_a_run_are_drawn(tmp_path: Path) -> None:
    run, path = tmp_path / "copy", tmp_path / "curves.svg"
    sets = ("training.n_steps=6", "training.evaluate_every=3", "data.n_examples=50")
    short = [*(word for one in sets for word in ("--set", one)), "--device", "cpu"]
    assert cli.main(["train", "copy", "--out", str(run), *short]) == 0
    assert cli.main(["figure", str(run), "--view", "curves", "--caption", "-o", str(path)]) == 0
    texts = [e.text or "" for e in ElementTree.parse(path).iter() if e.tag.endswith("}text")]
    assert {"Loss", "Learning rate", "Gradient norm", "Speed"} <= set(texts)


def test_that_curves_of_what_is_no_run_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(["figure", str(tmp_path), "--view", "curves", "-o", str(tmp_path / "c.svg")]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_that_a_command_that_went_says_so_and_what_to_do_instead(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["average", "RUN", "-o", "FOLDER"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("attnscope: `average` was removed in version 0.10. Use attnscope open RUN instead")
    assert len(said.splitlines()) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
def test_that_a_line_drawn_over_fits_into_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl
    import pty
    import struct
    import termios

    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 40, 0, 0))
    with open(terminal, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        draw_over("x" * 100)
    assert os.read(reader, 1000).decode() == f"\r{' ' * 39}\r{'x' * 39}"
    os.close(reader)


def test_that_a_recipe_whose_name_no_file_can_have_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = run(capsys, "train", "x" * 5000, "--plan")
    assert code == 2
    assert "is not a valid file name" in said
