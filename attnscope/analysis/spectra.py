"""How many dimensions heads need, each alone and all together: singular values of W_Q W_Kᵀ.

Cordonnier, Loukas and Jaggi 2020 (section 3.1): the products of single heads have nearly full rank, but
stacked heads share dimensions, so that the product of all of them, W_Q W_Kᵀ with the heads side by side,
falls off sooner. Biases, norms and rotary turns are left out.
"""

import torch
from torch import Tensor

from attnscope.analysis.head_weights import head_weights
from attnscope.analysis.subject import own_subject
from attnscope.models.model import Model
from attnscope.records.redundancy import SiteSpectrum


def head_spectra(model: Model) -> tuple[SiteSpectrum, ...]:
    """The singular values of every site, in order."""
    subject = own_subject(model)
    found = []
    for site in subject.sites:
        weights = head_weights(subject, site.key)
        single = torch.stack([product_spectrum(q, k) for q, k in zip(weights.q, weights.k, strict=True)])
        stacked = product_spectrum(weights.q.flatten(0, 1), weights.k.flatten(0, 1))
        found.append(SiteSpectrum(site=site, single=single.cpu().numpy(), stacked=stacked.cpu().numpy()))
    return tuple(found)


def product_spectrum(q: Tensor, k: Tensor) -> Tensor:
    """Singular values of qᵀ k, falling; q and k are [n_rows, d_model]. At most min(n_rows, d_model) of them.

    From the small triangles of two QR decompositions, so that no [d_model, d_model] product is made.
    """
    upper_q = torch.linalg.qr(q.T, mode="r").R  # [min(d_model, n_rows), n_rows]
    upper_k = torch.linalg.qr(k.T, mode="r").R
    values: Tensor = torch.linalg.svdvals(upper_q @ upper_k.T)
    return values
