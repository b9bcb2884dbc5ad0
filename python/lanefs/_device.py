"""Files in the memory of a device."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lanefs import _lanefs
from lanefs._files import FileSequence
from lanefs._lanefs import PathSet
from lanefs._lookup import Kind
from lanefs.cuda import DeviceBytes, Leases


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

    __slots__ = ("_leases", "_lock", "_memory")

    def __init__(self, memory: _lanefs.DeviceMemory) -> None:
        self._memory = memory
        # No batch begins while a tensor is made.
        self._lock = threading.Lock()
        self._leases = Leases(memory)

    @property
    def capacity(self) -> int:
        """The bytes of all files of a batch at most."""
        return self._memory.capacity

    @property
    def in_use(self) -> bool:
        """True while tensors over the memory live: it takes no other batch then."""
        return self._leases.in_use

    def export_fd(self) -> ExportedMemory:
        """Gives the memory to another program or interface, which sees this batch and later ones.

        It must have ended its work on the memory before the next batch is read. Memory that was made without
        `exportable`, or a device that cannot export it, is an `OSError`.
        """
        return ExportedMemory(*self._memory.export_fd())

    def _bytes(self, number: int, start: int, end: int) -> DeviceBytes:
        """Bytes of a batch as CUDA sees them."""
        with self._lock:
            self._memory.read(number, start, start)
            return DeviceBytes(self._leases.take(), start, end - start)

    def __repr__(self) -> str:
        return f"<DeviceMemory of {self.capacity} bytes>"


class DeviceFiles(FileSequence):
    """The contents of many files, one after the other in the memory of a device.

    `files[i]` is a `memoryview` of a copy of file `i` on the host, or raises the `OSError` of a file that
    was not read. `errors()` has all of them. When the memory has got a later batch, it is a `ValueError`.

    Of `exportable` memory libraries for CUDA make tensors without a copy: `torch.from_dlpack(files)` has the
    bytes of all files, `torch.from_dlpack(files.on_device(i))` those of file `i` (`lanefs.cuda`). As long as a
    tensor lives the memory takes no other batch: a `BufferError`.
    """

    __slots__ = ("_number", "_whole", "memory", "offsets")

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
        self._whole: DeviceBytes | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of all files."""
        return int(self.offsets[-1])

    def export_fd(self) -> ExportedMemory:
        """Gives the memory to another program, as `DeviceMemory.export_fd` does."""
        return self.memory.export_fd()

    def on_device(self, at: int | None = None) -> DeviceBytes:
        """The bytes of file `at`, or of all files, as CUDA sees them.

        A file that was not read raises its `OSError`. Without CUDA it is a `lanefs.cuda.CudaError`.
        """
        if at is None:
            return self.memory._bytes(self._number, 0, self.nbytes)
        at = self._row(at)
        return self.memory._bytes(self._number, int(self.offsets[at]), int(self.offsets[at + 1]))

    def __dlpack__(self, **options: Any) -> object:
        """The bytes of all files for another library, without a copy."""
        return self.on_device().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """CUDA's device."""
        return self.on_device().__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The bytes of all files for CuPy and Numba, without a copy. From then on this object is a use, too."""
        if self._whole is None:
            self._whole = self.on_device()
        return self._whole.__cuda_array_interface__

    def _bytes(self, at: int) -> memoryview:
        start, end = int(self.offsets[at]), int(self.offsets[at + 1])
        return memoryview(self.memory._memory.read(self._number, start, end))

    def __repr__(self) -> str:
        failed = np.count_nonzero(self.codes)
        return f"<DeviceFiles: {len(self)}, of which {failed} were not read, {self.nbytes} bytes>"


def read_to_device(
    volume: _lanefs.Volume,
    paths: PathSet,
    memory: DeviceMemory | None,
    ranges: list[tuple[int, int]] | None,
    threads: int,
    stream: int | None,
) -> DeviceFiles:
    """Reads many files into memory of a device; without one into memory that is as large as they are."""
    if memory is None:
        return _read_to_new(volume, paths, ranges, threads, stream)
    if not isinstance(memory, DeviceMemory):
        raise TypeError(f"memory is a {type(memory).__name__}; Volume.device_memory makes it")
    with memory._lock:
        memory._leases.begin_batch()
        waits = stream is None or memory._leases.timeline() is None
        number, (offsets, codes) = memory._memory.read_files(volume, paths, ranges, threads, waits)
        if stream is not None and not waits:
            memory._leases.begun(stream)
    return DeviceFiles(paths, memory, number, offsets, codes)


def bytes_of(volume: _lanefs.Volume, paths: PathSet, ranges: list[tuple[int, int]] | None = None) -> int:
    """The bytes of all files as they are now, or of a range of each."""
    found = volume.resolve(paths, ["code", "kind", "size"], True)
    is_file = found["kind"] == Kind.FILE
    if ranges is None:
        return int(found["size"][is_file].sum())
    sizes: list[int] = np.where(is_file, found["size"], 0).tolist()
    # Numbers of numpy would wrap around.
    return sum(min(max(size - int(offset), 0), int(length)) for size, (offset, length) in zip(sizes, ranges))


def _read_to_new(
    volume: _lanefs.Volume,
    paths: PathSet,
    ranges: list[tuple[int, int]] | None,
    threads: int,
    stream: int | None,
) -> DeviceFiles:
    room = bytes_of(volume, paths, ranges)
    while True:
        memory = DeviceMemory(_lanefs.DeviceMemory(volume, room, True))
        try:
            return read_to_device(volume, paths, memory, ranges, threads, stream)
        except ValueError:
            # Files that grow between the calls are read again, with room for what they have then.
            grown = bytes_of(volume, paths, ranges)
            if grown <= room:
                raise
            room = grown
