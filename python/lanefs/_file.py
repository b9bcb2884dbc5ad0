"""Files of a volume as file objects.

In the modes w and x a file object writes a new content, which takes its place when the file object is closed.
Where its `with` block ends by an exception, the content is forgotten.
"""

from __future__ import annotations

import io
import os
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from lanefs import _lanefs

#: Bytes that a file object buffers.
BUFFER = 128 << 10


def bytes_like(data: Any, name: str) -> bytes | memoryview:
    """The bytes of an object with a buffer, without a copy where they are contiguous."""
    if isinstance(data, bytes):
        return data
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(f"{name} is {type(data).__name__}; it is bytes, or has a buffer") from None
    return view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes()


def writable_bytes(buffer: Any) -> NDArray[np.uint8]:
    """The bytes of a writable buffer, as an array."""
    if isinstance(buffer, np.ndarray):
        if not buffer.flags.c_contiguous:
            raise ValueError("buffer is an array that is not contiguous")
        memory = buffer.reshape(-1).view(np.uint8)
    else:
        memory = np.frombuffer(buffer, np.uint8)
    if not memory.flags.writeable:
        raise ValueError("buffer is read-only")
    return memory


class Discards:
    """A file object whose block discards its content when it ends by an exception."""

    def discard(self) -> None:
        """Closes the file without its new content."""
        raise NotImplementedError

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is not None:
            self.discard()
        super().__exit__(kind, *rest)  # type: ignore[misc]


class Sized:
    """A buffered file object that tells its size."""

    @property
    def size(self) -> int:
        """The bytes of the file, or of its new content, those in the buffer included."""
        return max(self.raw.size, self.tell())  # type: ignore[attr-defined, no-any-return]


class RawFile(Discards, io.RawIOBase):
    """An unbuffered file of a volume. Its position belongs to the object, which one thread uses at a time."""

    def __init__(self, volume: _lanefs.Volume, path: str | bytes | os.PathLike[str], mode: str) -> None:
        self._file = _lanefs.OpenFile.open(volume, os.fsencode(path), mode)
        self._position = 0
        self._reads = mode == "r" or "+" in mode
        self._writes = mode != "r"
        self._appends = mode.startswith("a")
        self.name = os.fspath(path)
        self.mode = mode
        if self._appends:
            self._position = self._file.size()

    @property
    def size(self) -> int:
        """The bytes of the file, or of its new content."""
        return self._file.size()

    def readable(self) -> bool:
        self._check()
        return self._reads

    def writable(self) -> bool:
        self._check()
        return self._writes

    def seekable(self) -> bool:
        self._check()
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.readable():
            raise io.UnsupportedOperation("not readable")
        memory = np.frombuffer(buffer, np.uint8)
        got = self._file.read_into(self._position, memory)
        self._position += got
        return got

    def readall(self) -> bytes:
        content = bytearray(max(self._file.size() - self._position, 0))
        del content[self.readinto(content) :]
        # A file that grows meanwhile has more.
        while more := self.read(BUFFER):
            content += more
        return bytes(content)

    def write(self, data: Any) -> int:
        if not self.writable():
            raise io.UnsupportedOperation("not writable")
        content = bytes(bytes_like(data, "data"))
        self._position = self._file.write(None if self._appends else self._position, content)
        return len(content)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check()
        if whence == os.SEEK_SET:
            target = offset
        elif whence == os.SEEK_CUR:
            target = self._position + offset
        elif whence == os.SEEK_END:
            target = self._file.size() + offset
        else:
            raise ValueError(f"whence is {whence}; it is 0, 1 or 2")
        if target < 0:
            raise ValueError(f"negative position {target}")
        self._position = target
        return target

    def tell(self) -> int:
        self._check()
        return self._position

    def truncate(self, size: int | None = None) -> int:
        if not self.writable():
            raise io.UnsupportedOperation("not writable")
        size = self._position if size is None else size
        if size < 0:
            raise ValueError(f"negative size {size}")
        self._file.truncate(size)
        return size

    def sync(self) -> None:
        """Makes the content durable."""
        self._check()
        if self.mode[0] in "wx":
            raise io.UnsupportedOperation("the content has no place before close; sync the volume after that")
        self._file.sync()

    def discard(self) -> None:
        self._file.discard()
        self.close()

    def close(self) -> None:
        try:
            super().close()
        finally:
            # A file that could not be opened has none.
            if hasattr(self, "_file"):
                self._end()

    def _end(self) -> None:
        """Puts a new content in its place."""
        self._file.close()

    def _check(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")


class Reader(io.BufferedReader):
    """A buffer for a file that is read."""

    raw: RawFile

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self.raw.size


class Changer(Sized, io.BufferedRandom):
    """A buffer for a file that changes in place."""


class Appender(Sized, io.BufferedWriter):
    """A buffer for what comes to the end of a file."""


class Writer(Sized, Discards, io.BufferedWriter):
    """A buffer for a new content."""

    raw: RawFile

    def discard(self) -> None:
        # The content of the buffer is not flushed, because the file is closed.
        self.raw.discard()


class ReadingWriter(Sized, Discards, io.BufferedRandom):
    """A buffer for a new content that is read, too."""

    raw: RawFile

    def discard(self) -> None:
        self.raw.discard()


class TextWriter(Discards, io.TextIOWrapper):
    """Text for a buffer."""

    def discard(self) -> None:
        if isinstance(self.buffer, Discards):
            self.buffer.discard()


def open_file(
    volume: _lanefs.Volume,
    path: str | bytes | os.PathLike[str],
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
) -> IO[Any]:
    """Opens a file as the function `open` of Python does."""
    letters = sorted(mode.replace("b", "").replace("t", ""))
    plain = "".join(letter for letter in "rwxa+" if letter in letters)
    is_binary = "b" in mode
    if sorted(plain) != letters or len(plain.replace("+", "")) != 1 or set("bt") <= set(mode):
        raise ValueError(f"mode is {mode!r}; it is one of r, w, x, a, with + for both ways, with b for bytes")
    if is_binary and (encoding is not None or errors is not None or newline is not None):
        raise ValueError("encoding, errors and newline are for text")
    if buffering == 0 and not is_binary:
        raise ValueError("text needs a buffer")
    raw = RawFile(volume, path, plain)
    if buffering == 0:
        return raw  # type: ignore[return-value]
    size = BUFFER if buffering in (-1, 1) else buffering
    buffered: Any
    if plain[0] in "wx":
        buffered = ReadingWriter(raw, size) if "+" in plain else Writer(raw, size)
    elif "+" in plain:
        buffered = Changer(raw, size)
    else:
        buffered = Reader(raw, size) if plain == "r" else Appender(raw, size)
    if is_binary:
        return buffered  # type: ignore[no-any-return]
    text = TextWriter(buffered, encoding, errors, newline, line_buffering=buffering == 1)
    text.mode = mode  # type: ignore[misc]
    return text
