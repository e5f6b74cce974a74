"""Masks on the command line: from an edge list, from rows, and what is wrong with them."""

import re

import numpy as np
import pytest
from tiny_models import SENTENCE, tiny_model

from attnscope.cli.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny"
    tiny_model("encoder").save(path)
    return str(path)


def traced(folder, tmp_path, *options):
    out = tmp_path / "t.npz"
    code = main(["trace", folder, "--text", SENTENCE, "-o", str(out), *options])
    return code, np.load(out)["encoder.0"][0] if code == 0 else None


def test_that_a_trace_sees_the_edges_of_a_file_and_says_who_sees_nothing(folder, tmp_path, capsys):
    path = tmp_path / "graph.txt"
    path.write_text("cat -> the\n4 5\n", encoding="utf-8")
    code, weights = traced(folder, tmp_path, "--mask", str(path), "--mask-no-loops", "--mask-symmetric")
    assert code == 0
    # <s> the cat sat on the mat </s>: “the” stands at 1 and 5
    seen = {(int(i), int(j)) for i, j in np.argwhere(~np.isnan(weights))}
    assert seen == {(2, 1), (2, 5), (1, 2), (5, 2), (4, 5), (5, 4)}
    assert (
        "4 tokens see nothing under the mask: 0 “<s>”, 3 “sat”, 6 “mat”, 7 “</s>”" in capsys.readouterr().err
    )


def test_that_edges_to_later_tokens_are_told_in_a_causal_model(folder, tmp_path, capsys):
    causal, path = str(tmp_path / "causal"), tmp_path / "graph.txt"
    tiny_model("decoder").save(causal)
    path.write_text("1 2\n2 1\n3 4\n", encoding="utf-8")
    for model, options, is_told in (
        (causal, (), True),
        (causal, ("--mask-symmetric",), False),
        (folder, (), False),
    ):
        assert main(["measure", model, "--text", SENTENCE, "--mask", str(path), *options]) == 0
        told = "2 edges lead to a later token, which a causal model never allows" in capsys.readouterr().err
        assert told == is_told


def test_that_rows_say_the_same_mask_in_one_word(folder, tmp_path):
    rows = ";".join(["0-7", "0 1", "2", "3", "4", "5", "6", "0-2 7"])
    code, weights = traced(folder, tmp_path, "--mask-rows", rows)
    assert code == 0
    assert np.isnan(weights).sum(axis=1).tolist() == [0, 6, 7, 7, 7, 7, 7, 4]


def test_that_a_figure_names_its_mask_in_the_caption(folder, tmp_path):
    out = tmp_path / "f.svg"
    rows = ";".join(str(k) for k in range(8))
    options = ["--view", "head", "--layer", "0", "--head", "1", "--caption", "--mask-rows", rows]
    assert main(["figure", folder, "--text", SENTENCE, "-o", str(out), *options]) == 0
    words = " ".join(re.sub("<[^>]+>", " ", out.read_text(encoding="utf-8")).split())
    assert "encoder mask by rows: 8 of 64 cells" in words


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--mask", "missing.txt"], "cannot be read"),
        (["--mask-rows", "0;1"], "The mask is for 2 tokens"),
        (["--mask-rows", "0;x"], "row 1 has 'x'"),
        (["--mask-rows", "0", "--mask", "a"], "There are two masks"),
    ],
)
def test_that_a_mask_which_cannot_be_used_is_told_in_one_line(folder, tmp_path, capsys, options, told):
    code, _ = traced(folder, tmp_path, *options)
    assert code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("rows", [(), ("--mask-rows", "0;0 1;2;3;4;5;6;7")])
@pytest.mark.parametrize("option", ["--mask-symmetric", "--mask-no-loops"])
def test_that_what_changes_the_edges_of_a_file_is_not_ignored_without_one(
    folder, tmp_path, capsys, option, rows
):
    assert traced(folder, tmp_path, option, *rows)[0] == 2
    assert f"{option} changes the edges of a file. Expected: --mask with it." in capsys.readouterr().err
