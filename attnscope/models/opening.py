"""Opening a model, whatever a person calls it."""

from pathlib import Path

from attnscope.models.device import choose_device
from attnscope.models.model import Model
from attnscope.models.sources import read_source


def load(source: str | Path, device: str = "auto") -> Model:
    """The model that `source` means: a demo's name, a model folder, or a run folder (its newest checkpoint).

    Raises LoadError when it cannot be opened, UserError when there is no such device. Nothing in a
    model's files is ever run.
    """
    chosen = choose_device(device)
    loaded, folder = read_source(source)
    loaded.module.to(chosen)
    return Model(
        loaded.module,
        loaded.tokenizer,
        loaded.card,
        source=str(folder),
        sha256=loaded.sha256,
        note=loaded.note,
    )
