"""What is read off an output for the window: labels of tokens."""

from attnscope.records import NOT_MEANT, Candidate, Comparison, Output, Prediction, Token
from attnscope.viewmodels.compare import labels_text, most_changed_position, token_labels

WORDS = tuple(Token(id=i, piece=piece) for i, piece in enumerate(("<s>", "the", "red", "lamp", ".")))


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


def _of_labels(*labels: str) -> Output:
    return Output(kind="class", predictions=tuple(_said(i, label) for i, label in enumerate(labels, start=1)))


def test_that_labels_stand_in_a_row_and_a_pointer_names_what_it_points_to() -> None:
    assert labels_text(_of_labels("DET", "ADJ", "NOUN", "PUNCT"), WORDS) == "says “DET ADJ NOUN PUNCT”"
    assert labels_text(_of_labels(NOT_MEANT, "answer", "answer", NOT_MEANT), WORDS) == (
        "points to “red lamp” (answer)"
    )
    assert labels_text(_of_labels(*4 * [NOT_MEANT]), WORDS) == "points to no token yet"
    assert labels_text(Output(kind="class", predictions=(_said(0, "positive"),)), WORDS) == ""
    assert len(labels_text(_of_labels(*200 * ["NOUN"]), WORDS)) == 60 + len("says “”")


def test_that_the_first_prediction_shown_of_a_pointer_is_of_what_it_points_to() -> None:
    pointer, tags = _of_labels(NOT_MEANT, NOT_MEANT, "odd one", NOT_MEANT), _of_labels("DET", "NOUN")
    assert most_changed_position(Comparison(before=pointer, after=pointer, kl_nats=(0.0,) * 4)) == 2
    assert most_changed_position(Comparison(before=pointer, after=pointer, kl_nats=(0.5, 0, 0, 0))) == 0
    assert most_changed_position(Comparison(before=tags, after=tags, kl_nats=(0.0, 0.0))) == 0
