"""Answers about paths: `Stat` for one, `Lookup` for many."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import NDArray

from lanefs._errors import error_of
from lanefs._lanefs import ArrowBatch, PathSet

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
    """The type of a file, as in the column `kind`."""

    #: Of a path that names no file.
    NONE = 0
    FIFO = 1
    CHAR_DEVICE = 2
    DIRECTORY = 4
    BLOCK_DEVICE = 6
    FILE = 8
    SYMLINK = 10
    SOCKET = 12


@dataclass(frozen=True)
class Stat:
    """The attributes of a file, as `os.stat_result` has them: `st_size`, or `stat[stat.ST_SIZE]`.

    Times are nanoseconds since 1970 in the attributes that end in `_ns`, and else seconds.
    """

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

    #: A volume is not a device of the host.
    st_dev: ClassVar[int] = 0
    st_blksize: ClassVar[int] = 4096

    @property
    def st_atime(self) -> float:
        """The time of the last access."""
        return self.st_atime_ns / 1e9

    @property
    def st_mtime(self) -> float:
        """The time of the last change of the content."""
        return self.st_mtime_ns / 1e9

    @property
    def st_ctime(self) -> float:
        """The time of the last change of the attributes."""
        return self.st_ctime_ns / 1e9

    @property
    def st_birthtime(self) -> float:
        """The time of creation."""
        return self.st_birthtime_ns / 1e9

    def is_dir(self) -> bool:
        """True for a directory."""
        return self.kind == Kind.DIRECTORY

    def is_file(self) -> bool:
        """True for a regular file."""
        return self.kind == Kind.FILE

    def is_symlink(self) -> bool:
        """True for a symbolic link."""
        return self.kind == Kind.SYMLINK

    def _tuple(self) -> tuple[int, ...]:
        """The ten numbers of the tuple `os.stat_result`, at the indices of the module `stat`."""
        times = (self.st_atime_ns, self.st_mtime_ns, self.st_ctime_ns)
        head = (self.st_mode, self.st_ino, self.st_dev, self.st_nlink, self.st_uid, self.st_gid, self.st_size)
        return (*head, *(time // 10**9 for time in times))

    def __len__(self) -> int:
        return len(self._tuple())

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        return self._tuple()[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._tuple())


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
    #: Signed, so that differences may be negative.
    size: NDArray[np.int64]
    blocks: NDArray[np.int64]
    rdev: NDArray[np.uint64]
    mtime_ns: NDArray[np.int64]
    ctime_ns: NDArray[np.int64]
    atime_ns: NDArray[np.int64]
    btime_ns: NDArray[np.int64]
    generation: NDArray[np.uint32]

    def __init__(self, paths: PathSet, columns: dict[str, NDArray[Any]]) -> None:
        self.paths = paths
        self.codes = columns.pop("code")
        #: The names of the columns that were asked for.
        self.columns = tuple(columns)
        for name in {"size", "blocks"} & columns.keys():
            columns[name] = columns[name].view(np.int64)
        self.__dict__.update(columns)

    @property
    def exists(self) -> NDArray[np.bool_]:
        """True where a path names a file."""
        return np.equal(self.codes, 0)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column by its name."""
        if name not in (*COLUMNS, "exists", "codes"):
            raise KeyError(name)
        column: NDArray[Any] = getattr(self, name)
        return column

    def _table(self) -> dict[str, Any]:
        """The paths, `exists` and the columns that were asked for, by their names."""
        return {"path": list(self.paths), **{name: self[name] for name in ("exists", *self.columns)}}

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with a row for each path: `path`, `exists` and the columns asked for."""
        import pandas

        return pandas.DataFrame(self._table())

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with a row for each path: `path`, `exists` and the columns asked for.

        The columns are not copied. They have nulls where a path names no file.
        """
        import pyarrow

        return pyarrow.table(self)

    def as_arrow(self) -> ArrowBatch:
        """The columns of `to_arrow` for any library that takes Arrow's memory, such as Polars."""
        arrays = [(name, self[name]) for name in self.columns]
        return ArrowBatch.of_lookup(self.paths, self.codes, arrays)

    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> tuple[object, object]:
        return self.as_arrow().__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object:
        return self.as_arrow().__arrow_c_stream__(requested_schema)

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
