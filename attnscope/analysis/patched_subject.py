"""A model as patching sees it: where its layers and its heads are read, and what it says.

| symbol | meaning                                        | shape                      |
|--------|------------------------------------------------|----------------------------|
| stream | what a layer reads                             | [n_copies, n_tokens, d]    |
| joined | head outputs side by side, before the product  | [n_copies, n_tokens, H · D]|
| said   | logits at one position of each copy            | [n_copies, n_answers]      |
"""

from typing import Protocol

import torch
from torch import Tensor

from attnscope.analysis.reading import batch_of
from attnscope.analysis.subject import OwnSubject, own_subject, require_answers
from attnscope.models.huggingface.anatomy import anatomy_of
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.models.places import Place
from attnscope.nn.attention import Probe
from attnscope.records.models import Form
from attnscope.records.sites import Site, SiteKey, Stack


class PatchedSubject(Protocol):
    """What patching needs of a model."""

    form: Form
    sites: tuple[Site, ...]

    def layers(self, stack: Stack) -> tuple[Place, ...]:
        """Where each layer of `encoder` or `decoder` reads the stream."""
        ...

    def projection_place(self, site: SiteKey) -> Place:
        """Where the heads of a site are read."""
        ...

    def say(self, inputs: Inputs, position: int, probe: Probe | None = None, *, n_copies: int = 1) -> Tensor:
        """The logits at one position of some copies of a text, float32 [n_copies, n_answers]."""
        ...


class OwnPatched:
    """A Transformer of this program."""

    def __init__(self, subject: OwnSubject) -> None:
        self.form, self.sites, self._subject = subject.form, subject.sites, subject

    def layers(self, stack: Stack) -> tuple[Place, ...]:
        """See `PatchedSubject`, as all these."""
        return tuple(Place(module=block) for block in self._subject.blocks(stack))

    def projection_place(self, site: SiteKey) -> Place:
        """The output projection."""
        return Place(module=self._subject.projection(site))

    def say(self, inputs: Inputs, position: int, probe: Probe | None = None, *, n_copies: int = 1) -> Tensor:
        """Only the asked position goes through the vocabulary."""
        subject = self._subject
        with subject.studying():
            hidden = subject.hidden(batch_of(inputs, subject.device, n_copies), probe)
            return subject.logits(hidden[:, position]).float()


class ForeignPatched:
    """A model of Hugging Face's library."""

    def __init__(self, network: HuggingFaceNetwork) -> None:
        self.form, self.sites = network.form, network.sites
        self._network, self._anatomy = network, anatomy_of(network)

    def layers(self, stack: Stack) -> tuple[Place, ...]:
        """See `PatchedSubject`, as all these."""
        return self._anatomy.layers(stack)

    def projection_place(self, site: SiteKey) -> Place:
        """The product that reads the heads."""
        return self._anatomy.projections[site]

    def say(self, inputs: Inputs, position: int, probe: Probe | None = None, *, n_copies: int = 1) -> Tensor:
        """Only the asked position goes through the head, where the head can be taken off."""
        done = self._network.run(inputs, probe, n_copies=n_copies)
        return torch.cat([done.logits([position], copy) for copy in range(n_copies)])


def patched_subject(model: Model) -> PatchedSubject:
    """The subject behind a model that tells tokens; raises UserError, by name, for others."""
    network = model.network
    if isinstance(network, HuggingFaceNetwork):
        require_answers(model)
        return ForeignPatched(network)
    return OwnPatched(own_subject(model))
