"""Volumes in a Ray cluster: publications that tasks build, and files as a data set.

    lanefs.ray.publish({"/2025": "/data/2025", "/2026": "/data/2026"}, "s3://bucket/photos")
    lanefs.ray.read_files("/2026", "s3://bucket/photos").map_batches(decode)

Ray is needed only by programs that import this module.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanefs._batches import Paths, path_set
from lanefs._errors import error_of
from lanefs._lanefs import PathSet
from lanefs._lookup import COLUMNS, Kind
from lanefs._transfer import count_tree
from lanefs._volume import Volume

try:
    import pyarrow
    import ray
    from ray.data import Dataset, Datasource
    from ray.data.block import BlockMetadata
    from ray.data.datasource import ReadTask
except ImportError as error:
    raise ImportError("lanefs.ray needs Ray with its data sets: pip install 'ray[data]'") from error

#: Bytes of files in a block of a data set, about, and files in one at most.
_BLOCK_BYTES = 64 << 20
_BLOCK_FILES = 16384

#: Bytes of the volume of a shard beyond twice its content.
_SPARE_BYTES = 64 << 20


# Reading.


def read_files(
    paths: Paths | str,
    url: str | os.PathLike[str],
    *,
    columns: Sequence[str] = ("size", "mtime_ns"),
    override_num_blocks: int | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    **options: Any,
) -> Dataset:
    """Files of a volume as a data set: a row for each, with `path`, `content` and attributes.

    `url` is that of a publication, or the path of a volume that all nodes of the cluster have. `paths` are
    those of the files; a `str` is a directory, with all regular files below it. `columns` are names of
    `lanefs.COLUMNS`. `options` are those of `Volume.open`, such as `endpoint` and `cache_dir`;
    `override_num_blocks` and `ray_remote_args` are those of `ray.data`.

    Files of one directory are read together. A task reads its part again when its worker is lost; the other
    parts stay. A file that cannot be read is an `OSError`.
    """
    unknown = [column for column in columns if column not in COLUMNS]
    if unknown:
        raise ValueError(f"columns has {unknown[0]!r}, and there are: {', '.join(COLUMNS)}")
    source = FilesDatasource(paths, url, columns, options)
    return ray.data.read_datasource(
        source, override_num_blocks=override_num_blocks, ray_remote_args=ray_remote_args
    )


class FilesDatasource(Datasource):
    """Files of a volume, in parts of about the same number of bytes."""

    def __init__(
        self, paths: Paths | str, url: str | os.PathLike[str], columns: Sequence[str], options: dict[str, Any]
    ) -> None:
        """Looks the files up, in one batch."""
        super().__init__()
        self._columns = tuple(columns)
        with Volume.open(url, **options) as volume:
            # Workers read the version that was looked up.
            self._open = functools.partial(_volume, volume.path, tuple(sorted(options.items())))
            if isinstance(paths, str):
                paths = list(volume.find(paths, kind=Kind.FILE))
            found_paths = path_set(paths)
            found = volume.resolve(found_paths, ["size", "ino"])
            failed = found.errors()
            if failed:
                raise next(iter(failed.values()))
        order = _by_directory(found_paths, found.ino)
        self._paths = found_paths.take(order)
        self._sizes: NDArray[np.int64] = found.size[order]

    def get_name(self) -> str:
        """The name of the source in plans of Ray."""
        return "LaneFS"

    def estimate_inmemory_data_size(self) -> int | None:
        """The bytes of all files."""
        return int(self._sizes.sum())

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """One task for each part."""
        tasks = []
        for start, end in _parts(self._sizes, max(parallelism, 1)):
            metadata = BlockMetadata(
                num_rows=end - start,
                size_bytes=int(self._sizes[start:end].sum()),
                exec_stats=None,
                input_files=None,
            )
            part = functools.partial(
                _read, self._open, self._paths[start:end], self._sizes[start:end], self._columns
            )
            tasks.append(ReadTask(part, metadata, per_task_row_limit=per_task_row_limit))
        return tasks


@functools.cache
def _volume(path: str, options: tuple[tuple[str, Any], ...]) -> Volume:
    """The volume of this process, which is one of several that read it."""
    return Volume.open(path, **{"shared": True, **dict(options)})


def _by_directory(paths: PathSet, inos: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The order of paths by directory, and in a directory by inode number, which is that of the device."""
    numbers: dict[str, int] = {}
    directories = [numbers.setdefault(os.path.dirname(path), len(numbers)) for path in paths]
    return np.lexsort((inos, np.array(directories, np.int64))).astype(np.uint32)


def _parts(sizes: NDArray[np.int64], parts: int) -> Iterator[tuple[int, int]]:
    """Ranges of files of about the same number of bytes."""
    count = len(sizes)
    # A file costs something beside its bytes.
    ends = np.cumsum(sizes + 4096)
    parts = min(parts, count)
    bounds = [0]
    for part in range(1, parts):
        wanted = int(np.searchsorted(ends, ends[-1] * part // parts)) + 1
        bounds.append(min(max(wanted, bounds[-1] + 1), count - (parts - part)))
    bounds.append(count)
    return zip(bounds, bounds[1:]) if count else iter(())


def _read(
    open_volume: Any, paths: PathSet, sizes: NDArray[np.int64], columns: tuple[str, ...]
) -> Iterator[pyarrow.Table]:
    """Reads a part, block by block."""
    volume: Volume = open_volume()
    start = 0
    while start < len(paths):
        bytes_ = np.cumsum(sizes[start : start + _BLOCK_FILES])
        files = max(int(np.searchsorted(bytes_, _BLOCK_BYTES, side="right")), 1)
        block = paths[start : start + files]
        start += files
        contents = volume.read(block)
        failed = np.flatnonzero(contents.codes)
        if len(failed):
            raise error_of(int(contents.codes[failed[0]]), block[int(failed[0])])
        table = pyarrow.table(volume.resolve(block, columns)).drop_columns(["exists"])
        yield table.append_column("content", pyarrow.table(contents)["content"])


# Publishing.


def publish(
    sources: Mapping[str, str | os.PathLike[str]],
    url: str,
    *,
    family: str | None = None,
    endpoint: str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    max_retries: int = 3,
    program: str | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Publishes many trees as one publication: a task builds each, and a join puts them together.

    `sources` has the directory of the host for each path of the publication, such as `{"/2026":
    "/data/2026"}`; each node that runs a task needs the directory. `url` is that of the publication, with a
    tag after `#`; a shard that its join has at one of the paths is replaced, and the others stay. A task that
    fails, or whose worker is lost, is tried again `max_retries` times. Nothing is visible before the join,
    which is one step.

    `family` is that of the volumes, by default the store of `url`: only volumes of one family can be joined.
    `scratch` is a directory on the nodes for the volumes of tasks, which need as much space as their content.
    `program` is the program `lanefs` on all nodes, by default the one of the package or of `PATH`. The answer
    is the report of the join.
    """
    if not sources:
        raise ValueError("sources is empty; give a directory for each path of the publication")
    tool = program or _program()
    store = url.partition("#")[0]
    build = ray.remote(max_retries=max_retries, retry_exceptions=True, **(ray_remote_args or {}))(_build)
    scratch = None if scratch is None else os.fspath(scratch)
    shards = [
        build.remote(tool, os.fspath(source), prefix, store, family or store, endpoint, scratch)
        for prefix, source in sources.items()
    ]
    receipts = ray.get(shards)
    joined = _run([tool, "join", url, "-", "--json", *_endpoint(endpoint)], "".join(receipts))
    report: dict[str, Any] = json.loads(joined)
    return report


def _build(
    tool: str, source: str, prefix: str, store: str, family: str, endpoint: str | None, scratch: str | None
) -> str:
    """Builds and publishes a shard, and returns its receipt, a line of JSON."""
    with tempfile.TemporaryDirectory(prefix="lanefs-", dir=scratch) as directory:
        image = os.path.join(directory, "shard.lane")
        counts = count_tree(source)
        size = 2 * counts.bytes + 8192 * (counts.files + counts.directories) + _SPARE_BYTES
        _run([tool, "mkfs", image, "--size", str(size), "--family", family, "-q"])
        _run([tool, "import", image, source, "/"])
        return _run([tool, "publish", image, store, "--prefix", prefix, *_endpoint(endpoint)])


def _endpoint(endpoint: str | None) -> list[str]:
    return [] if endpoint is None else ["--endpoint", endpoint]


def _program() -> str:
    """The program `lanefs`."""
    found = shutil.which("lanefs")
    if found is None:
        raise FileNotFoundError("the program lanefs is not in PATH; give its path as program")
    return found


def _run(command: list[str], text: str | None = None) -> str:
    """Runs the program, and returns its output."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command[:2])} failed with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
