"""Whether what is shown is a sample's: its text goes with the model, its target goes with the text.

What a session file, a tour or a crash brings back needs no mark of its own: a text with a target that a
sample has is that sample's. Must not import Qt.
"""

from attnscope.records.models import ModelInfo, Sample


class SampleKept:
    """The samples that count: those of the open model, and the one that was `given` last.

    `to_come` is what the model that is being opened is to begin with.
    """

    def __init__(self) -> None:
        self.given: Sample | None = None
        self.to_come: Sample | None = None

    def take(self, sample: Sample | None) -> None:
        """The program shows this sample, or what a person made; nothing else is to come."""
        self.given, self.to_come = sample, None

    def is_text(self, model: ModelInfo | None, text: str, target: str | None) -> bool:
        """Whether a text is a sample's, read alone or with the sample's own target; or is none at all."""
        return not text.strip() or any(
            s.text == text and target in (None, s.target) for s in self._samples(model)
        )

    def target_after(self, model: ModelInfo | None, text: str, target: str | None) -> str | None:
        """The target that stays when another text comes: one that a person typed, not a sample's."""
        is_sample = any((s.text, s.target) == (text, target) for s in self._samples(model))
        return None if is_sample else target

    def _samples(self, model: ModelInfo | None) -> tuple[Sample, ...]:
        return (*(model.samples if model else ()), *((self.given,) if self.given else ()))
