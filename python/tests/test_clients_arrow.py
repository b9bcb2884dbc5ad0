"""Programs that read volumes through Arrow, and SQL over an inventory. `make test-clients` runs them."""

import os
import re
import subprocess
from pathlib import Path, PurePosixPath

import pytest

import lanefs
from conftest import MIB

duckdb = pytest.importorskip("duckdb", reason="make test-clients runs this file in an environment of its own")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

import pyarrow.dataset  # noqa: E402
import pyarrow.parquet  # noqa: E402

import lanefs.arrow  # noqa: E402

PROGRAM = os.environ.get("LANEFS_PROGRAM")
PAGE = Path(__file__).parents[2] / "docs/cli.md"


@pytest.fixture
def volume():
    with lanefs.Volume.memory(128 * MIB) as volume:
        yield volume


@pytest.fixture
def data(volume):
    """A data set of Parquet files in a volume, and its file system."""
    fs = lanefs.arrow.filesystem(volume, writable=True)
    table = pyarrow.table({"k": ["a", "b"] * 5000, "n": list(range(10_000))})
    pyarrow.dataset.write_dataset(
        table, "set", filesystem=fs, format="parquet", partitioning=["k"], max_rows_per_file=500,
        max_rows_per_group=500,
    )  # fmt: skip
    return fs, pyarrow.dataset.dataset("set", filesystem=fs, format="parquet", partitioning=["k"])


def test_pandas_reads_and_writes_by_a_file_system_of_arrow(data):
    fs, _ = data
    frame = pandas.read_parquet("set", filesystem=fs, partitioning=["k"])
    assert frame.n.sum() == sum(range(10_000))
    frame.to_parquet("one.parquet", filesystem=fs)
    assert pandas.read_parquet("one.parquet", filesystem=fs).n.equals(frame.n)


def test_a_series_of_objects_is_paths_as_any_other_sequence():
    # pandas has no Arrow array of such objects.
    paths = pandas.Series([PurePosixPath("/a"), PurePosixPath("/b")])
    assert list(lanefs.PathSet(paths)) == ["/a", "/b"]


def test_polars_reads_a_data_set_and_answers(data, volume):
    _, found = data
    assert len(found.files) == 20
    total = polars.scan_pyarrow_dataset(found).filter(polars.col("k") == "a").select("n").collect()
    assert total["n"].sum() == sum(range(0, 10_000, 2))
    # Paths from Polars, and answers to it.
    paths = polars.Series("path", [*found.files, "/no"])
    answers = polars.DataFrame(volume.resolve(paths, ["size"], as_arrow=True))
    assert answers["exists"].to_list() == [True] * 20 + [False]
    contents = polars.DataFrame(volume.read(paths, as_arrow=True))
    assert contents["content"].bin.size().to_list() == answers["size"].to_list()
    assert list(lanefs.PathSet(paths)) == paths.to_list()
    categories = lanefs.PathSet.under(
        paths.str.replace("/[^/]*$", "").cast(polars.Categorical), paths.str.replace("^.*/", "")
    )
    assert volume.resolve(categories).exists.tolist() == [True] * 20 + [False]


def test_duckdb_reads_a_data_set_and_answers(data, volume):
    _, found = data
    assert duckdb.sql("SELECT sum(n) FROM found WHERE k = 'b'").fetchall()[0] == (sum(range(1, 10_000, 2)),)
    answers = pyarrow.table(volume.resolve([*found.files, "/no"], ["size"]))
    counted = duckdb.sql("SELECT count(*), count(size), sum(size) FROM answers").fetchall()[0]
    assert counted == (21, 20, sum(len(volume.read_file(path)) for path in found.files))


@pytest.fixture
def inventory(tmp_path, monkeypatch):
    """A table of a small volume, as the page makes it."""
    if PROGRAM is None:
        pytest.skip("LANEFS_PROGRAM names the program; scripts/python.sh sets it")
    monkeypatch.chdir(tmp_path)
    with lanefs.Volume.open("v.lane", "x", size=64 * MIB) as volume:
        old, same = b"o" * 10_000, b"s" * 50_000
        files = {"/a/old": old, "/a/b/one": same, "/a/b/two": same, "/c/three": same, "/c/d/e/f": b"small"}
        assert volume.write_many(files, files.values(), make_directories=True) == {}
        volume.link("/c/three", "/c/third")
        volume.utime("/a/old", ns=(10**18, 10**18))
        volume.chown("/a/old", 7, 7)
    command = re.search(r"^lanefs (inventory v\.lane .*)$", PAGE.read_text(), re.M)[1]
    subprocess.run([PROGRAM, *command.split()], check=True)


def queries():
    section = PAGE.read_text().partition("\n## inventory\n")[2].partition("\n## ")[0]
    return re.findall(r"^```sql\n(.*?)^```$", section, re.M | re.S)


def test_the_queries_of_the_page_answer(inventory):
    largest, stale, equal = (duckdb.sql(query).fetchall() for query in queries())
    by_directory = {directory: (bytes_, names) for directory, bytes_, names in largest}
    blocks = lambda *sizes: sum(-(-size // 4096) * 4096 for size in sizes)  # noqa: E731
    assert by_directory["/a/b"] == (blocks(50_000, 50_000), 2)
    assert by_directory["/a"] == (blocks(50_000, 50_000, 10_000), 3)
    assert by_directory["/c"][0] - by_directory["/c/d"][0] == blocks(50_000)
    assert by_directory["/"][1] == 6 and largest[0][0] == "/"
    [(owner, files, bytes_)] = stale
    assert (files, bytes_) == (1, 10_000) and owner
    [(digest, files, wasted, one)] = equal
    assert (len(digest), files, wasted, one) == (64, 3, 100_000, "/a/b/one")


def test_other_programs_read_the_table(inventory):
    frame = pandas.read_parquet("v.parquet")
    table = polars.read_parquet("v.parquet")
    assert sorted(frame.path) == sorted(table["path"].to_list())
    assert frame.set_index("path").loc["/a/old", "mtime"] == pandas.Timestamp(10**18, tz="UTC")
    assert table.filter(polars.col("path") == "/")["parent"].to_list() == [None]
    assert str(pyarrow.parquet.read_schema("v.parquet").field("mode").type) == "uint16"
