"""Import, export and sync of trees of the host."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

from lanefs._lookup import Kind


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


class Difference(NamedTuple):
    """A name that is not the same in two trees."""

    #: Below the tops of both trees; empty for the tops themselves.
    path: str
    change: Literal["added", "removed", "type", "replaced", "attributes", "linked", "renamed"]
    kind: Kind
    #: Aspects that differ, where both trees have the name: `content`, `size`, `mtime`, `mode`, `owner`, `group`,
    #: `acl`, `xattrs`, `hard_links`.
    differs: tuple[str, ...]
    #: The path that a renamed file or directory had before.
    old_path: str | None = None


class SyncReport(NamedTuple):
    """The outcome of a sync: the amounts that were copied, as in `Report`, and the names that differed."""

    counts: Counts
    problems: list[tuple[str, str]]
    notes: list[str]
    seconds: float
    #: Names of the source, and how many of them were added, replaced, got other attributes or became hard links.
    compared: int
    added: int
    replaced: int
    attributes: int
    linked: int
    #: Names that the source lacks.
    removed: int
    #: Each difference, by path; empty unless the call asks for them.
    differences: list[Difference]
    #: Names of files and directories that had another name.
    renamed: int = 0


def count_tree(top: str | os.PathLike[str]) -> Counts:
    """The amounts that an import of a directory or file of the host has to transfer, for a progress bar.

    Names that cannot be looked at are left out.
    """
    return counts_of(_attributes(os.fspath(top)))


def _attributes(top: str) -> Iterable[tuple[int, int, int, object]]:
    """The mode, the links, the size and the identity of each file below a directory."""
    paths = [top] if not os.path.isdir(top) else []
    for directory, directories, files in os.walk(top):
        paths.extend(os.path.join(directory, name) for name in (*directories, *files))
    for path in paths:
        try:
            one = os.lstat(path)
        except OSError:
            continue
        yield one.st_mode, one.st_nlink, one.st_size, (one.st_dev, one.st_ino)


def counts_of(attributes: Iterable[tuple[int, int, int, object]]) -> Counts:
    """The amounts of files by their mode, links, size and identity."""
    files = directories = symlinks = hard_links = specials = size = 0
    known = set()
    for mode, links, length, identity in attributes:
        if stat.S_ISDIR(mode):
            directories += 1
            continue
        if links > 1:
            if identity in known:
                hard_links += 1
                continue
            known.add(identity)
        if stat.S_ISLNK(mode):
            symlinks += 1
        elif stat.S_ISREG(mode):
            files, size = files + 1, size + length
        else:
            specials += 1
    return Counts(files, directories, symlinks, hard_links, specials, size)


def on_bar(bar: Any, unit: Literal["files", "bytes"] = "files") -> Callable[[Counts], None]:
    """An argument `progress` that moves a bar of tqdm, or another object with `n` and `update`."""

    def progress(counts: Counts) -> None:
        bar.update(getattr(counts, unit) - bar.n)

    return progress
