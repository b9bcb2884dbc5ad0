"""Files in the memory of a GPU, for CUDA: tensors of PyTorch and CuPy over the memory, without a copy; and a
volume for kernels of one's own.

    volume = lanefs.Volume.open("photos.lane", engine="gpu")
    files = volume.read_to_device(paths)
    everything = torch.from_dlpack(files)        # the bytes of all files
    third = torch.from_dlpack(files.on_device(2))

    with volume.export_mirror() as mirror, volume.device_file_table(1 << 30) as table:
        kernel(blocks, threads, (mirror.address, mirror.nbytes, table.address, table.nbytes, ...))

The module calls CUDA's driver (`libcuda.so.1`) and needs no package. Without a driver, or where no device of
CUDA is the volume's, a call raises `CudaError`, which says what is missing.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from lanefs import _lanefs

#: The driver, by the names that a system may have for it.
LIBRARIES = ("libcuda.so.1", "libcuda.so")

#: `kDLCUDA` of DLPack.
DLPACK_CUDA = 2

#: `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD`.
_OPAQUE_FD = 1

#: `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD`.
_TIMELINE_FD = 9


def header() -> str:
    """The text of `lanefs_device.h`, by which kernels in CUDA C++ read a mirror and a table of files.

    Put it before the source of a kernel, or into a file that the source includes.
    """
    return _lanefs.device_header()


class CudaError(RuntimeError):
    """CUDA is not there, or a call of it failed."""


class _HandleDesc(ctypes.Structure):
    """`CUDA_EXTERNAL_MEMORY_HANDLE_DESC`; the handle is a union with two pointers."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("_padding", ctypes.c_int),
        ("fd", ctypes.c_int),
        ("_rest", ctypes.c_int * 3),
        ("size", ctypes.c_ulonglong),
        ("flags", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 16),
    ]


class _BufferDesc(ctypes.Structure):
    """`CUDA_EXTERNAL_MEMORY_BUFFER_DESC`."""

    _fields_ = [
        ("offset", ctypes.c_ulonglong),
        ("size", ctypes.c_ulonglong),
        ("flags", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 16),
    ]


class _SemaphoreDesc(ctypes.Structure):
    """`CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC`; the handle is a union with two pointers."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("_padding", ctypes.c_int),
        ("fd", ctypes.c_int),
        ("_rest", ctypes.c_int * 3),
        ("flags", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 16),
    ]


class _WaitParams(ctypes.Structure):
    """`CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS`: the value of a fence, and parts for other kinds."""

    _fields_ = [
        ("value", ctypes.c_ulonglong),
        ("_other", ctypes.c_ulonglong * 3),
        ("_reserved", ctypes.c_uint * 10),
        ("flags", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 16),
    ]


class Driver:
    """CUDA's driver, and the primary context of each device, which PyTorch and CuPy use, too."""

    def __init__(self, libraries: tuple[str, ...]) -> None:
        self._library = _loaded(libraries)
        # The collector of garbage may end a mapping on a thread that has the lock.
        self._lock = threading.RLock()
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self.pid = os.getpid()
        self._call("cuInit", ctypes.c_uint(0))

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            known = self._library.cuGetErrorString(ctypes.c_int(code), ctypes.byref(text)) == 0
            words = text.value.decode() if known and text.value else "an error of CUDA"
            raise CudaError(f"{name}: {words} ({code})")

    def device_of(self, uuid: bytes) -> int:
        """The number of the device with a UUID."""
        count, seen = ctypes.c_int(), (ctypes.c_uint8 * 16)()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        for number in range(count.value):
            device = ctypes.c_int()
            self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
            self._call("cuDeviceGetUuid", ctypes.byref(seen), device)
            if bytes(seen) == uuid:
                return number
        raise CudaError(f"none of the {count.value} devices of CUDA is the volume's, whose UUID is {uuid.hex()}")

    @contextmanager
    def current(self, number: int) -> Iterator[None]:
        """The primary context of a device, for the calls of this thread."""
        with self._lock:
            context = self._contexts.get(number)
            if context is None:
                device, context = ctypes.c_int(), ctypes.c_void_p()
                self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
                self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
                self._contexts[number] = context
        self._call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def wait(self, number: int) -> None:
        """Waits for all work on a device."""
        with self.current(number):
            self._call("cuCtxSynchronize")

    def import_memory(self, number: int, exported: tuple[int, int, int], size: int) -> tuple[ctypes.c_void_p, int]:
        """Imports memory of which a descriptor is given, and returns its handle and its address."""
        fd, allocation_bytes, offset = exported
        handle, address = ctypes.c_void_p(), ctypes.c_ulonglong()
        memory = _HandleDesc(type=_OPAQUE_FD, fd=fd, size=allocation_bytes)
        part = _BufferDesc(offset=offset, size=size)
        is_taken = False
        try:
            with self.current(number):
                self._call("cuImportExternalMemory", ctypes.byref(handle), ctypes.byref(memory))
                is_taken = True
                try:
                    self._call("cuExternalMemoryGetMappedBuffer", ctypes.byref(address), handle, ctypes.byref(part))
                except CudaError:
                    self._call("cuDestroyExternalMemory", handle)
                    raise
        finally:
            # The driver takes the descriptor over only where it succeeds.
            if not is_taken:
                os.close(fd)
        return handle, address.value

    def import_timeline(self, number: int, fd: int) -> ctypes.c_void_p | None:
        """Imports a timeline semaphore of which a descriptor is given; `None` where the driver takes none."""
        handle = ctypes.c_void_p()
        semaphore = _SemaphoreDesc(type=_TIMELINE_FD, fd=fd)
        try:
            with self.current(number):
                self._call("cuImportExternalSemaphore", ctypes.byref(handle), ctypes.byref(semaphore))
        except (AttributeError, CudaError):
            # Drivers before CUDA 11.2 know no timelines. The descriptor is theirs only where they succeed.
            os.close(fd)
            return None
        return handle

    def wait_in_stream(self, number: int, handle: ctypes.c_void_p, value: int, stream: int) -> None:
        """Has the later work of a stream wait until a timeline has a value."""
        waited = _WaitParams(value=value)
        with self.current(number):
            self._call(
                "cuWaitExternalSemaphoresAsync",
                ctypes.byref(handle),
                ctypes.byref(waited),
                ctypes.c_uint(1),
                ctypes.c_void_p(stream),
            )

    def free_timeline(self, number: int, handle: ctypes.c_void_p) -> None:
        """Ends an import, when all work on the device has ended."""
        with self.current(number):
            self._call("cuCtxSynchronize")
            self._call("cuDestroyExternalSemaphore", handle)

    def free_memory(self, number: int, handle: ctypes.c_void_p, address: int) -> None:
        """Ends an import, when all work on the device has ended."""
        with self.current(number):
            self._call("cuCtxSynchronize")
            self._call("cuMemFree_v2", ctypes.c_ulonglong(address))
            self._call("cuDestroyExternalMemory", handle)


def _loaded(libraries: tuple[str, ...]) -> ctypes.CDLL:
    reasons = []
    for name in libraries:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            reasons.append(str(error))
    raise CudaError(f"no driver of CUDA on this machine: {'; '.join(reasons)}")


_driver: Driver | None = None
_driver_lock = threading.Lock()


def driver() -> Driver:
    """The driver of this process."""
    global _driver
    with _driver_lock:
        if _driver is None:
            _driver = Driver(LIBRARIES)
        if _driver.pid != os.getpid():
            raise RuntimeError("this process was forked from one that uses CUDA; use the start method spawn")
        return _driver


class Exportable(Protocol):
    """Memory of a device that can be exported."""

    @property
    def uuid(self) -> bytes: ...
    def export_fd(self) -> tuple[int, int, int]: ...


class Mapping:
    """Memory of a device as CUDA sees it. It lives as long as this object, whatever becomes of the volume."""

    def __init__(self, memory: Exportable, nbytes: int) -> None:
        self._pid = os.getpid()
        self._driver = driver()
        self.number = self._driver.device_of(bytes(memory.uuid))
        size = max(nbytes, 1)
        self._handle, self.address = self._driver.import_memory(self.number, memory.export_fd(), size)

    def check(self) -> None:
        """Refuses a process that was forked from the one whose mapping this is."""
        if self._pid != os.getpid():
            raise RuntimeError("this process was forked from the one that has the memory of the device")

    def wait(self) -> None:
        """Waits for all work on the device."""
        self.check()
        self._driver.wait(self.number)

    def __del__(self) -> None:
        # A forked child has no right to its parent's device.
        if getattr(self, "address", None) is not None and self._pid == os.getpid():
            self._driver.free_memory(self.number, self._handle, self.address)


class Timeline:
    """Counts the batches of a memory that have arrived, as CUDA sees it."""

    def __init__(self, mapping: Mapping, handle: ctypes.c_void_p) -> None:
        self._pid = os.getpid()
        self._driver = driver()
        self._number = mapping.number
        self._handle = handle

    def hold_back(self, stream: int, value: int) -> None:
        """Has the later work of a stream wait for so many batches."""
        self._driver.wait_in_stream(self._number, self._handle, value, stream)

    def __del__(self) -> None:
        # A forked child has no right to its parent's device.
        if getattr(self, "_handle", None) is not None and self._pid == os.getpid():
            self._driver.free_timeline(self._number, self._handle)


class Arrival:
    """The arrival of a batch: the host has waited for it, or a timeline tells it."""

    def __init__(self, memory: _lanefs.DeviceMemory, timeline: Timeline | None, value: int) -> None:
        self._memory = memory
        self._timeline = timeline
        self._value = value

    def hold_back(self, stream: int) -> None:
        """Has the later work of a stream wait for the batch."""
        if self._timeline is not None:
            self._timeline.hold_back(stream, self._value)

    def wait(self) -> None:
        """Waits for the batch on the host, once."""
        if self._timeline is not None:
            self._memory.wait()
            self._timeline = None


class Lease:
    """A use of a mapping, which keeps it alive: a tensor has one. Its bytes come with a batch."""

    __slots__ = ("__weakref__", "arrival", "mapping")

    def __init__(self, mapping: Mapping, arrival: Arrival | None) -> None:
        self.mapping = mapping
        self.arrival = arrival


class Leases:
    """The mapping of a memory, made when it is first needed, and its uses."""

    def __init__(self, memory: _lanefs.DeviceMemory) -> None:
        self._memory = memory
        self._mapping: Mapping | None = None
        self._timeline: Timeline | None = None
        # A device or a driver without timelines is asked once.
        self._is_asked = False
        self._arrival: Arrival | None = None
        self._uses: weakref.WeakSet[Lease] = weakref.WeakSet()

    def _mapped(self) -> Mapping:
        if self._mapping is None:
            self._mapping = Mapping(self._memory, self._memory.capacity)
        self._mapping.check()
        return self._mapping

    def take(self) -> Lease:
        """A new use."""
        lease = Lease(self._mapped(), self._arrival)
        self._uses.add(lease)
        return lease

    def timeline(self) -> Timeline | None:
        """The timeline of the memory's batches, where both the device and CUDA have such."""
        mapping = self._mapped()
        if not self._is_asked:
            self._is_asked = True
            fd = self._memory.export_timeline()
            handle = None if fd is None else driver().import_timeline(mapping.number, fd)
            self._timeline = None if handle is None else Timeline(mapping, handle)
        return self._timeline

    def begun(self, stream: int) -> None:
        """Has a stream wait for the batch that has begun, before its later work."""
        value = self._memory.arrival()
        self._arrival = Arrival(self._memory, self._timeline, value or 0)
        try:
            self._arrival.hold_back(stream)
        except CudaError:
            self._arrival.wait()

    @property
    def in_use(self) -> bool:
        """True while there are uses."""
        return len(self._uses) > 0

    def begin_batch(self) -> None:
        """Refuses a batch that would change the bytes of a tensor; waits for work on those of an old one."""
        if self.in_use:
            raise BufferError("tensors over this memory are alive; delete them, or read into another memory")
        if self._mapping is not None:
            self._mapping.wait()
        self._arrival = None


class DeviceBytes:
    """Bytes in the memory of a GPU, for libraries that take DLPack or CUDA's array interface.

    All of them are there: a kernel on any stream sees them. (Of a batch that was read for a stream each stream
    that a tensor is made for waits on the device.) They stay as they are, and the memory stays, as long as this
    object or a tensor over it lives.
    """

    __slots__ = ("_lease", "_start", "nbytes")

    def __init__(self, lease: Lease, start: int, nbytes: int) -> None:
        self._lease = lease
        self._start = start
        #: The number of bytes.
        self.nbytes = nbytes

    @property
    def address(self) -> int:
        """The address of the first byte, for kernels; of any stream, so it waits for a batch on the host."""
        self._lease.mapping.check()
        if self._lease.arrival is not None:
            self._lease.arrival.wait()
        return self._address()

    def _address(self) -> int:
        return self._lease.mapping.address + self._start

    def __len__(self) -> int:
        return self.nbytes

    def __dlpack_device__(self) -> tuple[int, int]:
        """CUDA's device."""
        return DLPACK_CUDA, self._lease.mapping.number

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A capsule for another library, without a copy: `torch.from_dlpack`.

        The bytes were copied to the device before this object was made, so no stream has to wait. Of a batch
        that was read for a stream this one waits for the copies, too; with `None` it is the default stream,
        and with -1 none.
        """
        self._lease.mapping.check()
        if stream == 0:
            raise ValueError("stream 0 is ambiguous: 1 is the default stream, 2 that of each thread")
        if copy:
            raise BufferError("a capsule is the memory itself; copy the tensor")
        if dl_device is not None and dl_device != self.__dlpack_device__():
            raise BufferError(f"the bytes are on device {self.__dlpack_device__()}")
        if self._lease.arrival is not None and stream != -1:
            self._lease.arrival.hold_back(1 if stream is None else stream)
        return _lanefs.dlpack(self._lease, self._address(), self.nbytes, self.__dlpack_device__())

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3, as CuPy and Numba take it. Whoever takes it keeps this object."""
        return {
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }

    def __repr__(self) -> str:
        return f"<DeviceBytes: {self.nbytes} bytes of CUDA's device {self._lease.mapping.number}>"
