"""The calls of a volume for one path."""

from __future__ import annotations

import errno
import operator
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Union

from lanefs import _lanefs
from lanefs._errors import check_names_none, error_of
from lanefs._file import bytes_like
from lanefs._lanefs import PathSet
from lanefs._lookup import Kind, Stat, stat_of

#: One path.
Path = Union[str, bytes, "os.PathLike[str]"]


def check_least(least: int = 0, /, **numbers: int | None) -> None:
    """Checks arguments that are numbers, or None."""
    for name, number in numbers.items():
        if number is not None and not least <= operator.index(number) < 1 << 63:
            raise ValueError(f"{name} is {number}; it is at least {least}, and below 2**63")


def check_mode(mode: int) -> None:
    """Checks permissions."""
    if not 0 <= mode <= 0o7777:
        raise ValueError(f"mode is {mode:#o}; it is 0 to 0o7777")


def check_texts(texts: Sequence[str], name: str) -> list[str]:
    """Checks an argument that is several texts."""
    if isinstance(texts, str):
        raise TypeError(f"{name} is one text; give a list of them")
    return list(texts)


class PathCalls:
    """The calls for one path. A symbolic link in the last component is followed, where nothing else is said."""

    _volume: _lanefs.Volume

    def stat(self, path: Path, *, follow: bool = True) -> Stat:
        """The attributes of a file."""
        return stat_of(*self._volume.stat(os.fsencode(path), follow))

    def exists(self, path: Path) -> bool:
        """True if the path names a file.

        An error that leaves it open, such as that of a damaged directory, is an `OSError`, here and in `isfile`,
        `isdir` and `islink`.
        """
        return self._kind(path, follow=True) is not None

    def isfile(self, path: Path) -> bool:
        """True if the path names a regular file, as `os.path.isfile`."""
        return self._kind(path, follow=True) == Kind.FILE

    def isdir(self, path: Path) -> bool:
        """True if the path names a directory, as `os.path.isdir`."""
        return self._kind(path, follow=True) == Kind.DIRECTORY

    def islink(self, path: Path) -> bool:
        """True if the path names a symbolic link, as `os.path.islink`."""
        return self._kind(path, follow=False) == Kind.SYMLINK

    def _kind(self, path: Path, follow: bool) -> Kind | None:
        """The type of a file; None where the path names none."""
        name = os.fsdecode(path)
        columns = self._volume.resolve(PathSet([name]), ["code", "kind"], follow)
        code = int(columns["code"][0])
        if code:
            check_names_none(code, name)
            return None
        return Kind(int(columns["kind"][0]))

    def _kinds(self, paths: list[str], follow: bool) -> list[Kind | None]:
        """The types of files; None for each path without an answer."""
        columns = self._volume.resolve(PathSet(paths), ["code", "kind"], follow)
        pairs = zip(columns["code"].tolist(), columns["kind"].tolist())
        return [None if code else Kind(kind) for code, kind in pairs]

    def read_file(self, path: Path) -> bytes:
        """The whole content of a file."""
        content, _, codes = self._volume.read(PathSet([path]), None, 0)
        if codes[0]:
            raise error_of(int(codes[0]), os.fsdecode(path))
        return content.tobytes()

    def write_file(self, path: Path, content: bytes | bytearray | memoryview) -> None:
        """Makes a file with this content, or replaces the content of a file, in one step.

        Other threads, and a crash, see the old content or the new one. An error leaves the old one.
        """
        self._volume.write(os.fsencode(path), bytes(bytes_like(content, "content")))

    def listdir(self, path: Path = "/") -> list[str]:
        """The names in a directory, in no particular order."""
        return self._volume.list(os.fsencode(path))[0]

    def entries(self, path: Path = "/") -> list[tuple[str, Kind]]:
        """The names in a directory with their types, in no particular order."""
        names, kinds = self._volume.list(os.fsencode(path))
        return list(zip(names, map(Kind, kinds)))

    def walk(
        self,
        top: Path = "/",
        topdown: bool = True,
        onerror: Callable[[OSError], object] | None = None,
        followlinks: bool = False,
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        """Walks a tree as `os.walk` does: a directory, the names of directories in it, and of other files.

        Symbolic links to directories are among the directories, and entered with `followlinks` only; then a
        link that leads upwards never ends. With `topdown` the caller may change the list of directories.
        """
        # Not recursive: a tree may be deeper than Python's stack. A directory comes once more, with its
        # lists, where its own turn is after those below it.
        waiting: list[tuple[str, tuple[list[str], list[str]] | None]] = [(os.fsdecode(top), None)]
        while waiting:
            path, listed = waiting.pop()
            if listed is not None:
                yield path, *listed
                continue
            try:
                directories, others, links = self._split(path)
            except OSError as error:
                if onerror is not None:
                    onerror(error)
                continue
            if topdown:
                yield path, directories, others
            else:
                waiting.append((path, (directories, others)))
            below = [name for name in directories if followlinks or name not in links]
            waiting.extend((os.path.join(path, name), None) for name in reversed(below))

    def _split(self, path: str) -> tuple[list[str], list[str], set[str]]:
        """The names of directories and of other files in a directory, and the links among the first."""
        entries = self.entries(path)
        links = [name for name, kind in entries if kind == Kind.SYMLINK]
        kinds = self._kinds([os.path.join(path, name) for name in links], follow=True) if links else []
        entered = {name for name, kind in zip(links, kinds) if kind == Kind.DIRECTORY}
        directories = [name for name, kind in entries if kind == Kind.DIRECTORY or name in entered]
        others = [name for name, kind in entries if kind != Kind.DIRECTORY and name not in entered]
        return directories, others, entered

    # Names.

    def mkdir(self, path: Path, mode: int = 0o755) -> None:
        """Makes a directory."""
        check_mode(mode)
        self._volume.mkdir(os.fsencode(path), mode)

    def makedirs(self, path: Path, mode: int = 0o755, exist_ok: bool = True) -> None:
        """Makes a directory and the missing ones above it.

        One that exists stays as it is; without `exist_ok` it is a `FileExistsError`.
        """
        check_mode(mode)
        if not exist_ok:
            above = os.path.dirname(os.fsencode(path).rstrip(b"/"))
            if above.strip(b"/"):
                self._volume.makedirs(above, mode)
            self._volume.mkdir(os.fsencode(path), mode)
            return
        self._volume.makedirs(os.fsencode(path), mode)

    def remove(self, path: Path) -> None:
        """Removes a file, or a symbolic link."""
        self._volume.remove(os.fsencode(path))

    def rmdir(self, path: Path) -> None:
        """Removes an empty directory."""
        self._volume.rmdir(os.fsencode(path))

    def rmtree(self, path: Path) -> None:
        """Removes a file, or a directory with its whole content; an interrupt leaves a smaller tree."""
        self._volume.remove_all(os.fsencode(path))

    def rename(self, source: Path, target: Path) -> None:
        """Renames a file or directory; fails where the target exists."""
        self._volume.rename(os.fsencode(source), os.fsencode(target), False)

    def replace(self, source: Path, target: Path) -> None:
        """Renames a file or directory, in place of an existing file or empty directory."""
        self._volume.rename(os.fsencode(source), os.fsencode(target), True)

    def symlink(self, target: Path, path: Path) -> None:
        """Makes a symbolic link to `target`."""
        self._volume.symlink(os.fsencode(target), os.fsencode(path))

    def readlink(self, path: Path) -> str:
        """The target of a symbolic link."""
        return self._volume.readlink(os.fsencode(path))

    def chmod(self, path: Path, mode: int) -> None:
        """Sets the permissions of a file; the type in a `st_mode` does not matter."""
        check_least(mode=mode)
        self._volume.chmod(os.fsencode(path), mode & 0o7777)

    def utime(self, path: Path, *, ns: tuple[int, int] | None = None) -> None:
        """Sets the times of the last access and the last change, in nanoseconds since 1970; without, to now."""
        atime, mtime = ns if ns is not None else (time.time_ns(),) * 2
        self._volume.utime(os.fsencode(path), atime, mtime)

    def link(self, source: Path, path: Path) -> None:
        """Gives the file `source` the further name `path` (a hard link). A symbolic link is not followed."""
        _lanefs.hard_link(self._volume, os.fsencode(source), os.fsencode(path))

    def chown(self, path: Path, uid: int, gid: int) -> None:
        """Sets the owner and the group of a file; -1 leaves one as it is."""
        for name, number in (("uid", uid), ("gid", gid)):
            if not -1 <= operator.index(number) < (1 << 32) - 1:
                raise ValueError(f"{name} is {number}; it is -1, or 0 to 2**32 - 2")
        user, group = (None if number == -1 else number for number in (uid, gid))
        _lanefs.chown(self._volume, os.fsencode(path), user, group)

    def truncate(self, path: Path, length: int) -> None:
        """Cuts a file to this length in bytes, or extends it by a hole."""
        check_least(length=length)
        _lanefs.truncate(self._volume, os.fsencode(path), length)

    def copy(self, source: Path, target: Path) -> None:
        """Copies the content and the permissions of a file, in place of the content of `target`, if any.

        The content of `target` changes in one step. Two names of one file are a `shutil.SameFileError`.
        """
        if not _lanefs.copy_file(self._volume, os.fsencode(source), os.fsencode(target)):
            text = "source and target are the same file"
            raise shutil.SameFileError(errno.EINVAL, text, os.fsdecode(source), None, os.fsdecode(target))

    def getxattr(self, path: Path, attribute: str | bytes) -> bytes:
        """The value of an extended attribute, whose name begins with `user.`, for example."""
        return _lanefs.getxattr(self._volume, os.fsencode(path), os.fsencode(attribute))

    def setxattr(self, path: Path, attribute: str | bytes, value: bytes | bytearray | memoryview) -> None:
        """Sets an extended attribute."""
        content = bytes(bytes_like(value, "value"))
        _lanefs.setxattr(self._volume, os.fsencode(path), os.fsencode(attribute), content)

    def removexattr(self, path: Path, attribute: str | bytes) -> None:
        """Removes an extended attribute."""
        _lanefs.removexattr(self._volume, os.fsencode(path), os.fsencode(attribute))

    def listxattr(self, path: Path) -> list[str]:
        """The names of the extended attributes."""
        return _lanefs.listxattr(self._volume, os.fsencode(path))

    def statvfs(self) -> os.statvfs_result:
        """The space of the volume, as `os.statvfs`: free blocks, and inodes for which there are blocks."""
        size, blocks, free, inodes, free_inodes, longest = _lanefs.statvfs(self._volume)
        numbers = (size, size, blocks, free, free, inodes + free_inodes, free_inodes, free_inodes, 0, longest)
        return os.statvfs_result(numbers)

