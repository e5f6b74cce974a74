"""What the model said at each token of a written text, without gates and with them."""

from attnscope.models.inputs import Inputs
from attnscope.models.network import Network
from attnscope.models.outputs import kl_nats, log_probabilities
from attnscope.models.writing.written import Written
from attnscope.records.outputs import Candidate, Comparison, Output, Prediction
from attnscope.records.tokens import Token
from attnscope.trace.probe import GateProbe


def compare_written(network: Network, written: Written, *, top: int = 8) -> Comparison:
    """One prediction for each written token.

    Without gates nothing is computed: the writing itself has said it all. With gates it takes one pass.
    """
    text, gates = written.text, written.trace.gates
    after = Output(
        kind=network.output_kind,
        predictions=tuple(
            Prediction(
                position=token.position,
                context=_context(written.inputs, token.position),
                candidates=token.alternatives[:top],
            )
            for token in text.tokens
        ),
        generated="" if gates else text.text,
    )
    if not gates:
        return Comparison(before=after, after=after, kl_nats=(0.0,) * len(text.tokens))
    positions = [token.position for token in text.tokens]
    probe = GateProbe(network.sites, gates, is_paired=True)
    done = network.run(written.inputs, probe, n_copies=2)
    log_p = [log_probabilities(done.logits(positions, copy=copy)) for copy in (0, -1)]
    values, ids = log_p[0].topk(min(top, log_p[0].shape[1]))
    rows = zip(after.predictions, values.exp().tolist(), ids.tolist(), strict=True)
    before = Output(
        kind=network.output_kind,
        predictions=tuple(
            Prediction(
                position=prediction.position,
                context=prediction.context,
                candidates=tuple(
                    Candidate(token=network.answer(id), probability=probability)
                    for id, probability in zip(row_ids, row_values, strict=True)
                ),
            )
            for prediction, row_values, row_ids in rows
        ),
    )
    return Comparison(before=before, after=after, kl_nats=kl_nats(log_p[0], log_p[1]))


def _context(inputs: Inputs, position: int) -> str:
    token: Token = (inputs.target or inputs.source).tokens[position]
    return "at the start" if token.is_special else f'after "{token.piece}"'
