"""Volumes as file systems of fsspec, with the protocol `lanefs`.

    pandas.read_csv("lanefs://tables/a.csv", storage_options={"fo": "data.lane"})
    frame.to_csv("lanefs://tables/a.csv", storage_options={"fo": "data.lane", "writable": True})
    fsspec.open("lanefs://tables/a.csv::data.lane")

`fo` is the path of the volume, and `writable` allows to write. The whole package of fsspec is needed only by
programs that import this module.
"""

from __future__ import annotations

import datetime
import errno
import os
import re
import weakref
from collections.abc import Sequence
from glob import has_magic
from multiprocessing import util
from typing import Any

from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from lanefs._file import BUFFER, RawFile, TextWriter, Writer
from lanefs._lookup import Kind, Lookup
from lanefs._volume import Mode, Volume

_COLUMNS = ("ino", "kind", "mode", "nlink", "uid", "gid", "size", "mtime_ns", "btime_ns")
_SLASHES = re.compile("/+")
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
        *,
        writable: bool = False,
        **options: Any,
    ) -> None:
        """Opens the volume at the path `fo`, or takes an open one, which then is closed by its owner.

        With `writable` the first write opens the volume for writing; until then other processes may read it.
        `mode` is that of `lanefs.Volume.open`, for one that is open for writing from the beginning (`r+`).
        fsspec's functions that take a URL keep an argument `mode` for themselves, so say `writable` there.
        """
        super().__init__(fo, mode, target_protocol, target_options, writable=writable, **options)
        if target_protocol not in (None, "file", "local"):
            raise ValueError(f"a volume is a local file, and target_protocol is {target_protocol!r}")
        self._given = fo if isinstance(fo, Volume) else None
        self._fo = "" if isinstance(fo, Volume) else _local(fo)
        self._mode: Mode = mode
        self._is_writable = writable
        self._opened: Volume | None = None
        self._pid = os.getpid()
        # An image that is not there is an error now.
        self._for(mode)

    @property
    def volume(self) -> Volume:
        """The volume. All file systems of an image in a process share one, whatever thread made them."""
        return self._for("r")

    def close(self) -> None:
        """Makes all changes durable, and closes the volume; the next use opens it again.

        The volume is closed for other processes when all who have it open in this one have closed it. The end
        of the process closes it, too, unless a signal ends the process.
        """
        if self._opened is not None and self._pid == os.getpid():
            self._opened.close()
        self._opened = None

    def _for(self, mode: Mode) -> Volume:
        """The volume, open for a use that needs this mode."""
        if self._given is not None:
            return self._given
        opened = self._opened
        # A child of a fork begins with nothing that is open: the volume may be the parent's to write.
        if opened is None or opened.closed or self._pid != os.getpid():
            opened = Volume.open(self._fo, self._mode)
        if mode != "r" and opened.mode == "r" and self._is_writable:
            # Files that are open have the handle that they were opened by.
            opened = Volume.open(self._fo, "r+")
        if opened is not self._opened:
            if opened.mode != "r":
                _close_at_exit(opened)
            self._opened, self._pid = opened, os.getpid()
        return opened

    def _to_write(self, path: str) -> Volume:
        """The volume, for a change of a path."""
        volume = self._for("r+")
        if volume.mode == "r" and self._given is None:
            text = "the volume is open for reading only; give the file system the argument writable=True"
            raise OSError(errno.EROFS, text, path)
        return volume

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
        return "/" + _SLASHES.sub("/", text).strip("/")

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path."""
        return f"lanefs://{self._strip_protocol(name)}"

    # Looking.

    def _infos(self, paths: list[str]) -> list[dict[str, Any] | OSError]:
        """Looks paths up. A symbolic link has the attributes of its target, or its own if it leads nowhere."""
        found = self.volume.resolve(paths, _COLUMNS, follow=False)
        errors = found.errors()
        links = [at for at, kind in enumerate(found.kind.tolist()) if kind == Kind.SYMLINK]
        targets = self.volume.resolve([paths[at] for at in links], _COLUMNS)
        target_of = {at: row for row, at in enumerate(links)}
        infos: list[dict[str, Any] | OSError] = []
        for at, path in enumerate(paths):
            if at in errors:
                infos.append(errors[at])
                continue
            row = target_of.get(at)
            if row is None or not targets.exists[row]:
                info = _info(path, found, at)
            else:
                info = _info(path, targets, row)
            if row is not None:
                info["islink"], info["destination"] = True, self.volume.readlink(path)
            infos.append(info)
        return infos

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """The attributes of a file or directory; for a link those of its target, with `destination`."""
        (info,) = self._infos([self._strip_protocol(path)])
        if isinstance(info, OSError):
            raise info
        return info

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """The entries of a directory; of a file its own. The type of a link to a directory is `other`.

        So `find`, `walk` and all that use them descend into no link.
        """
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
        infos = [info for info in self._infos(paths) if not isinstance(info, OSError)]
        for info in infos:
            if info["islink"] and info["type"] == "directory":
                info["type"] = "other"
        return infos

    def exists(self, path: str, **_: Any) -> bool:
        """True if the path names a file."""
        return self.volume.exists(self._strip_protocol(path))

    def lexists(self, path: str, **_: Any) -> bool:
        """True if the path names a file, or a link that leads nowhere."""
        return bool(self.volume.resolve([self._strip_protocol(path)], (), follow=False).exists[0])

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
        volume = self._to_write(path) if set(mode) & set("wxa+") else self.volume
        if self.auto_mkdir and "r" not in mode:
            volume.makedirs(self._parent(path))
        if not autocommit and ("w" in mode or "x" in mode):
            return _NewFile(volume, path, mode)
        return volume.open_file(path, mode if "b" in mode else mode + "b")

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
        volume = self._to_write(path)
        volume.makedirs(self._parent(path))
        if mode == "create":
            for error in volume.write_many([path], [value]).values():
                raise error
        else:
            volume.write_file(path, value)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Makes a directory."""
        path = self._strip_protocol(path)
        volume = self._to_write(path)
        if create_parents:
            volume.makedirs(self._parent(path))
        volume.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a directory and the missing ones above it."""
        path = self._strip_protocol(path)
        if not exist_ok and self.volume.exists(path):
            raise FileExistsError(errno.EEXIST, "exists already", path)
        self._to_write(path).makedirs(path)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        path = self._strip_protocol(path)
        self._to_write(path).rmdir(path)

    def rm_file(self, path: str) -> None:
        """Removes a file, or a symbolic link."""
        path = self._strip_protocol(path)
        self._to_write(path).remove(path)

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, and with `recursive` trees."""
        if not recursive or maxdepth is not None:
            for name in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
                # A link to a directory is a name like any other.
                is_directory = self.volume.stat(name, follow=False).is_dir()
                self.rmdir(name) if is_directory else self.rm_file(name)
            return
        for name in self.expand_path(path):
            self._to_write(name).rmtree(name)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copies a file, or makes a directory like another one. A file under another name stays as it is."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        volume = self._to_write(target)
        if self.isdir(source):
            volume.makedirs(target)
            return
        inodes = volume.resolve([source, target], ["ino"])
        if inodes.exists.all() and inodes.ino[0] == inodes.ino[1]:
            return
        with self._open(source, "rb") as reader, self.open(target, "wb") as writer:
            while piece := reader.read(self.blocksize):
                writer.write(piece)

    def mv(
        self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **_: Any
    ) -> None:
        """Renames a file or a tree; into `path2` where that is a directory.

        `path1` may be a pattern or a list, and `path2` then is a directory or a list.
        """
        if isinstance(path1, list) and isinstance(path2, list):
            for one, other in zip(path1, path2, strict=True):
                self._mv_one(self._strip_protocol(one), self._strip_protocol(other))
            return
        target = self._strip_protocol(path2)
        if isinstance(path1, list) or (has_magic(path1) and not self.lexists(path1)):
            for source in self.expand_path(path1):
                self._mv_one(source, os.path.join(target, os.path.basename(source)))
            return
        source = self._strip_protocol(path1)
        is_into = self.isdir(target) and source != target
        self._mv_one(source, os.path.join(target, os.path.basename(source)) if is_into else target)

    def _mv_one(self, source: str, target: str) -> None:
        volume = self._to_write(source)
        # A source that is missing leaves no directory for it.
        volume.stat(source, follow=False)
        if source != target:
            volume.makedirs(self._parent(target))
            volume.replace(source, target)

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        """Makes an empty file, or empties one; without `truncate` sets the times of one to now."""
        path = self._strip_protocol(path)
        if not truncate and self.exists(path):
            self._to_write(path).utime(path)
            return
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


#: Volumes that are open for writing, and are closed when the process ends.
_writing: weakref.WeakSet[Volume] = weakref.WeakSet()


def _close_at_exit(volume: Volume) -> None:
    """Closes a volume when this process ends, be it a worker of `multiprocessing`."""
    if not _writing:
        util.Finalize(None, _close_all, exitpriority=0)
    _writing.add(volume)


def _close_all() -> None:
    for volume in list(_writing):
        volume.close()


def _forget_all() -> None:
    """In a child of a fork nothing is open."""
    _writing.clear()


os.register_at_fork(after_in_child=_forget_all)


def _info(path: str, answers: Lookup, row: int) -> dict[str, Any]:
    """The attributes of a file, as fsspec names them."""
    info = {name: int(getattr(answers, name)[row]) for name in _COLUMNS}
    kind = Kind(info.pop("kind"))
    return {
        "name": path,
        "type": _TYPES.get(kind, "other"),
        "islink": kind == Kind.SYMLINK,
        **info,
        "size": info["size"] if kind == Kind.FILE else 0,
        "mtime": info.pop("mtime_ns") / 1e9,
        "created": info.pop("btime_ns") / 1e9,
    }


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
