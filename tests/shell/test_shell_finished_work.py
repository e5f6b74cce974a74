"""What a command has worked out is handed over although the file that was asked for takes nothing."""

import os
from pathlib import Path

import pytest

from attnscope.cli.main import main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full; runs on Linux"),
]
TEXT = "the white cat sleeps"


@pytest.mark.parametrize(("shell", "said"), [
    (("measure", "grammar", "--text", TEXT, "--csv", "a.csv"), "encoder L0H0"),
    (("lens", "grammar", "--text", TEXT, "--csv", "a.csv"), "layer 0"),
    (("rollout", "grammar", "--text", TEXT, "--csv", "a.csv"), "rollout from the inputs"),
    (("attribute", "grammar", "--text", TEXT, "--csv", "a.csv"), "L0 feed-forward"),
    (("patch", "grammar", "--clean", TEXT, "--corrupt", "the black cat sleeps", "--csv", "a.csv"), "clean"),
    (("weights", "grammar", "encoder:L0H0", "--csv", "a.csv"), "QK of encoder L0H0"),
    (("translate", "grammar", "--text", TEXT, "-o", "a.txt"), "le chat blanc dort"),
    (("generate", "stories", "--text", "The", "--max-tokens", "2", "-o", "a.safetensors"), "The"),
    (("lab", "Scaling by √d", "-o", "a.svg"), "Settings:"),
    (("ask", "residual-stream", "grammar", "--text", TEXT, "-o", "a.csv"), "Mean norm of the stream"),
], ids=lambda value: value[0] if isinstance(value, tuple) else "")  # fmt: skip
@pytest.mark.qt
def test_that_a_full_disk_does_not_take_the_result(
    shell, said, tmp_path: Path, monkeypatch, capsys, qapp
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(shell[-1]).symlink_to("/dev/full")
    assert main(list(shell)) == 2
    told = capsys.readouterr()
    assert said in told.out
    assert told.err.splitlines()[-1].startswith(f"attnscope: {shell[-1]} could not be written: No space left")


def test_that_a_training_looks_at_the_place_of_its_export_before_the_first_step(
    tmp_path: Path, capsys
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    run = str(tmp_path / "run")
    assert main(["train", "copy", "--out", run, "--export", str(tmp_path / "full")]) == 2
    assert "thesis.tex" in capsys.readouterr().err
    assert not Path(run).exists()
