"""`attnscope generate`: text, JSON, trace, and what cannot be."""

import json

import pytest

from attnscope.cli.main import main
from attnscope.trace import load_trace

DECODER, TRANSLATOR = "stories", "grammar"


def test_that_a_text_is_written_on(capsys):
    assert main(["generate", DECODER, "--text", "My lord", "--max-tokens", "5"]) == 0
    assert capsys.readouterr().out.startswith("My lord")


def test_that_beams_are_told_as_json_and_the_trace_is_kept(capsys, tmp_path):
    out = tmp_path / "written.safetensors"
    arguments = [
        "generate",
        TRANSLATOR,
        "--text",
        "the cat is small",
        "--beams",
        "2",
        "--json",
        "-o",
        str(out),
    ]
    assert main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["settings"]["n_beams"] == 2
    assert told["tree"]["nodes"][told["tree"]["best"]]["state"] in ("kept", "finished")
    assert [token["row"] for token in told["tokens"]] == list(range(len(told["tokens"])))
    trace = load_trace(out)
    assert trace.check().is_good
    assert len(trace.target) == len(told["tokens"]) + (0 if told["has_ended"] else 1)


@pytest.mark.slow
def test_that_equal_seeds_draw_equal_texts(capsys):
    texts = []
    for seed in ("4", "4", "5"):
        options = [
            "--temperature",
            "1.5",
            "--top-k",
            "50",
            "--top-p",
            "0.95",
            "--seed",
            seed,
            "--max-tokens",
            "12",
        ]
        assert main(["generate", DECODER, "--text", "O", *options]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([DECODER, "--text", "a", "--beams", "2", "--top-k", "3"], "Beams and sampling cannot be combined"),
        ([DECODER, "--text", "a", "--prefix", "b"], "reads one text only"),
        ([DECODER, "--text", "a", "-o", "trace.npz"], "cannot be written as"),
        ([DECODER, "--text", "a", "--top-p", "2"], "'2' is not a number from 0 to 1"),
        ([DECODER, "--text", "a", "--temperature", "101"], "'101' is not a number from 0 to 100"),
        ([DECODER, "--text", "a", "--length-penalty=-1"], "'-1' is not a number from 0 to 10"),
        ([DECODER, "--text", "a", "--max-tokens", "0"], "'0' is not a whole number from 1"),
        (["shakespeare-masked", "--text", "a"], "does not generate text"),
    ],
)
def test_that_what_cannot_be_is_told_in_one_line(capsys, arguments, words):
    assert main(["generate", *arguments]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
