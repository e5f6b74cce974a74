"""What a person is asked for, by what the open model reads."""

from dataclasses import replace

import pytest
from session_samples import SAMPLES, Desk, info

from attnscope.records import LoadModel, ModelLoaded, Sample
from attnscope.viewmodels import Requests
from attnscope.viewmodels.session import Session, stage_of


def opened(reads: str, text: str, *, samples: tuple[Sample, ...] = ()) -> Session:
    posted = []
    session = Session(Requests(posted.append))
    session.texts.set_text(text)
    session.opening.load("tiny")
    (request,) = [r for r in posted if isinstance(r, LoadModel)]
    session.handle(
        ModelLoaded(number=request.number, info=replace(info("encoder"), reads=reads, samples=samples))
    )
    return session


@pytest.mark.parametrize(
    ("reads", "asked"),
    [
        ("text", "Type a sentence…"),
        ("picture", "Type the path of a picture…"),
        ("recording", "Type the path of a recording…"),
    ],
)
def test_that_an_empty_page_asks_for_what_the_model_reads(reads: str, asked: str) -> None:
    assert stage_of(opened(reads, "")).title == asked


def test_that_a_model_of_pictures_opens_on_its_own_sample_whatever_was_typed() -> None:
    samples = (Sample(text="ball.png"),)
    assert opened("picture", "the cat sleeps", samples=samples).text == "ball.png"
    assert opened("text", "the cat sleeps", samples=samples).text == "the cat sleeps"


def test_that_a_second_text_is_offered_for_pairs_and_for_encoder_decoders() -> None:
    alone = info("encoder")
    assert not alone.takes_target
    assert replace(alone, reads_pairs=True).takes_target
    assert info("encoder-decoder").takes_target


def test_that_a_field_which_tells_the_text_unchanged_is_not_typing() -> None:
    desk = Desk().open()
    desk.session.opening.load("tiny", sample=Sample(text="q w e r"))
    desk.answer()
    desk.session.texts.set_text("q w e r")
    desk.open(info(name="other"))
    assert desk.session.text == SAMPLES[0].text
