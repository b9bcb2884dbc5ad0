"""Volumes in a Ray cluster on this machine. `make test-ray` runs them."""

import os
import signal

import pytest

import lanefs
from conftest import MIB

ray = pytest.importorskip("ray", reason="make test-ray runs this file in an environment of its own")

import lanefs.ray  # noqa: E402

PROGRAM = os.environ.get("LANEFS_PROGRAM")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A volume with files in some directories, as a file and as a publication."""
    image = tmp_path_factory.mktemp("ray") / "v.lane"
    with lanefs.Volume.open(image, "x", size=64 * MIB) as volume:
        contents = {f"/d{n % 7}/{n}": bytes([n % 256]) * n for n in range(500)}
        assert volume.write_many(contents, contents.values(), make_directories=True) == {}
        volume.symlink("/d0/0", "/link")
        url = volume.publish(f"file://{image.parent}/store")
    return str(image), url, contents


@pytest.mark.parametrize("where", [0, 1], ids=["image", "publication"])
def test_files_are_a_data_set(store, where):
    contents = store[2]
    data = lanefs.ray.read_files("/", store[where], override_num_blocks=5)
    assert data.count() == 500
    rows = data.take_all()
    assert {row["path"]: row["content"] for row in rows} == contents
    assert all(row["size"] == len(row["content"]) and row["mtime_ns"] > 10**18 for row in rows)
    total = data.map_batches(lambda batch: {"n": [sum(map(len, batch["content"]))]}).sum("n")
    assert total == sum(map(len, contents.values()))


def test_files_of_a_directory_are_read_together(store):
    _, url, contents = store
    paths = sorted(contents, key=lambda path: contents[path])[::3]
    source = lanefs.ray.FilesDatasource(paths, url, ["ino"], {})
    tasks = source.get_read_tasks(4)
    parts = [[path for table in task() for path in table["path"].to_pylist()] for task in tasks]
    assert len(parts) == 4 and sorted(sum(parts, [])) == sorted(paths)
    directories = [os.path.dirname(path) for path in sum(parts, [])]
    changes = sum(one != other for one, other in zip(directories, directories[1:]))
    assert changes == 6
    assert source.estimate_inmemory_data_size() == sum(len(contents[path]) for path in paths)
    assert lanefs.ray.FilesDatasource([], url, ["ino"], {}).get_read_tasks(4) == []
    assert len(lanefs.ray.FilesDatasource(paths[:2], url, [], {}).get_read_tasks(40)) == 2


def test_a_missing_file_and_a_wrong_column_are_errors(store):
    with pytest.raises(FileNotFoundError, match="/no"):
        lanefs.ray.read_files(["/d1/1", "/no"], store[1])
    with pytest.raises(ValueError, match="colour"):
        lanefs.ray.read_files("/", store[1], columns=["colour"])


def test_a_lost_worker_costs_its_part_only(store, tmp_path):
    once = str(tmp_path / "once")

    def dies_once(batch):
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return batch
        os.kill(os.getpid(), signal.SIGKILL)

    rows = lanefs.ray.read_files("/", store[1], override_num_blocks=4).map_batches(dies_once).take_all()
    assert os.path.exists(once) and {row["path"]: row["content"] for row in rows} == store[2]


def joins():
    """Whether the program joins publications."""
    return PROGRAM is not None and lanefs.ray.subprocess.run([PROGRAM, "join", "--help"], capture_output=True).returncode == 0


@pytest.mark.skipif(not joins(), reason="LANEFS_PROGRAM names a program that joins publications")
def test_trees_are_published_as_one(tmp_path):
    sources = {}
    for name in ("one", "two", "three"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file").write_text(name)
        sources[f"/set/{name}"] = tmp_path / name
    url = f"file://{tmp_path}/store"
    report = lanefs.ray.publish(sources, url, program=PROGRAM, scratch=tmp_path)
    assert report["shards"] == 3
    with lanefs.Volume.open(url) as volume:
        for name in ("one", "two", "three"):
            assert volume.read_file(f"/set/{name}/deep/file") == name.encode()
    # A shard is replaced, and the others stay.
    (tmp_path / "two" / "deep" / "file").write_text("new")
    lanefs.ray.publish({"/set/two": tmp_path / "two"}, url, program=PROGRAM)
    with lanefs.Volume.open(url) as volume:
        contents = volume.read([f"/set/{name}/deep/file" for name in ("one", "two", "three")])
        assert contents.to_bytes() == [b"one", b"new", b"three"]
    with pytest.raises(Exception, match="failed"):
        lanefs.ray.publish({"/x": tmp_path / "none"}, url, program=PROGRAM, max_retries=0)
