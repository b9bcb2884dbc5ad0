"""The compiled part of the package. Paths are bytes here."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, final, overload, type_check_only

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ArrowBatch",
    "DeviceMemory",
    "Epoch",
    "FuzzyNames",
    "Grep",
    "KernelFiles",
    "KernelMirror",
    "OpenFile",
    "PathSet",
    "Views",
    "Volume",
    "__version__",
    "chown",
    "codes",
    "copy_file",
    "device_header",
    "dlpack",
    "duplicates",
    "export_host_tree",
    "getxattr",
    "hard_link",
    "import_host_tree",
    "listxattr",
    "removexattr",
    "setxattr",
    "shuffled",
    "statvfs",
    "sync_host_tree",
    "truncate",
]

__version__: str

@type_check_only
class ArrowArray(Protocol):
    """An array of Arrow, by its C data interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> tuple[object, object]: ...

@type_check_only
class ArrowStream(Protocol):
    """Arrays of Arrow, by its C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...

def codes() -> list[tuple[int, int, str]]: ...
def import_host_tree(
    volume: Volume,
    source: str | os.PathLike[str],
    dest: bytes,
    overwrite: bool,
    one_file_system: bool,
    threads: int | None,
    progress: Callable[[list[int]], object] | None,
) -> tuple[list[int], list[tuple[str, str]], list[str], float]: ...
def export_host_tree(
    volume: Volume,
    source: bytes,
    dest: str | os.PathLike[str],
    overwrite: bool,
    threads: int | None,
    progress: Callable[[list[int]], object] | None,
) -> tuple[list[int], list[tuple[str, str]], list[str], float]: ...
def sync_host_tree(
    volume: Volume,
    source: str | os.PathLike[str],
    dest: bytes,
    flags: list[bool],
    patterns: list[str],
    threads: int | None,
    progress: Callable[[list[int]], object] | None,
) -> tuple[
    tuple[list[int], list[tuple[str, str]], list[str], float],
    list[int],
    list[
        tuple[
            str,
            Literal["added", "removed", "type", "replaced", "attributes", "linked", "renamed"],
            int,
            list[str],
            str | None,
        ]
    ],
]: ...
def device_header() -> str: ...
def dlpack(owner: object, address: int, bytes: int, device: tuple[int, int]) -> object: ...
def hard_link(volume: Volume, original: bytes, link: bytes) -> None: ...
def chown(volume: Volume, path: bytes, uid: int | None, gid: int | None) -> None: ...
def truncate(volume: Volume, path: bytes, size: int) -> None: ...
def getxattr(volume: Volume, path: bytes, name: bytes) -> bytes: ...
def setxattr(volume: Volume, path: bytes, name: bytes, value: bytes) -> None: ...
def removexattr(volume: Volume, path: bytes, name: bytes) -> None: ...
def listxattr(volume: Volume, path: bytes) -> list[str]: ...
def copy_file(volume: Volume, source: bytes, target: bytes) -> bool: ...
def statvfs(volume: Volume) -> list[int]: ...
def duplicates(
    volume: Volume,
    top: bytes,
    min_size: int,
    globs: list[str],
    threads: int,
    progress: Callable[[int, int], object] | None,
) -> tuple[list[tuple[int, bytes, list[list[str]]]], list[OSError]]: ...
def shuffled(count: int, seed: int) -> NDArray[np.uint32]:
    """The numbers below `count` in the order of a seed, which is the same for ever."""

@final
class PathSet:
    """Many paths, which every call on a batch takes."""

    def __new__(
        cls, paths: Iterable[str | bytes | os.PathLike[str]] | NDArray[Any] | ArrowArray | ArrowStream
    ) -> PathSet: ...
    @staticmethod
    def under(
        directories: str
        | bytes
        | os.PathLike[str]
        | Iterable[str | bytes | os.PathLike[str]]
        | NDArray[Any]
        | ArrowArray
        | ArrowStream,
        names: Iterable[str | bytes | os.PathLike[str]] | NDArray[Any] | ArrowArray | ArrowStream,
    ) -> PathSet:
        """The paths of names in one directory, or of names that each have theirs.

        `directories` is one path, or has a path for each name. An Arrow dictionary array of directories is
        used as it is.
        """

    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> tuple[object, object]: ...
    @staticmethod
    def from_file(file: str | os.PathLike[str], delimiter: bytes | None = None) -> PathSet: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: int, /) -> str: ...
    @overload
    def __getitem__(self, key: slice, /) -> PathSet: ...
    def __iter__(self) -> Iterator[str]: ...
    def take(self, rows: NDArray[np.uint32]) -> PathSet:
        """The paths of these indices, in their order."""

    @staticmethod
    def from_buffers(text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> PathSet: ...
    def __reduce__(
        self,
    ) -> tuple[
        Callable[[NDArray[np.uint8], NDArray[np.int64]], PathSet],
        tuple[NDArray[np.uint8], NDArray[np.int64]],
    ]: ...

@final
class ArrowBatch:
    """Columns about many paths, for any library that takes Arrow's memory: `pyarrow.table(batch)`."""

    @staticmethod
    def of_lookup(
        paths: PathSet, codes: NDArray[np.uint8], arrays: list[tuple[str, NDArray[Any]]]
    ) -> ArrowBatch: ...
    @staticmethod
    def of_files(
        paths: PathSet,
        codes: NDArray[np.uint8],
        bytes: NDArray[np.uint8],
        offsets: NDArray[np.int64],
    ) -> ArrowBatch: ...
    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...

@final
class Volume:
    """A volume, across forks of the process."""

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        mode: str,
        size: int | None,
        engine: str,
        cache: int | None,
        shared: bool,
    ) -> Volume: ...
    @staticmethod
    def open_url(
        url: str,
        engine: str,
        cache: int | None,
        shared: bool,
        store: tuple[str | None, int | None, str | None],
    ) -> Volume: ...
    @property
    def url(self) -> str | None: ...
    def publish(self, url: str, level: int, endpoint: str | None) -> str: ...
    @staticmethod
    def memory(size: int, engine: str) -> Volume: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def engine(self) -> str: ...
    def sync(self) -> None: ...
    def resolve(self, paths: PathSet, columns: list[str], follow: bool) -> dict[str, NDArray[Any]]: ...
    def read(
        self, paths: PathSet, ranges: list[tuple[int, int]] | None, threads: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]: ...
    def view(
        self, paths: PathSet, ranges: list[tuple[int, int]] | None, threads: int
    ) -> tuple[Views, NDArray[np.uint8]]: ...
    def read_into(
        self,
        paths: PathSet,
        buffer: NDArray[np.uint8],
        ranges: list[tuple[int, int]] | None,
        threads: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]: ...
    def write_many(
        self,
        paths: PathSet,
        data: bytes,
        offsets: list[int],
        options: tuple[int, bool, bool],
    ) -> NDArray[np.uint8]: ...
    def write(self, path: bytes, data: bytes) -> None: ...
    def stat(self, path: bytes, follow: bool) -> tuple[list[int], list[int]]: ...
    def list(self, path: bytes) -> tuple[list[str], bytes]: ...
    def mkdir(self, path: bytes, mode: int) -> None: ...
    def makedirs(self, path: bytes, mode: int) -> None: ...
    def remove(self, path: bytes) -> None: ...
    def rmdir(self, path: bytes) -> None: ...
    def remove_all(self, path: bytes) -> None: ...
    def rename(self, from_: bytes, to: bytes, replace: bool) -> None: ...
    def symlink(self, target: bytes, path: bytes) -> None: ...
    def readlink(self, path: bytes) -> str: ...
    def chmod(self, path: bytes, mode: int) -> None: ...
    def utime(self, path: bytes, atime_ns: int, mtime_ns: int) -> None: ...

@final
class Grep:
    """A search for lines, which goes on file by file."""

    @staticmethod
    def new(
        volume: Volume,
        top: bytes,
        patterns: list[str],
        flags: list[bool],
        types: list[str],
        globs: list[str],
        max_count: int | None,
        threads: int,
    ) -> tuple[Grep, list[OSError]]: ...
    def more(self, volume: Volume) -> tuple[bytes, list[OSError]] | None: ...

@final
class FuzzyNames:
    """The names below a directory, for fuzzy queries."""

    @staticmethod
    def gather(volume: Volume, top: bytes, threads: int) -> tuple[FuzzyNames, list[OSError]]: ...
    def __len__(self) -> int: ...
    def search(self, query: str, limit: int) -> tuple[list[tuple[str, int, list[int]]], int]: ...

@final
class Views:
    """The contents of many files, in place or copied."""

    def get(self, file: int) -> NDArray[np.uint8]: ...
    @property
    def copied_bytes(self) -> int: ...

@final
class DeviceMemory:
    """Memory of a device, for one batch of files after the other."""

    def __new__(cls, volume: Volume, capacity: int, exportable: bool) -> DeviceMemory: ...
    @property
    def capacity(self) -> int: ...
    @property
    def uuid(self) -> bytes: ...
    def read_files(
        self,
        volume: Volume,
        paths: PathSet,
        ranges: list[tuple[int, int]] | None,
        threads: int,
        waits: bool,
    ) -> tuple[int, tuple[NDArray[np.int64], NDArray[np.uint8]]]: ...
    def read(self, number: int, start: int, end: int) -> bytes: ...
    def wait(self) -> None: ...
    def export_timeline(self) -> int | None: ...
    def arrival(self) -> int | None: ...
    def export_fd(self) -> tuple[int, int, int]: ...

@final
class KernelMirror:
    """A mirror of a volume for kernels of the user's."""

    def __new__(cls, volume: Volume, caches: bool, spare: int) -> KernelMirror: ...
    @property
    def capacity(self) -> int: ...
    @property
    def uuid(self) -> bytes: ...
    def state(self) -> tuple[int, int]: ...
    def refresh(self, volume: Volume) -> int: ...
    def newest(self, volume: Volume) -> int: ...
    def export_fd(self) -> tuple[int, int, int]: ...
    def close(self) -> None: ...

@final
class KernelFiles:
    """Files that kernels of the user's find by inode number."""

    def __new__(cls, volume: Volume, capacity: int, files: int, misses: int) -> KernelFiles: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def uuid(self) -> bytes: ...
    def count(self) -> int: ...
    def missed(self) -> NDArray[np.uint64]: ...
    def bring_missed(self, volume: Volume) -> tuple[int, int, int, bool]: ...
    def bring_files(self, volume: Volume, inodes: NDArray[np.uint64]) -> tuple[int, int, int, bool]: ...
    def export_fd(self) -> tuple[int, int, int]: ...
    def close(self) -> None: ...

@final
class OpenFile:
    """A regular file that is open."""

    @staticmethod
    def open(volume: Volume, path: bytes, mode: str) -> OpenFile: ...
    def read_into(self, offset: int, buffer: NDArray[np.uint8]) -> int: ...
    def write(self, offset: int | None, data: bytes) -> int: ...
    def size(self) -> int: ...
    def truncate(self, size: int) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...
    def discard(self) -> None: ...

@final
class Epoch:
    """A pass over many files, whose threads read ahead."""

    def __new__(
        cls,
        volume: Volume,
        paths: PathSet,
        batch: int,
        seed: int | None,
        rows: Sequence[int] | NDArray[np.uint32] | None,
        memory: int,
        start: int,
        threads: int,
    ) -> Epoch: ...
    def next(
        self,
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint8]] | None: ...
    @property
    def position(self) -> int | None: ...
    def close(self) -> None: ...
