"""Files in the memory of a device."""

import errno
import os
import threading

import numpy as np
import pytest

import lanefs
from conftest import FILES, MIB, fill

PATHS = [*FILES, "/none", "/data", "/data/link"]


@pytest.fixture
def volume(image):
    """A volume whose lookups a device answers."""
    try:
        volume = lanefs.Volume.open(image, "r+", engine="gpu")
    except OSError as error:
        pytest.skip(f"no Vulkan device: {error}")
    with volume:
        yield volume


@pytest.mark.parametrize("exportable", [False, True])
def test_files_on_the_device_are_those_of_the_host(volume, exportable):
    volume.write_file("/large", bytes(range(251)) * 100_000)
    memory = volume.device_memory(64 * MIB, exportable=exportable)
    assert memory.capacity == 64 * MIB
    parts = [(1, 5)] * len(PATHS)
    for paths, ranges in [(PATHS, None), (["/large", "/top"], None), (PATHS, parts), ([], None)]:
        expected = volume.read(paths, ranges=ranges)
        files = volume.read_to_device(paths, memory, ranges=ranges, threads=1)
        assert files.memory is memory and len(files) == len(paths)
        assert files.offsets.tolist() == expected.offsets.tolist()
        assert files.codes.tolist() == expected.codes.tolist()
        assert files.nbytes == expected.buffer.nbytes
        assert {at: type(error) for at, error in files.errors().items()} == {
            at: type(error) for at, error in expected.errors().items()
        }
        for at in np.flatnonzero(files.codes == 0).tolist():
            assert files[at] == expected[at]
    assert "0 bytes" in repr(files) and str(64 * MIB) in repr(memory)


def test_memory_of_its_own_has_room_for_the_ranges(volume, monkeypatch):
    volume.write_file("/large", bytes(range(256)) * 4096)
    paths = ["/large", "/top", "/data/a.txt", "/none", "/data", "/data/link", "/data/a.txt"]
    ranges = [(1000, 50), (0, 9), (4, 100), (0, 10), (0, 10), (1, 2), (1 << 40, 10)]
    bytes_now = 50 + 1 + 6 + 2
    files = volume.read_to_device(paths, ranges=ranges)
    assert files.nbytes == files.memory.capacity == bytes_now
    assert files[0] == (bytes(range(256)) * 5)[1000:1050] and files[2] == b"sample"
    # A file that grew after it was measured is measured by its range again.
    rooms = [1]
    bytes_of = lanefs._device.bytes_of
    monkeypatch.setattr(lanefs._device, "bytes_of", lambda *args: rooms.pop() if rooms else bytes_of(*args))
    files = volume.read_to_device(paths, ranges=ranges)
    assert files.nbytes == files.memory.capacity == bytes_now


def test_a_file_that_was_not_read_raises_its_error(volume):
    files = volume.read_to_device(PATHS, volume.device_memory(MIB))
    with pytest.raises(FileNotFoundError) as raised:
        files[PATHS.index("/none")]
    assert raised.value.filename == "/none"
    assert volume.read_to_device(FILES, files.memory).to_bytes() == list(FILES.values())


def test_memory_has_one_batch_at_a_time(volume):
    memory = volume.device_memory(11_000)
    first = volume.read_to_device(["/top"], memory)
    assert first[0] == b"x"
    second = volume.read_to_device(["/data/a.txt"], memory)
    with pytest.raises(ValueError, match="later batch"):
        first[0]
    assert second[0] == b"one sample"
    with pytest.raises(ValueError, match="the memory has 11000 bytes"):
        volume.read_to_device(["/data/deep/er/c.bin"] * 2, memory)
    with pytest.raises(ValueError, match="later batch"):
        second[0]


def test_exported_memory_is_a_descriptor_with_size_and_offset(volume):
    files = volume.read_to_device(["/data/a.txt"], volume.device_memory(MIB, exportable=True))
    first, second = files.export_fd(), files.memory.export_fd()
    assert first.fd != second.fd and first.allocation_bytes >= MIB + first.offset
    os.fstat(first.fd)
    os.close(first.fd)
    os.close(second.fd)
    with pytest.raises(OSError, match="`exportable`") as raised:
        volume.device_memory(MIB).export_fd()
    assert raised.value.errno == errno.EOPNOTSUPP


def test_wrong_arguments_and_engines_are_errors(volume):
    with pytest.raises(TypeError, match="device_memory"):
        volume.read_to_device(["/top"], 1 << 20)
    with pytest.raises(ValueError, match="capacity"):
        volume.device_memory(-1)
    with pytest.raises(OSError):
        volume.device_memory((1 << 63) - 1)
    with pytest.raises(ValueError, match="ranges"):
        volume.read_to_device(["/top"], volume.device_memory(10), ranges=[])
    memory = volume.device_memory(100)
    with lanefs.Volume.memory(16 * MIB, engine="cpu") as other:
        fill(other)
        with pytest.raises(ValueError, match="engine='gpu'"):
            other.device_memory(100)
        with pytest.raises(ValueError, match="engine='gpu'"):
            other.read_to_device(["/top"], memory)


def test_threads_and_a_closed_volume(volume):
    expected = volume.read(FILES).to_bytes()
    wrong = []

    def work():
        memory = volume.device_memory(MIB)
        for _ in range(5):
            if volume.read_to_device(FILES, memory).to_bytes() != expected:
                wrong.append(memory)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    memory = volume.device_memory(MIB)
    files = volume.read_to_device(["/top"], memory)
    volume.close()
    assert files[0] == b"x"
    with pytest.raises(ValueError, match="closed"):
        volume.read_to_device(["/top"], memory)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_use_the_memory(volume):
    files = volume.read_to_device(["/top"], volume.device_memory(MIB))
    child = os.fork()
    if child == 0:
        try:
            files[0]
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert files[0] == b"x"
