"""The length of what a head writes for a key: ‖f(x)‖ with f(x) = (x W_V + b_V) W_O of that head.

| symbol | meaning                                           | shape                            |
|--------|---------------------------------------------------|----------------------------------|
| v      | values x W_V + b_V, which the attention call holds | [batch, n_kv_heads, n_keys, D]  |
| W_O    | the head's part of the output projection          | [n_heads, D, d_model]            |
| gram   | W_O W_Oᵀ                                          | [n_heads, D, D]                  |

‖a · f(x)‖ = a ‖f(x)‖ (Kobayashi et al. 2020, section 3), and ‖f(x)‖² = v gram vᵀ: nothing of the width of
the model is made. The bias of the output projection belongs to no head and is left out.
"""

from collections.abc import Mapping

from torch import Tensor

from attnscope.analysis.model_adapter import OwnSubject
from attnscope.errors import UserError
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.model import Model
from attnscope.models.own import OwnNetwork
from attnscope.models.pruning.huggingface import foreign_sites
from attnscope.records.sites import SiteKey


def output_matrices(model: Model) -> Mapping[SiteKey, Tensor]:
    """W_O of every site, [n_heads, d_head, d_model]; nothing for a network that does not show it."""
    network = model.network
    if isinstance(network, HuggingFaceNetwork):
        return _library_matrices(network)
    if not isinstance(network, OwnNetwork):
        return {}
    subject = OwnSubject(network.module)
    found: dict[SiteKey, Tensor] = {}
    owners = set(network.config.headed_keys())
    for site in network.sites:
        if site.key not in owners:
            continue  # pooling and matching hand their sums on as they are
        weight = subject.projection(site.key).weight.detach()  # [d_model, n_heads · d_head]
        found[site.key] = weight.T.reshape(site.n_heads, -1, weight.shape[0])  # [n_heads, d_head, d_model]
    return found


def _library_matrices(network: HuggingFaceNetwork) -> dict[SiteKey, Tensor]:
    """W_O of the families whose matrices are known, under the sites that the network names alike."""
    try:
        sites = foreign_sites(network.module)
    except UserError:
        return {}
    heads = {site.key: site.n_heads for site in network.sites}
    found: dict[SiteKey, Tensor] = {}
    for site in sites:
        rows = site.output_rows.detach()
        if heads.get(site.key) == site.n_heads:
            found[site.key] = rows.reshape(site.n_heads, -1, rows.shape[1])
    return found


def output_grams(model: Model) -> Mapping[SiteKey, Tensor]:
    """W_O W_Oᵀ of every site, float32 [n_heads, d_head, d_head]."""
    return {
        site: (matrix.float() @ matrix.float().transpose(1, 2))
        for site, matrix in output_matrices(model).items()
    }


def value_norms(v: Tensor, gram: Tensor) -> Tensor:
    """‖f(x_j)‖ of each head and key, [batch, n_heads, n_keys], from values [batch, n_kv_heads, n_keys, D]."""
    n_heads = gram.shape[0]
    values = v.float()
    if values.shape[1] != n_heads:
        values = values.repeat_interleave(n_heads // values.shape[1], dim=1)  # [B, H, T, D]
    rows = values.transpose(0, 1).flatten(1, 2)  # [H, B · T, D]: one product a head, whatever the texts
    squares: Tensor = (rows @ gram.to(rows)).mul_(rows).sum(dim=-1)
    norms = squares.clamp_(min=0.0).sqrt_()  # [H, B · T]
    return norms.view(n_heads, len(v), v.shape[2]).transpose(0, 1)
