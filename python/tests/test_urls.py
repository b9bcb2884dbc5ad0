"""Writing by URL, and file systems of fsspec that share an image."""

import errno
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading

import fsspec
import pandas as pd
import pytest
from upath import UPath

import lanefs
from conftest import FILES, MIB
from lanefs.fsspec import LaneFileSystem
from test_sharing import is_free


@pytest.fixture(autouse=True)
def nothing_is_open_at_the_end():
    yield
    for fs in LaneFileSystem._cache.values():
        fs.close()
    LaneFileSystem.clear_instance_cache()


def test_clients_write_by_url(image):
    options = {"fo": str(image), "writable": True}
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    frame.to_csv("lanefs://tables/a.csv", index=False, storage_options=options)
    frame.to_parquet("lanefs://tables/a.parquet", storage_options=options)
    assert pd.read_csv("lanefs://tables/a.csv", storage_options=options).equals(frame)
    assert pd.read_parquet("lanefs://tables/a.parquet", storage_options={"fo": str(image)}).equals(frame)
    with fsspec.open("lanefs://tables/text", "w", **options) as file:
        file.write("text")
    with fsspec.open(f"lanefs://tables/more::{image}", "wb", lanefs={"writable": True}) as file:
        file.write(b"more")
    fs, path = fsspec.url_to_fs("lanefs://tables", mode="r+", **options)
    assert fs.ls(path, detail=False) == [f"/tables/{name}" for name in ("a.csv", "a.parquet", "more", "text")]
    fs.close()


def test_a_file_system_writes_only_if_it_may(image):
    for fs in (LaneFileSystem(str(image)), LaneFileSystem(str(image), "r")):
        with pytest.raises(OSError, match="writable=True") as refused:
            fs.pipe_file("/new", b"")
        assert (refused.value.errno, refused.value.filename) == (errno.EROFS, "/new")
        fs.close()
    LaneFileSystem(str(image), "r+").pipe_file("/new", b"n")
    LaneFileSystem(str(image), writable=True).pipe_file("/newer", b"n")
    assert LaneFileSystem(str(image)).exists("/newer")
    with pytest.raises(FileNotFoundError):
        LaneFileSystem(f"{image}.no", writable=True)


def test_other_processes_read_until_the_first_write(image):
    fs = LaneFileSystem(str(image), writable=True)
    assert fs.cat_file("/top") == b"x"
    program = "import sys, lanefs; print(lanefs.Volume.open(sys.argv[1]).read_file('/top'))"
    other = [sys.executable, "-c", program, str(image)]
    assert subprocess.check_output(other, text=True) == "b'x'\n"
    fs.pipe_file("/top", b"y")
    refused = subprocess.run(other, stderr=subprocess.PIPE, text=True)
    assert f"in use by another process: process {os.getpid()}" in refused.stderr
    fs.close()
    assert subprocess.check_output(other, text=True) == "b'y'\n"
    # The next use opens it again.
    assert fs.cat_file("/top") == b"y"


def test_threads_share_the_image(image):
    failures = []

    def work(mine):
        try:
            fs = fsspec.filesystem("lanefs", fo=str(image), writable=True)
            for turn in range(20):
                with fs.open(f"/{mine}/{turn}", "wb") as file:
                    file.write(b"%d" % mine)
                readers = fsspec.open_files(f"lanefs://{mine}/*", fo=str(image))
                assert len(readers) == turn + 1
                with readers[0] as reader:
                    assert reader.read() == b"%d" % mine
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def write_in_worker(image, name):
    with fsspec.open(f"lanefs://{name}", "wb", fo=image, writable=True) as file:
        file.write(name.encode())
    return name


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_process_writes_and_its_end_closes(image, method):
    fs = LaneFileSystem(str(image), writable=True)
    fs.pipe_file("/before", b"1")
    fs.close()
    # One at a time: a second writer would be refused.
    for number in range(2):
        worker = multiprocessing.get_context(method).Process(target=write_in_worker, args=(str(image), f"w{number}"))
        worker.start()
        worker.join()
        assert worker.exitcode == 0
    assert fs.cat(["/before", "/w0", "/w1"]) == {"/before": b"1", "/w0": b"w0", "/w1": b"w1"}


def test_a_child_of_a_writer_is_told_who_writes(image):
    fs = LaneFileSystem(str(image), writable=True)
    fs.pipe_file("/before", b"1")

    def child(pipe):
        try:
            pipe.send(fs.cat_file("/before"))
        except OSError as error:
            pipe.send((error.errno, str(error)))

    ours, theirs = multiprocessing.Pipe()
    for expected in ("refused", "read"):
        worker = multiprocessing.get_context("fork").Process(target=child, args=(theirs,))
        worker.start()
        answer = ours.recv()
        worker.join()
        if expected == "refused":
            assert answer[0] == errno.EBUSY and f"process {os.getpid()}" in answer[1]
            fs.pipe_file("/after", b"2")
            fs.close()
        else:
            assert answer == b"1"
    assert fs.cat_file("/after") == b"2"


def test_the_end_of_a_program_closes_what_it_wrote(image):
    program = """
        import sys, fsspec
        with fsspec.open("lanefs://new", "wb", fo=sys.argv[1], writable=True) as file:
            file.write(b"content")
    """
    subprocess.check_call([sys.executable, "-c", textwrap.dedent(program), str(image)])
    with lanefs.Volume.open(image) as volume:
        assert volume.read_file("/new") == b"content"


@pytest.fixture
def fs(volume):
    return LaneFileSystem.of(volume)


def test_links_are_told_and_never_descended(fs, tmp_path):
    fs.makedirs("/d/sub")
    fs.pipe_file("/d/sub/file", b"content")
    fs.volume.symlink("..", "/d/up")
    fs.volume.symlink("sub/file", "/d/file")
    fs.volume.symlink("nowhere", "/d/none")
    names = ["/d/file", "/d/none", "/d/sub/file", "/d/up"]
    assert fs.find("/d") == names
    assert sorted(fs.find("/d", withdirs=True)) == sorted([*names, "/d", "/d/sub"])
    assert [top for top, _, _ in fs.walk("/d")] == ["/d", "/d/sub"]
    assert fs.du("/d") == 2 * len(b"content")
    assert fs.expand_path("/d", recursive=True) == sorted([*names, "/d", "/d/sub"])
    assert fs.glob("/d/**") == sorted([*names, "/d", "/d/sub"])
    told = {name: fs.info(name) for name in names}
    assert {name: info["islink"] for name, info in told.items()} == {
        "/d/file": True,
        "/d/none": True,
        "/d/sub/file": False,
        "/d/up": True,
    }
    assert [told[name]["destination"] for name in ("/d/file", "/d/none", "/d/up")] == ["sub/file", "nowhere", ".."]
    assert [told[name]["type"] for name in ("/d/file", "/d/none", "/d/up")] == ["file", "other", "directory"]
    assert {info["name"]: info["type"] for info in fs.ls("/d")} == {
        "/d/file": "file",
        "/d/none": "other",
        "/d/sub": "directory",
        "/d/up": "other",
    }
    assert fs.lexists("/d/none") and not fs.exists("/d/none") and not fs.lexists("/d/no")
    fs.rm_file("/d/none")
    fs.get("/d", str(tmp_path / "got"), recursive=True)
    assert (tmp_path / "got/file").read_bytes() == b"content" and os.listdir(tmp_path / "got/up") == []
    fs.cp("/d", "/copy", recursive=True)
    assert fs.find("/copy") == ["/copy/file", "/copy/sub/file"]
    fs.rm("/d", recursive=True, maxdepth=5)
    assert not fs.exists("/d") and fs.exists("/data")


def test_names_have_single_slashes(fs):
    assert fs.info("//data//a.txt")["name"] == "/data/a.txt"
    assert fs.info("lanefs:///data///a.txt/")["name"] == "/data/a.txt"
    assert fs.ls("//data//deep", detail=False) == ["/data/deep/er"]


def test_open_files_tell_their_size(fs):
    content = FILES["/data/deep/er/c.bin"]
    with fs.open("/data/deep/er/c.bin") as file:
        assert file.size == len(content)
        file.read(7)
        assert file.size == len(content)
    for mode in ("wb", "w+b", "xb", "ab", "r+b"):
        fs.pipe_file("/sized", b"12345")
        with fs.open("/new" if mode == "xb" else "/sized", mode) as file:
            old = 0 if mode[0] in "wx" else 5
            assert file.size == old
            file.seek(0, io.SEEK_END)
            file.write(b"67")
            assert file.size == old + 2
    with fs.volume.open_file("/sized", "rb", buffering=0) as file:
        assert file.size == 7


def test_a_copy_onto_itself_loses_nothing(fs):
    for size in (1, 3 * MIB):
        content = b"n" * size
        fs.pipe_file("/a", content)
        fs.volume.link("/a", "/hard")
        fs.volume.symlink("a", "/soft")
        for target in ("/a", "/hard", "/soft", "//a"):
            fs.cp_file("/a", target)
            fs.cp_file(target, "/a")
            assert fs.cat_file("/a") == content and fs.cat_file(target) == content
        assert fs.info("/a")["nlink"] == 2 and fs.info("/soft")["islink"]
        fs.rm(["/a", "/hard", "/soft"])


def test_a_move_that_fails_or_does_nothing_changes_nothing(fs):
    before = fs.find("/", withdirs=True)
    with pytest.raises(FileNotFoundError):
        fs.mv("/missing", "/new/x")
    for same in ("/data", "/top", "/data/link"):
        fs.mv(same, same)
    assert fs.find("/", withdirs=True) == before
    fs.mv(["/top", "/data/a.txt"], "/data/deep")
    fs.mv("/data/deep/*", "/moved")
    assert fs.find("/moved") == ["/moved/a.txt", "/moved/er/c.bin", "/moved/top"]
    fs.mv(["/moved/a.txt"], ["/b"])
    assert fs.cat_file("/b") == b"one sample"


def test_touch_sets_the_time(fs):
    fs.volume.utime("/top", ns=(1, 1))
    fs.touch("/top", truncate=False)
    assert fs.info("/top")["mtime"] > 1 and fs.cat_file("/top") == b"x"
    fs.volume.utime("/top", ns=(1, 1))
    fs.touch("/top")
    assert fs.info("/top")["mtime"] > 1 and fs.cat_file("/top") == b""
    fs.touch("/new", truncate=False)
    assert fs.cat_file("/new") == b""


def test_universal_pathlib_has_paths_of_a_volume(image):
    path = UPath("lanefs://tables/a.csv", fo=str(image), writable=True)
    assert type(path).__module__ == "lanefs.upath" and path.path == "/tables/a.csv"
    path.parent.mkdir()
    path.write_text("x,y")
    assert path.read_text() == "x,y" and path.stat().st_size == 3 and path.name == "a.csv"
    assert path == UPath("lanefs:///tables//a.csv", fo=str(image), writable=True)
    assert [str(one) for one in path.parent.iterdir()] == ["lanefs:///tables/a.csv"]
    assert path.rename(path.with_name("b.csv")).read_bytes() == b"x,y" and not path.exists()
    assert pickle.loads(pickle.dumps(path)) == path
