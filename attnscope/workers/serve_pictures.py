"""Answering what a vision model sees. No Qt."""

from collections.abc import Iterator

from attnscope.models.pictures import picture
from attnscope.records.pictures import PictureShown, ShowPicture
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, serves


@serves(ShowPicture)
def show_picture(request: ShowPicture, desk: Desk) -> Iterator[Reply]:
    """The picture of a text that is a path."""
    seen = picture(desk.model, request.text)
    yield PictureShown(number=request.number, picture=seen)
