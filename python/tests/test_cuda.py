"""Files in the memory of a GPU as CUDA sees them, and a mirror and a table of files for kernels, by a stand-in
for CUDA's driver that maps llvmpipe's memory. The kernels are compiled for the host.
"""

import ctypes
import errno
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import lanefs
import lanefs.cuda
from conftest import FILES, MIB


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The compiled stand-in."""
    made = tmp_path_factory.mktemp("standin") / "libcuda.so"
    source = Path(__file__).with_name("standin_cuda.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", made, source], check=True)
    return str(made)


@pytest.fixture
def volume(image):
    try:
        volume = lanefs.Volume.open(image, "r+", engine="gpu")
    except OSError as error:
        pytest.skip(f"no Vulkan device: {error}")
    with volume:
        yield volume


@pytest.fixture
def calls(library, volume, tmp_path, monkeypatch):
    """Uses the stand-in, and returns the calls of it so far."""
    log = tmp_path / "calls"
    uuid = bytes(volume.device_memory(1)._memory.uuid).hex()
    # os.putenv is what a library in the same process sees.
    monkeypatch.setenv("LANEFS_STANDIN_LOG", str(log))
    monkeypatch.setenv("LANEFS_STANDIN_UUID", uuid)
    monkeypatch.delenv("LANEFS_STANDIN_FAIL", raising=False)
    monkeypatch.setattr(lanefs.cuda, "LIBRARIES", (library,))
    monkeypatch.setattr(lanefs.cuda, "_driver", None)

    def names(whole=False):
        gc.collect()
        lines = log.read_text().splitlines() if log.exists() else []
        return lines if whole else [line.split()[0] for line in lines]

    return names


#: The name of a capsule that was taken; it outlives the capsule.
USED = b"used_dltensor"


class Managed(ctypes.Structure):
    """`DLManagedTensor`."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("kind", ctypes.c_int32),
        ("number", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


class Tensor:
    """A tensor over the memory of a capsule, as a library makes it."""

    def __init__(self, source, **options):
        assert source.__dlpack_device__() == (2, 1)
        capsule = source.__dlpack__(**options)
        api = ctypes.pythonapi
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
        self.address = api.PyCapsule_GetPointer(capsule, b"dltensor")
        self.managed = Managed.from_address(self.address)
        api.PyCapsule_SetName(capsule, USED)
        tensor = self.managed
        assert (tensor.kind, tensor.number, tensor.dimensions) == (2, 1, 1)
        assert (tensor.code, tensor.bits, tensor.lanes, tensor.strides) == (1, 8, 1, None)
        assert tensor.byte_offset == 0

    def bytes(self):
        return ctypes.string_at(self.managed.data, self.managed.shape[0])

    def end(self):
        self.managed.deleter(self.address)


def test_tensors_have_the_bytes_of_the_files(volume, calls):
    paths = [*FILES, "/none"]
    files = volume.read_to_device(paths)
    whole = Tensor(files, stream=1)
    assert whole.bytes() == b"".join(FILES.values())
    for at, content in enumerate(FILES.values()):
        one = files.on_device(at)
        assert (len(one), one.nbytes) == (len(content), len(content)) and "device 1" in repr(one)
        tensor = Tensor(one, stream=None, max_version=(1, 0), dl_device=(2, 1), copy=False)
        assert tensor.bytes() == content
        tensor.end()
        interface = one.__cuda_array_interface__
        assert (interface["shape"], interface["typestr"], interface["version"]) == ((len(content),), "|u1", 3)
        assert ctypes.string_at(interface["data"][0], len(content)) == content
    with pytest.raises(FileNotFoundError):
        files.on_device(len(FILES))
    with pytest.raises(IndexError):
        files.on_device(len(paths))
    for options in [{"copy": True}, {"dl_device": (1, 0)}]:
        with pytest.raises(BufferError):
            files.__dlpack__(**options)
    with pytest.raises(ValueError, match="stream 0"):
        files.__dlpack__(stream=0)
    assert files.__cuda_array_interface__["shape"] == (files.nbytes,)
    whole.end()
    # One import for all of them.
    assert calls().count("cuImportExternalMemory") == 1


def test_memory_stays_while_a_tensor_lives_and_not_longer(volume, calls):
    tensor = Tensor(volume.read_to_device(list(FILES)))
    volume.close()
    assert "cuMemFree_v2" not in calls()
    assert tensor.bytes() == b"".join(FILES.values())
    tensor.end()
    assert calls()[-3:] == ["cuCtxSynchronize", "cuMemFree_v2", "cuDestroyExternalMemory"]


def test_a_capsule_that_nobody_takes_ends_its_use(volume, calls):
    memory = volume.device_memory(MIB, exportable=True)
    files = volume.read_to_device(list(FILES), memory)
    capsule = files.__dlpack__()
    assert memory.in_use
    del capsule
    assert not memory.in_use


def test_a_batch_waits_for_the_device_and_never_changes_a_tensor(volume, calls):
    memory = volume.device_memory(MIB, exportable=True)
    first = volume.read_to_device(["/top"], memory)
    tensor = Tensor(first)
    with pytest.raises(BufferError, match="tensors"):
        volume.read_to_device(["/data/a.txt"], memory)
    assert tensor.bytes() == b"x" and first[0] == b"x"
    tensor.end()
    before = calls().count("cuCtxSynchronize")
    second = volume.read_to_device(["/data/a.txt"], memory)
    assert calls().count("cuCtxSynchronize") == before + 1
    with pytest.raises(ValueError, match="later batch"):
        first.on_device()
    tensor = Tensor(second)
    assert tensor.bytes() == b"one sample"
    tensor.end()
    assert calls().count("cuImportExternalMemory") == 1


def test_without_cuda_a_call_says_what_is_missing(volume, calls, monkeypatch):
    files = volume.read_to_device(list(FILES))
    monkeypatch.setenv("LANEFS_STANDIN_UUID", "00" * 15 + "07")
    with pytest.raises(lanefs.cuda.CudaError, match="none of the 2 devices"):
        files.on_device()
    # The context is made first, and once.
    failing = ["cuDevicePrimaryCtxRetain", "cuImportExternalMemory", "cuExternalMemoryGetMappedBuffer"]
    for call in [*failing, "cuDeviceGetCount"]:
        monkeypatch.setenv("LANEFS_STANDIN_UUID", bytes(files.memory._memory.uuid).hex())
        monkeypatch.setenv("LANEFS_STANDIN_FAIL", call)
        opened = len(os.listdir("/proc/self/fd"))
        with pytest.raises(lanefs.cuda.CudaError, match=f"{call}: invalid argument"):
            files.on_device()
        assert len(os.listdir("/proc/self/fd")) == opened
    monkeypatch.delenv("LANEFS_STANDIN_FAIL")
    tensor = Tensor(files)
    assert tensor.bytes() == b"".join(FILES.values())
    tensor.end()
    monkeypatch.setattr(lanefs.cuda, "LIBRARIES", ("libno-such-cuda.so",))
    monkeypatch.setattr(lanefs.cuda, "_driver", None)
    with pytest.raises(lanefs.cuda.CudaError, match="no driver of CUDA"):
        volume.read_to_device(["/top"]).on_device()
    plain = volume.read_to_device(["/top"], volume.device_memory(MIB))
    with pytest.raises(lanefs.cuda.CudaError, match="no driver of CUDA"):
        plain.on_device()


def test_a_forked_child_uses_and_frees_nothing(volume, calls):
    files = volume.read_to_device(list(FILES))
    one = files.on_device(0)
    before = calls()
    child = os.fork()
    if child == 0:
        refused = 0
        for use in (one.__dlpack__, files.on_device, lambda: one.address, lanefs.cuda.driver):
            try:
                use()
            except RuntimeError:
                refused += 1
        del one, files, use
        gc.collect()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    assert calls() == before
    tensor = Tensor(one)
    assert tensor.bytes() == FILES[next(iter(FILES))]
    tensor.end()


def test_threads_end_tensors_beside_each_other(volume, calls):
    wrong = []

    def work():
        for _ in range(10):
            tensor = Tensor(volume.read_to_device(list(FILES)))
            if tensor.bytes() != b"".join(FILES.values()):
                wrong.append(1)
            tensor.end()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert calls().count("cuDestroyExternalMemory") == calls().count("cuImportExternalMemory") == 30


def test_memory_can_end_inside_of_a_call_of_the_driver(volume, calls):
    tensor = Tensor(volume.read_to_device(list(FILES)))
    lock = lanefs.cuda.driver()._lock
    # The collector of garbage runs anywhere, also where this thread has the lock.
    with lock:
        assert lock.acquire(blocking=False)
        lock.release()
        tensor.end()
    assert calls()[-1] == "cuDestroyExternalMemory"


def test_a_process_that_ends_with_a_tensor_ends_well(library, image, volume):
    uuid = bytes(volume.device_memory(1)._memory.uuid).hex()
    program = (
        "import lanefs, lanefs.cuda, sys\n"
        "lanefs.cuda.LIBRARIES = (sys.argv[1],)\n"
        "volume = lanefs.Volume.open(sys.argv[2], engine='gpu')\n"
        "capsule = volume.read_to_device(['/top']).__dlpack__()\n"
    )
    volume.close()
    environment = {**os.environ, "LANEFS_STANDIN_UUID": uuid}
    command = [sys.executable, "-c", program, library, str(image)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


class WithTimeline:
    """Memory of a device that exports a timeline, as llvmpipe does not: batches arrive when they are waited for."""

    def __init__(self, memory):
        self._memory = memory
        self._begun = 0
        self.waited = []

    def __getattr__(self, name):
        return getattr(self._memory, name)

    def export_timeline(self):
        return os.memfd_create("timeline")

    def arrival(self):
        return self._begun

    def wait(self):
        self.waited.append(self._begun)
        self._memory.wait()

    def read_files(self, volume, paths, ranges, threads, waits):
        self._begun += not waits
        return self._memory.read_files(volume, paths, ranges, threads, waits)


@pytest.fixture
def timed(volume, calls):
    """Memory with a timeline, of which the stand-in logs the waits."""
    memory = volume.device_memory(MIB, exportable=True)
    memory._memory = memory._leases._memory = WithTimeline(memory._memory)
    return memory


def waits(calls):
    """The waits of streams so far: value and stream."""
    lines = [line.split() for line in calls(whole=True)]
    return [(int(value), int(stream)) for name, value, stream in lines if name == "cuWaitExternalSemaphoresAsync"]


def test_a_stream_waits_for_its_batch_on_the_device(volume, calls, timed):
    files = volume.read_to_device(list(FILES), timed, stream=77)
    assert waits(calls) == [(1, 77)]
    # A tensor is for a stream, which waits, too; the default one without a word.
    for stream, handle in [(5, 5), (None, 1), (2, 2)]:
        tensor = Tensor(files, stream=stream)
        assert waits(calls)[-1] == (1, handle) and tensor.bytes() == b"".join(FILES.values())
        tensor.end()
    Tensor(files, stream=-1).end()
    assert len(waits(calls)) == 4 and timed._memory.waited == []
    # An address is for any stream, so the host waits, once.
    interface = files.__cuda_array_interface__
    assert timed._memory.waited == [1] and files.on_device(0).address == interface["data"][0]
    Tensor(files, stream=5).end()
    assert len(waits(calls)) == 4 and timed._memory.waited == [1]
    del files, interface
    assert volume.read_to_device(["/top"], timed, stream=3)[0] == b"x"
    assert waits(calls)[-1] == (2, 3)
    # Without a stream the host waits, and no stream does.
    tensor = Tensor(volume.read_to_device(["/top"], timed), stream=5)
    assert waits(calls)[-1] == (2, 3) and tensor.bytes() == b"x"
    assert calls().count("cuImportExternalSemaphore") == 1
    volume.close()
    del timed._memory, timed._leases
    tensor.end()
    assert calls().count("cuDestroyExternalSemaphore") == 1


@pytest.mark.parametrize("call", ["cuImportExternalSemaphore", "cuWaitExternalSemaphoresAsync"])
def test_without_a_timeline_of_cuda_the_host_waits(volume, calls, timed, monkeypatch, call):
    monkeypatch.setenv("LANEFS_STANDIN_FAIL", call)
    opened = len(os.listdir("/proc/self/fd"))
    files = volume.read_to_device(list(FILES), timed, stream=77)
    imported = call != "cuImportExternalSemaphore"
    assert timed._memory.waited == [1] * imported
    assert len(os.listdir("/proc/self/fd")) == opened + imported
    tensor = Tensor(files, stream=5)
    assert tensor.bytes() == b"".join(FILES.values())
    assert len(waits(calls)) == imported
    tensor.end()


def test_a_device_that_exports_no_timeline_is_waited_for(volume, calls):
    memory = volume.device_memory(MIB, exportable=True)
    if memory._memory.export_timeline() is not None:
        pytest.skip("this device exports timelines")
    files = volume.read_to_device(list(FILES), memory, stream=77)
    assert Tensor(files, stream=5).bytes() == b"".join(FILES.values())
    assert "cuImportExternalSemaphore" not in calls() and waits(calls) == []


#: A kernel of a user's, for the host: looks a path up and reads the file's first bytes.
KERNEL = """
extern "C" int64_t look_and_read(const void *mirror, uint64_t mirror_bytes, void *table, uint64_t table_bytes,
                                 const char *path, uint64_t length, void *buffer, uint64_t room) {
    lanefs_view view;
    lanefs_files files;
    if (lanefs_open(mirror, mirror_bytes, &view) != LANEFS_SUCCESS) return -1000;
    if (lanefs_open_files(table, table_bytes, &files) != LANEFS_SUCCESS) return -1001;
    lanefs_found found = lanefs_lookup(&view, path, length);
    if (found.code != LANEFS_SUCCESS) return -(int64_t)found.code;
    return lanefs_read(&view, &files, found.ino, 0, buffer, room);
}
extern "C" uint64_t generation(const void *mirror, uint64_t bytes) {
    lanefs_view view;
    return lanefs_open(mirror, bytes, &view) == LANEFS_SUCCESS ? view.generation : 0;
}
"""

NOT_FOUND, NOT_RESIDENT = 4, 11


@pytest.fixture(scope="session")
def kernels(tmp_path_factory):
    """The compiled kernel, with the header that the package has."""
    place = tmp_path_factory.mktemp("kernel")
    (place / "kernel.cpp").write_text(lanefs.cuda.header() + KERNEL)
    made = place / "kernel.so"
    options = ["-std=c++17", "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    subprocess.run(["c++", *options, "-o", made, place / "kernel.cpp"], check=True)
    library = ctypes.CDLL(str(made))
    library.look_and_read.restype = ctypes.c_int64
    library.generation.restype = ctypes.c_uint64
    return library


def read_by(kernels, mirror, table, path):
    """The bytes of a file as the kernel reads them, or the code."""
    room = ctypes.create_string_buffer(1 << 16)
    word = ctypes.c_uint64
    count = kernels.look_and_read(
        ctypes.c_void_p(mirror.address),
        word(mirror.nbytes),
        ctypes.c_void_p(table.address),
        word(table.nbytes),
        path.encode(),
        word(len(path)),
        room,
        word(len(room)),
    )
    return room.raw[:count] if count >= 0 else -count


def test_a_kernel_reads_files_by_the_addresses_of_a_mirror_and_a_table(volume, calls, kernels):
    large, small = "/data/deep/er/c.bin", "/data/a.txt"
    with volume.export_mirror(spare=MIB) as mirror, volume.device_file_table(MIB, files=100, misses=50) as table:
        assert "MirrorExport" in repr(mirror) and "DeviceFileTable" in repr(table)
        assert (mirror.device, len(table), table.capacity, mirror.closed) == (1, 0, MIB, False)
        assert mirror.used < mirror.nbytes and table.nbytes > MIB
        assert mirror.newest() == mirror.generation
        assert read_by(kernels, mirror, table, small) == FILES[small]
        assert read_by(kernels, mirror, table, "/none") == NOT_FOUND
        assert read_by(kernels, mirror, table, large) == NOT_RESIDENT
        ino = int(volume.resolve([large]).ino[0])
        synchronized = calls().count("cuCtxSynchronize")
        assert table.missed().tolist() == [ino] and table.missed().dtype == np.uint64
        assert table.bring_missed() == lanefs.BroughtFiles(1, 0, 0, False)
        # The host works with the memory when the kernels have ended.
        assert calls().count("cuCtxSynchronize") == synchronized + 3
        assert read_by(kernels, mirror, table, large) == FILES[large]
        assert (len(table), table.missed().tolist()) == (1, [])
        # The mirror is that of one generation, and the volume goes on.
        before = mirror.generation
        memory = (ctypes.c_void_p(mirror.address), ctypes.c_uint64(mirror.nbytes))
        assert before == kernels.generation(*memory)
        volume.write_file("/later", b"new")
        assert read_by(kernels, mirror, table, "/later") == NOT_FOUND
        assert mirror.newest() > mirror.generation == before
        assert mirror.refresh() == mirror.generation > before
        assert kernels.generation(*memory) == mirror.generation
        assert read_by(kernels, mirror, table, "/later") == b"new"
        # A file that changes is that of its moment until it is brought again.
        volume.write_file(large, b"y" * 5000)
        assert read_by(kernels, mirror, table, large) == FILES[large]
        mirror.refresh()
        inodes = volume.resolve([large, "/none"]).ino
        assert table.bring_files(inodes).files == 1
        assert read_by(kernels, mirror, table, large) == b"y" * 5000
        assert calls().count("cuImportExternalMemory") == 2
    assert mirror.closed and table.closed
    ended = calls()
    assert ended.count("cuDestroyExternalMemory") == 2
    for use in (lambda: mirror.address, mirror.refresh, lambda: mirror.generation, table.missed, table.export_fd):
        with pytest.raises(ValueError, match="closed"):
            use()
    mirror.close()
    assert calls() == ended


def test_a_mirror_outlives_its_volume_and_tells_when_it_has_grown(volume, calls, kernels):
    mirror, table = volume.export_mirror(caches=False), volume.device_file_table(MIB, files=100)
    volume.write_many([f"/many/{i}" for i in range(9000)], [b""] * 9000, make_directories=True)
    before = mirror.generation
    with pytest.raises(OSError, match="bytes") as failure:
        mirror.refresh()
    assert failure.value.errno == errno.ENOSPC and mirror.generation == before
    volume.close()
    assert read_by(kernels, mirror, table, "/top") == FILES["/top"]
    for use in (mirror.refresh, mirror.newest, table.bring_missed):
        with pytest.raises(ValueError):
            use()
    del mirror, table, use, failure
    assert calls()[-3:] == ["cuCtxSynchronize", "cuMemFree_v2", "cuDestroyExternalMemory"]
    assert calls().count("cuDestroyExternalMemory") == 2


def test_without_cuda_a_mirror_has_a_descriptor_and_no_address(volume, calls, monkeypatch):
    monkeypatch.setattr(lanefs.cuda, "LIBRARIES", ("libno-such-cuda.so",))
    with volume.export_mirror() as mirror, volume.device_file_table(100) as table:
        for memory in (mirror, table):
            with pytest.raises(lanefs.cuda.CudaError, match="no driver of CUDA"):
                _ = memory.address
            fd, allocation_bytes, offset = memory.export_fd()
            assert allocation_bytes >= offset + memory.nbytes
            os.close(fd)
        assert mirror.refresh() == mirror.generation and table.bring_missed().files == 0
    with pytest.raises(ValueError):
        volume.device_file_table(-1)
    with lanefs.Volume.memory(MIB * 8) as other, pytest.raises(ValueError, match="engine='gpu'"):
        other.export_mirror()


def test_a_forked_child_neither_uses_nor_frees_a_mirror(volume, calls, kernels):
    mirror, table = volume.export_mirror(), volume.device_file_table(MIB)
    assert read_by(kernels, mirror, table, "/top") == b"x"
    before = calls()
    child = os.fork()
    if child == 0:
        refused = 0
        uses = (lambda: mirror.address, mirror.refresh, lambda: mirror.generation, mirror.export_fd, table.missed)
        for use in uses:
            try:
                use()
            except RuntimeError:
                refused += 1
        mirror.close()
        with table:
            pass
        del mirror, table, uses, use
        gc.collect()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert calls() == before
    assert read_by(kernels, mirror, table, "/data/a.txt") == b"one sample"
