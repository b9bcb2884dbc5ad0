"""The class `Volume`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any, Literal, NoReturn

from lanefs import _lanefs
from lanefs._file import open_file
from lanefs._paths import Path, check_least
from lanefs._search import SearchCalls
from lanefs._transfer import TreeCalls

Mode = Literal["r", "r+", "w", "x"]
Engine = Literal["auto", "cpu", "gpu"]

#: The beginning of a URL.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Volume(SearchCalls, TreeCalls):
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
        check_least(size=size, cache=cache, cache_size=cache_size)
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
        check_least(size=size)
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
