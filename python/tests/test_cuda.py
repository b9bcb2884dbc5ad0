"""Files in the memory of a GPU as CUDA sees them, by a stand-in for CUDA's driver that maps llvmpipe's memory."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

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

    def names():
        gc.collect()
        return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []

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
