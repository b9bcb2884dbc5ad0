"""Handles of one image in one process: they share one open volume."""

import errno
import gc
import subprocess
import sys
import threading

import pytest

import lanefs
from conftest import FILES, MIB


def is_free(image):
    """True where another process may write the image."""
    program = "import sys, lanefs; lanefs.Volume.open(sys.argv[1], 'r+').close()"
    done = subprocess.run([sys.executable, "-c", program, str(image)], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0 or "in use by another process" in done.stderr, done.stderr
    return done.returncode == 0


@pytest.mark.parametrize("modes", [("r", "r+"), ("r+", "r"), ("r+", "r+")])
def test_handles_of_one_image_see_each_other(image, modes):
    handles = [lanefs.Volume.open(image, mode) for mode in modes]
    writer = handles[modes.index("r+")]
    writer.write_file("/new", b"content")
    assert [handle.read_file("/new") for handle in handles] == [b"content"] * 2
    assert [handle.mode for handle in handles] == list(modes)
    writer.close()
    for handle, mode in zip(handles, modes):
        if handle is not writer:
            assert handle.read_file("/new") == b"content"
            # The last handle closes the volume.
            assert not is_free(image)
            handle.close()
    assert is_free(image)


def test_a_handle_for_reading_refuses_to_write_beside_a_writer(image, tmp_path):
    with lanefs.Volume.open(image, "r+") as writer, lanefs.Volume.open(image) as reader:
        changes = [
            lambda: reader.write_file("/new", b""),
            lambda: reader.write_many(["/new"], [b""]),
            lambda: reader.open_file("/new", "wb"),
            lambda: reader.open_file("/top", "r+b"),
            lambda: reader.mkdir("/d"),
            lambda: reader.makedirs("/d/e"),
            lambda: reader.remove("/top"),
            lambda: reader.rmtree("/data"),
            lambda: reader.rename("/top", "/new"),
            lambda: reader.symlink("a", "/new"),
            lambda: reader.link("/top", "/new"),
            lambda: reader.chmod("/top", 0o600),
            lambda: reader.chown("/top", 1, 1),
            lambda: reader.utime("/top"),
            lambda: reader.truncate("/top", 0),
            lambda: reader.copy("/top", "/new"),
            lambda: reader.setxattr("/top", "user.a", b"1"),
            lambda: reader.removexattr("/top", "user.a"),
            lambda: reader.import_tree(tmp_path),
        ]
        for number, change in enumerate(changes):
            with pytest.raises(OSError) as refused:
                change()
            assert refused.value.errno == errno.EROFS, number
        assert sorted(writer.listdir("/")) == ["data", "top"]


def test_files_stay_open_while_the_volume_opens_for_writing(image):
    reader = lanefs.Volume.open(image)
    file, second = reader.open_file("/data/deep/er/c.bin", "rb"), reader.open_file("/top", "rb")
    first = file.read(10)
    with lanefs.Volume.open(image, "r+") as writer:
        # The name is gone, and the file lives on until it is closed.
        writer.remove("/data/deep/er/c.bin")
        assert first + file.read() == FILES["/data/deep/er/c.bin"]
        free = writer.statvfs().f_bfree
        file.close()
        assert writer.statvfs().f_bfree > free
        assert second.read() == b"x"
        second.close()
    reader.close()
    assert is_free(image)


def test_memory_in_use_keeps_a_volume_open_for_reading(image):
    with lanefs.Volume.open(image) as reader:
        views = reader.view(list(FILES))
        with pytest.raises(OSError, match="in use by this process") as refused:
            lanefs.Volume.open(image, "r+")
        assert refused.value.errno == errno.EBUSY
        assert bytes(views[0]) == b"one sample" and reader.read_file("/top") == b"x"
        del views
        gc.collect()
        epoch = reader.epoch(list(FILES) * 100, 10)
        with pytest.raises(OSError, match="in use by this process"):
            lanefs.Volume.open(image, "r+")
        epoch.close()
        del epoch
        gc.collect()
        with lanefs.Volume.open(image, "r+") as writer:
            writer.write_file("/top", b"y")
            assert reader.read_file("/top") == b"y"


def test_another_process_that_reads_keeps_the_handles_readers(image):
    program = "import sys, lanefs; v = lanefs.Volume.open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with lanefs.Volume.open(image) as reader:
        other = subprocess.Popen(
            [sys.executable, "-c", program, str(image)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert other.stdout.readline() == "open\n"
        with pytest.raises(OSError, match="in use by another process") as refused:
            lanefs.Volume.open(image, "r+")
        assert refused.value.errno == errno.EBUSY
        assert reader.read_file("/top") == b"x"
        other.communicate()
        with lanefs.Volume.open(image, "r+") as writer:
            writer.write_file("/top", b"y")
        assert reader.read_file("/top") == b"y"


def test_threads_open_read_write_and_close_at_once(image):
    failures = []

    def work(mine):
        try:
            for turn in range(30):
                with lanefs.Volume.open(image, "r+" if (mine + turn) % 2 else "r") as volume:
                    assert volume.read(list(FILES)).to_bytes() == list(FILES.values())
                    if volume.mode == "r+":
                        volume.write_file(f"/{mine}", b"%d" % turn)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with lanefs.Volume.open(image) as volume:
        last = [28 if mine % 2 else 29 for mine in range(6)]
        assert volume.read([f"/{mine}" for mine in range(6)]).to_bytes() == [b"%d" % turn for turn in last]


def test_other_names_of_an_image_are_the_same_image(image, tmp_path):
    link = tmp_path / "link.lane"
    link.symlink_to(image)
    with lanefs.Volume.open(image, "r+") as writer, lanefs.Volume.open(link) as reader:
        writer.write_file("/new", b"content")
        assert reader.read_file("/new") == b"content"
        # A file that takes the place of the image is another one.
        image.unlink()
        with lanefs.Volume.open(image, "x", size=64 * MIB) as other:
            assert other.listdir("/") == []
        assert writer.read_file("/new") == b"content"


def test_a_writer_gets_its_turn_beside_busy_readers(image):
    stop = threading.Event()
    failures = []

    def read(volume):
        try:
            while not stop.is_set():
                assert volume.read(list(FILES) * 500).to_bytes() == list(FILES.values()) * 500
        except BaseException as error:
            failures.append(error)

    for turn in range(3):
        stop.clear()
        with lanefs.Volume.open(image) as reader:
            threads = [threading.Thread(target=read, args=(reader,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            try:
                with lanefs.Volume.open(image, "r+") as writer:
                    writer.write_file("/turn", b"%d" % turn)
                assert reader.read_file("/turn") == b"%d" % turn
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
    assert failures == []


def test_a_callback_may_call_and_does_not_wait_for_itself(image, tmp_path):
    refused = []

    def progress(counts):
        assert reader.read_file("/top") == b"x"
        with pytest.raises(OSError, match="in use by this process") as error:
            lanefs.Volume.open(image, "r+")
        refused.append(error.value.errno)

    with lanefs.Volume.open(image) as reader:
        reader.export_tree("/", tmp_path / "out", progress=progress)
    assert refused and set(refused) == {errno.EBUSY}
