"""Answers about paths: `Stat` for one, `Lookup` for many."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lanefs._errors import error_of
from lanefs._lanefs import PathSet

#: The columns that `Volume.resolve` can give, beside `exists`.
COLUMNS = (
    "ino",
    "kind",
    "mode",
    "nlink",
    "uid",
    "gid",
    "size",
    "blocks",
    "rdev",
    "mtime_ns",
    "ctime_ns",
    "atime_ns",
    "btime_ns",
    "generation",
)


class Kind(enum.IntEnum):
    """The type of a file, as in the column `kind`; 0 stands for a path that names no file."""

    FIFO = 1
    CHAR_DEVICE = 2
    DIRECTORY = 4
    BLOCK_DEVICE = 6
    FILE = 8
    SYMLINK = 10
    SOCKET = 12


class Stat(NamedTuple):
    """The attributes of a file, named as in `os.stat_result`; times are nanoseconds since 1970."""

    st_mode: int
    st_ino: int
    st_nlink: int
    st_uid: int
    st_gid: int
    st_size: int
    #: In units of 512 bytes, as everywhere in POSIX.
    st_blocks: int
    st_rdev: int
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int
    #: Creation.
    st_birthtime_ns: int
    st_gen: int
    kind: Kind

    @property
    def st_mtime(self) -> float:
        """The time of the last change in seconds since 1970."""
        return self.st_mtime_ns / 1e9

    def is_dir(self) -> bool:
        """True for a directory."""
        return self.kind == Kind.DIRECTORY

    def is_file(self) -> bool:
        """True for a regular file."""
        return self.kind == Kind.FILE


def stat_of(numbers: list[int], times: list[int]) -> Stat:
    """Takes the numbers of the library in their order."""
    mode, ino, nlink, uid, gid, size, blocks, rdev, kind, generation = numbers
    atime, mtime, ctime, btime = times
    head = (mode, ino, nlink, uid, gid, size, blocks * 8, rdev)
    return Stat(*head, atime, mtime, ctime, btime, generation, Kind(kind))


class Lookup:
    """Answers about many paths: arrays with an element for each path, in their order.

    Where a path names no file, `exists` is False, the other columns are 0, and `codes` tells why. A column
    that `Volume.resolve` was not asked for is an `AttributeError`.
    """

    #: The paths.
    paths: PathSet
    #: The result code of each path; 0 is success.
    codes: NDArray[np.uint8]
    ino: NDArray[np.uint64]
    kind: NDArray[np.uint8]
    mode: NDArray[np.uint16]
    nlink: NDArray[np.uint32]
    uid: NDArray[np.uint32]
    gid: NDArray[np.uint32]
    size: NDArray[np.uint64]
    blocks: NDArray[np.uint64]
    rdev: NDArray[np.uint64]
    mtime_ns: NDArray[np.int64]
    ctime_ns: NDArray[np.int64]
    atime_ns: NDArray[np.int64]
    btime_ns: NDArray[np.int64]
    generation: NDArray[np.uint32]

    def __init__(self, paths: PathSet, columns: dict[str, NDArray[Any]]) -> None:
        self.paths = paths
        self.codes = columns.pop("code")
        self.__dict__.update(columns)

    @property
    def exists(self) -> NDArray[np.bool_]:
        """True where a path names a file."""
        return np.equal(self.codes, 0)

    def __len__(self) -> int:
        return len(self.codes)

    def errors(self) -> dict[int, OSError]:
        """The exceptions of the paths that name no file, by their index."""
        failed = np.flatnonzero(self.codes).tolist()
        return {at: error_of(int(self.codes[at]), self.paths[at]) for at in failed}

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name in COLUMNS:
            raise AttributeError(f"ask for it: resolve(paths, columns=[{name!r}, ...])")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<Lookup: {len(self)}, of which {int(self.exists.sum())} exist>"
