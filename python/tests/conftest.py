"""Volumes for the tests."""

import pytest

import lanefs

MIB = 1 << 20

FILES = {
    "/data/a.txt": b"one sample",
    "/data/b.txt": b"",
    "/data/deep/er/c.bin": bytes(range(256)) * 40,
    "/top": b"x",
}


def fill(volume: lanefs.Volume) -> None:
    """Makes the files that most tests read."""
    errors = volume.write_many(FILES, FILES.values(), make_directories=True)
    assert errors == {}
    volume.symlink("a.txt", "/data/link")


@pytest.fixture
def volume():
    """A volume in memory with some files."""
    with lanefs.Volume.memory(64 * MIB) as volume:
        fill(volume)
        yield volume


@pytest.fixture
def image(tmp_path):
    """The path of a volume in a file, with the same files."""
    path = tmp_path / "v.lane"
    with lanefs.Volume.open(path, "x", size=64 * MIB) as volume:
        fill(volume)
    return path
