"""A made-up report on removed heads, for tests of what shows it."""

from attnscope.records import Gates, HeadRef, ModelSize, PruningProof, PruningReport, SiteHeads, SpeedChange


def _ref(stack: str, layer: int, head: int) -> HeadRef:
    return HeadRef(stack=stack, layer=layer, head=head)  # type: ignore[arg-type]


OFF = (_ref("cross", 0, 1), _ref("decoder", 1, 3), _ref("encoder", 0, 0), _ref("encoder", 0, 1))
GATES = Gates.of({**dict.fromkeys(OFF, 0.0), _ref("encoder", 1, 2): 0.5})
REPORT = PruningReport(
    shape="small",
    opens_in="AttnScope",
    sites=(SiteHeads(stack="encoder", layer=0, n_before=4, heads=(2, 3)),),
    removed=OFF,
    folded=((_ref("encoder", 1, 2), 0.5),),
    before=ModelSize(n_parameters=1000, n_bytes=4000),
    after=ModelSize(n_parameters=800, n_bytes=3200),
    proof=PruningProof(max_difference=6e-7, largest_logit=4.0, n_texts=4, n_logits=969),
    speed=SpeedChange(
        before_ms=2.0, after_ms=1.6, ratio=1.25, ratio_low=1.2, ratio_high=1.3, n_turns=15, n_tokens=7
    ),
    notes=("A note with <b>tags</b>.",),
)
