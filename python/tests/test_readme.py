"""The first example of the README; `test_torch.py` runs the one with PyTorch."""

import lanefs
from conftest import MIB
from readme import example


def test_the_example_reads_and_resolves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with lanefs.Volume.open("example.lane", "x", size=64 * MIB) as volume:
        paths = ["/data/2024/a.txt", "/data/2024/b.txt"]
        assert volume.write_many(paths, [b"hello", b""], make_directories=True) == {}
    names = {}
    exec(example("memoryviews"), names)
    assert [bytes(file) for file in names["files"]] == [b"hello", b""]
    assert names["found"].size.tolist() == [5]
