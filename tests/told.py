"""What a state told of its changes, in order."""

from psygnal import EmissionInfo, SignalGroup


def names_told(changed: SignalGroup) -> list[str]:
    """The names of its signals as they are emitted from now on."""
    names: list[str] = []

    def note(info: EmissionInfo) -> None:
        names.append(info.signal.name)

    changed.connect(note)
    return names
