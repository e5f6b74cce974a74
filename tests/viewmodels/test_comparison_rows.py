"""What is read off an output for the window: labels of tokens."""

from attnscope.records.outputs import Candidate, Output, Prediction
from attnscope.records.tokens import Token
from attnscope.viewmodels.comparison_rows import token_labels


def _said(position: int, *labels: str) -> Prediction:
    candidates = tuple(
        Candidate(token=Token(id=i, piece=label), probability=0.5 / (i + 1)) for i, label in enumerate(labels)
    )
    return Prediction(position=position, context="", candidates=candidates)


def test_that_each_token_has_its_most_probable_label() -> None:
    output = Output(kind="class", predictions=(_said(1, "DET", "PRON"), _said(3, "NOUN"), _said(4)))
    assert token_labels(output) == {1: "DET", 3: "NOUN"}


def test_that_labels_of_whole_texts_and_predicted_tokens_are_none_of_a_token() -> None:
    assert token_labels(Output(kind="class", predictions=(_said(0, "positive"),))) == {}
    assert token_labels(Output(kind="masked-token", predictions=(_said(1, "a"), _said(2, "b")))) == {}
    assert token_labels(Output(kind="nothing", predictions=())) == {}
