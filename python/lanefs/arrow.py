"""Volumes as file systems of pyarrow, for data sets of pyarrow, pandas, Polars, DuckDB and Ray.

    fs = lanefs.arrow.filesystem("data.lane")
    pyarrow.dataset.dataset("tables", filesystem=fs, format="parquet").to_table()

Information about many files, and a listing of a tree, are one batch each. pyarrow is needed only by programs
that import this module.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Sequence
from typing import Any

from lanefs._errors import check_names_none
from lanefs._lanefs import PathSet
from lanefs._lookup import Kind, Lookup
from lanefs._volume import Engine, Volume

try:
    import pyarrow
    from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, PyFileSystem
except ImportError as error:
    raise ImportError("lanefs.arrow needs pyarrow: pip install pyarrow") from error

#: Bytes of a file up to which opening it reads it.
_SMALL_BYTES = 1 << 20

_TYPES = {Kind.FILE: FileType.File, Kind.DIRECTORY: FileType.Directory}


def filesystem(
    volume: str | os.PathLike[str] | Volume,
    *,
    writable: bool = False,
    engine: Engine = "auto",
    cache: int | None = None,
    endpoint: str | None = None,
) -> PyFileSystem:
    """The file system of a volume: an open one, the path of one, or the URL of a publication.

    `writable` opens the volume at a path for writing; nothing else has it open then. The file system of a
    path or a URL can be pickled, and is opened again by the other process. `filesystem(...).handler.volume`
    is the volume, and `close` of that closes it.
    """
    if not isinstance(volume, Volume):
        mode = "r+" if writable else "r"
        volume = Volume.open(volume, mode, engine=engine, cache=cache, endpoint=endpoint)  # type: ignore[arg-type]
    elif writable and volume.mode == "r":
        raise ValueError("the volume is open for reading; open it with mode 'r+'")
    return PyFileSystem(VolumeHandler(volume))


class VolumeHandler(FileSystemHandler):  # type: ignore[misc]
    """What pyarrow calls for a volume. A path without a slash at its beginning begins at the root."""

    def __init__(self, volume: Volume) -> None:
        """Takes an open volume, which its owner closes."""
        #: The volume.
        self.volume = volume

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VolumeHandler) and (
            self.volume is other.volume
            or (self.volume.path, self.volume.mode) == (other.volume.path, other.volume.mode)
            and self.volume.path != "memory"
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.volume.path)

    def __reduce__(self) -> tuple[Any, ...]:
        return VolumeHandler, (self.volume,)

    def get_type_name(self) -> str:
        """The name of the kind of file system."""
        return "lanefs"

    def normalize_path(self, path: str) -> str:
        """The path without doubled slashes, `.`, and a slash at its end."""
        if not path:
            return path
        normal = posixpath.normpath(path)
        # A path with two slashes at its beginning keeps them there.
        normal = normal[1:] if normal.startswith("//") else normal
        return "" if normal == "." else normal

    # Information.

    def get_file_info(self, paths: Sequence[str]) -> list[FileInfo]:
        """What the paths name, in one batch. Symbolic links are followed."""
        found = self.volume.resolve([path or "/" for path in paths], ["kind", "size", "mtime_ns"])
        return _infos(paths, found)

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        """What is in a directory, or in the tree below it: one walk, then one batch.

        No symbolic link is entered. A name that is not UTF-8 is an `OSError`: no call of pyarrow takes it.
        """
        top = selector.base_dir
        try:
            listed = [(top, self.volume.entries(top or "/"))]
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        directories: list[str] = []
        names: list[str] = []
        while listed:
            directory, entries = listed.pop()
            directories += [directory] * len(entries)
            names += [name for name, _ in entries]
            if not selector.recursive:
                continue
            for name, kind in entries:
                if kind == Kind.DIRECTORY:
                    below = _join(directory, name)
                    try:
                        listed.append((below, self.volume.entries(below)))
                    except FileNotFoundError:
                        # It was removed meanwhile.
                        continue
        found = self.volume.resolve(PathSet.under(directories, names), ["kind", "size", "mtime_ns"])
        paths = [_join(directory, name) for directory, name in zip(directories, names)]
        for path in paths:
            _check_utf8(path)
        # A name that was removed meanwhile is left out, and so is a link that leads nowhere.
        return [info for info in _infos(paths, found) if info.type != FileType.NotFound]

    # Reading.

    def open_input_file(self, path: str) -> pyarrow.NativeFile:
        """Opens a file for random access. The content of a small one is read now, by one call."""
        if self.volume.stat(path).st_size <= _SMALL_BYTES:
            # A batch of one; the whole file, should it have grown.
            return pyarrow.BufferReader(pyarrow.py_buffer(self.volume.read([path])[0]))
        return pyarrow.PythonFile(self.volume.open_file(path, "rb", buffering=0), mode="r")

    def open_input_stream(self, path: str) -> pyarrow.NativeFile:
        """Opens a file for reading from its beginning on."""
        return self.open_input_file(path)

    # Writing.

    def open_output_stream(self, path: str, metadata: Any = None) -> pyarrow.NativeFile:
        """Opens a new file, or a new content for one that is there, which it gets at `close`."""
        return pyarrow.PythonFile(self.volume.open_file(path, "wb"), mode="w")

    def open_append_stream(self, path: str, metadata: Any = None) -> pyarrow.NativeFile:
        """Opens a file for writing at its end."""
        return pyarrow.PythonFile(self.volume.open_file(path, "ab"), mode="w")

    # Names.

    def create_dir(self, path: str, recursive: bool) -> None:
        """Makes a directory, with `recursive` those above it too. One that is there stays."""
        if recursive:
            self.volume.makedirs(path or "/")
        elif not self.volume.isdir(path or "/"):
            self.volume.mkdir(path)

    def delete_dir(self, path: str) -> None:
        """Removes a directory with all that is in it; never the root."""
        self._check_not_root(path)
        self._check_directory(path)
        self.volume.rmtree(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Removes all that is in a directory; not in the root, by whatever name."""
        self._check_not_root(path)
        if missing_dir_ok and not self.volume.exists(path):
            return
        self._delete_contents(path)

    def delete_root_dir_contents(self) -> None:
        """Removes all files and directories."""
        self._delete_contents("/")

    def _delete_contents(self, path: str) -> None:
        for name in self.volume.listdir(path):
            self.volume.rmtree(_join(path, name))

    def _check_not_root(self, path: str) -> None:
        """Refuses each path that leads to the root: an empty one, `.`, `a/..`, a symbolic link."""
        found = self.volume.resolve([path or "/", "/"], ["ino"])
        ino, root = found.ino.tolist()
        if not path.strip("/") or (found.codes[0] == 0 and ino == root):
            raise ValueError(
                f"{path!r} is the root; delete_dir_contents('/', accept_root_dir=True) empties it"
            )

    def _check_directory(self, path: str) -> None:
        if not self.volume.stat(path, follow=False).is_dir():
            # The error of a directory that is none.
            self.volume.listdir(path)
            raise NotADirectoryError(path)

    def delete_file(self, path: str) -> None:
        """Removes a file, or a symbolic link."""
        self.volume.remove(path)

    def move(self, src: str, dest: str) -> None:
        """Renames a file or directory, in place of a file or an empty directory of the other name."""
        self.volume.replace(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        """Copies a file, in place of the content of the other name, if any."""
        self.volume.copy(src, dest)


def _join(directory: str, name: str) -> str:
    """The path of a name, in the form that the directory was given in."""
    return f"{directory}{name}" if not directory or directory.endswith("/") else f"{directory}/{name}"


def _check_utf8(path: str) -> None:
    """Refuses a path with a name that is not UTF-8. A data set without that file would be a wrong one."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, "the name is not UTF-8, and pyarrow takes no other", path) from None


def _infos(paths: Sequence[str], found: Lookup) -> list[FileInfo]:
    """The answers of a batch, as pyarrow has them.

    A path is not found where it names no file; the first other error is raised.
    """
    columns = (found.codes, found.kind, found.size, found.mtime_ns)
    infos = []
    for path, code, kind, size, mtime_ns in zip(paths, *(column.tolist() for column in columns)):
        type_ = _TYPES.get(kind, FileType.Unknown)
        if code:
            check_names_none(code, path)
            infos.append(FileInfo(path, FileType.NotFound))
        elif type_ == FileType.File:
            infos.append(FileInfo(path, type_, size=size, mtime_ns=mtime_ns))
        else:
            infos.append(FileInfo(path, type_, mtime_ns=mtime_ns))
    return infos
