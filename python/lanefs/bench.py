"""`python -m lanefs.bench`: small files through Python, beside the host's file system and other containers.

All systems hold the same files in the same directory's file system, and take turns, run by run. Only ratios
within one run count. The report has the form of those of `lanefs-bench`, which draws it (`lanefs-bench plot`).
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import importlib
import importlib.util
import json
import math
import os
import platform
import random
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lanefs

#: Mean size of a file in bytes, the deviation of the logarithm of sizes, and their bounds: those of
#: `lanefs-bench read`.
MEAN, DEVIATION, LEAST, MOST = 10_240, 1.0, 16, 1 << 20
FILES_A_DIRECTORY = 300
BATCH = 256
MAKE_BATCH = 1024
WORKERS = (0, 2, 4)

EXIT_DONE, EXIT_ERROR, EXIT_STOPPED = 0, 4, 130


class Corpus:
    """Names and contents of the files, from a seed."""

    def __init__(self, files: int) -> None:
        rng = random.Random(7)
        self._noise = rng.randbytes(2 * MOST)
        mu = math.log(MEAN) - DEVIATION**2 / 2
        sizes = (int(rng.lognormvariate(mu, DEVIATION)) for _ in range(files))
        self.sizes = [min(max(size, LEAST), MOST) for size in sizes]
        self.names = [f"class-{i // FILES_A_DIRECTORY:04}/img-{i:07}.jpg" for i in range(files)]
        self.order = list(range(files))
        rng.shuffle(self.order)

    def content(self, file: int) -> bytes:
        """The bytes of a file, with its number at both ends."""
        begin = file * 4099 % MOST
        stamp = file.to_bytes(8, "little")
        return stamp + self._noise[begin : begin + self.sizes[file] - 16] + stamp

    def is_right(self, file: int, content: Any) -> bool:
        """True for the content of this file, as far as length, begin and end tell."""
        stamp = file.to_bytes(8, "little")
        return len(content) == self.sizes[file] and content[:8] == stamp and content[-8:] == stamp


class System:
    """A place for files."""

    name: str

    def __init__(self, corpus: Corpus, place: Path) -> None:
        self.corpus = corpus
        self.place = place

    def put(self, files: range, contents: Sequence[bytes]) -> None:
        """Makes files that are not there."""
        raise NotImplementedError

    def contents(self, files: Sequence[int]) -> Iterator[Any]:
        """Reads files in this order."""
        raise NotImplementedError

    def reopen(self) -> None:
        """Forgets all that this process has of the files in memory."""

    def close(self) -> None:
        """Releases the files."""


class LaneFS(System):
    name = "lanefs"

    def __init__(self, corpus: Corpus, place: Path) -> None:
        super().__init__(corpus, place)
        size = 4 * sum(corpus.sizes) + len(corpus.sizes) * 8192 + (256 << 20)
        self.cache = 2 * sum(corpus.sizes) + (256 << 20)
        self.image = place / "volume.lane"
        self.volume = lanefs.Volume.open(self.image, "x", size=size, cache=self.cache)
        self.paths = ["/" + name for name in corpus.names]

    def put(self, files: range, contents: Sequence[bytes]) -> None:
        errors = self.volume.write_many(self.paths[files.start : files.stop], contents, make_directories=True)
        if errors:
            raise next(iter(errors.values()))

    def contents(self, files: Sequence[int]) -> Iterator[Any]:
        paths = self.paths
        for first in range(0, len(files), BATCH):
            yield from self.volume.read([paths[file] for file in files[first : first + BATCH]])

    def reopen(self) -> None:
        self.volume.close()
        self.volume = lanefs.Volume.open(self.image, cache=self.cache)

    def close(self) -> None:
        self.volume.close()


class Host(System):
    """Files in directories of the host."""

    def __init__(self, corpus: Corpus, place: Path) -> None:
        super().__init__(corpus, place)
        self.name = file_system(place)
        self.root = place / "files"
        self.paths = [str(self.root / name) for name in corpus.names]

    def put(self, files: range, contents: Sequence[bytes]) -> None:
        made = ""
        for path, content in zip(self.paths[files.start : files.stop], contents, strict=True):
            directory = os.path.dirname(path)
            if directory != made:
                os.makedirs(directory, exist_ok=True)
                made = directory
            with open(path, "wb", buffering=0) as to:
                to.write(content)

    def contents(self, files: Sequence[int]) -> Iterator[Any]:
        paths = self.paths
        for file in files:
            with open(paths[file], "rb", buffering=0) as source:
                yield source.read()


class Archive(System):
    """One file with the contents one after the other; a dictionary in this process has their positions."""

    name = "indexed-archive"

    def __init__(self, corpus: Corpus, place: Path) -> None:
        super().__init__(corpus, place)
        self.positions: dict[str, tuple[int, int]] = {}
        self.file = os.open(place / "archive", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self.end = 0

    def put(self, files: range, contents: Sequence[bytes]) -> None:
        with open(self.file, "wb", closefd=False) as to:
            for name, content in zip(self.corpus.names[files.start : files.stop], contents, strict=True):
                to.write(content)
                self.positions[name] = (self.end, len(content))
                self.end += len(content)

    def contents(self, files: Sequence[int]) -> Iterator[Any]:
        names, positions, fd = self.corpus.names, self.positions, self.file
        for file in files:
            at, size = positions[names[file]]
            yield os.pread(fd, size, at)

    def close(self) -> None:
        os.close(self.file)


class Sqlite(System):
    """A table of names and contents."""

    name = "sqlite"

    def __init__(self, corpus: Corpus, place: Path) -> None:
        super().__init__(corpus, place)
        self.path = place / "table.sqlite"
        self.base = sqlite3.connect(self.path)
        self.base.execute("create table files (name text primary key, content blob) without rowid")

    def put(self, files: range, contents: Sequence[bytes]) -> None:
        rows = zip(self.corpus.names[files.start : files.stop], contents, strict=True)
        with self.base:
            self.base.executemany("insert into files values (?, ?)", rows)

    def contents(self, files: Sequence[int]) -> Iterator[Any]:
        names, execute = self.corpus.names, self.base.execute
        for file in files:
            yield execute("select content from files where name = ?", (names[file],)).fetchone()[0]

    def reopen(self) -> None:
        self.base.close()
        self.base = sqlite3.connect(self.path)

    def close(self) -> None:
        self.base.close()


class Lmdb(System):
    """A table of LMDB, by the package `lmdb`."""

    name = "lmdb"

    def __init__(self, corpus: Corpus, place: Path) -> None:
        super().__init__(corpus, place)
        self.size = 4 * sum(corpus.sizes) + len(corpus.sizes) * 8192 + (64 << 20)
        self.keys = [name.encode() for name in corpus.names]
        self.open()

    def open(self) -> None:
        lmdb: Any = importlib.import_module("lmdb")
        self.base = lmdb.open(str(self.place / "lmdb"), map_size=self.size, sync=False, readahead=False)

    def put(self, files: range, contents: Sequence[bytes]) -> None:
        with self.base.begin(write=True) as change:
            for key, content in zip(self.keys[files.start : files.stop], contents, strict=True):
                change.put(key, content)

    def contents(self, files: Sequence[int]) -> Iterator[Any]:
        with self.base.begin() as state:
            for file in files:
                yield state.get(self.keys[file])

    def reopen(self) -> None:
        self.base.close()
        self.open()

    def close(self) -> None:
        self.base.close()


def file_system(path: Path) -> str:
    """The type of the file system that has a directory."""
    found = ("/", "host")
    with open("/proc/self/mounts") as mounts:
        for line in mounts:
            point, kind = line.split()[1:3]
            if path.resolve().is_relative_to(point) and len(point) >= len(found[0]):
                found = (point, kind)
    return found[1]


def make_timed(system: System) -> float:
    """Seconds to make all files; their contents are in memory before."""
    corpus, seconds = system.corpus, 0.0
    for first in range(0, len(corpus.names), MAKE_BATCH):
        files = range(first, min(first + MAKE_BATCH, len(corpus.names)))
        contents = [corpus.content(file) for file in files]
        begin = time.perf_counter()
        system.put(files, contents)
        seconds += time.perf_counter() - begin
    return seconds


def read_checked(system: System, files: Sequence[int]) -> None:
    """Reads files and checks each, off the clock."""
    for file, content in zip(files, system.contents(files), strict=True):
        if not system.corpus.is_right(file, content):
            raise ValueError(f"{system.name} gave a wrong content of {system.corpus.names[file]}")


def read_timed(system: System, files: Sequence[int]) -> float:
    """Seconds to read files; their lengths are summed."""
    begin = time.perf_counter()
    total = 0
    for content in system.contents(files):
        total += len(content)
    seconds = time.perf_counter() - begin
    if total != sum(system.corpus.sizes[file] for file in files):
        raise ValueError(f"{system.name} gave {total} bytes; its time means nothing")
    return seconds


def drop_caches() -> bool:
    """Makes the host forget what it has of files; only root may."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


class HostFolder:
    """A data set as torchvision's `ImageFolder` over files of the host, with the raw bytes of each."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.samples = [(path, hash(os.path.dirname(path))) for path in paths]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[bytes, int]:
        path, target = self.samples[index]
        with open(path, "rb", buffering=0) as source:
            return source.read(), target


def proportional_memory() -> float:
    """Memory of this process and its children in MiB; what several share counts in part for each."""
    pids = [os.getpid()]
    for task in Path("/proc/self/task").iterdir():
        pids += [int(pid) for pid in (task / "children").read_text().split()]
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def load_timed(data: Any, files: Sequence[int], workers: int) -> tuple[float, float]:
    """Seconds in which a `DataLoader` gives files, and the most memory seen meanwhile in MiB."""
    from torch.utils.data import DataLoader, Subset

    loader: Any = DataLoader(Subset(data, files), batch_size=BATCH, num_workers=workers, collate_fn=list)
    begin, most, count, looking = time.perf_counter(), 0.0, 0, 0.0
    for number, batch in enumerate(loader):
        count += len(batch)
        if number % 50 == 25:
            look = time.perf_counter()
            most = max(most, proportional_memory())
            looking += time.perf_counter() - look
    seconds = time.perf_counter() - begin - looking
    if count != len(files):
        raise ValueError(f"the loader gave {count} files of {len(files)}; its time means nothing")
    return seconds, most


class Bench:
    """The measurements of one run of the program."""

    def __init__(self, args: argparse.Namespace, place: Path) -> None:
        self.args = args
        self.corpus = Corpus(args.files)
        self.notes: list[str] = []
        self.rows: list[dict[str, Any]] = []
        kinds: list[type[System]] = [LaneFS, Host, Archive, Sqlite]
        if importlib.util.find_spec("lmdb"):
            kinds.append(Lmdb)
        else:
            self.notes.append("without LMDB: the package lmdb is not installed")
        self.systems: list[System] = []
        for kind in kinds:
            self.systems.append(kind(self.corpus, place))
        self.lane, self.host = self.systems[0], self.systems[1]

    def is_wanted(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self.args.rows)

    def say(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def measure(self) -> None:
        """Measures all rows."""
        seconds: dict[str, list[float]] = {}
        for system in self.systems:
            self.say(f"py-make: {system.name}")
            seconds[system.name] = [make_timed(system)]
            os.sync()
            read_checked(system, self.corpus.order[:: max(1, len(self.corpus.order) // 5000)])
        host = self.host.name
        self.add("py-make", len(self.corpus.order), seconds, [(host, 10.0)])
        order = self.corpus.order
        goals = [(host, 8.0), ("lmdb", 1.0)]
        self.alternate("py-read-warm", order, goals, lambda system, files: read_timed(system, files))
        if self.is_wanted("py-read-cold"):
            if drop_caches():
                self.alternate("py-read-cold", order[: max(1, len(order) // 10)], [(host, 1.0)], cold_timed)
            else:
                self.notes.append("without py-read-cold: only root may drop the host's caches")
        self.measure_loaders()

    def alternate(
        self,
        name: str,
        files: Sequence[int],
        goals: Sequence[tuple[str, float]],
        timed: Callable[[System, Sequence[int]], float],
    ) -> None:
        """Measures a row: all systems in turn, run by run, after a run that does not count."""
        if not self.is_wanted(name):
            return
        seconds: dict[str, list[float]] = {system.name: [] for system in self.systems}
        for run in range(self.args.runs + 1):
            for system in self.systems:
                self.say(f"{name}: run {run} of {self.args.runs}, {system.name}")
                took = timed(system, files)
                if run > 0:
                    seconds[system.name].append(took)
        self.add(name, len(files), seconds, goals)

    def measure_loaders(self) -> None:
        names = [f"py-loader-{workers}w" for workers in WORKERS]
        if not any(map(self.is_wanted, names)):
            return
        if not importlib.util.find_spec("torch"):
            self.notes.append("without py-loader-*: the package torch is not installed")
            return
        from lanefs.torch import FolderDataset

        assert isinstance(self.lane, LaneFS) and isinstance(self.host, Host)
        self.lane.reopen()
        lane = FolderDataset(self.lane.volume, loader=bytes, extensions=None)
        data = {self.lane.name: lane, self.host.name: HostFolder(self.host.paths)}
        for workers, name in zip(WORKERS, names, strict=True):
            if not self.is_wanted(name):
                continue
            seconds: dict[str, list[float]] = {system: [] for system in data}
            memory = dict.fromkeys(data, 0.0)
            for run in range(self.args.runs + 1):
                for system, of in data.items():
                    self.say(f"{name}: run {run} of {self.args.runs}, {system}")
                    took, most = load_timed(of, self.corpus.order, workers)
                    memory[system] = max(memory[system], most)
                    if run > 0:
                        seconds[system].append(took)
            extra = {f"{system}_memory_mib": round(most, 1) for system, most in memory.items()}
            self.add(name, len(self.corpus.order), seconds, [(self.host.name, 5.0)], extra, workers=workers)

    def add(
        self,
        name: str,
        files: int,
        seconds: dict[str, list[float]],
        goals: Iterable[tuple[str, float]],
        extra: dict[str, float] | None = None,
        **params: int,
    ) -> None:
        """Adds a row."""
        if not self.is_wanted(name):
            return

        def summary(system: str) -> dict[str, float]:
            values = [1e6 * value / files for value in seconds[system]]
            return {"median": statistics.median(values), "min": min(values), "max": max(values), "runs": len(values)}

        values = {system: summary(system) for system in seconds}
        own = values.pop(self.lane.name)
        ratio = {peer: value["median"] / own["median"] for peer, value in values.items()}
        reached = [
            {"text": f"{peer} >= {least:g}", "reached": ratio[peer] >= least} for peer, least in goals if peer in ratio
        ]
        self.rows.append(
            {
                "name": name,
                "params": {"files": files, **params},
                "unit": "us/file",
                "better": "less",
                "lanefs": own,
                "peers": values,
                "ratio": ratio,
                "extra": extra or {},
                "goals": reached,
                "notes": [],
            }
        )

    def report(self) -> dict[str, Any]:
        """The object for machines, as `docs/benchmarks.md` describes it."""
        with open("/proc/cpuinfo") as info:
            models = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
        return {
            "bench": "python",
            "commit": "",
            "machine": {
                "processor": models[0] if models else "",
                "cores": len(os.sched_getaffinity(0)),
                "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                "kernel": f"{platform.system()} {platform.release()}",
                "gpu": "",
                "last_level_cache": 0,
            },
            "notes": [f"Python {platform.python_version()}, lanefs {lanefs.__version__}", *self.notes],
            "rows": self.rows,
        }

    def close(self) -> None:
        for system in self.systems:
            system.close()


def cold_timed(system: System, files: Sequence[int]) -> float:
    """Seconds to read files of which nothing is in memory."""
    system.reopen()
    drop_caches()
    return read_timed(system, files)


def table(report: dict[str, Any]) -> str:
    """The rows for people."""
    lines = ["us a file, median of all runs; x: LaneFS is so many times better"]
    for row in report["rows"]:
        peers = [
            f"{peer} {value['median']:.2f} ({row['ratio'][peer]:.2f}x)" for peer, value in row["peers"].items()
        ]
        lines.append(f"{row['name']:<16} lanefs {row['lanefs']['median']:.2f}  " + "  ".join(peers))
        lines += [f"    {name}: {value}" for name, value in row["extra"].items()]
        lines += [f"    goal {goal['text']}: {'yes' if goal['reached'] else 'NO'}" for goal in row["goals"]]
    return "\n".join(lines + [f"note: {note}" for note in report["notes"]])


def positive(text: str) -> int:
    """An argument that is a number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def main(words: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m lanefs.bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("--files", type=positive, default=300_000, help="number of files [default: 300000]")
    parser.add_argument("--runs", type=positive, default=3, help="runs of each row [default: 3]")
    parser.add_argument("--rows", metavar="GLOB", default="*", help="only rows whose name matches")
    parser.add_argument("--dir", type=Path, help="directory for all files; its file system is the peer [default: TMPDIR]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as one JSON object as well")
    args = parser.parse_args(words)
    try:
        place = Path(tempfile.mkdtemp(prefix="lanefs-bench-", dir=args.dir))
    except OSError as error:
        print(f"lanefs.bench: {error}", file=sys.stderr)
        return EXIT_ERROR
    try:
        bench = Bench(args, place)
        try:
            bench.measure()
        finally:
            bench.close()
            bench.say("")
        report = bench.report()
        print(table(report))
        if args.json:
            args.json.write_text(json.dumps(report) + "\n")
    except KeyboardInterrupt:
        return EXIT_STOPPED
    except (OSError, ValueError, sqlite3.Error) as error:
        print(f"lanefs.bench: {error}", file=sys.stderr)
        return EXIT_ERROR
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main())
