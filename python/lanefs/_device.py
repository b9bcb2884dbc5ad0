"""Files in the memory of a device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lanefs import _lanefs
from lanefs._files import FileSequence
from lanefs._lanefs import PathSet


class ExportedMemory(NamedTuple):
    """Memory of a device, for another program or another interface such as CUDA."""

    #: An opaque file descriptor. Whoever imports it takes it over; otherwise close it (`os.close`).
    fd: int
    #: The bytes of the whole allocation, as an importer must give them.
    allocation_bytes: int
    #: The byte of the allocation at which the memory of the files begins.
    offset: int


class DeviceMemory:
    """Memory of a device, for one batch of files after the other: `Volume.device_memory`."""

    __slots__ = ("_memory",)

    def __init__(self, memory: _lanefs.DeviceMemory) -> None:
        self._memory = memory

    @property
    def capacity(self) -> int:
        """The bytes of all files of a batch at most."""
        return self._memory.capacity

    def export_fd(self) -> ExportedMemory:
        """Gives the memory to another program or interface, which sees this batch and later ones.

        It must have ended its work on the memory before the next batch is read. Memory that was made without
        `exportable`, or a device that cannot export it, is an `OSError`.
        """
        return ExportedMemory(*self._memory.export_fd())

    def __repr__(self) -> str:
        return f"<DeviceMemory of {self.capacity} bytes>"


class DeviceFiles(FileSequence):
    """The contents of many files, one after the other in the memory of a device.

    `files[i]` is a `memoryview` of a copy of file `i` on the host, or raises the `OSError` of a file that
    was not read. `errors()` has all of them. When the memory has got a later batch, it is a `ValueError`.
    """

    __slots__ = ("_number", "memory", "offsets")

    def __init__(
        self,
        paths: PathSet,
        memory: DeviceMemory,
        number: int,
        offsets: NDArray[np.int64],
        codes: NDArray[np.uint8],
    ) -> None:
        super().__init__(paths, codes)
        #: The memory that has the files.
        self.memory = memory
        #: File `i` lies from byte `offsets[i]` to `offsets[i + 1]` of the memory.
        self.offsets = offsets
        self._number = number

    @property
    def nbytes(self) -> int:
        """The bytes of all files."""
        return int(self.offsets[-1])

    def export_fd(self) -> ExportedMemory:
        """Gives the memory to another program, as `DeviceMemory.export_fd` does."""
        return self.memory.export_fd()

    def _bytes(self, at: int) -> memoryview:
        start, end = int(self.offsets[at]), int(self.offsets[at + 1])
        return memoryview(self.memory._memory.read(self._number, start, end))

    def __repr__(self) -> str:
        failed = np.count_nonzero(self.codes)
        return f"<DeviceFiles: {len(self)}, of which {failed} were not read, {self.nbytes} bytes>"


def read_to_device(
    volume: _lanefs.Volume,
    paths: PathSet,
    memory: DeviceMemory,
    ranges: list[tuple[int, int]] | None,
    threads: int,
) -> DeviceFiles:
    """Reads many files into memory of a device."""
    if not isinstance(memory, DeviceMemory):
        raise TypeError(f"memory is a {type(memory).__name__}; Volume.device_memory makes it")
    number, (offsets, codes) = memory._memory.read_files(volume, paths, ranges, threads)
    return DeviceFiles(paths, memory, number, offsets, codes)
