"""Search in a volume: lines that match, files of the same content, paths by fuzzy names."""

from __future__ import annotations

import base64
import fnmatch
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lanefs import _lanefs
from lanefs._batches import BatchCalls
from lanefs._lookup import Kind
from lanefs._paths import Path, check_least, check_texts

#: Function that learns of a file or directory that could not be read.
OnError = Callable[[OSError], object]


@dataclass(frozen=True)
class Line:
    """A line of a file that matches."""

    #: The path of the file.
    path: str
    #: Number of the line; the first is 1.
    number: int
    #: Bytes of the file before the line.
    offset: int
    #: The line with its end.
    line: bytes
    #: Begin and end of each match in the line, in bytes.
    spans: tuple[tuple[int, int], ...]

    @property
    def text(self) -> str:
        """The line without its end. Bytes that are not UTF-8 become surrogates, as in the names of files."""
        return self.line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class EqualFiles:
    """Files of the same content."""

    #: Size of each in bytes.
    size: int
    #: BLAKE3 hash of the content.
    hash: bytes
    #: The paths of each file: one, or more where the file has hard links.
    files: tuple[tuple[str, ...], ...]

    @property
    def paths(self) -> list[str]:
        """The first path of each file."""
        return [paths[0] for paths in self.files]

    @property
    def wasted(self) -> int:
        """Bytes that all but one of the files have."""
        return self.size * (len(self.files) - 1)


@dataclass(frozen=True)
class Scored:
    """A path that matches a fuzzy query."""

    path: str
    #: The score, that of fzf's algorithm. A higher one is better.
    score: int
    #: The indexes of the characters of the path that match.
    positions: tuple[int, ...]


class FuzzyNames:
    """The names below a directory, as they were when this was made, for many fuzzy queries.

    A query that extends the one before it, as while a user types, looks only at the matches of that one.
    """

    def __init__(self, names: _lanefs.FuzzyNames) -> None:
        """Use `Volume.fuzzy_names`."""
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def search(self, query: str, limit: int = 100) -> list[Scored]:
        """The best matches of a query, the best one first.

        The words of the query are those of fzf: `'exact`, `^begin`, `end$`, `!not`, `this | that`. An empty
        query matches everything. Matches of one score come by length.
        """
        return [Scored(path, score, tuple(at)) for path, score, at in self._names.search(query, limit)[0]]

    def count(self, query: str) -> int:
        """The number of names that match a query."""
        return self._names.search(query, 0)[1]


def _tell(failures: list[OSError], onerror: OnError | None) -> None:
    """Passes failures on, as `os.walk` does."""
    if onerror is not None:
        for failure in failures:
            onerror(failure)


def _lines(volume: _lanefs.Volume, search: _lanefs.Grep, onerror: OnError | None) -> Iterator[Line]:
    """The lines that a search finds."""
    while (found := search.more(volume)) is not None:
        output, failures = found
        _tell(failures, onerror)
        for message in output.splitlines():
            parsed = json.loads(message)
            if parsed["type"] == "match":
                yield _line(parsed["data"])


def _line(data: dict[str, Any]) -> Line:
    spans = tuple((match["start"], match["end"]) for match in data["submatches"])
    path = os.fsdecode(_bytes(data["path"]))
    return Line(path, data["line_number"], data["absolute_offset"], _bytes(data["lines"]), spans)


def _bytes(data: dict[str, str]) -> bytes:
    """Text of ripgrep's JSON, which has bytes that are not UTF-8 in base 64."""
    return data["text"].encode() if "text" in data else base64.b64decode(data["bytes"])


class SearchCalls(BatchCalls):
    """The calls that find files: by their names and attributes, by lines in them, by equal content."""

    def find(
        self,
        top: Path = "/",
        *,
        name: str | None = None,
        kind: Kind | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        newer_than_ns: int | None = None,
        onerror: Callable[[OSError], object] | None = None,
    ) -> Iterator[str]:
        """Finds the paths below `top` that meet all conditions.

        `name` is a pattern of `fnmatch`, for the last component. `min_size` and `max_size` are bytes, both
        included; they and `newer_than_ns` (a last change after this time) are asked for in one batch for each
        directory.
        """
        matches = re.compile(fnmatch.translate(name)).match if name is not None else None
        needs_attributes = any(limit is not None for limit in (min_size, max_size, newer_than_ns))
        low, high = min_size or 0, (1 << 63) if max_size is None else max_size
        waiting = [os.fsdecode(top)]
        while waiting:
            path = waiting.pop()
            try:
                entries = self.entries(path)
            except OSError as error:
                if onerror is not None:
                    onerror(error)
                continue
            below = [(os.path.join(path, entry), entry, is_kind) for entry, is_kind in entries]
            waiting.extend(path for path, _, is_kind in below if is_kind == Kind.DIRECTORY)
            found = [
                path
                for path, entry, is_kind in below
                if (kind is None or is_kind == kind) and (matches is None or matches(entry))
            ]
            if needs_attributes:
                answers = self.resolve(found, ["size", "mtime_ns"], follow=False)
                fits = answers.exists & (answers.size >= low) & (answers.size <= high)
                if newer_than_ns is not None:
                    fits &= answers.mtime_ns > newer_than_ns
                found = [path for path, fit in zip(found, fits.tolist()) if fit]
            yield from found

    def grep(
        self,
        pattern: str | Sequence[str],
        top: Path = "/",
        *,
        fixed: bool = False,
        ignore_case: bool = False,
        words: bool = False,
        invert: bool = False,
        text: bool = False,
        types: Sequence[str] = (),
        globs: Sequence[str] = (),
        max_count: int | None = None,
        threads: int = 0,
        onerror: OnError | None = None,
    ) -> Iterator[Line]:
        """The lines that match, file by file in the order of paths, as `lanefs grep` and ripgrep find them.

        `pattern` is a regular expression of the Rust crate `regex`, or several, and text with `fixed`; one
        that is wrong is a `ValueError`. `top` is a file, or a directory with all that is below. `words` wants
        word boundaries around a match, `invert` finds the lines without one. A file with a NUL byte is
        searched up to that byte, with `text` whole. `types` are ripgrep's (`rust`), `globs` those of `-g`:
        only files that match, or, with `!` before it, do not. `max_count` is that of lines in a file.
        `onerror` gets the exceptions of files and directories that cannot be read; without it they are left
        out. The files are those that exist at the call.
        """
        check_least(max_count=max_count, threads=threads)
        patterns = [pattern] if isinstance(pattern, str) else list(pattern)
        flags = [fixed, ignore_case, words, invert, text]
        search, failures = _lanefs.Grep.new(
            self._volume,
            os.fsencode(top),
            patterns,
            flags,
            check_texts(types, "types"),
            check_texts(globs, "globs"),
            max_count,
            threads,
        )
        _tell(failures, onerror)
        return _lines(self._volume, search, onerror)

    def fuzzy_names(
        self, top: Path = "/", *, threads: int = 0, onerror: OnError | None = None
    ) -> FuzzyNames:
        """Reads all names below a directory, for fuzzy queries."""
        check_least(threads=threads)
        names, failures = _lanefs.FuzzyNames.gather(self._volume, os.fsencode(top), threads)
        _tell(failures, onerror)
        return FuzzyNames(names)

    def fuzzy(self, query: str, top: Path = "/", *, limit: int = 100) -> list[Scored]:
        """The paths below a directory that match a fuzzy query best, as `lanefs find --fuzzy` finds them.

        For further queries `fuzzy_names` reads the names once.
        """
        check_least(limit=limit)
        return self.fuzzy_names(top).search(query, limit)

    def duplicates(
        self,
        top: Path = "/",
        *,
        min_size: int = 1,
        globs: Sequence[str] = (),
        threads: int = 0,
        onerror: OnError | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> list[EqualFiles]:
        """The files below a directory that have the same content, those first that waste the most bytes.

        Files are compared by size, then by the BLAKE3 hashes of their contents. `min_size` is in bytes.
        `progress` is called with the number of files that are done and that of all.
        """
        check_least(min_size=min_size, threads=threads)
        groups, failures = _lanefs.duplicates(
            self._volume, os.fsencode(top), min_size, check_texts(globs, "globs"), threads, progress
        )
        _tell(failures, onerror)
        return [
            EqualFiles(size, hash, tuple(tuple(paths) for paths in files)) for size, hash, files in groups
        ]
