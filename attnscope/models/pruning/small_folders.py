"""Opening the small folders of BERT, DistilBERT, GPT-2 and BART that the library itself cannot open.

Such a folder is the library's own, but for the key `attnscope_heads` in config.json and smaller matrices
among the weights. Whoever opens it makes the model of the configuration, gives it these sizes, and fills
in the weights as ever.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from attnscope.errors import LoadError
from attnscope.models.pruning.families import foreign_sites, write_slots
from attnscope.models.pruning.huggingface import HEADS_KEY, is_small
from attnscope.models.pruning.slots import SiteSlots, Slot


def fit_small(model: nn.Module, config: Mapping[str, Any], where: str) -> bool:
    """Give a model just made the sizes that config.json names; whatever weights it had are lost.

    `config` is the content of config.json and `where` names it in errors. Returns whether anything had to
    be done; works on the meta device too. Raises LoadError for sizes that cannot be.
    """
    if not is_small(config):
        return False
    for site in foreign_sites(model):
        name = f"{site.key[0]}.{site.key[1]}"
        heads = config[HEADS_KEY].get(name)
        if not isinstance(heads, list | tuple) or not 1 <= len(heads) <= site.n_heads:
            raise LoadError(
                f"{where} says nothing usable of the heads of {name}.",
                kind="config",
                expected=f"a list of 1 to {site.n_heads} heads under {HEADS_KEY}",
                action="Restore config.json from a copy, or remove the heads again from the model before.",
            )
        # Any head will do: only the sizes matter, the numbers come from the weights file.
        slots: tuple[Slot, ...] = tuple(range(len(heads)))
        write_slots(site, SiteSlots(queries=slots, keys=slots))
    return True


def fitted_class(model_class: type[Any], config: Mapping[str, Any], where: str) -> type[Any]:
    """The library's class for the model of a folder, or one like it whose models get the folder's sizes."""
    if not is_small(config):
        return model_class

    def make(self: Any, *inputs: Any, **choices: Any) -> None:
        model_class.__init__(self, *inputs, **choices)
        fit_small(self, config, where)
        self.__class__ = model_class  # from here on it is a model of the library like any other

    # Its name and module are those of the library's class: the library writes them into config.json.
    names = {"__init__": make, "__module__": model_class.__module__, "__qualname__": model_class.__qualname__}
    return type(model_class.__name__, (model_class,), names)
