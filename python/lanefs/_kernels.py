"""A volume's metadata and files in the memory of a GPU, for kernels of one's own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lanefs import _lanefs
from lanefs._device import ExportedMemory
from lanefs.cuda import Mapping


class BroughtFiles(NamedTuple):
    """The outcome of bringing files to a device."""

    #: Files that are there now.
    files: int
    #: Files that cannot be read; a kernel gets the code of each.
    failed: int
    #: Files for which there was no room, or that changed meanwhile; a kernel misses them again.
    left: int
    #: The memory was full, so the files of earlier calls are gone.
    is_new_round: bool


_Memory = TypeVar("_Memory", bound="_KernelMemory")


class _KernelMemory:
    """Memory that kernels of the user's read, by its address. It lives until it is closed."""

    def __init__(self, volume: _lanefs.Volume, memory: _lanefs.KernelMirror | _lanefs.KernelFiles, nbytes: int) -> None:
        self._pid = os.getpid()
        self._volume = volume
        self._closable = memory
        self._mapping: Mapping | None = None
        self._is_closed = False
        # One thread works with the memory at a time.
        self._lock = threading.RLock()
        #: The bytes of the memory, which `lanefs_open` and `lanefs_open_files` are given.
        self.nbytes = nbytes

    def _check(self) -> None:
        """Refuses a process that was forked from the one whose memory this is."""
        if self._pid != os.getpid():
            raise RuntimeError("this process was forked from the one that has the memory of the device")

    def _mapped(self) -> Mapping:
        self._check()
        with self._lock:
            if self._is_closed:
                raise ValueError("the memory of the device is closed")
            if self._mapping is None:
                self._mapping = Mapping(self._closable, self.nbytes)
            return self._mapping

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The turn of the host: all kernels have ended, and no other thread works with the memory."""
        self._check()
        with self._lock:
            if self._mapping is not None:
                self._mapping.wait()
            yield

    @property
    def address(self) -> int:
        """The address of the memory, for kernels; the first use imports it into CUDA.

        The address holds until `close`, or the end of this object: keep it until all kernels have ended.
        Without CUDA it is a `lanefs.cuda.CudaError`.
        """
        return self._mapped().address

    @property
    def device(self) -> int:
        """The number of CUDA's device that has the memory."""
        return self._mapped().number

    @property
    def closed(self) -> bool:
        """True once the memory is closed."""
        return self._is_closed

    def close(self) -> None:
        """Ends the memory, when all work on the device has ended. Other programs keep what they have imported.

        In a forked child it does nothing: the memory is its parent's.
        """
        if self._pid != os.getpid():
            return
        with self._lock:
            self._is_closed = True
            self._mapping = None
            self._closable.close()

    def __enter__(self: _Memory) -> _Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class MirrorExport(_KernelMemory):
    """A volume's metadata as of one generation, for kernels: `Volume.export_mirror`.

    A kernel gives `address` and `nbytes` to `lanefs_open` of `lanefs_device.h` (`lanefs.cuda.header`). The bytes stay as
    they are while the volume changes, until `refresh`. It outlives the volume, which `refresh` and `newest`
    need open.
    """

    def __init__(self, volume: _lanefs.Volume, caches: bool, spare: int) -> None:
        self._mirror = _lanefs.KernelMirror(volume, caches, spare)
        super().__init__(volume, self._mirror, self._mirror.capacity)

    @property
    def generation(self) -> int:
        """The mirror generation of the bytes."""
        return self._mirror.state()[1]

    @property
    def used(self) -> int:
        """The bytes that the mirror of this generation takes, of `nbytes`."""
        return self._mirror.state()[0]

    def newest(self) -> int:
        """The generation of the volume as it is now: above `generation` where a `refresh` would change bytes."""
        return self._mirror.newest(self._volume)

    def refresh(self) -> int:
        """Copies the metadata as they are now into the same memory, and returns their generation.

        It waits for all work of CUDA's context first; no other process may have kernels that read the memory.
        Metadata that have grown past the memory are an `OSError` with `ENOSPC`, and the bytes stay: make a new
        export, or one with `spare` bytes from the beginning.
        """
        with self._alone():
            return self._mirror.refresh(self._volume)

    def export_fd(self) -> ExportedMemory:
        """Gives the memory to another program, which only reads it. (`address` needs no such call.)"""
        return ExportedMemory(*self._mirror.export_fd())

    def __repr__(self) -> str:
        return f"<MirrorExport of {self.nbytes} bytes>"


class DeviceFileTable(_KernelMemory):
    """Files in a device's memory that kernels find by inode number: `Volume.device_file_table`.

    A kernel gives `address` and `nbytes` to `lanefs_open_files`, and reads by `lanefs_read`, which notes the
    files that are not there. When it has ended, `bring_missed` brings them, and the kernel runs again. All calls
    of this object wait for all work of CUDA's context first.
    """

    def __init__(self, volume: _lanefs.Volume, capacity: int, files: int, misses: int) -> None:
        self._table = _lanefs.KernelFiles(volume, capacity, files, misses)
        super().__init__(volume, self._table, self._table.nbytes)
        #: The bytes of the contents of all files at most.
        self.capacity = capacity

    def __len__(self) -> int:
        """The number of files that are there."""
        return self._table.count()

    def missed(self) -> NDArray[np.uint64]:
        """The inode numbers that kernels have missed since files were brought last, each once, in order."""
        with self._alone():
            return self._table.missed()

    def bring_missed(self) -> BroughtFiles:
        """Brings the files that kernels have missed, as far as there is room.

        The loop of a program ends when `files + failed` is 0, or no path is left to it.
        """
        with self._alone():
            return BroughtFiles(*self._table.bring_missed(self._volume))

    def bring_files(self, inodes: ArrayLike) -> BroughtFiles:
        """Brings files by their inode numbers (`volume.resolve(paths).ino`), also those that are there already."""
        numbers = np.ascontiguousarray(inodes, dtype=np.uint64)
        with self._alone():
            return BroughtFiles(*self._table.bring_files(self._volume, numbers))

    def export_fd(self) -> ExportedMemory:
        """Gives the memory to another program, whose kernels write to it by `lanefs_read` only."""
        return ExportedMemory(*self._table.export_fd())

    def __repr__(self) -> str:
        return f"<DeviceFileTable of {self.capacity} bytes>"
