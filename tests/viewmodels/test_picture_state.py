"""The picture under the weights of a head is that of the trace, whatever others look like."""

from dataclasses import replace

import numpy as np
from session_samples import Desk, info, ref, state_of

from attnscope.records import Picture, PictureShown, Request, ShowPicture


def test_that_another_picture_of_as_many_patches_is_not_taken_for_the_one_that_was_traced() -> None:
    desk = Desk().open(replace(info(), form="encoder", architecture="ViT", reads="picture"))
    asked: list[Request] = []
    state = state_of("picturing", asked.append, session=desk.session)
    state.watch(True)
    desk.session.select_heads((ref(0, 0),))
    desk.answer()
    first, shape = desk.session.text, desk.session.maps.of(desk.session.primary)
    assert shape is not None
    n_tokens = len(shape.queries)
    assert isinstance(asked[-1], ShowPicture)
    pixels = np.zeros((2, 2 * n_tokens, 3), np.uint8)
    picture = Picture(text=first, pixels=pixels, n_rows=1, n_columns=n_tokens, n_first=0)
    state.handle(PictureShown(number=asked[-1].number, picture=picture))
    assert state.shown is not None
    desk.session.texts.set_text(" ".join(reversed(first.split())))
    desk.answer()
    assert len(desk.session.maps.of(desk.session.primary).queries) == n_tokens  # type: ignore[union-attr]
    assert state.shown is None
    assert state.note == "Reading the picture…"
    other = replace(picture, text=desk.session.text)
    state.handle(PictureShown(number=asked[-1].number, picture=other))  # type: ignore[union-attr]
    assert state.shown is not None
    assert state.shown[0] == other
