"""The contents of many files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from lanefs._errors import error_of
from lanefs._lanefs import ArrowBatch, PathSet, Views


T = TypeVar("T")


class FileSequence(Sequence[memoryview]):
    """The contents of many files.

    `files[i]` is a `memoryview` of file `i`, or raises the `OSError` of a file that was not read.
    Iteration stops at the first such file; `errors()` has all of them.
    """

    __slots__ = ("codes", "paths")

    def __init__(self, paths: PathSet, codes: NDArray[np.uint8]) -> None:
        #: The paths, in the order of the files.
        self.paths = paths
        #: The result code of each file; 0 is success.
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> memoryview: ...
    @overload
    def __getitem__(self, index: slice) -> list[memoryview]: ...
    def __getitem__(self, index: int | slice) -> memoryview | list[memoryview]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._bytes(self._row(index))

    def _row(self, index: int) -> int:
        """The number of a file that was read."""
        count = len(self)
        at = index + count if index < 0 else index
        if not 0 <= at < count:
            raise IndexError(f"index {index} of {count} files")
        code = self.codes[at]
        if code:
            raise error_of(int(code), self.paths[at])
        return at

    def __iter__(self) -> Iterator[memoryview]:
        return (self[i] for i in range(len(self)))

    @overload
    def get(self, index: int) -> memoryview | None: ...
    @overload
    def get(self, index: int, default: T) -> memoryview | T: ...
    def get(self, index: int, default: Any = None) -> Any:
        """The bytes of file `index`, or `default` where it was not read."""
        try:
            return self[index]
        except OSError:
            return default

    def items(self) -> Iterator[tuple[str, memoryview]]:
        """The path and the bytes of each file that was read; `errors()` has the others."""
        read = np.flatnonzero(self.codes == 0).tolist()
        return ((self.paths[at], self._bytes(at)) for at in read)

    def to_bytes(self) -> list[bytes]:
        """Copies each file.

        Raises the `OSError` of the first file that was not read.
        """
        return [bytes(file) for file in self]

    def errors(self) -> dict[int, OSError]:
        """The exceptions of the files that were not read, by their index."""
        failed = np.flatnonzero(self.codes).tolist()
        return {at: error_of(int(self.codes[at]), self.paths[at]) for at in failed}

    def _bytes(self, at: int) -> memoryview:
        """The bytes of a file that was read."""
        raise NotImplementedError


class Files(FileSequence):
    """The contents of many files, one after the other in one buffer.

    `files[i]` is a `memoryview` of file `i`, or raises the `OSError` of a file that was not read.
    Iteration stops at the first such file; `errors()` has all of them.
    """

    __slots__ = ("_ends", "_view", "buffer", "offsets")

    def __init__(
        self,
        paths: PathSet,
        buffer: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        codes: NDArray[np.uint8],
    ) -> None:
        super().__init__(paths, codes)
        #: The bytes of all files.
        self.buffer = buffer
        #: File `i` lies from `offsets[i]` to `offsets[i + 1]` of the buffer.
        self.offsets = offsets
        self._view = buffer.data
        self._ends: list[int] = offsets.tolist()

    def _bytes(self, at: int) -> memoryview:
        return self._view[self._ends[at] : self._ends[at + 1]]

    def __reduce__(self) -> tuple[Any, ...]:
        return Files, (self.paths, self.buffer, self.offsets, self.codes)

    def as_arrow(self) -> ArrowBatch:
        """The files as columns of Arrow: `path`, `code` and `content`.

        Only the offsets are copied, 8 bytes a file. The content of a file that was not read is null.
        """
        return ArrowBatch.of_files(self.paths, self.codes, self.buffer, self.offsets)

    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> tuple[object, object]:
        return self.as_arrow().__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object:
        return self.as_arrow().__arrow_c_stream__(requested_schema)

    def __dlpack__(self, **options: Any) -> Any:
        """The buffer for another library, without a copy: `torch.from_dlpack(files)`."""
        return self.buffer.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The memory of the processor."""
        return self.buffer.__dlpack_device__()

    def __repr__(self) -> str:
        failed = np.count_nonzero(self.codes)
        return f"<Files: {len(self)}, of which {failed} were not read, {self._ends[-1]} bytes>"


_NOTHING = np.empty(0, np.uint8)


class FilesInPlace(FileSequence):
    """The contents of many files, without a common buffer: most of them in the memory of the volume.

    A pickle of them has a copy, which is `Files`. As long as this object, or a `memoryview` of a file, lives, all of its files stay in memory, and the
    volume's file or device stays open.
    """

    __slots__ = ("_views",)

    def __init__(self, paths: PathSet, views: Views, codes: NDArray[np.uint8]) -> None:
        super().__init__(paths, codes)
        self._views = views

    @property
    def copied_bytes(self) -> int:
        """The bytes that had to be copied."""
        return self._views.copied_bytes

    def _bytes(self, at: int) -> memoryview:
        return self._views.get(at).data

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process they are `Files`: a copy in one buffer."""
        contents = [self._views.get(at) if code == 0 else _NOTHING for at, code in enumerate(self.codes.tolist())]
        offsets = np.cumsum([0, *map(len, contents)], dtype=np.int64)
        return Files, (self.paths, np.concatenate([_NOTHING, *contents]), offsets, self.codes)

    def __repr__(self) -> str:
        failed = np.count_nonzero(self.codes)
        return f"<FilesInPlace: {len(self)}, of which {failed} were not read, {self.copied_bytes} bytes copied>"
