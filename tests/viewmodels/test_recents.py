"""What was opened lately, each thing once."""

from attnscope import paths
from attnscope.viewmodels.session import Recents


def test_that_a_model_of_the_program_is_listed_once_by_its_name() -> None:
    folder = str(paths.resources_folder() / "models" / "grammar")
    recents = Recents(models=(folder, "grammar", "/runs/a"))
    assert recents.models == ("grammar", "/runs/a")
    recents.add_model(folder)
    assert recents.models == ("grammar", "/runs/a")
