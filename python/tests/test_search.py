"""Search: compared with Python's own engines on the same files."""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import itertools
import os
import re
import signal
import threading
import time
from collections import defaultdict
from pathlib import Path

import lanefs
import pytest
from test_processes import in_fork

TREE = {
    "/src/lane.rs": b"fn lane() {}\nfn other() { lane() }\n",
    "/src/deep/lane_test.rs": b"// a lane\r\nfn test() {}\n",
    "/src/notes.md": b"Lane, LANE\nlanes of a road\n\nlast line without end: lane",
    "/data/binary": b"lane\x00lane\n",
    "/data/latin": b"caf\xe9 lane\n",
    "/data/empty": b"",
    "/data/copy": b"fn lane() {}\nfn other() { lane() }\n",
    "/large": b"".join(b"line %d of a large file\n" % number for number in range(400_000)),
}


@pytest.fixture
def volume() -> lanefs.Volume:
    volume = lanefs.Volume.memory(128 << 20, engine="cpu")
    assert volume.write_many(list(TREE), list(TREE.values()), make_directories=True) == {}
    return volume


def expected(pattern: bytes, flags: int = 0, top: str = "/", glob: str = "*") -> list[tuple[str, int, bytes]]:
    """The lines that `re` finds, in the order of paths."""
    lines = []
    for path in sorted(TREE, key=lambda path: path.split("/")):
        if path.startswith(top) and fnmatch.fnmatch(os.path.basename(path), glob) and b"\0" not in TREE[path]:
            for number, line in enumerate(TREE[path].splitlines(keepends=True), 1):
                if re.search(pattern, line, flags):
                    lines.append((path, number, line))
    return lines


def found(lines: object) -> list[tuple[str, int, bytes]]:
    return [(line.path, line.number, line.line) for line in lines]  # type: ignore[attr-defined]


def text_files(volume: lanefs.Volume, *args: object, **kwargs: object) -> list[tuple[str, int, bytes]]:
    """Lines of files without a NUL, which `expected` leaves out."""
    return [line for line in found(volume.grep(*args, **kwargs)) if line[0] != "/data/binary"]  # type: ignore[arg-type]


def test_lines_are_those_of_re(volume: lanefs.Volume) -> None:
    for pattern in ["lane", "fn \\w+", "^l", "lane$", "7{4}", "nothing such"]:
        assert text_files(volume, pattern) == expected(pattern.encode()), pattern
    assert text_files(volume, "lane", ignore_case=True) == expected(b"lane", re.IGNORECASE)
    assert text_files(volume, "lane", words=True) == expected(rb"\blane\b")
    assert text_files(volume, ["fn o", "road"]) == expected(b"fn o|road")
    assert text_files(volume, "lane()", fixed=True) == expected(rb"lane\(\)")
    assert text_files(volume, "lane", "/src") == expected(b"lane", top="/src")
    assert text_files(volume, "lane", globs=["*.rs"]) == expected(b"lane", glob="*.rs")
    assert text_files(volume, "lane", types=["rust"]) == expected(b"lane", glob="*.rs")
    assert text_files(volume, "lane", globs=["!deep", "*.rs"])[-1][0] == "/src/lane.rs"
    assert len(list(volume.grep("line", "/large", max_count=3))) == 3
    lines = list(volume.grep("fn", "/src/lane.rs", invert=True))
    assert lines == []


def test_a_line_says_where_it_is(volume: lanefs.Volume) -> None:
    line = list(volume.grep("lane", "/src/lane.rs"))[1]
    assert (line.number, line.offset, line.spans) == (2, 13, ((13, 17),))
    assert line.line[slice(*line.spans[0])] == b"lane" and line.text == "fn other() { lane() }"
    (latin,) = volume.grep("lane", "/data/latin")
    assert latin.line == b"caf\xe9 lane\n" and os.fsencode(latin.text) == b"caf\xe9 lane"
    assert found(volume.grep("lane", "/data", globs=["binary"])) == []
    assert len(list(volume.grep("lane", "/data/binary", text=True))) == 1


def test_wrong_arguments_are_named(volume: lanefs.Volume) -> None:
    with pytest.raises(ValueError, match="unclosed group"):
        volume.grep("(")
    with pytest.raises(ValueError, match="type: "):
        volume.grep("a", types=["no-such-type"])
    with pytest.raises(TypeError, match="globs is one text"):
        volume.grep("a", globs="*.rs")
    with pytest.raises(ValueError, match="limit is -1"):
        volume.fuzzy("a", limit=-1)
    with pytest.raises(ValueError, match="query has more than"):
        volume.fuzzy("a" * 10_000)
    for call in (volume.grep, volume.fuzzy):
        with pytest.raises(FileNotFoundError) as caught:
            call("a", "/missing")
        assert caught.value.filename == "/missing"
    with pytest.raises(FileNotFoundError):
        volume.duplicates("/missing")


def test_a_search_of_a_closed_volume_is_an_error(volume: lanefs.Volume) -> None:
    lines = volume.grep("lane")
    volume.close()
    with pytest.raises(ValueError, match="closed"):
        next(lines)


def test_a_damaged_file_is_told_and_left_out(tmp_path: Path) -> None:
    image = tmp_path / "v.lane"
    marker = b"a line that lies on the device" * 200
    with lanefs.Volume.open(image, "x", size=64 << 20) as made:
        made.write_many(["/a", "/b", "/c"], [b"line\n", b"line\n" + marker, b"line\n"])
    # Not only in its place: the journal has a copy.
    image.write_bytes(image.read_bytes().replace(marker, marker[:2000] + b"X" + marker[2001:]))
    errors: list[OSError] = []
    with lanefs.Volume.open(image) as damaged:
        assert [line.path for line in damaged.grep("^line", onerror=errors.append)] == ["/a", "/c"]
        assert [line.path for line in damaged.grep("^line")] == ["/a", "/c"]
        assert [(error.errno, error.filename) for error in errors] == [(errno.EIO, "/b")]


def test_fuzzy_names_are_scored_and_highlighted(volume: lanefs.Volume) -> None:
    best = volume.fuzzy("lanetest")
    assert [match.path for match in best] == ["/src/deep/lane_test.rs"]
    assert "".join(best[0].path[at] for at in best[0].positions) == "lanetest"
    names = volume.fuzzy_names("/src")
    assert len(names) == 4 and len(names.search("")) == 4
    scores = [match.score for match in names.search("lane")]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)
    # A query that grows, shrinks and grows again has the answers of one that is new.
    for query in ["l", "la", "lan", "lan !test", "la", "lane .rs$", "l"]:
        fresh = volume.fuzzy_names("/src")
        assert names.search(query) == fresh.search(query) and names.count(query) == fresh.count(query)
    assert names.search("l", limit=1) == names.search("l")[:1] and names.count("l") > 1


def test_duplicates_are_those_of_hashlib(volume: lanefs.Volume) -> None:
    contents = [os.urandom(10) * (200 * size) for size in range(1, 40)]
    chosen = [contents[number * number % len(contents)] for number in range(300)]
    assert volume.write_many([f"/many/{at}" for at in range(300)], chosen, make_directories=True) == {}
    by_hash: dict[bytes, set[str]] = defaultdict(set)
    for path, content in itertools.chain(TREE.items(), ((f"/many/{at}", c) for at, c in enumerate(chosen))):
        if content:
            by_hash[hashlib.sha256(content).digest()].add(path)
    calls: list[tuple[int, int]] = []
    groups = volume.duplicates(progress=lambda done, all: calls.append((done, all)))
    assert {frozenset(group.paths) for group in groups} == {
        frozenset(paths) for paths in by_hash.values() if len(paths) > 1
    }
    assert [group.wasted for group in groups] == sorted((group.wasted for group in groups), reverse=True)
    assert calls and calls[-1][0] <= calls[-1][1]
    assert all(group.size >= 4000 for group in volume.duplicates(min_size=4000))
    (only,) = volume.duplicates(globs=["*.rs", "copy"])
    assert only.paths == ["/data/copy", "/src/lane.rs"] and only.wasted == only.size == 35


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A volume in a file with the tree, and a file that the exact engine converts.

    A software device scans the large file many times, so it has a tenth of its lines here: still two thousand strips.
    """
    path = tmp_path / "v.lane"
    tree = TREE | {"/large": TREE["/large"][: len(TREE["/large"]) // 10]}
    with lanefs.Volume.open(path, "x", size=128 << 20) as volume:
        assert volume.write_many(list(tree), list(tree.values()), make_directories=True) == {}
        volume.write_file("/utf16", "a lane in UTF-16\n".encode("utf-16"))
    return path


def test_a_device_finds_what_the_cpu_finds_also_among_what_it_keeps(image: Path) -> None:
    patterns = ["lane", "fn \\w+", "line 3777", "nothing such", "\\w", "UTF-16", "caf."]
    with lanefs.Volume.open(image, engine="cpu") as volume:
        lines = {pattern: found(volume.grep(pattern)) for pattern in patterns}
        without = found(volume.grep("lane", invert=True))
        groups, names = volume.duplicates(), volume.fuzzy("lanetest")
    with lanefs.Volume.open(image, engine="gpu") as volume:
        for _ in range(3):
            for pattern in patterns:
                assert found(volume.grep(pattern)) == lines[pattern], pattern
            assert found(volume.grep("lane", invert=True)) == without
            assert volume.duplicates() == groups
            assert volume.fuzzy("lanetest") == names


def test_a_device_keeps_nothing_of_a_volume_that_changes(image: Path) -> None:
    with lanefs.Volume.open(image, "r+", engine="gpu") as volume:
        assert len(list(volume.grep("road"))) == 1
        volume.write_file("/src/lane.rs", b"a road\n")
        assert [line.path for line in volume.grep("road")] == ["/src/lane.rs", "/src/notes.md"]
        volume.remove("/src/notes.md")
        assert [line.path for line in volume.grep("road")] == ["/src/lane.rs"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_search_that_crosses_a_fork_goes_on_without_the_device(image: Path) -> None:
    with lanefs.Volume.open(image, engine="gpu") as volume:
        expected_lines = found(volume.grep("lane"))
        lines, names = volume.grep("lane"), volume.fuzzy_names()
        best = names.search("lanetest")

        def work() -> bool:
            nonlocal lines, names
            same = found(lines) == expected_lines and names.search("lanetest") == best
            del lines, names
            return same and found(volume.grep("lane")) == expected_lines

        assert in_fork(work) == "True"
        assert found(lines) == expected_lines and names.search("lanetest") == best


def test_an_exception_of_the_progress_ends_the_search(volume: lanefs.Volume) -> None:
    def progress(done: int, all: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        volume.duplicates(progress=progress)


def test_ctrl_c_ends_a_search(volume: lanefs.Volume) -> None:
    over = threading.Event()

    def interrupt() -> None:
        while not over.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    sender = threading.Thread(target=interrupt)
    # A shell's job in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            try:
                sender.start()
                while True:
                    for _ in volume.grep("line \\d*7\\d*5"):
                        pass
            finally:
                over.set()
        sender.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_search_at_once(volume: lanefs.Volume) -> None:
    names, expected_paths = volume.fuzzy_names(), [match.path for match in volume.fuzzy("lane")]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                assert text_files(volume, "lane") == expected(b"lane")
                assert [match.path for match in names.search("lane")] == expected_paths
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
