"""The calls of a volume for many paths."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, Union, overload

import numpy as np
from numpy.typing import NDArray

from lanefs import _lanefs
from lanefs._device import DeviceFiles, DeviceMemory, read_to_device
from lanefs._epoch import Epoch
from lanefs._file import bytes_like, writable_bytes
from lanefs._files import Files, FilesInPlace
from lanefs._kernels import DeviceFileTable, MirrorExport
from lanefs._lanefs import ArrowBatch, PathSet
from lanefs._lookup import Lookup
from lanefs._paths import Path, PathCalls, check_least, check_mode


class ArrowArray(Protocol):
    """An Arrow array of strings, by Arrow's C data interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """Arrow arrays of strings, one after the other, by Arrow's C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...


#: Many paths.
Paths = Union[PathSet, Iterable[Path], NDArray[Any], ArrowArray, ArrowStream]


def path_set(paths: Paths) -> PathSet:
    """Takes paths in any form."""
    return paths if isinstance(paths, PathSet) else PathSet(paths)


def _ranges(ranges: Sequence[tuple[int, int]] | None, paths: PathSet) -> list[tuple[int, int]] | None:
    """Checks ranges."""
    if ranges is None:
        return None
    if len(ranges) != len(paths):
        raise ValueError(f"ranges has {len(ranges)} items for {len(paths)} paths")
    for at, (offset, length) in enumerate(ranges):
        if offset < 0 or length < 0:
            raise ValueError(f"ranges[{at}] is ({offset}, {length}); both are at least 0")
    return list(ranges)


class BatchCalls(PathCalls):
    """The calls for many paths: one call, one answer for each path."""

    @overload
    def resolve(
        self,
        paths: Paths,
        columns: Sequence[str] = ("ino", "kind", "size", "mtime_ns"),
        *,
        follow: bool = True,
        as_arrow: Literal[False] = False,
    ) -> Lookup: ...

    @overload
    def resolve(
        self,
        paths: Paths,
        columns: Sequence[str] = ("ino", "kind", "size", "mtime_ns"),
        *,
        follow: bool = True,
        as_arrow: Literal[True],
    ) -> ArrowBatch: ...

    def resolve(
        self,
        paths: Paths,
        columns: Sequence[str] = ("ino", "kind", "size", "mtime_ns"),
        *,
        follow: bool = True,
        as_arrow: bool = False,
    ) -> Lookup | ArrowBatch:
        """Looks many paths up.

        `columns` are names of `lanefs.COLUMNS`; `exists` is there in any case. With `follow` a
        symbolic link in the last component stands for its target. Paths of `PathSet.under` are looked up
        without putting them together.

        With `as_arrow` the answer is the `ArrowBatch` of `Lookup.as_arrow`.
        """
        if isinstance(columns, str):
            raise TypeError("columns is one name; give a list of them")
        paths = path_set(paths)
        asked = [column for column in columns if column != "exists"]
        arrays = self._volume.resolve(paths, ["code", *asked], follow)
        found = Lookup(paths, {name: arrays[name] for name in ("code", *asked)})
        return found.as_arrow() if as_arrow else found

    @overload
    def read(
        self,
        paths: Paths,
        *,
        ranges: Sequence[tuple[int, int]] | None = None,
        threads: int = 0,
        as_arrow: Literal[False] = False,
    ) -> Files: ...

    @overload
    def read(
        self,
        paths: Paths,
        *,
        ranges: Sequence[tuple[int, int]] | None = None,
        threads: int = 0,
        as_arrow: Literal[True],
    ) -> ArrowBatch: ...

    def read(
        self,
        paths: Paths,
        *,
        ranges: Sequence[tuple[int, int]] | None = None,
        threads: int = 0,
        as_arrow: bool = False,
    ) -> Files | ArrowBatch:
        """Reads many files.

        One bad path affects no other: `files[i]` raises its error, and `files.errors()` has all. `ranges`
        are an offset and a length for each path; bytes past the end are left out. The call uses as many
        threads as the machine has processors, up to 8, or at most `threads`.

        With `as_arrow` the answer is the `ArrowBatch` of `Files.as_arrow`.
        """
        check_least(threads=threads)
        paths = path_set(paths)
        buffer, offsets, codes = self._volume.read(paths, _ranges(ranges, paths), threads)
        files = Files(paths, buffer, offsets, codes)
        return files.as_arrow() if as_arrow else files

    def view(
        self, paths: Paths, *, ranges: Sequence[tuple[int, int]] | None = None, threads: int = 0
    ) -> FilesInPlace:
        """Reads many files without copying them, where the volume is open for reading (mode `r`).

        A file that lies on the volume in one piece is memory of the volume's cache, which nobody can write
        to. Other files are copied, all of them where the volume is open for writing or in memory, and those
        beyond half of the cache. Arguments and errors are those of `read`.
        """
        check_least(threads=threads)
        paths = path_set(paths)
        views, codes = self._volume.view(paths, _ranges(ranges, paths), threads)
        return FilesInPlace(paths, views, codes)

    def read_into(
        self,
        paths: Paths,
        buffer: Any,
        *,
        ranges: Sequence[tuple[int, int]] | None = None,
        threads: int = 0,
    ) -> Files:
        """Reads many files into memory of the caller: a numpy array, a bytearray, any writable buffer.

        No other thread may use that memory meanwhile. A buffer that is too small is a `ValueError`.
        """
        check_least(threads=threads)
        paths = path_set(paths)
        memory = writable_bytes(buffer)
        offsets, codes = self._volume.read_into(paths, memory, _ranges(ranges, paths), threads)
        return Files(paths, memory[: int(offsets[-1])], offsets, codes)

    def device_memory(self, capacity: int, *, exportable: bool = False) -> DeviceMemory:
        """Makes memory of the device for files of `capacity` bytes in all, which serves many batches.

        The volume must have been opened with `engine="gpu"`; otherwise it is a `ValueError`. `exportable`
        memory can be given to another program or interface: `DeviceMemory.export_fd`.
        """
        check_least(capacity=capacity)
        return DeviceMemory(_lanefs.DeviceMemory(self._volume, capacity, exportable))

    def read_to_device(
        self,
        paths: Paths,
        memory: DeviceMemory | None = None,
        *,
        ranges: Sequence[tuple[int, int]] | None = None,
        threads: int = 0,
        stream: int | None = None,
    ) -> DeviceFiles:
        """Reads many files into memory of the device, in place of the files that it has.

        Arguments and errors are those of `read`. Memory that is too small is a `ValueError`; memory over which
        a tensor lives is a `BufferError`. Without `memory` the files get exportable memory of their own, which
        ends with them and the tensors over it.

        All bytes are on the device when the call returns. With a `stream` of CUDA (`stream.cuda_stream` of
        torch, `stream.ptr` of CuPy) the later work of that stream waits for the last of them on the device, and
        the call need not, where the device and CUDA have timeline semaphores in common; else it waits.
        """
        check_least(threads=threads)
        paths = path_set(paths)
        return read_to_device(self._volume, paths, memory, _ranges(ranges, paths), threads, stream)

    def export_mirror(self, *, caches: bool = True, spare: int = 0) -> MirrorExport:
        """Copies the metadata, as they are now, into memory of the device for kernels of one's own.

        The volume must have been opened with `engine="gpu"`. With `caches` a lookup of a path that the engine
        has resolved before reads less. `spare` bytes are room for metadata that come later, when the export is
        refreshed.
        """
        check_least(spare=spare)
        return MirrorExport(self._volume, caches, spare)

    def device_file_table(self, capacity: int, *, files: int = 1 << 20, misses: int = 1 << 18) -> DeviceFileTable:
        """Makes memory of the device for files of `capacity` bytes in all that kernels find by inode number.

        It has so many `files` at a time at most, and lists so many `misses` of a kernel; further ones are
        missed again when the kernel runs again.
        """
        check_least(capacity=capacity, files=files, misses=misses)
        return DeviceFileTable(self._volume, capacity, files, misses)

    def epoch(
        self,
        paths: Paths,
        batch_size: int = 256,
        *,
        seed: int | None = None,
        rows: Sequence[int] | NDArray[np.uint32] | None = None,
        memory: int = 256 << 20,
        start: int = 0,
        threads: int = 0,
    ) -> Epoch:
        """Reads each file once, in batches and ahead of the program.

        The order is that of the paths, with `seed` a random one that it determines for ever (`shuffled`), or
        that of `rows`, the indices of paths: one worker's part of `lanefs.shuffled(len(paths), seed)`, for
        example. `memory` is that of the batches that are read ahead and those that the program holds, in
        bytes. `start` files are left out: `Epoch.position` of an epoch to continue.
        """
        if seed is not None and rows is not None:
            raise ValueError("seed and rows are two orders; give one")
        check_least(start=start, memory=memory, threads=threads, seed=seed)
        check_least(1, batch_size=batch_size)
        paths = path_set(paths)
        epoch = _lanefs.Epoch(self._volume, paths, batch_size, seed, rows, memory, start, threads)
        files = (len(paths) if rows is None else len(rows)) - start
        return Epoch(paths, epoch, -(-files // batch_size))

    def write_many(
        self,
        paths: Paths,
        contents: Iterable[bytes | bytearray | memoryview | NDArray[np.uint8]],
        *,
        mode: int = 0o644,
        make_directories: bool = False,
        overwrite: bool = False,
    ) -> dict[int, OSError]:
        """Makes many files, each with its whole content in one step.

        A file that exists stays as it is; with `overwrite` its content is replaced, also in one step, and it
        keeps its attributes. Returns the errors by the index of their path; no failure affects
        another file. An interrupt leaves the files that were made so far.
        """
        check_mode(mode)
        paths = path_set(paths)
        pieces = [bytes_like(piece, f"contents[{at}]") for at, piece in enumerate(contents)]
        if len(pieces) != len(paths):
            raise ValueError(f"contents has {len(pieces)} items for {len(paths)} paths")
        offsets = [0]
        for piece in pieces:
            offsets.append(offsets[-1] + len(piece))
        options = (mode, make_directories, overwrite)
        codes = self._volume.write_many(paths, b"".join(pieces), offsets, options)
        return Files(paths, np.empty(0, np.uint8), np.zeros(len(paths) + 1, np.int64), codes).errors()

    async def aread(
        self, paths: Paths, *, ranges: Sequence[tuple[int, int]] | None = None, threads: int = 0
    ) -> Files:
        """As `read`, in a thread beside the event loop. A task that is cancelled does not end the reading."""
        return await asyncio.to_thread(self.read, paths, ranges=ranges, threads=threads)
