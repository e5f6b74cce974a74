"""Answering what a vision model sees. No Qt."""

from collections.abc import Iterator

from attnscope.models.pictures import picture
from attnscope.records.messages import OPEN_MODEL, Reply
from attnscope.records.pictures import PictureShown, ShowPicture
from attnscope.workers.serve_models import OpenModels


def show_picture(request: ShowPicture, models: OpenModels) -> Iterator[Reply]:
    """The picture of a text that is a path."""
    seen = picture(models.get(OPEN_MODEL), request.text)
    yield PictureShown(number=request.number, picture=seen)
