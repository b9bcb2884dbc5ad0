"""Search in a volume: lines that match, files of the same content, paths by fuzzy names."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lanefs import _lanefs

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


def tell(failures: list[OSError], onerror: OnError | None) -> None:
    """Passes failures on, as `os.walk` does."""
    if onerror is not None:
        for failure in failures:
            onerror(failure)


def grep(volume: _lanefs.Volume, search: _lanefs.Grep, onerror: OnError | None) -> Iterator[Line]:
    """The lines that a search finds."""
    while (found := search.more(volume)) is not None:
        output, failures = found
        tell(failures, onerror)
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
