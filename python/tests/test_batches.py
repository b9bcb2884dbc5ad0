"""Calls with many paths."""

import os
import pathlib
import pickle

import numpy as np
import pyarrow as pa
import pytest

import lanefs
from conftest import FILES

PATHS = list(FILES)


def test_a_lookup_has_a_column_for_each_attribute(volume):
    found = volume.resolve([*PATHS, "/no", "/data"], lanefs.COLUMNS)
    assert found.exists.tolist() == [True] * 4 + [False, True]
    assert found.size[:5].tolist() == [*map(len, FILES.values()), 0]
    assert found.kind.tolist() == [8, 8, 8, 8, 0, 4]
    for at, path in enumerate(PATHS):
        one = volume.stat(path)
        columns = (found.mode, found.ino, found.nlink, found.uid, found.gid, found.size)
        assert tuple(int(column[at]) for column in columns) == (
            one.st_mode,
            one.st_ino,
            one.st_nlink,
            one.st_uid,
            one.st_gid,
            one.st_size,
        )
        times = (found.atime_ns, found.mtime_ns, found.ctime_ns, found.btime_ns)
        assert tuple(int(column[at]) for column in times) == (
            one.st_atime_ns,
            one.st_mtime_ns,
            one.st_ctime_ns,
            one.st_birthtime_ns,
        )
    assert [type(error) for error in found.errors().values()] == [FileNotFoundError]
    assert found.errors()[4].filename == "/no"
    assert len(found) == 6


def test_columns_are_memory_that_rust_filled(volume):
    found = volume.resolve(PATHS)
    assert not found.size.flags.owndata and found.size.base is not None


def test_a_column_that_was_not_asked_for_names_the_remedy(volume):
    found = volume.resolve(PATHS, ["size"])
    with pytest.raises(AttributeError, match="columns="):
        found.mode
    with pytest.raises(AttributeError, match="colour"):
        found.colour
    with pytest.raises(ValueError, match="colour"):
        volume.resolve(PATHS, ["colour"])
    with pytest.raises(TypeError, match="columns"):
        volume.resolve(PATHS, "size")


def test_links_are_followed_or_not(volume):
    assert volume.resolve(["/data/link"]).kind[0] == lanefs.Kind.FILE
    assert volume.resolve(["/data/link"], follow=False).kind[0] == lanefs.Kind.SYMLINK


def test_files_lie_in_one_buffer(volume):
    files = volume.read(PATHS)
    assert files.to_bytes() == list(FILES.values()) == [bytes(file) for file in files]
    assert files.offsets.tolist() == [0, 10, 10, 10 + 10240, 10251]
    assert bytes(files.buffer) == b"".join(FILES.values())
    assert np.shares_memory(np.frombuffer(files[2], np.uint8), files.buffer)
    assert isinstance(files[0], memoryview) and bytes(files[-1]) == b"x" and len(files[1:3]) == 2
    with pytest.raises(IndexError, match="index 4 of 4"):
        files[4]


def test_a_bad_path_affects_no_other(volume):
    files = volume.read(["/top", "/no", "/data", "/data/a.txt"])
    assert bytes(files[0]) == b"x" and bytes(files[3]) == b"one sample"
    with pytest.raises(FileNotFoundError) as missing:
        files[1]
    assert missing.value.filename == "/no"
    assert {at: type(error) for at, error in files.errors().items()} == {
        1: FileNotFoundError,
        2: IsADirectoryError,
    }
    assert "2 were not read" in repr(files)


def test_ranges_are_parts_of_files(volume):
    files = volume.read(["/data/a.txt"] * 4, ranges=[(0, 3), (4, 100), (10, 1), (99, 1)])
    assert files.to_bytes() == [b"one", b"sample", b"", b""]
    with pytest.raises(ValueError, match="ranges has 1"):
        volume.read(PATHS, ranges=[(0, 1)])
    with pytest.raises(ValueError, match=r"ranges\[0\]"):
        volume.read(["/top"], ranges=[(-1, 1)])


@pytest.mark.parametrize("make", [np.zeros, lambda n, dtype: bytearray(n), lambda n, dtype: memoryview(bytearray(n))])
def test_files_are_read_into_memory_of_the_caller(volume, make):
    memory = make(20000, dtype=np.uint8)
    files = volume.read_into(PATHS, memory)
    assert files.to_bytes() == list(FILES.values())
    assert bytes(memory[:10]) == b"one sample"
    assert np.shares_memory(files.buffer, np.frombuffer(memory, np.uint8))


def test_memory_that_does_not_fit_is_refused(volume):
    with pytest.raises(ValueError, match="the memory has 10 bytes"):
        volume.read_into(PATHS, np.zeros(10, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        volume.read_into(PATHS, b"x" * 20000)
    with pytest.raises(ValueError, match="contiguous"):
        volume.read_into(PATHS, np.zeros(40000, np.uint8)[::2])


def test_batches_of_several_pieces_are_whole(volume):
    count = 9000
    paths = [f"/many/{i % 50}/{i}" for i in range(count)]
    contents = [b"%d" % i * (i % 7) for i in range(count)]
    assert volume.write_many(paths, contents, make_directories=True) == {}
    files = volume.read(paths)
    assert files.to_bytes() == contents
    memory = bytearray(len(files.buffer))
    assert volume.read_into(paths, memory).to_bytes() == contents
    ranges = [(i % 3, i % 5) for i in range(count)]
    expected = [content[at : at + size] for content, (at, size) in zip(contents, ranges)]
    assert volume.read(paths, ranges=ranges).to_bytes() == expected
    found = volume.resolve(paths * 8, ["size"])
    assert found.size.tolist() == [*map(len, contents)] * 8
    again = volume.write_many(paths[5000:] + ["/fresh"], contents[5000:] + [b""])
    assert len(again) == 4000 and set(map(type, again.values())) == {FileExistsError}


def test_files_are_replaced_in_one_step_where_that_is_wanted(volume):
    volume.write_file("/there", b"old" * 5000)
    volume.chmod("/there", 0o640)
    errors = volume.write_many(["/there", "/new", "/data"], [b"1", b"2", b"3"], overwrite=True)
    assert list(errors) == [2] and isinstance(errors[2], IsADirectoryError)
    assert volume.read(["/there", "/new"]).to_bytes() == [b"1", b"2"]
    assert volume.stat("/there").st_mode & 0o777 == 0o640
    with pytest.raises(OSError):
        volume.write_file("/there", bytes(128 << 20))
    assert volume.read_file("/there") == b"1"


def test_contents_of_many_types_are_written(volume):
    contents = [b"1", bytearray(b"2"), memoryview(b"34"), np.array([5, 6], np.uint32), memoryview(b"7-8-9")[::2]]
    paths = ["/1", "/2", "/3", "/4", "/5"]
    assert volume.write_many(paths, contents, mode=0o600) == {}
    expected = [b"1", b"2", b"34", b"\5\0\0\0\6\0\0\0", b"789"]
    assert volume.read(paths).to_bytes() == expected
    for path, content in zip(paths, contents):
        volume.write_file(path, content)
    assert volume.read(paths).to_bytes() == expected
    for wrong in (5, "text", None):
        with pytest.raises(TypeError, match=r"contents\[0\] is"):
            volume.write_many(["/7"], [wrong])
        with pytest.raises(TypeError, match="content is"):
            volume.write_file("/7", wrong)
        with volume.open_file("/1", "r+b", 0) as file, pytest.raises(TypeError, match="data is"):
            file.write(wrong)
    errors = volume.write_many(["/no/such/dir", "/6"], [b"", b"6"])
    assert list(errors) == [0] and isinstance(errors[0], FileNotFoundError)
    with pytest.raises(ValueError, match="contents has 1 items for 2 paths"):
        volume.write_many(["/7", "/8"], [b""])


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        iter,
        np.array,
        lambda paths: np.array([path.encode() for path in paths]),
        lambda paths: np.array(paths, object),
        lambda paths: [path.encode() for path in paths],
        lambda paths: [pathlib.PurePosixPath(path) for path in paths],
        pa.array,
        lambda paths: pa.array(paths, pa.large_string()),
        lambda paths: pa.array([path.encode() for path in paths]),
        lambda paths: pa.array(["/a", *paths, "/b"]).slice(1, len(paths)),
        lambda paths: pa.array([None, *paths]).slice(1),
        lanefs.PathSet,
    ],
)
def test_paths_come_in_many_forms(volume, form):
    given = form(PATHS)
    paths = given if isinstance(given, lanefs.PathSet) else lanefs.PathSet(given)
    assert list(paths) == PATHS and paths[-1] == PATHS[-1] and len(paths) == 4
    assert volume.read(form(PATHS)).to_bytes() == list(FILES.values())


def test_a_set_of_paths_can_be_pickled():
    paths = [b"/a", b"/\xff"]
    assert list(pickle.loads(pickle.dumps(lanefs.PathSet(paths)))) == ["/a", "/\udcff"]


def test_no_paths_are_a_batch_too(volume):
    for none in ([], np.array([], str), pa.array([], pa.string()), pa.array(["/a"]).slice(1)):
        assert len(volume.read(none)) == len(volume.resolve(none)) == 0


def test_paths_of_arrow_are_not_copied():
    text = pa.py_buffer(bytearray(b"/top/not"))
    offsets = pa.py_buffer(np.array([0, 4, 8], np.int32))
    array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, text])
    paths = lanefs.PathSet(array)
    assert list(paths) == ["/top", "/not"]
    # A change of memory that is not copied is seen. (Programs must not do this.)
    np.frombuffer(text, np.uint8)[1:4] = np.frombuffer(b"abc", np.uint8)
    assert paths[0] == "/abc"
    del array, offsets, text
    assert list(paths) == ["/abc", "/not"]


@pytest.mark.parametrize(
    ("paths", "kind", "text"),
    [
        ("/a", TypeError, "one path"),
        (b"/a", TypeError, "one path"),
        (7, TypeError, "paths is int"),
        (["/a", 7], TypeError, r"paths\[1\] is int"),
        (np.arange(3), TypeError, r"paths\[0\] is int"),
        (pa.array([1, 2]), TypeError, "format 'l'"),
        (pa.array(["/a", None]), ValueError, "nulls"),
    ],
)
def test_paths_of_no_known_form_are_refused(paths, kind, text):
    with pytest.raises(kind, match=text):
        lanefs.PathSet(paths)


def test_paths_come_from_a_file(volume, tmp_path):
    names = tmp_path / "names"
    names.write_text("\n".join(PATHS))
    assert volume.read(lanefs.PathSet.from_file(names)).to_bytes() == list(FILES.values())
    names.write_bytes(b"\0".join(path.encode() for path in PATHS))
    assert list(lanefs.PathSet.from_file(str(names), b"\0")) == PATHS
    with pytest.raises(FileNotFoundError) as missing:
        lanefs.PathSet.from_file(tmp_path / "none")
    assert missing.value.filename == str(tmp_path / "none")
    with pytest.raises(ValueError, match="delimiter"):
        lanefs.PathSet.from_file(names, b"ab")


def test_an_engine_that_is_not_there_is_an_error_and_the_others_agree(image):
    with lanefs.Volume.open(image, engine="cpu") as volume:
        assert volume.engine == "cpu"
        expected = volume.resolve(PATHS * 3000, lanefs.COLUMNS)
    with lanefs.Volume.open(image, engine="auto") as volume:
        found = volume.resolve(PATHS * 3000, lanefs.COLUMNS)
    try:
        volume = lanefs.Volume.open(image, engine="gpu")
    except OSError as error:
        assert "engine='cpu'" in str(error)
        return
    with volume:
        assert volume.engine.startswith("gpu: ")
        on_device = volume.resolve([*PATHS * 3000, "/no"], lanefs.COLUMNS)
    for name in lanefs.COLUMNS:
        assert (getattr(found, name) == getattr(expected, name)).all()
        assert (getattr(on_device, name)[:-1] == getattr(expected, name)).all()
    assert not on_device.exists[-1]


def test_files_in_place_are_memory_of_the_volume(image):
    path = "/data/deep/er/c.bin"
    content = FILES[path]
    paths = [*PATHS, "/no", "/data", path]
    with lanefs.Volume.open(image, engine="cpu") as reader:
        files, again, copies = reader.view(paths), reader.view(paths), reader.read(paths)
        assert files.codes.tolist() == copies.codes.tolist() and len(files) == 7
        read = np.flatnonzero(files.codes == 0).tolist()
        assert [bytes(files[at]) for at in read] == [*FILES.values(), content]
        errors = {at: type(error) for at, error in files.errors().items()}
        assert errors == {4: FileNotFoundError, 5: IsADirectoryError}
        with pytest.raises(FileNotFoundError):
            files[4]
        last = files[-1]
        assert last.readonly and np.shares_memory(np.asarray(last), np.asarray(again[-1]))
        assert not np.shares_memory(np.asarray(last), copies.buffer)
        assert files.copied_bytes == len("one sample") + len("x")
        assert "2 were not read" in repr(files)
        part = reader.view([path], ranges=[(100, 5000)])
        assert bytes(part[0]) == content[100:5100] and part.copied_bytes == 0
    # The memory outlives the volume, and the other files.
    del files, again
    assert bytes(last) == content
    with pytest.raises(ValueError, match="closed"):
        reader.view(paths)


def test_a_volume_that_may_change_copies_what_it_shows(volume):
    files = volume.view(PATHS)
    assert files.to_bytes() == list(FILES.values())
    assert files.copied_bytes == sum(map(len, FILES.values())) and files[0].readonly
    assert volume.view([]).to_bytes() == []


def test_a_forked_child_uses_files_in_place_and_leaves_the_volume_alone(image):
    path = "/data/deep/er/c.bin"
    with lanefs.Volume.open(image, engine="cpu") as reader:
        files = reader.view([path])
        child = os.fork()
        if child == 0:
            is_same = bytes(files[0]) == FILES[path]
            del files
            os._exit(0 if is_same else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert bytes(files[0]) == FILES[path] == bytes(reader.view([path])[0])


def test_answers_go_into_pickles(volume, image):
    with lanefs.Volume.open(image) as on_disk:
        paths = [*FILES, "/no"]
        answers = [volume.read(paths), on_disk.view(paths), volume.resolve(paths, ["size", "kind"])]
        answers.append(next(iter(volume.epoch(paths, 10, seed=5))))
        for answer in answers:
            for protocol in (2, 4, 5):
                again = pickle.loads(pickle.dumps(answer, protocol))
                assert list(again.paths) == list(answer.paths)
                assert [str(error) for error in again.errors().values()] == [
                    str(error) for error in answer.errors().values()
                ]
                if isinstance(answer, lanefs.Lookup):
                    assert again.size.tolist() == answer.size.tolist()
                else:
                    assert dict(again.items()) == dict(answer.items()) and len(dict(again.items())) == len(FILES)


def test_buffers_of_a_pickle_travel_out_of_band(volume):
    paths = lanefs.PathSet([f"/files/{i}" for i in range(1000)])
    buffers = []
    small = pickle.dumps(paths, 5, buffer_callback=buffers.append)
    assert len(buffers) == 2 and len(small) < 1000
    assert list(pickle.loads(small, buffers=buffers)) == list(paths)
    files = volume.read(list(FILES))
    buffers.clear()
    small = pickle.dumps(files, 5, buffer_callback=buffers.append)
    assert len(small) < 2000 and sum(buffer.raw().nbytes for buffer in buffers) > files.buffer.nbytes
    assert pickle.loads(small, buffers=buffers).to_bytes() == list(FILES.values())
    odd = lanefs.PathSet([b"/\xff", b"", b"/a\nb"])
    assert list(pickle.loads(pickle.dumps(odd))) == list(odd)
    with pytest.raises(ValueError, match="offset"):
        lanefs.PathSet.from_buffers(np.zeros(3, np.uint8), np.array([0, 9]))


def test_a_path_set_is_a_sequence(volume):
    paths = lanefs.PathSet([f"/{i}" for i in range(10)])
    assert list(paths) == [paths[i] for i in range(10)] == [f"/{i}" for i in range(10)]
    for cut in (slice(2, 5), slice(None, None, -3), slice(-2, None), slice(7, 3), slice(0, 99, 4)):
        assert isinstance(paths[cut], lanefs.PathSet) and list(paths[cut]) == list(paths)[cut]
    assert list(paths.take(np.array([9, 0, 9], np.uint32))) == ["/9", "/0", "/9"]
    with pytest.raises(IndexError, match="10"):
        paths.take(np.array([10], np.uint32))
    with pytest.raises(TypeError):
        paths["a"]


def test_a_batch_has_its_own_paths(volume):
    names = list(FILES)
    epoch = volume.epoch(names, 3, seed=1)
    assert len(epoch) == 2
    for batch in epoch:
        assert list(batch.paths) == [names[row] for row in batch.rows]
        assert all(batch[i] == FILES[batch.paths[i]] for i in range(len(batch)))
    assert len(volume.epoch(names, 3, start=2)) == 1 and len(volume.epoch(names, 3, start=4)) == 0


def test_files_are_got_by_index_or_with_their_paths(volume):
    files = volume.read(["/top", "/no", "/data/a.txt"])
    assert files.get(0) == b"x" and files.get(1) is None and files.get(1, b"none") == b"none"
    assert dict(files.items()) == {"/top": b"x", "/data/a.txt": b"one sample"}
    with pytest.raises(IndexError):
        files.get(3)


def test_a_lookup_is_a_table(volume):
    paths = ["/top", "/no", "/data"]
    found = volume.resolve(paths, ["exists", "size", "kind"])
    assert found.columns == ("size", "kind")
    assert found["size"] is found.size and found["exists"].tolist() == [True, False, True]
    # Sizes are signed.
    assert (found.size - 1).tolist()[:2] == [0, -1]
    assert lanefs.Kind(found.kind[1]) == lanefs.Kind.NONE
    with pytest.raises(KeyError):
        found["colour"]
    with pytest.raises(AttributeError, match="ask for it"):
        found["mode"]
    frame = found.to_pandas()
    assert frame.columns.tolist() == ["path", "exists", "size", "kind"] and frame.path.tolist() == paths
    table = found.to_arrow().to_pydict()
    assert table == {**frame.to_dict("list"), "size": [1, None, table["size"][2]], "kind": [8, None, 4]}
