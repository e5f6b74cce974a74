"""Opening a model, whatever a person calls it."""

from pathlib import Path

from attnscope.collector import collect_as_usual
from attnscope.errors import LoadError
from attnscope.models.device import choose_device
from attnscope.models.huggingface.cache import find_huggingface
from attnscope.models.model import Model
from attnscope.models.own import OwnNetwork
from attnscope.models.sources import OPENS, demo_models, read_source


def load(source: str | Path, device: str = "auto") -> Model:
    """The model that `source` means: a demo's name, a model folder, a run folder (its newest checkpoint),
    a folder in the format of Hugging Face, or a name in that library's local cache.

    Only folders that AttnScope saved, or in the format of Hugging Face, can be opened. A module of one's own,
    its `state_dict`, a .pt file or weights alone do not say where heads are or how text becomes tokens.

    `hf:owner/name` downloads a model from the Hugging Face Hub first; nothing else reads the network.
    Raises LoadError when it cannot be opened, UserError for an unknown device. Code in a model's
    files is never run.
    """
    if not isinstance(source, str | Path):
        kind = type(source).__name__
        raise LoadError(
            f"An object of type {kind} cannot be opened as a model.",
            kind="not-a-model",
            expected=OPENS,
            action="Give the name or the folder of such a model.",
        )
    chosen = choose_device(device)
    foreign = None if source in demo_models() else find_huggingface(source)
    if foreign is not None:
        from attnscope.models.huggingface.opening import open_network  # the library is optional

        opened = open_network(foreign.folder, chosen, name=foreign.name)
        collect_as_usual()
        return Model(opened)
    loaded, folder = read_source(source)
    loaded.module.to(chosen)
    network = OwnNetwork(
        loaded.module,
        loaded.tokenizer,
        loaded.card,
        source=str(folder),
        sha256=loaded.sha256,
        note=loaded.note,
    )
    collect_as_usual()
    return Model(network)
