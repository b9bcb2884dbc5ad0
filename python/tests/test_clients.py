"""Programs that people have, writing and reading volumes by URL and by an instance. `make test-clients` runs them."""

import concurrent.futures
import multiprocessing

import pytest

import lanefs
from conftest import MIB
from lanefs.fsspec import LaneFileSystem

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("zarr", reason="make test-clients runs this file in an environment of its own")


class ByUrl:
    """A place in a volume that clients get as a URL with options."""

    def __init__(self, image, top):
        self.top = top
        self.options = {"fo": image, "writable": True}

    def url(self, name):
        return f"lanefs://{self.top}/{name}"

    def open(self, name, mode):
        return fsspec.open(self.url(name), mode, **self.options).open()


class ByInstance:
    """A place in a volume that clients get as a path and a file system."""

    def __init__(self, image, top):
        self.top = top
        self.fs = LaneFileSystem(image, writable=True)

    def path(self, name):
        return f"/{self.top}/{name}"

    def open(self, name, mode):
        return self.fs.open(self.path(name), mode)


def frame():
    import pandas

    return pandas.DataFrame({"k": ["a", "b", "a", "c"] * 50, "n": range(200), "x": [0.5, 1.5] * 100})


def pandas_csv(place):
    import pandas

    if isinstance(place, ByUrl):
        frame().to_csv(place.url("a.csv.gz"), index=False, storage_options=place.options)
        again = pandas.read_csv(place.url("a.csv.gz"), storage_options=place.options)
    else:
        with place.open("a.csv", "w") as file:
            frame().to_csv(file, index=False)
        with place.open("a.csv", "r") as file:
            again = pandas.read_csv(file)
    assert again.equals(frame())


def pandas_parquet(place):
    import pandas

    if isinstance(place, ByUrl):
        how = {"path": place.url("p.parquet"), "storage_options": place.options}
    else:
        how = {"path": place.path("p.parquet"), "filesystem": place.fs}
    frame().to_parquet(**how)
    assert pandas.read_parquet(**how).equals(frame())


def pandas_partitioned(place):
    import pandas

    if isinstance(place, ByUrl):
        how = {"path": place.url("parts"), "storage_options": place.options}
    else:
        how = {"path": place.path("parts"), "filesystem": place.fs}
    frame().to_parquet(partition_cols=["k"], existing_data_behavior="delete_matching", **how)
    again = pandas.read_parquet(**how).astype({"k": frame().k.dtype})
    assert again.sort_values("n", ignore_index=True)[["k", "n", "x"]].equals(frame())


def pyarrow_dataset(place):
    import pyarrow
    import pyarrow.dataset

    if isinstance(place, ByUrl):
        fs, path = fsspec.url_to_fs(place.url("set"), **place.options)
    else:
        fs, path = place.fs, place.path("set")
    table = pyarrow.Table.from_pandas(frame())
    schema = pyarrow.schema([("k", pyarrow.string())])
    partitioning = pyarrow.dataset.partitioning(schema, flavor="hive")
    # Again, in place of the files that are there.
    for _ in range(2):
        pyarrow.dataset.write_dataset(
            table,
            path,
            filesystem=fs,
            format="parquet",
            partitioning=partitioning,
            existing_data_behavior="delete_matching",
        )
    found = pyarrow.dataset.dataset(path, filesystem=fs, format="parquet", partitioning=partitioning)
    assert len(found.files) == 3
    kept = found.to_table(filter=pyarrow.dataset.field("k") == "a", columns=["n"]).column("n").to_pylist()
    assert sorted(kept) == list(range(0, 200, 2))


def polars_frames(place):
    import polars

    table = polars.DataFrame({"n": list(range(1000)), "s": [str(n) for n in range(1000)]})
    # Polars has stores of its own for URLs, and takes file objects of all others.
    for name, write, read in (
        ("p.csv", table.write_csv, lambda file: polars.read_csv(file, schema=table.schema)),
        ("p.parquet", table.write_parquet, polars.read_parquet),
        ("p.arrow", table.write_ipc, polars.read_ipc),
    ):
        with place.open(name, "wb") as file:
            write(file)
        with place.open(name, "rb") as file:
            assert read(file).equals(table)


def zarr_arrays(place):
    import numpy
    import zarr
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

    if isinstance(place, ByUrl):
        how = {"store": place.url("cube.zarr"), "storage_options": place.options}
    else:
        wrapped = AsyncFileSystemWrapper(place.fs, asynchronous=True)
        how = {"store": zarr.storage.FsspecStore(wrapped, path=place.path("cube.zarr"))}
    group = zarr.open_group(mode="w", **how)
    cube = numpy.arange(24 * 25 * 26).reshape(24, 25, 26)
    array = group.create_array("a/b", shape=cube.shape, chunks=(10, 10, 10), dtype=cube.dtype)
    array[:] = cube
    array[3:15, 2, :] += 1
    cube[3:15, 2, :] += 1
    group.attrs["unit"] = "m"
    again = zarr.open_group(mode="r", **how)
    assert again.attrs["unit"] == "m" and numpy.array_equal(again["a/b"][:], cube)
    assert numpy.array_equal(again["a/b"][20:, ::7, 3], cube[20:, ::7, 3])


def dask_frames(place):
    import dask.dataframe

    parts = dask.dataframe.from_pandas(frame(), npartitions=5)
    if isinstance(place, ByUrl):
        how = {"path": place.url("dask"), "storage_options": place.options}
    else:
        how = {"path": place.path("dask"), "filesystem": place.fs}
    parts.to_parquet(**how)
    assert dask.dataframe.read_parquet(**how).n.sum().compute() == frame().n.sum()
    if isinstance(place, ByUrl):
        parts.to_csv(place.url("dask-*.csv"), storage_options=place.options, index=False)
        again = dask.dataframe.read_csv(place.url("dask-*.csv"), storage_options=place.options)
        assert again.n.sum().compute() == frame().n.sum()


def dask_bags(place):
    import dask.bag

    if isinstance(place, ByUrl):
        lines = dask.bag.from_sequence([f"line {n}" for n in range(100)], npartitions=8)
        # Of its own accord a bag computes in processes, of which one at a time may write.
        lines.to_textfiles(place.url("bag-*.txt"), storage_options=place.options, scheduler="threads")
        again = dask.bag.read_text(place.url("bag-*.txt"), storage_options=place.options)
        assert again.str.strip().compute(scheduler="threads") == [f"line {n}" for n in range(100)]


def numpy_arrays(place):
    import numpy

    one, two = numpy.arange(1000.0), numpy.eye(30)
    with place.open("one.npy", "wb") as file:
        numpy.save(file, one)
    with place.open("all.npz", "wb") as file:
        numpy.savez_compressed(file, one=one, two=two)
    with place.open("one.npy", "rb") as file:
        assert numpy.array_equal(numpy.load(file), one)
    with place.open("all.npz", "rb") as file, numpy.load(file) as both:
        assert numpy.array_equal(both["one"], one) and numpy.array_equal(both["two"], two)


def pillow_images(place):
    from PIL import Image

    image = Image.linear_gradient("L").resize((64, 48))
    for kind in ("png", "tiff", "webp"):
        with place.open(f"image.{kind}", "w+b") as file:
            image.save(file, kind, lossless=True) if kind == "webp" else image.save(file, kind)
        with place.open(f"image.{kind}", "rb") as file, Image.open(file) as again:
            assert again.size == (64, 48)
            assert kind == "webp" or again.tobytes() == image.tobytes()


def h5py_files(place):
    import h5py
    import numpy

    with place.open("a.h5", "w+b") as file:
        with h5py.File(file, "w") as h5:
            h5.create_dataset("d/e", data=numpy.arange(10_000).reshape(100, 100), chunks=(10, 100), compression="gzip")
            h5.attrs["unit"] = "m"
    with place.open("a.h5", "r+b") as file, h5py.File(file, "r+") as h5:
        h5["d/e"][5] = 7
        h5["more"] = [1, 2, 3]
    with place.open("a.h5", "rb") as file, h5py.File(file, "r") as h5:
        assert h5.attrs["unit"] == "m" and h5["more"][:].tolist() == [1, 2, 3]
        assert h5["d/e"][4, 1] == 401 and set(h5["d/e"][5].tolist()) == {7}


def universal_paths(place):
    from upath import UPath

    if isinstance(place, ByUrl):
        top = UPath(place.url("paths"), **place.options)
        (top / "sub").mkdir(parents=True, exist_ok=True)
        (top / "sub/file.txt").write_text("text")
        assert [path.name for path in top.rglob("*.txt")] == ["file.txt"]
        assert (top / "sub/file.txt").read_text() == "text"


CLIENTS = {
    client.__name__: client
    for client in (
        pandas_csv,
        pandas_parquet,
        pandas_partitioned,
        pyarrow_dataset,
        polars_frames,
        zarr_arrays,
        dask_frames,
        dask_bags,
        numpy_arrays,
        pillow_images,
        h5py_files,
        universal_paths,
    )
}
WAYS = {"url": ByUrl, "instance": ByInstance}

by_every_way = pytest.mark.parametrize("way", WAYS)


def run(client, way, image, top):
    """Lets a client write and read in a directory of its own."""
    try:
        CLIENTS[client](WAYS[way](image, f"{top}-{client}-{way}"))
    except BaseException as error:
        error.add_note(f"in {client}, by {way}")
        raise


def run_all(way, image, top):
    for client in CLIENTS:
        run(client, way, image, top)


def run_all_in_fork(way, image, top):
    # The volume was open here, and other threads have been.
    fs = LaneFileSystem(image, writable=True)
    fs.pipe_file(f"/{top}-before", b"before")
    fs.close()
    in_process("fork", run_all, way, image, top)
    assert fs.cat_file(f"/{top}-before") == b"before"


def in_process(method, work, *arguments):
    """Runs a function in another process, which reports an exception on standard error."""
    process = multiprocessing.get_context(method).Process(target=work, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 0


@pytest.fixture
def image(tmp_path):
    """The path of an empty volume; nothing has it open at the end."""
    path = tmp_path / "clients.lane"
    lanefs.Volume.open(path, "x", size=512 * MIB).close()
    yield str(path)
    for fs in LaneFileSystem._cache.values():
        fs.close()
    LaneFileSystem.clear_instance_cache()


@by_every_way
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_writes_and_reads(image, client, way):
    run(client, way, image, "alone")
    # Again over what is there.
    run(client, way, image, "alone")


def test_clients_in_threads_write_and_read_at_once(image):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(run, client, way, image, f"t{turn}") for turn in range(2) for client in CLIENTS for way in WAYS]
        for job in jobs:
            job.result()


@by_every_way
@pytest.mark.parametrize(("method", "work"), [("spawn", run_all), ("spawn", run_all_in_fork)], ids=["spawn", "fork"])
def test_clients_in_another_process_write_and_read(image, way, method, work):
    # A process of its own forks: the threads of some clients do not survive a fork of the one that used them.
    in_process(method, work, way, image, "other")
    with lanefs.Volume.open(image) as volume:
        assert volume.read_file(f"/other-h5py_files-{way}/a.h5")[1:4] == b"HDF"
        assert len(volume.listdir("/")) >= len(CLIENTS) - 3


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask_reads_by_every_scheduler(image, scheduler):
    import dask.dataframe

    place = ByUrl(image, "dask")
    dask.dataframe.from_pandas(frame(), npartitions=4).to_parquet(place.url("set"), storage_options=place.options)
    for fs in LaneFileSystem._cache.values():
        fs.close()
    found = dask.dataframe.read_parquet(place.url("set"), storage_options={"fo": image})
    assert found.x.sum().compute(scheduler=scheduler) == frame().x.sum()


from fsspec.tests import abstract  # noqa: E402


class Fixtures(abstract.AbstractFixtures):
    """fsspec's own suites, on a file system that opens for writing by itself."""

    @pytest.fixture
    def fs(self, image):
        return LaneFileSystem(image, writable=True)

    @pytest.fixture
    def fs_path(self):
        return "lanefs://test"

    @pytest.fixture
    def fs_join(self):
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def fs_sanitize_path(self):
        return LaneFileSystem._strip_protocol


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
