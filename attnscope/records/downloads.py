"""Names that stand for a download, and what they name on this machine alone."""

DOWNLOAD_PREFIX = "hf:"


def is_download(source: str) -> bool:
    """Whether opening `source` may read the network."""
    return source.startswith(DOWNLOAD_PREFIX)


def on_this_machine(source: str) -> str:
    """The source of a model that a file names: what a person did not ask for is not downloaded."""
    while is_download(source):
        source = source.removeprefix(DOWNLOAD_PREFIX).strip()
    return source


def typed_name(text: str) -> str:
    """The owner/name that a person types, with or without the prefix, or copies as the address of a page."""
    name = on_this_machine(text.strip())
    _, is_address, rest = name.partition("://")
    return "/".join(rest.split("/")[1:3]) if is_address else name
