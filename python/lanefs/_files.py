"""The contents of many files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from lanefs._errors import error_of
from lanefs._lanefs import PathSet


class Files(Sequence[memoryview]):
    """The contents of many files, one behind the other in one buffer.

    `files[i]` is a `memoryview` of file `i`, or raises the `OSError` of a file that was not read.
    Iteration stops at the first such file; `errors()` has all of them.
    """

    __slots__ = ("_ends", "_view", "buffer", "codes", "offsets", "paths")

    def __init__(
        self,
        paths: PathSet,
        buffer: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        codes: NDArray[np.uint8],
    ) -> None:
        #: The paths, in the order of the files.
        self.paths = paths
        #: The bytes of all files.
        self.buffer = buffer
        #: File `i` lies from `offsets[i]` to `offsets[i + 1]` of the buffer.
        self.offsets = offsets
        #: The result code of each file; 0 is success.
        self.codes = codes
        self._view = buffer.data
        self._ends: list[int] = offsets.tolist()

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> memoryview: ...
    @overload
    def __getitem__(self, index: slice) -> list[memoryview]: ...
    def __getitem__(self, index: int | slice) -> memoryview | list[memoryview]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        count = len(self)
        at = index + count if index < 0 else index
        if not 0 <= at < count:
            raise IndexError(f"index {index} of {count} files")
        code = self.codes[at]
        if code:
            raise error_of(int(code), self._path(at))
        return self._view[self._ends[at] : self._ends[at + 1]]

    def __iter__(self) -> Iterator[memoryview]:
        return (self[i] for i in range(len(self)))

    def to_bytes(self) -> list[bytes]:
        """Copies each file.

        Raises the `OSError` of the first file that was not read.
        """
        return [bytes(file) for file in self]

    def errors(self) -> dict[int, OSError]:
        """The exceptions of the files that were not read, by their index."""
        failed = np.flatnonzero(self.codes).tolist()
        return {at: error_of(int(self.codes[at]), self._path(at)) for at in failed}

    def __dlpack__(self, **options: Any) -> Any:
        """The buffer for another library, without a copy: `torch.from_dlpack(files)`."""
        return self.buffer.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The memory of the processor."""
        return self.buffer.__dlpack_device__()

    def _path(self, at: int) -> str:
        """The path of a file."""
        return self.paths[at]

    def __repr__(self) -> str:
        failed = np.count_nonzero(self.codes)
        return f"<Files: {len(self)}, of which {failed} were not read, {self._ends[-1]} bytes>"
