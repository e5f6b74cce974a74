"""One head: its steps for one query of a text, and its weights alone.

Stepping through one head on one query: every number from q and k to the head's output.

    dot = Σ_d q_d k_d        score = scale · dot, capped, plus bias
    weight = exp(score − lse)        output = Σ weight · v

(Vaswani et al. 2017, equation 1; other scores as in `nn/scores.py`; the view after Vig 2019's neuron view.)
Everything is computed again in float64 from what a probe recorded, so that the output, compared with the
model's own, proves the numbers in between.

| symbol | meaning                          | shape    |
|--------|----------------------------------|----------|
| row    | weights of one query on all keys | [n_keys] |
| chosen | places of the keys shown         | [n]      |

Everything the weights of one head say: the singular values of both products, then their token pairs.

Singular values come first: they need no vocabulary. A product that does not exist is rejected with an
explanation, and the other one is read all the same.

Token pairs are what a head's weights say without any text: its OV and QK matrices between tokens.

| symbol | meaning                                                    | shape              |
|--------|------------------------------------------------------------|--------------------|
| E      | token embeddings as the head reads them                    | [vocab, d_model]   |
| U      | output weights, the head's own layer, the last norm        | [vocab, d_model]   |
| OV     | E W_V W_O Uᵀ: what attending to a token does to the output | [vocab, vocab]     |
| QK     | E W_Q W_Kᵀ Eᵀ · scale: how a query scores a key            | [vocab, vocab]     |

Elhage et al. 2021. The matrices between tokens are never laid out: both are products of two [vocab, d_head]
factors, gone through in blocks. An embedding passes through the norm before the head as if it were all of
the stream; positions, biases, rotary turns, the last norm's scale and the activation of an output's own layer
(BERT's) are left out, so these numbers are exact for no text, but tell what a head is for.

A head's own weights are cut out of the products that hold all heads: rows q, k, v [n_heads, d_head,
d_model] and columns o [n_heads, d_model, d_head], float64. Query head h has the keys and values that it
reads, so grouped ones appear once for each head; the matrix of a bilinear score is part of q.

Pieces that a model keeps close together, by W, its embeddings [n_pieces, d_model]: the largest cosines.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.analysis.batches import slices_of
from attnscope.analysis.model_adapter import OwnSubject, own_subject, telling_subject
from attnscope.errors import NotFiniteError, UserError
from attnscope.models.huggingface.anatomy import head_rows, token_tables
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.model import Model
from attnscope.nn import ALL, CrossAttention, Norm, ScoreRule, SelfAttention, exact
from attnscope.records.importance import PartsDone
from attnscope.records.maps import MAX_KEYS, N_STRONGEST, Floats, HeadInside
from attnscope.records.measures import (
    N_PAIRS,
    CircuitKind,
    HeadCircuit,
    HeadWeightsFound,
    SiteSpectrum,
    TokenPair,
    WeightPart,
)
from attnscope.records.sites import HeadRef, Site, SiteKey, check_heads, find_site, row_labels, written_after
from attnscope.records.tokens import Token
from attnscope.schemes.residuals import RESIDUALS
from attnscope.schemes.scores import Comparison
from attnscope.trace import SiteRecord, Trace, site_weights

_BLOCK_KEYS = 16_384


def look_inside(trace: Trace, head: HeadRef, query: int) -> HeadInside:
    """The inside of one head on one query of a trace made with `keep_values`, or of `Model.trace_site`.

    Raises UserError for a head or query that is not there, and for a trace without values.
    """
    check_heads((head,), trace.sites)
    queries, keys = trace.tokens(head.site_key)
    record, gate = trace.records[head.site_key], trace.gates.value(head)
    inside = inside_of_record(record, head, query, queries=queries, keys=keys, gate=gate)
    written = row_labels(queries, written_after(head.stack, trace.target), "written")[query]
    return replace(inside, written=replace(written, read="") if written.read else None)


@torch.no_grad()
def inside_of_record(
    record: SiteRecord,
    head: HeadRef,
    query: int,
    *,
    queries: Sequence[Token],
    keys: Sequence[Token],
    gate: float = 1.0,
) -> HeadInside:
    """`look_inside` for a site's record; of more than MAX_KEYS keys it shows the N_STRONGEST."""
    v, own = _values_of(record, head, query)
    row = site_weights(record, slice(head.head, head.head + 1), slice(query, query + 1))[0, 0]
    row = row.cpu().double()
    chosen = _chosen_keys(row)
    steps = _steps(record, head.head, query, chosen)
    numbers: dict[str, Any] = {name: _numbers(step) for name, step in steps.items()}
    lse = float(record.lse[head.head, query])
    weight = (steps["score"] - lse).exp().masked_fill(steps["score"].isneginf(), math.nan)
    sink = None if record.score.sinks is None else float(record.score.sinks[head.head])
    total = float(row.nansum())
    places = tuple(chosen.tolist())
    return HeadInside(
        head=head,
        query=query,
        n_queries=record.n_queries,
        query_token=queries[query],
        n_keys=record.n_keys,
        n_allowed=int(_allowed(record, head.head, query).sum()),
        keys=places,
        key_tokens=tuple(keys[place] for place in places),
        comparison=_comparison(record.score),
        scale=record.score.scale,
        softcap=record.score.softcap,
        sink=sink,
        lse=lse,
        gate=gate,
        **numbers,
        weight=_numbers(weight),
        **_output_numbers(row, v, _wide(own[head.head, query]), weight, chosen),
        row_sum_error=_row_sum_error(total, lse, sink),
        rest_weight=max(0.0, total - float(row[chosen].nansum())) if len(places) < len(row) else 0.0,
    )


def _steps(record: SiteRecord, head: int, query: int, chosen: Tensor) -> dict[str, Tensor]:
    """One row of scores for the chosen keys, with each step by its name in `HeadInside`.

    float64 on the CPU.
    """
    score, group = record.score, record.q.shape[0] // record.k.shape[0]
    q, k = _wide(record.q[head, query]), _wide(record.k[head // group, chosen.to(record.k.device)])
    products = q * k if score.vector is None else _wide(score.vector[head]) * torch.tanh(q + k)
    dot = products.sum(dim=-1)
    s = score.scale * dot
    found = {"q": q, "k": k, "products": products, "dot": dot, "scaled": s}
    if score.is_kernel:
        found["logged"] = s = s.clamp(min=torch.finfo(torch.float32).tiny).log()
    if score.softcap is not None:
        found["capped"] = s = score.softcap * torch.tanh(s / score.softcap)
    if score.bias is not None:
        rows = slice(query, query + 1)
        bias = score.bias.part(record.n_queries, record.n_keys, rows, ALL)[-1]  # [n_heads or 1, 1, n_keys]
        found["bias"] = _wide(bias[head if len(bias) > 1 else 0, 0])[chosen]
        s = s + found["bias"]
    found["score"] = s.masked_fill(~_allowed(record, head, query)[chosen], -math.inf)
    return found


def _values_of(record: SiteRecord, head: HeadRef, query: int) -> tuple[Tensor, Tensor]:
    """The values of a head and the site's output; missing ones are rejected."""
    if record.v is None or record.out is None:
        raise UserError(
            "This trace holds no values.",
            expected="a trace made with keep_values",
            action="Trace the text again with keep_values=True.",
        )
    if not record.q.shape[-1]:
        raise UserError(
            "Of this head only the weights are known, not the queries and keys that they come from.",
            expected="a model that does not compute attention in code of its own",
            action="Look at the weights themselves.",
        )
    for what, index, n in (("head", head.head, record.q.shape[0]), ("query", query, record.n_queries)):
        if not 0 <= index < n:
            raise UserError(
                f"There is no {what} {index} here.",
                expected=f"0 to {n - 1}" if n else "a text that is not empty",
                action=f"Choose a {what} that exists.",
            )
    return record.v[head.head // (record.q.shape[0] // record.v.shape[0])], record.out


def _output_numbers(
    row: Tensor, v: Tensor, own_output: Tensor, weight: Tensor, chosen: Tensor
) -> dict[str, Any]:
    """The values of the chosen keys and the output over all keys, by their names in `HeadInside`."""
    shown_v = _wide(v[chosen.to(v.device)])
    output = _weighted_sum(row.nan_to_num(nan=0.0), v)
    return {
        "v": _numbers(shown_v),
        "value_norms": _numbers(shown_v.norm(dim=-1)),
        "weighted": _numbers(weight.nan_to_num(nan=0.0)[:, None] * shown_v),
        "output": _numbers(output),
        "own_output": _numbers(own_output),
        "output_error": _worst(output - own_output),
    }


def _allowed(record: SiteRecord, head: int, query: int) -> Tensor:
    """Keys that the mask lets one query of a head see, bool [n_keys]."""
    rows = slice(query, query + 1)
    allowed = record.rule.allowed(record.n_queries, record.n_keys, rows, device=record.q.device)[-1]
    return allowed[head if len(allowed) > 1 else 0, 0].cpu()


def _chosen_keys(row: Tensor) -> Tensor:
    """Indices of the keys to show, ascending: all, or the strongest that the mask allows."""
    if len(row) <= MAX_KEYS:
        return torch.arange(len(row), device=row.device)
    return row.nan_to_num(nan=-1.0).topk(N_STRONGEST).indices.sort().values


def _weighted_sum(row: Tensor, v: Tensor) -> Tensor:
    """Σ weight · v over all keys, in blocks: float64 values of long texts are large."""
    total = torch.zeros(v.shape[1], dtype=torch.float64)
    for start in range(0, len(row), _BLOCK_KEYS):
        part = slice(start, start + _BLOCK_KEYS)
        total += row[part] @ _wide(v[part])
    return total


def _comparison(score: ScoreRule) -> Comparison:
    if score.vector is not None:
        return "additive"
    return "kernel" if score.is_kernel else "product"


def _row_sum_error(total: float, lse: float, sink: float | None) -> float:
    """|Σ weight + sink's weight − 1|; 0 for a query that sees no key."""
    if lse == -math.inf:
        return 0.0
    error = abs(total + (0.0 if sink is None else math.exp(sink - lse)) - 1.0)
    return error if math.isfinite(error) else math.inf


def _worst(difference: Tensor) -> float:
    worst = float(difference.abs().max()) if difference.numel() else 0.0
    return worst if math.isfinite(worst) else math.inf


def _wide(tensor: Tensor) -> Tensor:
    return tensor.cpu().double()


def _numbers(tensor: Tensor) -> Floats:
    found: Floats = tensor.float().numpy()
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadWeights:
    """The weights of every head of one site, without biases; `score_scale` None: not a product."""

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    score_scale: float | None

    @property
    def scale(self) -> float:
        """Factor applied to scores; raises UserError if a score is not a product of q and k."""
        if self.score_scale is None:
            raise UserError(
                "This model's scores are not products of a query and a key.",
                expected="the score dot, scaled-dot or general",
                action="Look at its maps instead.",
            )
        return self.score_scale


def weights_of(model: Model, site: SiteKey) -> HeadWeights:
    """The weights of a site's heads, of any model; raises UserError if they cannot be found."""
    network = model.network
    if not isinstance(network, HuggingFaceNetwork):
        return head_weights(own_subject(model), site)
    rows = head_rows(network, site)
    return HeadWeights(q=rows.q, k=rows.k, v=rows.v, o=rows.o, score_scale=rows.scale)


def head_weights(subject: OwnSubject, site: SiteKey) -> HeadWeights:
    block = subject.block(site)
    module = block.cross if site[0] == "cross" else block.attention
    if isinstance(module, SelfAttention):
        n_kv_rows = module.n_kv_heads * module.d_head
        q, k, v = torch.split(module.qkv.weight, [module.n_heads * module.d_head, n_kv_rows, n_kv_rows])
    elif isinstance(module, CrossAttention):
        q, (k, v) = module.query.weight, module.kv.weight.chunk(2)
    else:
        raise ValueError(f"the site {site} has no heads")
    groups = list(module.layout.groups)

    def of_heads(rows: Tensor) -> Tensor:
        return exact(rows.detach()).reshape(-1, module.d_head, rows.shape[1])

    o = exact(module.output.weight.detach())
    scoring = module.scoring
    queries, is_bilinear = of_heads(q), scoring.kind.is_bilinear
    if is_bilinear and scoring.learned is not None:
        queries = exact(scoring.learned.detach()).transpose(1, 2) @ queries
    return HeadWeights(
        q=queries,
        k=of_heads(k)[groups],
        v=of_heads(v)[groups],
        o=o.reshape(len(o), module.n_heads, module.d_head).transpose(0, 1),
        score_scale=scoring.scale if is_bilinear else None,
    )


_BLOCK_CELLS = 1_000_000
"""Cells between two places to stop: 15 ms of work on one core."""
Pairs = tuple[Tensor, Tensor]
"""Values and flat places, first · vocab + second, largest value first."""


def head_circuit(
    model: Model, head: HeadRef, kind: CircuitKind, top: int = 20
) -> Iterator[PartsDone | HeadCircuit]:
    """Yield progress block by block, then the strongest and weakest token pairs of a head."""
    check_heads((head,), model.sites)
    left, right = factors_of(model, head, kind)
    largest: Pairs | None = None
    smallest: Pairs | None = None
    for rows in slices_of(len(left), max(1, _BLOCK_CELLS // len(right))):
        values = left[rows] @ right.T  # [rows, vocab]
        largest = _merge(largest, values, rows.start, top)
        smallest = _merge(smallest, -values, rows.start, top)
        yield PartsDone(n_done=rows.stop, n_total=len(left), about=f"{head.label} {kind}")
    if largest is None or smallest is None:
        raise ValueError("the vocabulary is empty")
    yield HeadCircuit(
        head=head,
        kind=kind,
        largest=_token_pairs(model, largest, len(right), 1.0),
        smallest=_token_pairs(model, smallest, len(right), -1.0),
        sameness=_sameness(left, right),
    )


def factors_of(model: Model, head: HeadRef, kind: CircuitKind) -> tuple[Tensor, Tensor]:
    """`token_factors` of any model that predicts tokens; raises UserError for others."""
    network = model.network
    if not isinstance(network, HuggingFaceNetwork):
        return token_factors(own_subject(model), head, kind)
    if model.info.reads != "text":
        raise UserError(
            f"{model.info.name} reads {model.info.reads}s, which have no table of tokens: there are no pairs,"
            " only singular values."
        )
    telling_subject(model)
    rows = head_rows(network, head.site_key)
    tables, h = token_tables(network, head.site_key, rows), head.head
    if kind == "qk":
        left, right = (rows.q[h] * rows.scale, tables.queries), (rows.k[h], tables.keys)
    else:
        left, right = (rows.v[h], tables.keys), (rows.o[h].T, tables.outputs)
    factors = [table @ matrix.to(table).T for matrix, table in (left, right)]  # [vocab, d_head]
    return factors[0], factors[1]


def token_factors(subject: OwnSubject, head: HeadRef, kind: CircuitKind) -> tuple[Tensor, Tensor]:
    """Two [vocab, d_head] factors, float32; OV or QK is left · rightᵀ, rows source or query tokens."""
    weights = head_weights(subject, head.site_key)
    reading, read = _read_embeddings(subject, head)
    h = head.head
    with torch.no_grad():
        if kind == "qk":
            left, right = reading @ weights.q[h].T * weights.scale, read @ weights.k[h].T
        else:
            left, right = read @ weights.v[h].T, _output_rows(subject) @ weights.o[h]
    return left.float(), right.float()


def _read_embeddings(subject: OwnSubject, head: HeadRef) -> tuple[Tensor, Tensor]:
    """Embeddings as the head's queries and as its keys and values read them, float64."""
    module, block = subject.module, subject.block(head.site_key)
    scale = module.config.d_model**0.5 if module.config.scale_embeddings else 1.0
    n_streams = RESIDUALS[module.config.residual].n_streams  # among which the embedding is divided
    with torch.no_grad():
        embeddings = module.tokens.weight * scale

        def through(x: Tensor, norm: nn.Module | None) -> Tensor:
            return x if norm is None else norm(x)

        def entered(stack: str) -> Tensor:
            own = module.encoder_embedding if stack == "encoder" else module.decoder_embedding
            return through(embeddings, None if own is None else own.norm) / n_streams

        if head.stack == "cross":
            reading = through(entered("decoder"), block.cross_norm if block.is_pre else None)
            return exact(reading), exact(through(entered("encoder"), module.encoder_norm))
        both = exact(through(entered(head.stack), block.attention_norm if block.is_pre else None))
        return both, both


def _output_rows(subject: OwnSubject) -> Tensor:
    """Output weights with the operations before them, the head's own layer as if it had no activation."""
    module = subject.module
    rows = exact((module.tokens.weight if module.head.weight is None else module.head.weight).detach())
    if module.head.transform is not None:
        rows = _before_norm(rows, module.head.norm) @ exact(module.head.transform.weight.detach())
    return _before_norm(rows, module.decoder_norm if subject.form != "encoder" else module.encoder_norm)


def _before_norm(rows: Tensor, norm: Norm | None) -> Tensor:
    """Rows that read a norm's output, rewritten to read its input; its scale is left out."""
    if norm is None:
        return rows
    gain = norm.scheme.gain(norm)
    rows = rows if gain is None else rows * exact(gain.detach())
    return rows - rows.mean(dim=-1, keepdim=True) if norm.scheme.is_centred else rows


def _merge(best: Pairs | None, values: Tensor, first_row: int, top: int) -> Pairs:
    flat = values.flatten()
    if best is None or len(best[0]) < top:
        found, places = flat.topk(min(top, len(flat)))
    else:  # few are better than the worst that was found before
        places = (flat > best[0][-1]).nonzero()[:, 0]
        found = flat[places]
    places = places + first_row * values.shape[1]
    if best is not None:
        found, places = torch.cat((best[0], found)), torch.cat((best[1], places))
        order = found.argsort(descending=True, stable=True)[:top]
        found, places = found[order], places[order]
    return found, places


def _token_pairs(model: Model, pairs: Pairs, n_columns: int, sign: float) -> tuple[TokenPair, ...]:
    token = model.network.vocabulary.token
    return tuple(
        TokenPair(first=token(place // n_columns), second=token(place % n_columns), value=sign * value)
        for value, place in zip(pairs[0].tolist(), pairs[1].tolist(), strict=True)
    )


def _sameness(left: Tensor, right: Tensor) -> float:
    """Σ Re λ / Σ |λ| of left · rightᵀ, whose nonzero eigenvalues are those of the small rightᵀ · left.

    NaN where a weight is not a finite number.
    """
    small = exact(right).T @ exact(left)
    if not bool(small.isfinite().all()):
        return math.nan
    values = torch.linalg.eigvals(small)
    total = float(values.abs().sum())
    return float(values.real.sum()) / total if total > 0 else 0.0


# How many dimensions heads need, each alone and all together: singular values of W_Q W_Kᵀ and of W_V W_O.


def site_spectrum(model: Model, site: SiteKey, kind: CircuitKind = "qk") -> SiteSpectrum:
    """The singular values of one site; raises UserError for a model whose weights cannot be read."""
    return _spectrum(weights_of(model, site), find_site(model.sites, site), kind)


def _spectrum(weights: HeadWeights, site: Site, kind: CircuitKind) -> SiteSpectrum:
    if kind == "qk":
        left, right = weights.q, weights.k  # [n_heads, d_head, d_model] each
    else:
        left, right = weights.v, weights.o.transpose(1, 2)
    if not bool(left.isfinite().all() and right.isfinite().all()):
        raise NotFiniteError(
            "Some of these weights are not finite numbers: they have no singular values.",
            expected="finite weights",
            action="Open another checkpoint, or copy the model again.",
        )
    single = torch.stack([product_spectrum(a, b) for a, b in zip(left, right, strict=True)])
    stacked = product_spectrum(left.flatten(0, 1), right.flatten(0, 1))
    return SiteSpectrum(site=site, single=single.cpu().numpy(), stacked=stacked.cpu().numpy(), kind=kind)


def product_spectrum(q: Tensor, k: Tensor) -> Tensor:
    """Singular values of qᵀ k, descending; q and k are [n_rows, d_model].

    From the small triangles of two QR decompositions, so that no [d_model, d_model] product is made.
    """
    upper_q = torch.linalg.qr(q.T, mode="r").R  # [min(d_model, n_rows), n_rows]
    upper_k = torch.linalg.qr(k.T, mode="r").R
    values: Tensor = torch.linalg.svdvals(upper_q @ upper_k.T)
    return values


KINDS: tuple[CircuitKind, ...] = ("ov", "qk")


def read_head_weights(
    model: Model, head: HeadRef, top: int = N_PAIRS
) -> Iterator[PartsDone | HeadWeightsFound]:
    """Yield progress, and the results after each part; raises UserError for an unknown head."""
    check_heads((head,), model.sites)
    found = HeadWeightsFound(head=head)
    for kind in KINDS:
        found = replace(found, parts=(*found.parts, _with_spectrum(WeightPart(kind=kind), model, head)))
        yield found
    for index, kind in enumerate(KINDS):
        part = found.parts[index]
        try:
            for one in head_circuit(model, head, kind, top):
                if isinstance(one, HeadCircuit):
                    part = replace(part, circuit=one)
                else:
                    yield PartsDone(n_done=one.n_done, n_total=one.n_total, about=kind.upper())
        except UserError as error:
            part = replace(part, refusal=str(error))
        found = replace(found, parts=tuple(part if p.kind == kind else p for p in found.parts))
        yield found


def _with_spectrum(part: WeightPart, model: Model, head: HeadRef) -> WeightPart:
    try:
        return replace(part, spectrum=site_spectrum(model, head.site_key, part.kind))
    except UserError as error:
        return replace(part, no_spectrum=str(error))


@torch.no_grad()
def nearest_pieces(embeddings: Tensor, id: int, n_nearest: int = 8) -> tuple[tuple[int, float], ...]:
    """The ids with the largest cosine wₐ·w_b / |wₐ||w_b| to the piece `id`, without itself, best first.

    Empty for an id without a row, or with a row of zeros.
    """
    if not 0 <= id < len(embeddings):
        return ()
    rows = embeddings.detach().float()
    own = rows[id]
    if not bool(own.any()):
        return ()
    cosines = (rows @ own) / (rows.norm(dim=1) * own.norm()).clamp(min=1e-12)
    cosines[id] = -torch.inf
    best = cosines.topk(min(n_nearest, len(rows) - 1))
    return tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
