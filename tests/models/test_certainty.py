"""How sure a model is of what it generated: against its own probabilities, and told in words."""

import json
import math

import pytest
from tiny_models import SENTENCE, tiny_model

import attnscope as at
from attnscope.cli.main import main
from attnscope.records import Comparison, Output
from attnscope.viewmodels.compare import certainty_text, unsure_text


def _comparison(certainty: float | None) -> Comparison:
    said = Output(kind="translation", predictions=(), generated="le", certainty=certainty)
    return Comparison(before=said, after=said, kl_nats=())


@pytest.mark.parametrize("gates", [None, {"cross:L0H0": 0.5}])
@pytest.mark.parametrize("model", ["grammar", "tiny"])
def test_that_it_is_the_mean_of_what_the_tokens_were_given(
    model: str, gates: dict[str, float] | None
) -> None:
    one = at.load("grammar", device="cpu") if model == "grammar" else tiny_model("encoder-decoder")
    said = one.compare(SENTENCE, gates=gates).before
    target = one.trace(SENTENCE).target
    assert target is not None
    given = [
        {candidate.token.id: candidate.probability for candidate in prediction.candidates}[token.id]
        for prediction, token in zip(said.predictions, target.tokens[1:], strict=False)
    ]
    expected = math.exp(sum(map(math.log, given)) / len(given))
    assert said.certainty == pytest.approx(expected, rel=1e-5)


def test_that_it_is_unknown_for_a_target_of_the_persons_own_and_without_one() -> None:
    grammar = at.load("grammar", device="cpu")
    assert grammar.compare("the white cat sleeps", "le chat").before.certainty is None
    assert tiny_model("decoder").compare(SENTENCE).before.certainty is None


def test_that_words_follow_the_number() -> None:
    assert (certainty_text(_comparison(None)), unsure_text(_comparison(None))) == ("", "")
    assert (certainty_text(_comparison(0.91)), unsure_text(_comparison(0.91))) == ("certainty 0.910", "")
    assert certainty_text(_comparison(0.31)) == "certainty 0.310: unsure"
    assert unsure_text(_comparison(0.31)) == "Unsure: certainty 0.310"


def test_that_the_command_line_tells_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", "grammar", "--text", "the white cat sleeps"]
    assert main(words) == 0
    assert "certainty 1.000" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["certainty"] == pytest.approx(0.9997, abs=2e-4)
