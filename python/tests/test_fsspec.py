"""Volumes as file systems of fsspec."""

import io
import pickle

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from fsspec.tests import abstract
from PIL import Image

import lanefs
from conftest import FILES, MIB
from lanefs.fsspec import LaneFileSystem


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self):
        with lanefs.Volume.memory(64 * MIB) as volume:
            yield LaneFileSystem.of(volume)

    @pytest.fixture
    def fs_path(self, fs):
        fs.mkdir("/test")
        return "/test"

    @pytest.fixture
    def fs_target(self, fs_path):
        return f"{fs_path}/target"


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


@pytest.fixture
def fs(volume):
    return LaneFileSystem.of(volume)


def test_the_protocol_is_found_by_its_entry_point(image):
    fs = fsspec.filesystem("lanefs", fo=str(image))
    assert isinstance(fs, LaneFileSystem)
    assert fs.cat("lanefs://data/a.txt") == b"one sample"
    with fsspec.open("lanefs://data/a.txt", fo=str(image)) as file:
        assert file.read() == b"one sample"
    with fsspec.open(f"lanefs://data/a.txt::file://{image}", "r") as file:
        assert file.read() == "one sample"
    assert pickle.loads(pickle.dumps(fs)).cat_file("/top") == b"x"
    with pytest.raises(ValueError, match="fo"):
        LaneFileSystem()


def test_a_listing_has_the_attributes_of_each_entry(fs):
    assert fs.ls("/", detail=False) == ["/data", "/top"]
    listed = {info["name"]: (info["type"], info["size"], info["islink"]) for info in fs.ls("data")}
    assert listed == {
        "/data/a.txt": ("file", 10, False),
        "/data/b.txt": ("file", 0, False),
        "/data/deep": ("directory", 0, False),
        "/data/link": ("file", 10, True),
    }
    assert fs.ls("/top") == [fs.info("lanefs://top")]
    assert fs.isdir("/data") and fs.isfile("/top") and not fs.exists("/no")
    for missing in (fs.ls, fs.info):
        with pytest.raises(FileNotFoundError):
            missing("/no")
    assert fs.modified("/top").timestamp() == pytest.approx(fs.info("/top")["mtime"])


def test_a_link_to_nothing_is_listed(fs):
    fs.volume.symlink("nowhere", "/broken")
    assert fs.info("/broken")["islink"] and fs.info("/broken")["type"] == "other"
    assert {info["name"] for info in fs.ls("/")} == {"/broken", "/data", "/top"}


def test_trees_are_found_and_patterns_match(fs):
    assert fs.find("/") == ["/data/a.txt", "/data/b.txt", "/data/deep/er/c.bin", "/data/link", "/top"]
    assert fs.glob("/data/*.txt") == ["/data/a.txt", "/data/b.txt"]
    assert fs.glob("/**/*.bin") == ["/data/deep/er/c.bin"]
    assert fs.du("/data/deep") == 10240


def test_contents_come_in_batches(fs):
    assert fs.cat(list(FILES)) == FILES
    assert fs.cat("/data/*.txt") == {path: FILES[path] for path in ("/data/a.txt", "/data/b.txt")}
    assert fs.cat("/data/deep", recursive=True) == {"/data/deep/er/c.bin": FILES["/data/deep/er/c.bin"]}
    with pytest.raises(FileNotFoundError):
        fs.cat(["/top", "/no"])
    assert fs.cat(["/top", "/no"], on_error="omit") == {"/top": b"x"}
    assert isinstance(fs.cat(["/top", "/no"], on_error="return")["/no"], FileNotFoundError)


def test_ranges_come_in_batches_and_count_from_the_end(fs):
    paths = ["/data/a.txt"] * 4
    assert fs.cat_ranges(paths, [0, 4, -6, None], [3, None, -1, 2]) == [b"one", b"sample", b"sampl", b"on"]
    assert fs.cat_ranges(["/top", "/data/a.txt"], 0, 1) == [b"x", b"o"]
    parts = fs.cat_ranges(["/no", "/top"], [0, 0], [1, 1])
    assert isinstance(parts[0], FileNotFoundError) and parts[1] == b"x"
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["/no"], [0], [1], on_error="raise")
    assert fs.cat_file("/data/a.txt", start=-6, end=-3) == b"sam"


def test_files_are_written_copied_moved_and_removed(fs):
    with fs.open("/new/er/file", "w") as file:
        file.write("text")
    with fs.open("/new/er/file", "ab") as file:
        file.write(b" and more")
    assert fs.cat("/new/er/file") == b"text and more"
    fs.cp("/new", "/copy", recursive=True)
    fs.mv("/copy/er/file", "/top")
    assert fs.cat("/top") == b"text and more" and not fs.exists("/copy/er/file")
    fs.touch("/new/er/file")
    assert fs.info("/new/er/file")["size"] == 0
    fs.rm("/new", recursive=True)
    fs.rm(["/data/a.txt", "/data/b.txt"])
    assert fs.find("/data") == ["/data/deep/er/c.bin", "/data/link"]
    with pytest.raises(FileExistsError):
        fs.makedirs("/data")


def test_a_volume_for_reading_refuses_to_write(image):
    fs = LaneFileSystem(str(image))
    with pytest.raises(OSError, match="reading only"):
        fs.pipe_file("/top", b"y")


def test_files_of_a_transaction_appear_together_or_not_at_all(fs):
    fs.pipe_file("/t/old", b"old")
    before = fs.find("/")
    with fs.transaction:
        with fs.open("/t/new", "wb") as file:
            file.write(b"new")
        with fs.open("/t/text", "w") as file:
            file.write("text")
        fs.pipe_file("/t/old", b"newer")
        fs.cp_file("/t/old", "/t/copy")
        unfinished = fs.open("/t/deep/er", "wb")
        unfinished.write(b"not closed")
        assert fs.cat_file("/t/old") == b"old" and not fs.exists("/t/new")
    added = {"/t/new", "/t/text", "/t/copy", "/t/deep/er"}
    assert set(fs.find("/")) == set(before) | added
    assert fs.cat(["/t/new", "/t/text", "/t/old", "/t/copy", "/t/deep/er"]) == {
        "/t/new": b"new",
        "/t/text": b"text",
        "/t/old": b"newer",
        "/t/copy": b"old",
        "/t/deep/er": b"not closed",
    }
    with pytest.raises(RuntimeError, match="enough"), fs.transaction:
        fs.pipe_file("/t/old", b"lost")
        fs.touch("/t/none")
        raise RuntimeError("enough")
    assert fs.cat_file("/t/old") == b"newer" and set(fs.find("/")) == set(before) | added
    with pytest.raises(IsADirectoryError), fs.transaction:
        fs.pipe_file("/t/deep", b"")
    with pytest.raises(FileExistsError), fs.transaction:
        fs.pipe_file("/t/old", b"", mode="create")
    assert set(fs.find("/")) == set(before) | added


def test_pandas_reads_and_writes(tmp_path):
    image = str(tmp_path / "tables.lane")
    lanefs.Volume.open(image, "x", size=64 * MIB).close()
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    with lanefs.Volume.open(image, "r+") as volume:
        fs = LaneFileSystem.of(volume)
        with fs.open("/tables/a.csv", "w") as file:
            frame.to_csv(file, index=False)
        frame.to_parquet("/tables/a.parquet", filesystem=fs)
    options = {"fo": image}
    assert pd.read_csv("lanefs://tables/a.csv", storage_options=options).equals(frame)
    read = pd.read_parquet("lanefs://tables/a.parquet", storage_options=options)
    assert read.to_dict("list") == frame.to_dict("list")


def test_pyarrow_reads_a_data_set(fs):
    table = pa.table({"n": list(range(1000))})
    for part in range(3):
        pa.parquet.write_table(table, f"/set/part{part}.parquet", filesystem=fs)
    assert pa.dataset.dataset("/set", filesystem=fs, format="parquet").count_rows() == 3000
    assert pa.parquet.read_table("/set/part1.parquet", filesystem=fs).equals(table)


def test_a_folder_of_images_is_read(fs):
    for name in ("red", "blue"):
        memory = io.BytesIO()
        Image.new("RGB", (8, 8), name).save(memory, "png")
        fs.pipe_file(f"/images/{name}/0.png", memory.getvalue())
    contents = fs.cat("/images/*/*.png")
    colours = {path: np.asarray(Image.open(io.BytesIO(data)))[0, 0].tolist() for path, data in contents.items()}
    assert colours == {"/images/blue/0.png": [0, 0, 255], "/images/red/0.png": [255, 0, 0]}
    with fs.open("/images/red/0.png") as file:
        assert Image.open(file).size == (8, 8)
