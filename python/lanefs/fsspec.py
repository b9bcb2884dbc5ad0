"""Volumes as file systems of fsspec, with the protocol `lanefs`.

    pandas.read_csv("lanefs://tables/a.csv", storage_options={"fo": "data.lane"})
    fsspec.open("lanefs://tables/a.csv::data.lane")

`fo` is the path of the volume, `mode` that of `lanefs.Volume.open`. The whole package of fsspec is needed only
by programs that import this module.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from typing import Any

from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from lanefs._file import BUFFER, RawFile, TextWriter, Writer
from lanefs._lookup import Kind
from lanefs._volume import Mode, Volume

_COLUMNS = ("ino", "kind", "mode", "nlink", "uid", "gid", "size", "mtime_ns", "btime_ns")
_TYPES = {Kind.FILE: "file", Kind.DIRECTORY: "directory"}


class LaneFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """A volume. `cat`, `cat_ranges`, `ls` and all that is made of them read in batches."""

    protocol = "lanefs"
    root_marker = "/"

    def __init__(
        self,
        fo: str | os.PathLike[str] | Volume = "",
        mode: Mode = "r",
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Opens the volume at the path `fo`, or takes an open one, which then is closed by its owner."""
        super().__init__(fo, mode, target_protocol, target_options, **options)
        if target_protocol not in (None, "file", "local"):
            raise ValueError(f"a volume is a local file, and target_protocol is {target_protocol!r}")
        #: The volume.
        self.volume: Volume = fo if isinstance(fo, Volume) else Volume.open(_local(fo), mode)

    @classmethod
    def of(cls, volume: Volume) -> LaneFileSystem:
        """The file system of an open volume."""
        return cls(volume, skip_instance_cache=True)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = stringify_path(path)
        for prefix in ("lanefs://", "lanefs::"):
            text = text.removeprefix(prefix)
        return "/" + text.strip("/")

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path."""
        return f"lanefs://{self._strip_protocol(name)}"

    # Looking.

    def _infos(self, paths: list[str]) -> list[dict[str, Any] | OSError]:
        """Looks paths up; a symbolic link that leads nowhere is itself."""
        found = self.volume.resolve(paths, _COLUMNS)
        errors = found.errors()
        links = self.volume.resolve([paths[at] for at in errors], _COLUMNS, follow=False)
        itself = {at: row for row, at in enumerate(errors) if links.exists[row]}
        infos: list[dict[str, Any] | OSError] = []
        for at, path in enumerate(paths):
            if at in errors and at not in itself:
                infos.append(errors[at])
                continue
            answers, row = (links, itself[at]) if at in itself else (found, at)
            info = {name: int(getattr(answers, name)[row]) for name in _COLUMNS}
            kind = Kind(info.pop("kind"))
            infos.append(
                {
                    "name": path,
                    "type": _TYPES.get(kind, "other"),
                    "islink": kind == Kind.SYMLINK,
                    **info,
                    "size": info["size"] if kind == Kind.FILE else 0,
                    "mtime": info.pop("mtime_ns") / 1e9,
                    "created": info.pop("btime_ns") / 1e9,
                }
            )
        return infos

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """The attributes of a file or directory."""
        (info,) = self._infos([self._strip_protocol(path)])
        if isinstance(info, OSError):
            raise info
        return info

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """The entries of a directory; of a file its own."""
        path = self._strip_protocol(path)
        try:
            names = self.volume.listdir(path)
        except NotADirectoryError:
            info = self.info(path)
            return [info] if detail else [path]
        paths = [os.path.join(path, name) for name in sorted(names)]
        if not detail:
            return paths
        # An entry that is removed meanwhile is left out.
        return [info for info in self._infos(paths) if not isinstance(info, OSError)]

    def exists(self, path: str, **_: Any) -> bool:
        """True if the path names a file."""
        return self.volume.exists(self._strip_protocol(path))

    def created(self, path: str) -> datetime.datetime:
        """The time of creation."""
        return _time(self.info(path)["created"])

    def modified(self, path: str) -> datetime.datetime:
        """The time of the last change."""
        return _time(self.info(path)["mtime"])

    # Reading.

    def open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> Any:
        """Opens a file. One for writing has its new content when it is closed, unless its block fails."""
        if "b" in mode:
            return super().open(path, mode, block_size, **options)
        text = {name: options.pop(name) for name in ("encoding", "errors", "newline") if name in options}
        return TextWriter(self.open(path, mode.replace("t", "") + "b", block_size, **options), **text)

    def _open(self, path: str, mode: str = "rb", autocommit: bool = True, **_: Any) -> Any:
        path = self._strip_protocol(path)
        if self.auto_mkdir and "r" not in mode:
            self.volume.makedirs(self._parent(path))
        if not autocommit and ("w" in mode or "x" in mode):
            return _NewFile(self.volume, path, mode)
        return self.volume.open_file(path, mode if "b" in mode else mode + "b")

    #: Opening a file for writing makes the directories above it.
    auto_mkdir = True

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """The content of a file, or a part of it."""
        (content,) = self.cat_ranges([path], [start], [end], on_error="raise")
        return content  # type: ignore[no-any-return]

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **_: Any) -> Any:
        """The contents of files, in one batch: a dictionary for a list, a pattern or a tree."""
        paths = self.expand_path(path, recursive=recursive)
        is_one = isinstance(path, (str, os.PathLike)) and paths == [self._strip_protocol(path)]
        files = self.volume.read(paths)
        errors = files.errors()
        if recursive:
            # A tree has directories, which have no content.
            errors_of_files = {at: e for at, e in errors.items() if not isinstance(e, IsADirectoryError)}
        else:
            errors_of_files = errors
        if errors_of_files and on_error == "raise":
            raise next(iter(errors_of_files.values()))
        contents: dict[str, Any] = {}
        for at, name in enumerate(paths):
            if at not in errors:
                contents[name] = bytes(files[at])
            elif at in errors_of_files and on_error == "return":
                contents[name] = errors_of_files[at]
        return contents[paths[0]] if is_one and not recursive else contents

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Parts of files, in one batch. A negative number counts from the end of the file."""
        names = [self._strip_protocol(path) for path in paths]
        begins, stops = _each(starts, len(names)), _each(ends, len(names))
        if len(begins) != len(names) or len(stops) != len(names):
            raise ValueError(f"{len(begins)} starts and {len(stops)} ends for {len(names)} paths")
        sizes = [0] * len(names)
        if any(number is not None and number < 0 for number in begins + stops):
            sizes = self.volume.resolve(names, ["size"]).size.tolist()
        ranges = []
        for begin, stop, size in zip(begins, stops, sizes):
            first = 0 if begin is None else begin if begin >= 0 else max(size + begin, 0)
            last = (1 << 62) if stop is None else stop if stop >= 0 else max(size + stop, 0)
            ranges.append((int(first), max(int(last) - int(first), 0)))
        files = self.volume.read(names, ranges=ranges)
        errors = files.errors()
        if errors and on_error == "raise":
            raise next(iter(errors.values()))
        return [errors[at] if at in errors else bytes(files[at]) for at in range(len(names))]

    # Writing.

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """Makes a file with this content, or replaces the content of one."""
        path = self._strip_protocol(path)
        if self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb") as file:
                file.write(value)
            return
        self.volume.makedirs(self._parent(path))
        if mode == "create":
            for error in self.volume.write_many([path], [value]).values():
                raise error
        else:
            self.volume.write_file(path, value)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Makes a directory."""
        path = self._strip_protocol(path)
        if create_parents:
            self.volume.makedirs(self._parent(path))
        self.volume.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a directory and the missing ones above it."""
        path = self._strip_protocol(path)
        if not exist_ok and self.volume.exists(path):
            raise FileExistsError(17, "exists already", path)
        self.volume.makedirs(path)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        self.volume.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        """Removes a file."""
        self.volume.remove(self._strip_protocol(path))

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, and with `recursive` trees."""
        if not recursive or maxdepth is not None:
            for name in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
                self.rmdir(name) if self.isdir(name) else self.rm_file(name)
            return
        for name in self.expand_path(path):
            self.volume.rmtree(name)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copies a file, or makes a directory like another one."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(source):
            self.volume.makedirs(target)
            return
        with self._open(source, "rb") as reader, self.open(target, "wb") as writer:
            while piece := reader.read(self.blocksize):
                writer.write(piece)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **_: Any) -> None:
        """Renames a file or a tree; into `path2` where that is a directory."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(target):
            target = os.path.join(target, os.path.basename(source))
        self.volume.makedirs(self._parent(target))
        self.volume.replace(source, target)

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        """Makes an empty file, or empties one."""
        with self.open(path, "wb" if truncate else "ab"):
            pass


class _Held(RawFile):
    """A file whose new content waits for the end of a transaction."""

    def _end(self) -> None:
        pass

    def commit(self) -> None:
        """Puts the content in its place, unless it was discarded."""
        self._file.close()


class _NewFile(Writer):
    """A file of a transaction: its content takes its place when the transaction ends."""

    def __init__(self, volume: Volume, path: str, mode: str) -> None:
        self._held = _Held(volume._volume, path, mode.replace("b", ""))
        super().__init__(self._held, BUFFER)

    def commit(self) -> None:
        """Puts the content in its place."""
        self.close()
        self._held.commit()


def _each(numbers: Any, count: int) -> list[int | None]:
    """One number for all, or one for each."""
    return list(numbers) if hasattr(numbers, "__iter__") else [numbers] * count


def _local(fo: Any) -> str:
    """The path of a local file, from a path or a URL."""
    path: str = os.fspath(fo)
    for prefix in ("file://", "local://"):
        path = path.removeprefix(prefix)
    if not path:
        raise ValueError("fo is missing: the path of the volume")
    return path


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
