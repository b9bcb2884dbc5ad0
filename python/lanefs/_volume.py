"""The class `Volume`."""

from __future__ import annotations

import asyncio
import fnmatch
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import IO, Any, Literal, NoReturn, Protocol, Union, overload

import numpy as np
from numpy.typing import NDArray

from lanefs import _lanefs
from lanefs._device import DeviceFiles, DeviceMemory, read_to_device
from lanefs._epoch import Epoch
from lanefs._file import bytes_like, open_file, writable_bytes
from lanefs._files import Files, FilesInPlace
from lanefs._lanefs import ArrowBatch, PathSet
from lanefs._lookup import Kind, Lookup
from lanefs._paths import Path, PathCalls
from lanefs._paths import check_least as _least
from lanefs._paths import check_mode as _mode
from lanefs._search import EqualFiles, FuzzyNames, Line, OnError, Scored, grep, tell
from lanefs._transfer import Counts, Difference, Report, SyncReport, counts_of


class ArrowArray(Protocol):
    """An Arrow array of strings, by Arrow's C data interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """Arrow arrays of strings, one after the other, by Arrow's C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...


#: Many paths.
Paths = Union[PathSet, Iterable[Path], NDArray[Any], ArrowArray, ArrowStream]
Mode = Literal["r", "r+", "w", "x"]
Engine = Literal["auto", "cpu", "gpu"]

#: The beginning of a URL.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def path_set(paths: Paths) -> PathSet:
    """Takes paths in any form."""
    return paths if isinstance(paths, PathSet) else PathSet(paths)


class Volume(PathCalls):
    """An open volume. Every method may be called from many threads, and waits without the interpreter's lock.

    A relative path begins in the root directory. Errors are `OSError`s with `errno` and `filename`; a closed
    volume is a `ValueError`.

    A volume that is open for reading may cross a `fork` and may be pickled: the other process opens it again.
    """

    def __init__(
        self, volume: _lanefs.Volume, reopen: tuple[Any, ...] | None, name: str, mode: Literal["r", "r+"]
    ) -> None:
        """Use `Volume.open` or `Volume.memory`."""
        self._volume = volume
        self._reopen = reopen
        self._name = name
        self._mode = mode
        # Of a volume that is open, `open` is taken for the `open` of a file.
        self.open = _opens_volumes  # type: ignore[method-assign]

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        mode: Mode = "r",
        *,
        size: int | None = None,
        engine: Engine = "auto",
        cache: int | None = None,
        shared: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_size: int | None = None,
        endpoint: str | None = None,
    ) -> Volume:
        """Opens the volume in a file, on a raw device, or on a store.

        `mode` is `r` (reading; any number of processes), `r+` (reading and writing; this process alone), `x`
        (a new volume of `size` bytes) or `w` (the same, in place of whatever the file holds). `cache` is the
        memory for blocks in bytes; by default a quarter of the machine's, or of a container's limit.

        Handles of one file in a process share one open volume, with the cache of the first: where one of them
        writes, it is open for writing, and the last one closes it. A handle for reading refuses to write.

        With `shared`, for reading, this process is one of several: the volume's bytes are in the host's page
        cache, once for all of them, and `cache` is 64 MiB by default. A handle that crosses a `fork` or is
        pickled is opened so in the other process.

        `engine` answers batches of lookups: `cpu`, `gpu`, or `auto`, which measures both for large batches
        where there is a GPU. With `gpu` the device also takes part in searches (`grep`, `fuzzy_names`,
        `duplicates`), and keeps the contents that `grep` has read of a volume that is open with `r`. Results
        are the same.

        A path that is the URL of a publication (`s3://bucket/photos`, `file:///srv/photos#draft`) is opened
        for reading; a handle in another process opens the same version. `cache_dir` is the directory of the
        local cache, by default that of the program `lanefs`; `cache_size` its bytes, by default 10 GiB, and
        0 for none. `endpoint` is the server of a service, such as `http://localhost:9000`.
        """
        _least(size=size, cache=cache, cache_size=cache_size)
        if isinstance(path, str) and _URL.match(path):
            if mode != "r" or size is not None:
                raise ValueError("a publication is for reading, with mode 'r' and without a size")
            directory = None if cache_dir is None else os.path.abspath(os.fsdecode(cache_dir))
            remote = (directory, cache_size, endpoint)
            volume = _lanefs.Volume.open_url(path, engine, cache, shared, remote)
            # The other process opens the same version.
            url = volume.url or path
            return cls(volume, (url, mode, engine, cache, *remote), url, "r")
        if (cache_dir, cache_size, endpoint) != (None, None, None):
            raise ValueError("cache_dir, cache_size and endpoint are for the URL of a publication")
        name = os.path.abspath(os.fsdecode(path))
        volume = _lanefs.Volume.open(name, mode, size, engine, cache, shared)
        # A volume that this call makes is opened again, not made again.
        again: Literal["r", "r+"] = "r" if mode == "r" else "r+"
        return cls(volume, (name, again, engine, cache), name, again)

    @classmethod
    def memory(cls, size: int = 1 << 30, *, engine: Engine = "auto") -> Volume:
        """Makes a volume of `size` bytes in memory. It is gone when it is closed."""
        _least(size=size)
        return cls(_lanefs.Volume.memory(size, engine), None, "memory", "r+")

    def publish(self, url: str, *, level: int = 9, endpoint: str | None = None) -> str:
        """Publishes the volume as the next version of a tag, and returns the URL of the version.

        `url` is the store, with a tag behind `#`, by default `latest`. What the store has is not written
        again. A volume that is open for writing is published as it is now, while other threads go on.
        `level` is that of the compression, 1 to 19.
        """
        return self._volume.publish(url, level, endpoint)

    def close(self) -> None:
        """Makes all changes durable, and closes the volume.

        Where other threads are in a call, the volume stays open until the last of them is done. Closing a
        closed volume does nothing.
        """
        self._volume.close()

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._volume.closed

    @property
    def path(self) -> str:
        """The absolute path of the volume's file or device, or the URL of a publication; else `memory`."""
        return self._name

    @property
    def mode(self) -> Literal["r", "r+"]:
        """`r` for a volume that is open for reading, `r+` for one that can be written, a new one too."""
        return self._mode

    @property
    def engine(self) -> str:
        """The engine that answers batches now, with the name of its device."""
        return self._volume.engine

    def __enter__(self) -> Volume:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Volume], tuple[Any, ...]]:
        if self._reopen is None:
            raise TypeError("a volume in memory cannot be pickled: no other process can open it")
        return _open_again, self._reopen

    def __repr__(self) -> str:
        return f"<lanefs.Volume {self.path!r}, mode {self.mode!r}{' (closed)' if self.closed else ''}>"

    # Batches.

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
        _least(threads=threads)
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
        _least(threads=threads)
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
        _least(threads=threads)
        paths = path_set(paths)
        memory = writable_bytes(buffer)
        offsets, codes = self._volume.read_into(paths, memory, _ranges(ranges, paths), threads)
        return Files(paths, memory[: int(offsets[-1])], offsets, codes)

    def device_memory(self, capacity: int, *, exportable: bool = False) -> DeviceMemory:
        """Makes memory of the device for files of `capacity` bytes in all, which serves many batches.

        The volume must have been opened with `engine="gpu"`; otherwise it is a `ValueError`. `exportable`
        memory can be given to another program or interface: `DeviceMemory.export_fd`.
        """
        _least(capacity=capacity)
        return DeviceMemory(_lanefs.DeviceMemory(self._volume, capacity, exportable))

    def read_to_device(
        self,
        paths: Paths,
        memory: DeviceMemory | None = None,
        *,
        ranges: Sequence[tuple[int, int]] | None = None,
        threads: int = 0,
    ) -> DeviceFiles:
        """Reads many files into memory of the device, in place of the files that it has.

        Arguments and errors are those of `read`. Memory that is too small is a `ValueError`; memory over which
        a tensor lives is a `BufferError`. Without `memory` the files get exportable memory of their own, which
        ends with them and the tensors over it.
        """
        _least(threads=threads)
        paths = path_set(paths)
        return read_to_device(self._volume, paths, memory, _ranges(ranges, paths), threads)

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
        _least(start=start, memory=memory, threads=threads, seed=seed)
        _least(1, batch_size=batch_size)
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
        _mode(mode)
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

    # Files, and trees.

    def open_file(
        self,
        path: Path,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Opens a file with the arguments of Python's `open`: a buffered file object that can seek.

        The file lives on until it is closed, also without a name. Objects that append do so at the end that
        the file has then; two of them in two threads may write over each other.
        """
        return open_file(self._volume, path, mode, buffering, encoding, errors, newline)

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

    async def aread(
        self, paths: Paths, *, ranges: Sequence[tuple[int, int]] | None = None, threads: int = 0
    ) -> Files:
        """As `read`, in a thread beside the event loop. A task that is cancelled does not end the reading."""
        return await asyncio.to_thread(self.read, paths, ranges=ranges, threads=threads)

    # Search.

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
        _least(max_count=max_count, threads=threads)
        patterns = [pattern] if isinstance(pattern, str) else list(pattern)
        flags = [fixed, ignore_case, words, invert, text]
        search, failures = _lanefs.Grep.new(
            self._volume,
            os.fsencode(top),
            patterns,
            flags,
            _texts(types, "types"),
            _texts(globs, "globs"),
            max_count,
            threads,
        )
        tell(failures, onerror)
        return grep(self._volume, search, onerror)

    def fuzzy_names(
        self, top: Path = "/", *, threads: int = 0, onerror: OnError | None = None
    ) -> FuzzyNames:
        """Reads all names below a directory, for fuzzy queries."""
        _least(threads=threads)
        names, failures = _lanefs.FuzzyNames.gather(self._volume, os.fsencode(top), threads)
        tell(failures, onerror)
        return FuzzyNames(names)

    def fuzzy(self, query: str, top: Path = "/", *, limit: int = 100) -> list[Scored]:
        """The paths below a directory that match a fuzzy query best, as `lanefs find --fuzzy` finds them.

        For further queries `fuzzy_names` reads the names once.
        """
        _least(limit=limit)
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
        _least(min_size=min_size, threads=threads)
        groups, failures = _lanefs.duplicates(
            self._volume, os.fsencode(top), min_size, _texts(globs, "globs"), threads, progress
        )
        tell(failures, onerror)
        return [
            EqualFiles(size, hash, tuple(tuple(paths) for paths in files)) for size, hash, files in groups
        ]

    # Trees of the host.

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
        _least(threads=threads)
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
        _least(threads=threads)
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
        return counts_of(zip(*columns))

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
        _least(threads=threads)
        patterns = [*_texts(exclude, "exclude"), *(f"!{pattern}" for pattern in _texts(include, "include"))]
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


def _opens_volumes(*_: object, **__: object) -> NoReturn:
    raise TypeError("open is for volumes (lanefs.Volume.open); open_file opens a file of this one")


def _open_again(
    path: str,
    mode: Mode,
    engine: Engine,
    cache: int | None,
    cache_dir: str | None = None,
    cache_size: int | None = None,
    endpoint: str | None = None,
) -> Volume:
    """Opens a volume that was pickled."""
    return Volume.open(
        path,
        mode,
        engine=engine,
        cache=cache,
        shared=mode == "r",
        cache_dir=cache_dir,
        cache_size=cache_size,
        endpoint=endpoint,
    )


def _texts(texts: Sequence[str], name: str) -> list[str]:
    """Checks an argument that is several texts."""
    if isinstance(texts, str):
        raise TypeError(f"{name} is one text; give a list of them")
    return list(texts)


def _counting(progress: Callable[[Counts], object] | None) -> Callable[[list[int]], object] | None:
    """A function that gets the numbers of the library."""
    return None if progress is None else lambda numbers: progress(Counts(*numbers))


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
