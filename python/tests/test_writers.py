"""Writers that close are whole: the old content, or the new one."""

import errno
import io
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import lanefs
from conftest import MIB
from lanefs.fsspec import LaneFileSystem

#: Contents that stay in memory until they are closed, and one that does not.
SIZES = [10, 5000, 3 * MIB + 7]


def whole(number):
    return bytes([number]) * SIZES[number % len(SIZES)]


def by_file(volume, path, mode="wb"):
    return volume.open_file(path, mode)


def by_fsspec(volume, path, mode="wb"):
    return LaneFileSystem.of(volume).open(path, mode)


def unbuffered(volume, path, mode="wb"):
    return volume.open_file(path, mode, buffering=0)


every_way = pytest.mark.parametrize("open_file", [by_file, by_fsspec, unbuffered])


@every_way
@pytest.mark.parametrize("size", SIZES)
def test_others_see_the_old_content_until_close(volume, open_file, size):
    for path, old in (("/top", b"x"), ("/new", None)):
        file = open_file(volume, path)
        for at in range(0, size, 100_000):
            file.write(b"n" * min(100_000, size - at))
            file.flush()
            assert (volume.read_file(path) if volume.exists(path) else None) == old
        file.close()
        file.close()
        assert volume.read_file(path) == b"n" * size


@every_way
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt, SystemExit])
def test_an_exception_in_the_block_keeps_the_old_content(volume, open_file, size, error):
    for path in ("/top", "/new"):
        with pytest.raises(error), open_file(volume, path) as file:
            file.write(b"n" * size)
            raise error
        assert file.closed
    assert volume.read_file("/top") == b"x" and not volume.exists("/new")


def test_an_exception_in_a_block_of_text_keeps_the_old_content(volume):
    fs = LaneFileSystem.of(volume)
    for open_text in (volume.open_file, fs.open):
        for mode in ("w", "wt"):
            with pytest.raises(LookupError), open_text("/top", mode, encoding="utf-8") as file:
                file.write("text" * 100_000)
                raise LookupError
            assert volume.read_file("/top") == b"x"
        with open_text("/text", "w", encoding="utf-8") as file:
            file.write("zwölf")
        assert volume.read_file("/text") == "zwölf".encode()


class Failing(io.BytesIO):
    """A source, or a callback of fsspec, that fails after the first piece."""

    def read(self, *size):
        if self.tell() > 0:
            raise LookupError
        return super().read(*size)

    def set_size(self, size):
        pass

    def relative_update(self, size):
        raise LookupError


def test_a_copy_that_fails_keeps_the_old_content(volume, tmp_path, monkeypatch):
    fs = LaneFileSystem.of(volume)
    source = str(tmp_path / "source")
    (tmp_path / "source").write_bytes(b"n" * MIB)
    fs.put_file(source, "/put")
    assert fs.cat_file("/put") == b"n" * MIB
    with pytest.raises(LookupError):
        fs.put_file(source, "/top", callback=Failing())
    assert volume.read_file("/top") == b"x"
    open_file = fs._open
    content = b"n" * (fs.blocksize + 1)
    monkeypatch.setattr(fs, "_open", lambda path, mode, **o: Failing(content) if mode == "rb" else open_file(path, mode))
    with pytest.raises(LookupError):
        fs.cp_file("/put", "/top")
    assert volume.read_file("/top") == b"x"


def test_what_changes_in_place_keeps_what_was_written(volume):
    volume.write_file("/log", b"12345")
    for mode in ("r+b", "ab"):
        with pytest.raises(LookupError), volume.open_file("/log", mode) as file:
            file.write(b"ab")
            raise LookupError
    assert volume.read_file("/log") == b"ab345ab"


@every_way
def test_a_full_volume_keeps_the_old_content(open_file):
    with lanefs.Volume.memory(16 * MIB) as volume:
        old = b"o" * (4 * MIB)
        volume.write_file("/old", old)
        for path in ("/old", "/new"):
            with pytest.raises(OSError) as full, open_file(volume, path) as file:
                while True:
                    file.write(b"n" * MIB)
            assert full.value.errno == errno.ENOSPC and full.value.filename == path
            # Without a block the failure comes again, and a part of the content has no place either.
            file = open_file(volume, path)
            with pytest.raises(OSError, match="no space"):
                while True:
                    file.write(b"n" * MIB)
            with pytest.raises(OSError, match="no space"):
                file.close()
        assert volume.read_file("/old") == old and not volume.exists("/new")
        # All that they took is free again.
        volume.write_file("/new", b"n" * (6 * MIB))


def test_a_content_that_fits_only_without_the_old_one_is_refused_at_close():
    with lanefs.Volume.memory(16 * MIB) as volume:
        volume.write_file("/old", b"o" * 700_000)
        with pytest.raises(OSError, match="no space"):
            for number in range(1000):
                volume.write_file(f"/{number}", b"f" * 200_000)
        file = volume.open_file("/old", "wb")
        file.write(b"n" * 1_000_000)
        file.flush()
        with pytest.raises(OSError, match="no space"):
            file.close()
        assert file.closed and volume.read_file("/old") == b"o" * 700_000


def test_readers_beside_writers_see_whole_contents(image):
    failures = []
    with lanefs.Volume.open(image, "r+") as volume:
        volume.write_file("/a", whole(1))
        stop = threading.Event()

        def read():
            while not stop.is_set():
                content = volume.read_file("/a")
                if not content or content != whole(content[0]):
                    failures.append(content[:10])

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for number in range(60):
            with (by_file, by_fsspec)[number % 2](volume, "/a") as file:
                for _ in range(4):
                    file.write(whole(number)[: len(whole(number)) // 4])
                file.write(whole(number)[len(whole(number)) // 4 * 4 :])
        stop.set()
        for reader in readers:
            reader.join()
    assert failures == []


WRITER = """
    import os, sys, threading
    import lanefs
    from test_writers import by_file, by_fsspec, whole

    volume = lanefs.Volume.open(sys.argv[1], "r+")

    def sync():
        while True:
            volume.sync()

    threading.Thread(target=sync, daemon=True).start()
    number = 0
    while True:
        content = whole(number)
        with (by_file if number % 2 else by_fsspec)(volume, "/a") as file:
            os.write(1, b".")
            for at in range(0, len(content), 300_000):
                file.write(content[at:at + 300_000])
                os.write(1, b".")
        number = (number + 1) % 250
"""


def test_a_writer_that_is_killed_leaves_the_old_content_or_the_new_one(image):
    with lanefs.Volume.open(image, "r+") as volume:
        volume.write_file("/a", whole(1))
    for steps in range(3, 63, 6):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(image)], stdout=subprocess.PIPE, bufsize=0
        )
        # The process is somewhere after this step.
        for _ in range(steps):
            assert process.stdout.read(1) == b"."
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
        with lanefs.Volume.open(image, "r+") as volume:
            content = volume.read_file("/a")
            assert content and content == whole(content[0]), f"{len(content)} bytes after {steps} steps"
            assert sorted(volume.listdir("/")) == ["a", "data", "top"]


@every_way
def test_a_file_that_must_be_new_is_an_error_otherwise(volume, open_file):
    with pytest.raises(FileExistsError) as refused:
        open_file(volume, "/top", "xb")
    assert (refused.value.errno, refused.value.filename) == (errno.EEXIST, "/top")
    first, second = open_file(volume, "/new", "xb"), open_file(volume, "/new", "xb")
    first.write(b"first")
    second.write(b"second")
    first.close()
    with pytest.raises(FileExistsError) as refused:
        second.close()
    assert (refused.value.errno, refused.value.filename) == (errno.EEXIST, "/new")
    assert volume.read_file("/new") == b"first"


def test_a_writer_seeks_reads_and_cuts_its_content(volume):
    for size in SIZES:
        content = bytearray(range(256)) * (size // 256 + 1)
        with volume.open_file("/new", "w+b") as file:
            file.write(content)
            file.seek(3)
            file.write(b"abc")
            content[3:6] = b"abc"
            file.seek(0)
            assert file.read() == content
            file.seek(0, io.SEEK_END)
            assert file.tell() == len(content)
            file.truncate(size)
            with pytest.raises(io.UnsupportedOperation, match="close"):
                file.raw.sync()
        assert volume.read_file("/new") == content[:size]
        volume.remove("/new")


def test_a_writer_does_not_keep_its_volume_open(image):
    volume = lanefs.Volume.open(image, "r+")
    files = [volume.open_file(path, "wb") for path in ("/top", "/new")]
    for file in files:
        file.write(b"n" * (2 * MIB))
    volume.close()
    for file in files:
        with pytest.raises(ValueError, match="volume is closed"):
            file.close()
    with lanefs.Volume.open(image, "r+") as volume:
        assert volume.read_file("/top") == b"x" and not volume.exists("/new")


def test_a_writer_that_nobody_closed_is_closed_with_its_last_reference(volume):
    volume.open_file("/new", "wb").write(b"content")
    assert volume.read_file("/new") == b"content"


def test_a_transaction_leaves_out_a_file_whose_block_failed(volume):
    fs = LaneFileSystem.of(volume)
    with fs.transaction:
        with fs.open("/good", "wb") as file:
            file.write(b"good")
        with pytest.raises(LookupError), fs.open("/top", "wb") as file:
            file.write(b"n" * (2 * MIB))
            raise LookupError
    assert volume.read_file("/good") == b"good" and volume.read_file("/top") == b"x"
