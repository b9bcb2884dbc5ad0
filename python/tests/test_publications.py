"""Volumes on stores, by their URLs."""

import pickle
import shutil

import pytest

import lanefs
from conftest import FILES, MIB
from test_processes import in_fork

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def published(image, tmp_path):
    """Publishes the image, and returns a function that does so again and the URL."""
    url = f"file://{tmp_path}/store"

    def publish():
        with lanefs.Volume.open(image) as volume:
            volume.publish(url, level=1)

    publish()
    return publish, url


def opened(url, tmp_path, **options):
    return lanefs.Volume.open(url, cache_dir=tmp_path / "cache", **options)


def test_a_publication_answers_as_the_volume(published, image, tmp_path):
    _, url = published
    paths = [*FILES, "/data/link", "/none"]
    with lanefs.Volume.open(image) as here, opened(url, tmp_path) as there:
        assert there.listdir("/data") == here.listdir("/data")
        assert there.resolve(paths).codes.tolist() == here.resolve(paths).codes.tolist()
        assert [bytes(file) for file in there.read(list(FILES))] == list(FILES.values())
        with pytest.raises(OSError, match="reading only"):
            there.mkdir("/new")
    # The cache serves what it has, also to another handle, and can be left out.
    assert any(file.is_file() and len(file.name) == 64 for file in (tmp_path / "cache").rglob("*"))
    with opened(url, tmp_path) as again, lanefs.Volume.open(url, cache_size=0) as without:
        assert again.read_file("/top") == without.read_file("/top") == b"x"


def test_other_processes_open_the_same_version(published, image, tmp_path):
    publish, url = published
    with opened(url, tmp_path) as volume:
        version = repr(volume)
        assert f"{url}#" in version and "latest" not in version
        with lanefs.Volume.open(image, "r+") as changed:
            changed.write_file("/top", b"changed")
        publish()
        assert volume.read_file("/top") == b"x"
        with pickle.loads(pickle.dumps(volume)) as other:
            assert (repr(other), other.read_file("/top")) == (version, b"x")
        assert in_fork(lambda: volume.read_file("/top")) == "b'x'"
    with opened(url, tmp_path) as volume:
        assert volume.read_file("/top") == b"changed"


def test_a_volume_in_use_is_published(image, tmp_path):
    url = f"file://{tmp_path}/store"
    with lanefs.Volume.open(image, "r+") as volume:
        volume.write_file("/top", b"now")
        version = volume.publish(url)
        volume.write_file("/top", b"later")
        with lanefs.Volume.open(version, cache_size=0) as there:
            assert there.read_file("/top") == b"now"
        assert volume.publish(f"{url}#latest") != version
        with lanefs.Volume.open(url, cache_size=0) as there:
            assert there.read_file("/top") == b"later"
        with pytest.raises(ValueError, match="name a tag"):
            volume.publish(version)
        with pytest.raises(ValueError, match="level"):
            volume.publish(url, level=0)
    with lanefs.Volume.memory(64 * MIB) as volume:
        with pytest.raises(OSError, match="needs a device"):
            volume.publish(url)


def test_what_cannot_be_opened_says_why(published, image, tmp_path):
    _, url = published
    with pytest.raises(ValueError, match="for reading"):
        lanefs.Volume.open(url, "r+")
    with pytest.raises(ValueError, match="for reading"):
        lanefs.Volume.open(url, size=MIB)
    with pytest.raises(ValueError, match="for the URL"):
        lanefs.Volume.open(image, cache_size=0)
    with pytest.raises(ValueError, match="cache_size is 5"):
        lanefs.Volume.open(url, cache_size=5)
    with pytest.raises(ValueError, match="scheme ftp"):
        lanefs.Volume.open("ftp://server/folder")
    with pytest.raises(FileNotFoundError, match="#none"):
        opened(f"{url}#none", tmp_path)
    with pytest.raises(FileNotFoundError, match="no directory"):
        opened("file:///none/such", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        lanefs.Volume.open(url, cache_dir=tmp_path / "file")


def test_a_store_that_is_gone_is_named(published, tmp_path):
    _, url = published
    with lanefs.Volume.open(url, cache_size=0) as volume:
        shutil.rmtree(tmp_path / "store" / "packs")
        with pytest.raises(OSError, match="packs/") as failed:
            volume.open_file("/data/deep/er/c.bin", "rb").read()
        assert failed.value.errno == 5
        with pytest.raises(OSError, match="/data/deep/er/c.bin") as failed:
            volume.read_file("/data/deep/er/c.bin")
        assert failed.value.errno == 5
