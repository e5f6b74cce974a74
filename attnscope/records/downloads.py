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
