"""Removing heads from one of our own models, with its name, card and tokenizer."""

from dataclasses import replace
from pathlib import Path

from attnscope.models.card import ModelCard
from attnscope.models.checkpoint import fill_model_folder
from attnscope.models.closed_heads import without_closed
from attnscope.models.own import OwnNetwork
from attnscope.models.pruning.own import original_heads, prune_module
from attnscope.models.pruning.removal import Removal, removal_name, removed_heads_card, weights_file_bytes
from attnscope.nn.config import ModelConfig, count_parameters
from attnscope.nn.own_module import OwnModule
from attnscope.records.pruning import ModelSize, SiteHeads
from attnscope.records.sites import Gates


def prune_own(network: OwnNetwork, gates: Gates) -> Removal:
    """The smaller network; its card says which head was which."""
    module = prune_module(network.module, gates)
    sites = _site_heads(network.config, module.config)
    source = network.info.source
    made_from = f"{network.card.name} (weights SHA-256 {network.info.sha256 or 'not saved'})"
    card = ModelCard(
        name=removal_name(network.card.name, sites),
        objective=network.card.objective,
        training=without_closed(network.card.training),
        labels=network.card.labels,
        text=network.card.text.rstrip() + "\n" + removed_heads_card(sites, made_from=made_from),
    )
    smaller = OwnNetwork(module, network.vocabulary, card)
    return Removal(
        network=smaller,
        sites=sites,
        before=replace(
            _size(network.module), file_bytes=weights_file_bytes(Path(source)) if source else None
        ),
        after=_size(module),
        opens_in="AttnScope",
        write=lambda folder: fill_model_folder(folder, module, module.config, network.vocabulary, card),
        notes=_uneven_notes(module.config),
    )


def _size(module: OwnModule) -> ModelSize:
    n_bytes = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    return ModelSize(n_parameters=count_parameters(module.config).total, n_bytes=n_bytes)


def _site_heads(before: ModelConfig, after: ModelConfig) -> tuple[SiteHeads, ...]:
    n_before = {key: len(heads) for key, heads in original_heads(before).items()}
    return tuple(
        SiteHeads(stack=key[0], layer=key[1], n_before=n_before[key], heads=heads)
        for key, heads in original_heads(after).items()
    )


def _uneven_notes(config: ModelConfig) -> tuple[str, ...]:
    uneven = [
        f"{stack} L{layer}" for stack, layer in config.site_keys() if not config.layout(stack, layer).is_even
    ]
    if not uneven:
        return ()
    names = ", ".join(uneven)[:200]
    return (f"Key-value heads serve unequal numbers of heads at: {names}. Their weights are kept once.",)
