"""Forks, threads and signals."""

import fcntl
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import lanefs
from conftest import FILES, MIB

# A process that hangs is a failure; nothing here depends on how long anything takes.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_fork(work):
    """Runs `work` in a forked child, and returns its outcome as text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        # A child that waits for ever ends, and the test fails.
        signal.alarm(300)
        try:
            text = repr(work())
        except BaseException as error:  # The child must not return to pytest.
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        text = pipe.read().decode()
    assert os.waitpid(child, 0)[1] == 0
    return text


def test_a_volume_open_for_reading_opens_itself_anew_in_a_fork(image):
    with lanefs.Volume.open(image) as volume:
        volume.read_file("/top")
        assert in_fork(lambda: volume.read_file("/top")) == "b'x'"
        # In the child of a child, and after the child has closed its own.
        assert in_fork(lambda: in_fork(lambda: volume.read_file("/top"))) == repr("b'x'")
        assert in_fork(lambda: (volume.close(), volume.closed)) == "(None, True)"
        assert volume.read_file("/top") == b"x"


def direct_handles(image):
    """The descriptors of an image through which this process reads past the page cache."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}") == str(image):
                found.append(bool(fcntl.fcntl(int(number), fcntl.F_GETFL) & os.O_DIRECT))
        except OSError:
            continue  # The descriptor of the listing itself.
    assert found, "the image is not open"
    return sum(found)


def test_processes_that_read_a_volume_share_the_page_cache(image):
    with lanefs.Volume.open(image, shared=True) as volume:
        assert volume.read_file("/top") == b"x"
        assert direct_handles(image) == 0
    with lanefs.Volume.open(image) as volume:
        assert volume.read_file("/top") == b"x"
        mine = direct_handles(image)
        # The child has the descriptors of its parent as well.
        assert in_fork(lambda: (volume.read_file("/top"), direct_handles(image))) == f"(b'x', {mine})"
        with pickle.loads(pickle.dumps(volume)) as other:
            assert other.read_file("/top") == b"x"
            assert direct_handles(image) == mine
    with pytest.raises(ValueError, match="reading"):
        lanefs.Volume.open(image, "r+", shared=True)


def test_a_volume_that_changes_is_an_error_in_a_fork(image):
    with lanefs.Volume.open(image, "r+") as volume:
        volume.write_file("/before", b"1")
        assert "forked" in in_fork(lambda: volume.read_file("/top"))
        # Neither closing it nor its end touches the volume of the parent.
        assert in_fork(volume.close) == "None"
        volume.write_file("/after", b"2")
        assert volume.read(["/before", "/after"]).to_bytes() == [b"1", b"2"]
    with lanefs.Volume.open(image) as volume:
        assert volume.read(["/before", "/after"]).to_bytes() == [b"1", b"2"]


def test_the_last_reference_in_a_fork_leaves_the_volume_of_the_parent(image):
    holder = [lanefs.Volume.open(image, "r+")]
    holder[0].write_file("/before", b"1")
    # The superblock says whether the volume is closed. A commit does not write it.
    superblock = image.read_bytes()[:4096]
    assert in_fork(holder.clear) == "None"
    assert image.read_bytes()[:4096] == superblock
    holder[0].write_file("/after", b"2")
    holder[0].close()
    with lanefs.Volume.open(image) as volume:
        assert volume.read(["/before", "/after"]).to_bytes() == [b"1", b"2"]


def test_a_volume_in_memory_is_an_error_in_a_fork(volume):
    assert "forked" in in_fork(lambda: volume.read_file("/top"))
    assert volume.read_file("/top") == b"x"


def busy(works, forks):
    """Runs `forks` while each of `works` runs again and again in a thread."""
    stop = threading.Event()

    def repeat(work):
        while not stop.is_set():
            work()

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        forks()
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_fork_beside_busy_threads_does_not_wait_for_them(image):
    with lanefs.Volume.open(image) as volume:

        def forks():
            for _ in range(20):
                assert in_fork(lambda: volume.read(FILES).to_bytes()) == repr(list(FILES.values()))

        busy([lambda: volume.read(list(FILES) * 100)] * 4, forks)


def test_a_fork_beside_searches_on_a_device_does_not_wait_for_them(image):
    with lanefs.Volume.open(image, engine="gpu") as volume:

        def search():
            return sum(1 for _ in volume.grep("sample")), len(volume.fuzzy_names().search("lane"))

        def open_another():
            with lanefs.Volume.open(image) as other:
                other.read(FILES)

        def forks():
            expected = search()
            for _ in range(20):
                # Begun here, and goes on in the child.
                lines, names = volume.grep("sample"), volume.fuzzy_names()
                child = in_fork(lambda: (sum(1 for _ in lines), len(names.search("lane")), search()))
                assert child == repr((*expected, expected))

        busy([search, open_another, lambda: volume.resolve(list(FILES) * 100)], forks)


def read_in_worker(volume_and_path):
    volume, path = volume_and_path
    return volume.read_file(path)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing_read(image, method):
    with lanefs.Volume.open(image) as volume, multiprocessing.get_context(method).Pool(2) as pool:
        done = pool.map(read_in_worker, [(volume, path) for path in FILES])
    assert done == list(FILES.values())


def test_threads_share_a_volume(volume):
    errors = []

    def work(mine):
        try:
            for turn in range(20):
                path = f"/thread{mine}-{turn}"
                volume.write_file(path, b"%d" % turn * 100)
                assert volume.read([*FILES, path]).to_bytes() == [*FILES.values(), b"%d" % turn * 100]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_no_reader_sees_half_of_a_write(volume):
    old, new = b"o" * 300_000, b"n" * 200_000
    volume.write_file("/changes", old)
    stop, torn = threading.Event(), []

    def write():
        turn = 0
        while not stop.is_set():
            turn += 1
            volume.remove("/changes")
            volume.write_many(["/changes"], [new if turn % 2 else old])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            files = volume.read(["/changes", "/top"])
            assert bytes(files[1]) == b"x"
            if files.codes[0] == 0 and bytes(files[0]) not in (old, new):
                torn.append(len(files[0]))
    finally:
        stop.set()
        writer.join()
    assert torn == []


def test_a_call_lets_other_threads_run(volume):
    # The reader ends only after this thread has run Python code beside it.
    seen, done = threading.Event(), threading.Event()

    def read():
        while not seen.is_set():
            volume.read(list(FILES) * 500)
        done.set()

    threading.Thread(target=read).start()
    seen.set()
    assert done.wait(60)


def test_closing_beside_a_call_lets_it_finish(image):
    volume = lanefs.Volume.open(image, "r+")
    outcomes = []

    def work(path):
        try:
            while True:
                volume.write_many([path], [b"1"])
                volume.remove(path)
        except ValueError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=work, args=(f"/{mine}",)) for mine in range(3)]
    for thread in threads:
        thread.start()
    volume.close()
    for thread in threads:
        thread.join()
    assert outcomes == ["the volume is closed"] * 3


LONG_CALLS = {
    "read": "raw.read, [paths], [None], [0]",
    "resolve": "raw.resolve, [paths], [['code', 'size']], [True]",
    "write_many": "raw.write_many, [new], [b''], [[0] * (len(new) + 1)], [(0o644, True, False)]",
}


@pytest.mark.parametrize("call", LONG_CALLS.values(), ids=LONG_CALLS)
def test_ctrl_c_stops_a_long_call(call):
    # The other thread runs once the call waits without the interpreter's lock, and not before. Between the
    # end of the call and the end of `extend` the interpreter looks for no signals, so there is a result
    # where the call itself did not stop.
    program = f"""
        import signal, sys, threading, lanefs
        volume = lanefs.Volume.memory({1024 * MIB})
        volume.write_file("/f", b"x" * 64)
        raw = volume._volume
        paths = lanefs.PathSet(["/f"] * 2_000_000)
        new = lanefs.PathSet([f"/new/{{i}}" for i in range(300_000)])
        results, go = [], threading.Event()

        def interrupt():
            go.wait()
            signal.raise_signal(signal.SIGINT)

        signal.signal(signal.SIGINT, signal.default_int_handler)
        thread = threading.Thread(target=interrupt)
        thread.start()
        sys.setswitchinterval(1000)
        try:
            go.set()
            results.extend(map({call}))
        except KeyboardInterrupt:
            assert results == [], "the call went on to its end"
            assert volume.read_file("/f") == b"x" * 64
            volume.close()
            sys.exit(7)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=600)
    assert done.returncode == 7
