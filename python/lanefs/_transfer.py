"""Import and export of trees of the host."""

from __future__ import annotations

from typing import NamedTuple


class Counts(NamedTuple):
    """Amounts transferred so far."""

    files: int
    directories: int
    symlinks: int
    #: Further names of files that are already counted.
    hard_links: int
    #: Fifos, sockets and devices.
    specials: int
    bytes: int


class Report(NamedTuple):
    """The outcome of a transfer."""

    counts: Counts
    #: Files that were not transferred, or not unchanged: the path of the source, and the failure.
    problems: list[tuple[str, str]]
    #: Losses that the destination causes by its nature.
    notes: list[str]
    seconds: float
