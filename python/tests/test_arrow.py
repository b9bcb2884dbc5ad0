"""Memory of Arrow in both directions, and volumes as file systems of pyarrow."""

import ctypes
import errno
import gc
import pickle
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest

import lanefs
import lanefs.arrow
from conftest import FILES, MIB
from lanefs._errors import check_names_none
from lanefs._lanefs import codes

PATHS = list(FILES)


class Exported:
    """An object with the protocols alone."""

    def __init__(self, array):
        self.array = array

    def __arrow_c_array__(self, requested_schema=None):
        return self.array.__arrow_c_array__(requested_schema)


class Streamed:
    """Arrays, one after the other."""

    def __init__(self, chunks, type=None):
        self.chunks = pa.chunked_array(chunks, type)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.chunks.__arrow_c_stream__(requested_schema)


class CStream(ctypes.Structure):
    """`struct ArrowArrayStream`."""

    _fields_ = [
        (name, ctypes.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")
    ]


class Produced:
    """A stream of strings from functions of Python; the streams of pyarrow that can wait or fail have structures.

    `produce` returns the next array, None at the end, or raises.
    """

    NAME = b"arrow_array_stream"
    ERROR = ctypes.create_string_buffer(b"the disk is on fire")

    def __init__(self, produce):
        self.produce = produce
        self.released = 0
        get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self.functions = [
            get(self.get_schema),
            get(self.get_next),
            ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: ctypes.addressof(self.ERROR)),
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.release),
        ]
        self.stream = CStream(*(ctypes.cast(function, ctypes.c_void_p).value for function in self.functions))

    def get_schema(self, _, out):
        pa.string()._export_to_c(out)
        return 0

    def get_next(self, _, out):
        try:
            array = self.produce()
        except RuntimeError:
            return errno.EIO
        if array is not None:
            array._export_to_c(out)
        return 0

    def release(self, stream):
        self.released += 1
        CStream.from_address(stream).release = None

    def __arrow_c_stream__(self, requested_schema=None):
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return make(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(self.stream), self.NAME, None)


LAYOUTS = {
    "string": lambda paths: pa.array(paths, pa.string()),
    "large": lambda paths: pa.array(paths, pa.large_string()),
    "binary": lambda paths: pa.array(paths, pa.binary()),
    "view": lambda paths: pa.array(paths, pa.string_view()),
    "binary view": lambda paths: pa.array(paths, pa.binary_view()),
    "dictionary": lambda paths: pa.array(paths).dictionary_encode(),
    "narrow dictionary": lambda paths: pa.array(paths).cast(pa.dictionary(pa.int8(), pa.string())),
    "wide dictionary": lambda paths: pa.array(paths).cast(pa.dictionary(pa.uint64(), pa.large_string())),
    "dictionary of views": lambda paths: pa.DictionaryArray.from_arrays(
        pa.array(range(len(paths)), pa.uint16()), pa.array(paths, pa.string_view())
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_arrow_arrays_of_every_layout_are_paths(volume, layout):
    paths = [*PATHS, "/no/" + "long" * 20]
    for array in (layout(paths), layout(["/other", *paths, "/top"]).slice(1, len(paths))):
        assert list(lanefs.PathSet(Exported(array))) == paths
        assert volume.resolve(Exported(array)).exists.tolist() == [True] * 4 + [False]
        files = volume.read(array.slice(0, 4))
        assert files.to_bytes() == list(FILES.values())
        for chunks in ([array], [array.slice(0, 2), array.slice(2)], []):
            found = list(lanefs.PathSet(Streamed(chunks, array.type)))
            assert found == (paths if chunks else [])


def test_an_array_with_nulls_is_refused():
    for layout in LAYOUTS.values():
        array = layout(["/a", None]) if layout is not LAYOUTS["dictionary of views"] else None
        if array is not None:
            with pytest.raises(ValueError, match="nulls"):
                lanefs.PathSet(array)
            assert list(lanefs.PathSet(array.slice(0, 1))) == ["/a"]
    with pytest.raises(ValueError, match="nulls"):
        lanefs.PathSet(pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["/a", None])))


def test_other_arrays_and_failing_streams_are_errors():
    with pytest.raises(TypeError, match=r"paths is an Arrow array of format '\+s'"):
        lanefs.PathSet(pa.record_batch({"a": ["/a"]}))
    with pytest.raises(TypeError, match="format 'l'"):
        lanefs.PathSet(pa.array([1, 1]).dictionary_encode())
    # The type is an error before a batch is read.
    schema, asked = pa.schema([("a", pa.string())]), []

    def batches():
        asked.append(1)
        yield pa.record_batch({"a": ["x"]})

    with pytest.raises(TypeError, match=r"format '\+s'"):
        lanefs.PathSet(pa.RecordBatchReader.from_batches(schema, batches()))
    assert asked == []
    arrays = iter([pa.array(["/a"])])

    def fail():
        for array in arrays:
            return array
        raise RuntimeError

    stream = Produced(fail)
    with pytest.raises(OSError, match="on fire") as raised:
        lanefs.PathSet(stream)
    assert raised.value.errno == errno.EIO and stream.released == 1


def test_a_stream_may_wait_for_another_thread():
    waiting = [pa.array(["/c"]), pa.array(["/a", "/b"])]
    arrays = []

    def produce():
        # Another thread makes the array, for which it needs the interpreter.
        thread = threading.Thread(target=lambda: arrays.append(waiting.pop() if waiting else None))
        thread.start()
        thread.join()
        return arrays[-1]

    stream = Produced(produce)
    assert list(lanefs.PathSet(stream)) == ["/a", "/b", "/c"]
    assert len(arrays) == 3 and stream.released == 1


def test_objects_that_are_not_exported_are_a_sequence_and_other_errors_are_raised():
    class Series:
        def __init__(self, error):
            self.error = error

        def __arrow_c_stream__(self, requested_schema=None):
            raise self.error

        def __iter__(self):
            return iter(["/a"])

    for error in (TypeError, NotImplementedError, AttributeError, ImportError, pa.ArrowInvalid):
        assert list(lanefs.PathSet(Series(error()))) == ["/a"]
    for error in (KeyboardInterrupt, MemoryError, OSError, RuntimeError):
        with pytest.raises(error):
            lanefs.PathSet(Series(error()))


def test_names_under_directories_are_paths(volume):
    whole = ["/data/a.txt", "/data/deep/er/c.bin", "/data/b.txt", "/data/none", "/top"]
    directories = ["/data", "/data/deep/er", "/data", "/data/", "/"]
    names = ["a.txt", "c.bin", "b.txt", "none", "top"]
    shapes = {
        "lists": (directories, names),
        "dictionary": (pa.array(directories).dictionary_encode(), pa.array(names)),
        "small numbers": (
            pa.array(directories).cast(pa.dictionary(pa.uint8(), pa.large_string())),
            pa.array(names, pa.string_view()),
        ),
        "stream": (Streamed([pa.array(directories).dictionary_encode()]), Streamed([pa.array(names)])),
        "chunks": (Streamed([pa.array(directories[:2]), pa.array(directories[2:])]), np.array(names)),
        "set": (lanefs.PathSet(directories), lanefs.PathSet(names)),
    }
    plain = volume.resolve(whole, ["ino", "size"])
    for form, (directories_, names_) in shapes.items():
        paths = lanefs.PathSet.under(directories_, names_)
        assert len(paths) == 5 and repr(paths) == "<PathSet of 5 paths>", form
        found = volume.resolve(paths, ["ino", "size"])
        assert found.ino.tolist() == plain.ino.tolist() and found.size.tolist() == plain.size.tolist(), form
        assert [path.replace("//", "/") for path in paths] == whole and paths[-1] == "/top", form
        assert volume.read(paths[:3]).to_bytes() == [FILES[path] for path in whole[:3]], form
        assert list(pickle.loads(pickle.dumps(paths))) == list(paths), form
    one = lanefs.PathSet.under("/data", ["a.txt", b"b.txt"])
    assert list(one) == ["/data/a.txt", "/data/b.txt"] and volume.resolve(one).exists.all()
    assert len(lanefs.PathSet.under([], [])) == len(volume.resolve(lanefs.PathSet.under("/", []))) == 0


def test_names_need_a_directory_each():
    with pytest.raises(ValueError, match="1 numbers of directories for 2 names"):
        lanefs.PathSet.under(["/a"], ["b", "c"])
    numbers = pa.array([0, 7], pa.int32())
    wrong = pa.DictionaryArray.from_arrays(numbers, pa.array(["/a"]), safe=False)
    with pytest.raises(ValueError, match="name 1 lies in directory 7, and there are 1"):
        lanefs.PathSet.under(wrong, ["b", "c"])
    with pytest.raises(ValueError, match="number 7 of 1 texts"):
        lanefs.PathSet(wrong)
    with pytest.raises(TypeError, match="names is one path"):
        lanefs.PathSet.under("/a", "b")


def test_dictionary_arrays_of_directories_are_not_copied():
    numbers, text = np.array([0, 1], np.int32), bytearray(b"/a/b")
    offsets = pa.py_buffer(np.array([0, 2, 4], np.int32))
    directories = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(text)])
    array = pa.DictionaryArray.from_arrays(pa.Array.from_buffers(pa.int32(), 2, [None, pa.py_buffer(numbers)]), directories)
    paths = lanefs.PathSet.under(array, ["x", "y"])
    assert [paths[0], paths[1]] == ["/a/x", "/b/y"]
    # A change of memory that is not copied is seen. (Programs must not do this.)
    text[1:2] = b"c"
    del array, directories, offsets
    gc.collect()
    assert [paths[0], paths[1]] == ["/c/x", "/b/y"]


def address(memory):
    return memory.__array_interface__["data"][0]


def test_answers_are_columns_of_arrow_without_a_copy(volume):
    paths = [*PATHS, "/no"]
    found = volume.resolve(paths, lanefs.COLUMNS)
    table = found.to_arrow()
    assert table.column_names == ["path", "exists", *lanefs.COLUMNS]
    assert table["path"].to_pylist() == paths and table["exists"].to_pylist() == [True] * 4 + [False]
    for name in lanefs.COLUMNS:
        column = table[name].chunk(0)
        assert column.to_pylist() == [*found[name].tolist()[:4], None]
        assert column.buffers()[1].address == address(found[name])
    assert volume.resolve(PATHS).to_arrow()["ino"].null_count == 0
    # The memory lives as long as the table.
    expected = found.ino.tolist()[:4]
    del found, column
    gc.collect()
    assert table["ino"].to_pylist()[:4] == expected


def test_contents_are_a_column_of_arrow_without_a_copy(volume):
    paths = [*PATHS, "/no", "/data"]
    files = volume.read(paths)
    batch = files.as_arrow()
    assert batch.names == ["path", "code", "content"] and len(batch) == 6
    assert repr(batch) == "<ArrowBatch: 6 rows of path, code, content>"
    records = pa.record_batch(batch)
    assert records["content"].to_pylist() == [*FILES.values(), None, None]
    assert records["code"].to_pylist() == files.codes.tolist()
    assert records["content"].buffers()[2].address == address(files.buffer)
    assert pa.table(volume.read(paths, as_arrow=True)) == pa.table(files)
    assert pa.table(volume.resolve(paths, as_arrow=True)) == volume.resolve(paths).to_arrow()
    assert pa.RecordBatchReader.from_stream(batch).schema == pa.schema(batch)
    assert pa.table(volume.read([], as_arrow=True)).num_rows == 0
    # Memory that a consumer believes does not change with the array.
    files.offsets[1] = 1 << 40
    assert records["content"].to_pylist() == [*FILES.values(), None, None]
    records.validate(full=True)
    with pytest.raises(ValueError, match="offsets"):
        files.as_arrow()


def test_a_set_of_paths_is_an_array_of_arrow(tmp_path):
    (tmp_path / "list").write_bytes(b"/a\n/bc\n")
    for paths in (
        lanefs.PathSet(["/a", "/bc"]),
        lanefs.PathSet.from_file(tmp_path / "list"),
        lanefs.PathSet(pa.array(["/", "/a", "/bc"]).slice(1)),
        lanefs.PathSet.under("", ["/a", "/bc"]),
        lanefs.PathSet(lanefs.PathSet(["/a", "/bc"])),
    ):
        assert pa.array(paths).to_pylist() == ["/a", "/bc"]
    assert pa.array(lanefs.PathSet([b"/\xff"])).to_pylist() == [b"/\xff"]
    # A letter that two paths share.
    assert pa.array(lanefs.PathSet([b"/\xc3", b"\xa9"])).to_pylist() == [b"/\xc3", b"\xa9"]
    assert pa.array(lanefs.PathSet([])).to_pylist() == []


def test_capsules_that_nobody_takes_free_their_memory(volume):
    files = volume.read(PATHS)
    before = sys.getrefcount(files.buffer)
    for _ in range(100):
        files.__arrow_c_array__()
        files.__arrow_c_stream__()
        # A consumer may take a column and leave the others.
        pa.record_batch(files).column(2)
    gc.collect()
    # A later call gives back the array that was released last.
    assert sys.getrefcount(files.buffer) < before + 10


def test_pickles_of_paths_are_two_buffers():
    for paths in (lanefs.PathSet(PATHS), lanefs.PathSet(pa.array(PATHS)), lanefs.PathSet.under("/", ["a"])):
        buffers = []
        pickled = pickle.dumps(paths, protocol=5, buffer_callback=buffers.append)
        assert len(buffers) == 2 and len(pickled) < 500
        assert list(pickle.loads(pickled, buffers=buffers)) == list(paths)


def test_without_pyarrow_the_error_says_so():
    code = "import sys; sys.modules['pyarrow'] = None; import lanefs\nimport lanefs.arrow"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode != 0 and "ImportError: lanefs.arrow needs pyarrow: pip install pyarrow" in run.stderr


@pytest.fixture
def fs(volume):
    return lanefs.arrow.filesystem(volume)


def test_information_about_many_files_is_one_batch(volume, fs, monkeypatch):
    calls = []
    resolve = volume.resolve
    monkeypatch.setattr(volume, "resolve", lambda *args, **named: calls.append(1) or resolve(*args, **named))
    infos = fs.get_file_info(["/top", "top", "/data", "", "/no", "/data/link"])
    kinds = [info.type.name for info in infos]
    assert kinds == ["File", "File", "Directory", "Directory", "NotFound", "File"] and calls == [1]
    assert infos[0].size == 1 and infos[0].mtime_ns == volume.stat("/top").st_mtime_ns
    assert infos[5].size == len(FILES["/data/a.txt"])
    calls.clear()
    listed = fs.get_file_info(pa.fs.FileSelector("/", recursive=True))
    assert calls == [1]
    assert sorted(info.path for info in listed) == [
        "/data", "/data/a.txt", "/data/b.txt", "/data/deep", "/data/deep/er", "/data/deep/er/c.bin", "/data/link",
        "/top",
    ]  # fmt: skip
    assert sorted(info.path for info in fs.get_file_info(pa.fs.FileSelector("data"))) == [
        "data/a.txt", "data/b.txt", "data/deep", "data/link",
    ]  # fmt: skip
    assert sorted(info.path for info in fs.get_file_info(pa.fs.FileSelector(""))) == ["data", "top"]
    assert fs.get_file_info(pa.fs.FileSelector("/no", allow_not_found=True)) == []
    for missing in ("/no", "/top"):
        with pytest.raises(OSError):
            fs.get_file_info(pa.fs.FileSelector(missing))


def test_only_a_path_that_names_no_file_is_not_found(volume, fs):
    volume.symlink("round", "/data/round")
    missing = ["/no", "/no/below", "/top/below", "/data/round"]
    assert [info.type.name for info in fs.get_file_info(missing)] == ["NotFound"] * 4
    assert not any(volume.exists(path) for path in missing)
    long = "/data/" + "n" * 300
    for ask in (lambda: fs.get_file_info(["/top", long]), lambda: volume.exists(long), lambda: volume.isdir(long)):
        with pytest.raises(OSError) as raised:
            ask()
        assert (raised.value.errno, raised.value.filename) == (errno.ENAMETOOLONG, long)
    # Damage, a failed device and all others, too.
    for number, number_of_error, text in codes()[1:]:
        if number in (4, 5, 9, 20):
            assert "not found" in text or "not a directory" in text or "symbolic links" in text
            check_names_none(number, "/a")
        else:
            with pytest.raises(OSError) as raised:
                check_names_none(number, "/a")
            assert (raised.value.errno, raised.value.filename) == (number_of_error, "/a")


def test_a_name_that_is_not_utf8_is_an_error_that_names_it(volume, fs):
    volume.makedirs("/odd/deep")
    volume.write_file(b"/odd/deep/\xff", b"x")
    for top in ("/odd", "/"):
        with pytest.raises(OSError, match="not UTF-8") as raised:
            fs.get_file_info(pa.fs.FileSelector(top, recursive=True))
        assert (raised.value.errno, raised.value.filename) == (errno.EILSEQ, "/odd/deep/\udcff")
    assert len(fs.get_file_info(pa.fs.FileSelector("/odd"))) == 1
    volume.rename(b"/odd/deep/\xff", "/odd/deep/\u00ff")
    assert fs.get_file_info(pa.fs.FileSelector("/odd/deep"))[0].path == "/odd/deep/\u00ff"


def test_a_link_that_leads_upwards_is_not_entered(volume, fs):
    volume.symlink("..", "/data/deep/up")
    volume.symlink("nowhere", "/data/deep/lost")
    listed = {info.path: info.type.name for info in fs.get_file_info(pa.fs.FileSelector("/data/deep", recursive=True))}
    assert listed == {"/data/deep/er": "Directory", "/data/deep/er/c.bin": "File", "/data/deep/up": "Directory"}


def test_files_are_opened_read_and_written(volume, fs):
    large = bytes(range(256)) * 8192
    for path, content in (("/small", b"abc"), ("large", large)):
        with fs.open_output_stream(path) as file:
            file.write(content)
        assert volume.read_file(path) == content
        with fs.open_input_stream(path) as file:
            assert file.read() == content
        with fs.open_input_file(path) as file:
            assert file.size() == len(content)
            file.seek(1)
            assert file.read(2) == content[1:3] and file.read_at(1, 2) == content[2:3]
        with fs.open_append_stream(path) as file:
            file.write(b"end")
        assert volume.read_file(path) == content + b"end"
    for wrong, error in (("/no", FileNotFoundError), ("/data", OSError)):
        with pytest.raises(error):
            fs.open_input_file(wrong)
    with pytest.raises(FileNotFoundError):
        fs.open_output_stream("/no/x")


def test_names_come_and_go(volume, fs):
    fs.create_dir("/new/deep", recursive=True)
    fs.create_dir("/new/deep", recursive=False)
    with pytest.raises(OSError):
        fs.create_dir("/none/deep", recursive=False)
    fs.copy_file("/top", "/new/top")
    fs.move("/new/top", "/new/deep/moved")
    assert volume.read_file("/new/deep/moved") == b"x"
    fs.delete_file("/new/deep/moved")
    fs.delete_dir_contents("/new")
    assert volume.listdir("/new") == []
    fs.delete_dir_contents("/none", missing_dir_ok=True)
    with pytest.raises(FileNotFoundError):
        fs.delete_dir_contents("/none")
    fs.delete_dir("/new")
    assert not volume.exists("/new")
    with pytest.raises(OSError):
        fs.delete_dir("/top")
    assert volume.exists("/top")
    assert fs.normalize_path("//a//b/./c/") == "/a/b/c" and fs.normalize_path("a/") == "a"
    fs.delete_dir_contents("/", accept_root_dir=True)
    assert volume.listdir() == []


def test_the_root_is_not_deleted_by_any_of_its_names(volume, fs):
    volume.symlink("/", "/root")
    names = sorted(volume.listdir())
    for path in ("", ".", "/", "//", "data/..", "/data/deep/../../", "/root", "root/", "data/../root/."):
        for call in (
            fs.delete_dir,
            fs.delete_dir_contents,
            lambda path: fs.delete_dir_contents(path, missing_dir_ok=True),
        ):
            with pytest.raises(ValueError, match="is the root"):
                call(path)
    assert sorted(volume.listdir()) == names and volume.read_file("/data/a.txt") == FILES["/data/a.txt"]
    volume.symlink("deep", "/data/other")
    fs.delete_dir_contents("data/other")
    fs.delete_dir("data/deep/../deep")
    assert sorted(volume.listdir("/data")) == ["a.txt", "b.txt", "link", "other"]


def test_a_file_system_opens_a_volume_and_goes_into_pickles(image, tmp_path):
    with lanefs.Volume.open(image, "r+") as volume:
        url = volume.publish(f"file://{tmp_path}/store")
    for where in (image, url):
        fs = lanefs.arrow.filesystem(where)
        again = pickle.loads(pickle.dumps(fs))
        assert again == fs and again.type_name == "py::lanefs"
        assert again.open_input_stream("/top").read() == b"x"
        with pytest.raises(OSError):
            fs.open_output_stream("/new")
        assert fs != lanefs.arrow.filesystem(lanefs.Volume.memory(64 * MIB))
        fs.handler.volume.close()
        again.handler.volume.close()
    with lanefs.arrow.filesystem(image, writable=True).handler.volume as volume:
        fs = lanefs.arrow.filesystem(volume, writable=True)
        fs.open_output_stream("/new").close()
        assert volume.exists("/new")
    with lanefs.Volume.open(image) as volume, pytest.raises(ValueError, match="r+"):
        lanefs.arrow.filesystem(volume, writable=True)


def test_a_data_set_of_pyarrow_is_written_and_read(volume, fs):
    table = pa.table({"k": ["a", "b", "a", "c"], "n": [1, 2, 3, 4]})
    for _ in range(2):
        pa.dataset.write_dataset(
            table,
            "set",
            filesystem=fs,
            format="parquet",
            partitioning=["k"],
            existing_data_behavior="delete_matching",
        )
    found = pa.dataset.dataset("set", filesystem=fs, format="parquet", partitioning=["k"])
    assert len(found.files) == 3
    assert sorted(found.to_table(filter=pa.dataset.field("k") == "a")["n"].to_pylist()) == [1, 3]
    pa.parquet.write_table(table, "/one.parquet", filesystem=fs)
    assert pa.parquet.read_table("/one.parquet", filesystem=fs) == table
