"""Import, export and sync of trees of the host."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, overload

from lanefs import _lanefs
from lanefs._batches import BatchCalls
from lanefs._lookup import Kind
from lanefs._paths import Path, check_least, check_texts


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
    return _counts_of(_attributes(os.fspath(top)))


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


def _counts_of(attributes: Iterable[tuple[int, int, int, object]]) -> Counts:
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


def _counting(progress: Callable[[Counts], object] | None) -> Callable[[list[int]], object] | None:
    """A function that gets the numbers of the library."""
    return None if progress is None else lambda numbers: progress(Counts(*numbers))


class TreeCalls(BatchCalls):
    """The calls that copy trees between a volume and the host."""

    def import_tree(
        self,
        source: str | os.PathLike[str],
        target: Path = "/",
        *,
        overwrite: bool = False,
        one_file_system: bool = False,
        threads: int | None = None,
        progress: Callable[[Counts], object] | None = None,
    ) -> Report:
        """Imports a directory's content, or a file, with all attributes; then everything is durable.

        The content of the directory `source` goes into the directory `target`. Files that cannot be read are
        in the report. `progress` is called about ten times a second. Ctrl-C, and an exception of `progress`,
        stop the import; every file imported so far is complete.
        """
        check_least(threads=threads)
        parts = _lanefs.import_host_tree(
            self._volume, source, os.fsencode(target), overwrite, one_file_system, threads, _counting(progress)
        )
        return Report(Counts(*parts[0]), *parts[1:])

    def export_tree(
        self,
        source: Path,
        target: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        threads: int | None = None,
        progress: Callable[[Counts], object] | None = None,
    ) -> Report:
        """Exports a directory's content, or a file, with all attributes to the host, as `import_tree`."""
        check_least(threads=threads)
        parts = _lanefs.export_host_tree(
            self._volume, os.fsencode(source), target, overwrite, threads, _counting(progress)
        )
        return Report(Counts(*parts[0]), *parts[1:])

    def count_tree(self, top: Path = "/") -> Counts:
        """The amounts that an export of a directory or file has to transfer, as `lanefs.count_tree`."""
        paths = [os.fsdecode(top)] if not self.isdir(top) else []
        for directory, directories, files in self.walk(top):
            paths.extend(os.path.join(directory, name) for name in (*directories, *files))
        found = self.resolve(paths, ["mode", "nlink", "size", "ino"], follow=False)
        columns = [found[name][found.exists].tolist() for name in ("mode", "nlink", "size", "ino")]
        return _counts_of(zip(*columns))

    @overload
    def sync(self) -> None: ...

    @overload
    def sync(
        self,
        source: str | os.PathLike[str],
        target: Path = "/",
        *,
        delete: bool = False,
        checksum: bool = False,
        dry_run: bool = False,
        exclude: Sequence[str] = (),
        include: Sequence[str] = (),
        one_file_system: bool = False,
        differences: bool | None = None,
        threads: int | None = None,
        progress: Callable[[Counts], object] | None = None,
    ) -> SyncReport: ...

    def sync(
        self,
        source: str | os.PathLike[str] | None = None,
        target: Path = "/",
        *,
        delete: bool = False,
        checksum: bool = False,
        dry_run: bool = False,
        exclude: Sequence[str] = (),
        include: Sequence[str] = (),
        one_file_system: bool = False,
        differences: bool | None = None,
        threads: int | None = None,
        progress: Callable[[Counts], object] | None = None,
    ) -> SyncReport | None:
        """Makes the directory `target` the same as `source`, a directory of the host, by the differences alone.

        A file is unchanged if size, time of modification, mode, owner, link target, extended attributes and
        hard links are the same; `checksum` compares contents as well. `delete` removes names that the source
        lacks. `exclude` and `include` are patterns as those of gitignore; `include` wins. `dry_run` changes
        nothing. The report has the list of differences after a dry run, or where `differences` is true.
        Everything is durable on return. Without `source` the call only makes all changes so far durable.

        `progress` is called about ten times a second. Ctrl-C, and an exception of `progress`, stop the sync;
        each file is the old or the new one then, and the next sync finishes the work.
        """
        if source is None:
            self._volume.sync()
            return None
        check_least(threads=threads)
        patterns = [*check_texts(exclude, "exclude"), *(f"!{pattern}" for pattern in check_texts(include, "include"))]
        lists = dry_run if differences is None else differences
        flags = [delete, checksum, dry_run, one_file_system, lists]
        (copied, problems, notes, seconds), counts, found = _lanefs.sync_host_tree(
            self._volume, source, os.fsencode(target), flags, patterns, threads, _counting(progress)
        )
        listed = [
            Difference(path, change, Kind(kind), tuple(differs), old) for path, change, kind, differs, old in found
        ]
        compared, added, replaced, attributes, linked, removed, renamed = counts
        return SyncReport(
            Counts(*copied),
            problems,
            notes,
            seconds,
            compared,
            added,
            replaced,
            attributes,
            linked,
            removed,
            listed,
            renamed,
        )
