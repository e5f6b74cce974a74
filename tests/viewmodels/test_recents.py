"""What was opened lately, each thing once."""

from attnscope import paths
from attnscope.viewmodels.session.recents import Recents


def test_that_a_model_of_the_program_is_listed_once_by_its_name() -> None:
    folder = str(paths.resources_folder() / "models" / "english-french")
    recents = Recents(models=(folder, "english-french", "/runs/a"))
    assert recents.models == ("english-french", "/runs/a")
    recents.add_model(folder)
    assert recents.models == ("english-french", "/runs/a")
