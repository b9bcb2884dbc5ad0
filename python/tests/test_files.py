"""File objects, searches, and trees of the host."""

import asyncio
import io
import os
import subprocess
import sys
import textwrap

import pytest

import lanefs
from conftest import FILES, MIB


def test_a_file_object_reads_seeks_and_tells(volume):
    content = FILES["/data/deep/er/c.bin"]
    with volume.open_file("/data/deep/er/c.bin", "rb") as file:
        assert isinstance(file, io.BufferedReader) and file.seekable() and not file.writable()
        assert file.read(3) == content[:3] and file.tell() == 3
        assert file.seek(-5, os.SEEK_END) == len(content) - 5
        assert file.read() == content[-5:] and file.read() == b""
        assert file.seek(256) == 256 and file.read1(10) == content[256:266]
        assert file.seek(10, os.SEEK_CUR) == 276 and file.peek(1)[:1] == content[276:277]
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"")
        with pytest.raises(ValueError, match="negative"):
            file.seek(-1)
    with pytest.raises(ValueError, match="closed"):
        file.read()


def test_modes_are_those_of_python(volume, tmp_path):
    """Every step gives the same on a file of the host."""

    def steps(open_file):
        outcomes = []

        def step(call):
            try:
                outcomes.append(call())
            except (OSError, ValueError) as error:
                outcomes.append((type(error).__name__, getattr(error, "errno", None)))

        for mode in ("wb", "xb", "r+b", "rb", "ab", "a+b", "w+b", "rb"):

            def run(mode=mode):
                with open_file("name", mode) as file:
                    step(lambda: file.write(b"0123456789"))
                    step(lambda: file.seek(2))
                    step(lambda: file.write(b"xy"))
                    step(file.tell)
                    step(lambda: file.truncate(7))
                    step(lambda: file.seek(0))
                    step(file.read)

            step(run)
        for mode in ("w", "a", "r"):

            def run_text(mode=mode):
                with open_file("text", mode, encoding="utf-8") as file:
                    step(lambda: file.write("zwölf\nBoxkämpfer\n"))
                    step(lambda: list(file))
                    step(file.tell)

            step(run_text)
        return outcomes

    def on_host(name, *arguments, **options):
        return open(tmp_path / name, *arguments, **options)

    assert steps(volume.open_file) == steps(on_host)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("rw",), "mode"),
        (("b",), "mode"),
        (("rbt",), "mode"),
        (("rb", -1, "utf-8"), "text"),
        (("r", 0), "buffer"),
    ],
)
def test_a_mode_that_makes_no_sense_is_refused(volume, arguments, text):
    with pytest.raises(ValueError, match=text):
        volume.open_file("/top", *arguments)


def test_a_file_that_cannot_be_opened_is_named(volume, image):
    for path, mode, kind in (
        ("/no", "rb", FileNotFoundError),
        ("/data", "rb", IsADirectoryError),
        ("/no/such", "wb", FileNotFoundError),
        ("/top", "xb", FileExistsError),
    ):
        with pytest.raises(kind) as refused:
            volume.open_file(path, mode)
        assert refused.value.filename == path
    with lanefs.Volume.open(image) as reader, pytest.raises(OSError, match="reading only"):
        reader.open_file("/top", "r+b")


def test_an_open_file_lives_on_without_a_name(volume):
    with volume.open_file("/top", "r+b", 0) as file:
        volume.remove("/top")
        file.write(b"longer")
        file.seek(0)
        assert file.read() == b"longer"
    assert not volume.exists("/top")


def test_text_has_lines(volume):
    with volume.open_file("/lines", "w", encoding="utf-8") as file:
        file.write("a\nb\n")
    with volume.open_file("/lines") as file:
        assert list(file) == ["a\n", "b\n"]


def test_find_has_the_conditions_of_find(volume):
    everything = {path for top, dirs, files in volume.walk() for path in (os.path.join(top, n) for n in dirs + files)}
    assert set(volume.find()) == everything
    assert sorted(volume.find(name="*.txt")) == ["/data/a.txt", "/data/b.txt"]
    assert list(volume.find(kind=lanefs.Kind.SYMLINK)) == ["/data/link"]
    assert sorted(volume.find("/data", kind=lanefs.Kind.FILE, min_size=1)) == ["/data/a.txt", "/data/deep/er/c.bin"]
    assert list(volume.find(kind=lanefs.Kind.FILE, max_size=0)) == ["/data/b.txt"]
    volume.utime("/top", ns=(0, 1 << 61))
    assert list(volume.find(newer_than_ns=(1 << 61) - 1)) == ["/top"]
    errors = []
    assert list(volume.find("/no", onerror=errors.append)) == [] and len(errors) == 1


def test_a_tree_goes_in_and_out(volume, tmp_path):
    source, back = tmp_path / "source", tmp_path / "back"
    (source / "sub").mkdir(parents=True)
    (source / "sub/file").write_bytes(b"content" * 1000)
    (source / "link").symlink_to("sub/file")
    seen = []
    report = volume.import_tree(source, "/in", progress=seen.append)
    assert (report.counts.files, report.counts.symlinks, report.problems) == (1, 1, [])
    assert volume.read_file("/in/sub/file") == b"content" * 1000
    assert seen and seen[-1].files == 1
    report = volume.export_tree("/in", back)
    assert report.counts.bytes == 7000 and report.seconds > 0
    assert (back / "sub/file").read_bytes() == b"content" * 1000
    again = volume.import_tree(source, "/in")
    assert {os.path.relpath(path, source) for path, _ in again.problems} == {"link", "sub/file"}
    assert volume.import_tree(source, "/in", overwrite=True).problems == []
    with pytest.raises(FileNotFoundError):
        volume.import_tree(tmp_path / "no", "/in")


def test_a_tree_is_followed(volume, tmp_path):
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub/file").write_bytes(b"content")
    (source / "object.o").write_bytes(b"1")
    (source / "link").symlink_to("sub/file")
    volume.makedirs("/in")
    volume.write_file("/in/more", b"more")
    dry = volume.sync(source, "/in", delete=True, dry_run=True, exclude=["*.o"])
    assert (dry.compared, dry.added, dry.removed) == (4, 3, 1) and volume.read_file("/in/more") == b"more"
    changes = {one.path: (one.change, one.kind) for one in dry.differences if one.path}
    assert changes == {
        "link": ("added", lanefs.Kind.SYMLINK),
        "more": ("removed", lanefs.Kind.FILE),
        "sub": ("added", lanefs.Kind.DIRECTORY),
        "sub/file": ("added", lanefs.Kind.FILE),
    }
    seen = []
    done = volume.sync(source, "/in", delete=True, exclude=["*.o"], differences=True, progress=seen.append)
    assert done.differences == dry.differences and done.problems == [] and seen[-1].files == 1
    assert volume.read_file("/in/sub/file") == b"content" and not volume.exists("/in/more")
    assert volume.sync(source, "/in", exclude=["*.o"]).compared == 4
    again = volume.sync(source, "/in", exclude=["*.o"], include=["object.o"])
    assert (again.added, again.differences) == (1, [])
    (source / "object.o").write_bytes(b"longer")
    (one,) = volume.sync(source, "/in", dry_run=True).differences
    assert (one.path, one.change, one.differs) == ("object.o", "replaced", ("size", "mtime"))
    assert volume.sync() is None
    with pytest.raises(FileNotFoundError):
        volume.sync(tmp_path / "no", "/in")
    with pytest.raises(TypeError, match="exclude is one text"):
        volume.sync(source, "/in", exclude="*.o")
    with pytest.raises(ValueError, match="not a pattern"):
        volume.sync(source, "/in", exclude=["a[z-a]"])
    with pytest.raises(ValueError, match=r"'\[' is not a pattern"):
        volume.sync(source, "/in", exclude=["["])


def test_an_exception_of_the_callback_stops_a_sync(volume, tmp_path):
    (tmp_path / "file").write_bytes(b"1")

    def refuse(_):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        volume.sync(tmp_path, "/in", progress=refuse)


def test_an_exception_of_the_callback_stops_an_import(volume, tmp_path):
    (tmp_path / "file").write_bytes(b"1")

    def refuse(_):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        volume.import_tree(tmp_path, "/in", progress=refuse)


def test_a_full_volume_is_an_error(tmp_path):
    (tmp_path / "large").write_bytes(os.urandom(16 * MIB))
    with lanefs.Volume.memory(8 * MIB) as volume, pytest.raises(OSError, match="no space left"):
        volume.import_tree(tmp_path, "/")


def test_an_export_leaves_the_image(image):
    with lanefs.Volume.open(image, "r+") as volume:
        volume.write_file(f"/{image.name}", b"a file")
        report = volume.export_tree("/", image.parent, overwrite=True)
        assert [what for _, what in report.problems] == ["is the image of this volume on the host, and stays"]
    with lanefs.Volume.open(image) as volume:
        assert volume.read_file("/top") == b"x"


class Bar:
    """A bar as tqdm has it."""

    n = 0

    def update(self, more):
        self.n += more


def test_a_bar_has_a_total(volume, tmp_path):
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub/file").write_bytes(b"content" * 1000)
    os.link(source / "sub/file", source / "hard")
    (source / "link").symlink_to("sub")
    os.mkfifo(source / "fifo")
    total = lanefs.count_tree(source)
    assert total == lanefs.Counts(1, 1, 1, 1, 1, 7000)
    for unit in ("files", "bytes"):
        bar = Bar()
        report = volume.import_tree(source, f"/{unit}", progress=lanefs.on_bar(bar, unit))
        assert bar.n == getattr(total, unit) == getattr(report.counts, unit)
        assert volume.count_tree(f"/{unit}") == total
    assert volume.count_tree("/top") == lanefs.Counts(1, 0, 0, 0, 0, 1)
    assert lanefs.count_tree(source / "hard") == lanefs.Counts(1, 0, 0, 0, 0, 7000)


def test_ctrl_c_stops_an_import(tmp_path):
    # The callback of the first report sends the signal to its own process.
    for i in range(200):
        (tmp_path / f"{i}").write_bytes(b"x" * 1000)
    program = f"""
        import signal, sys, lanefs
        signal.signal(signal.SIGINT, signal.default_int_handler)
        volume = lanefs.Volume.memory({64 * MIB})
        try:
            volume.import_tree(sys.argv[1], "/", progress=lambda _: signal.raise_signal(signal.SIGINT))
        except KeyboardInterrupt:
            sys.exit(7)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], timeout=600)
    assert done.returncode == 7


def test_files_are_read_beside_an_event_loop(volume):
    async def read():
        one, two = await asyncio.gather(volume.aread(list(FILES)), volume.aread(["/top"]))
        return one.to_bytes(), two.to_bytes()

    assert asyncio.run(read()) == (list(FILES.values()), [b"x"])
