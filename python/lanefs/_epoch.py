"""The files of an epoch, read ahead."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanefs import _lanefs
from lanefs._files import Files
from lanefs._lanefs import PathSet


class Batch(Files):
    """The files of a batch, in memory that nobody can write to."""

    __slots__ = ("rows",)

    def __init__(
        self,
        paths: PathSet,
        rows: NDArray[np.uint32],
        buffer: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        codes: NDArray[np.uint8],
    ) -> None:
        super().__init__(paths, buffer, offsets, codes)
        #: The indices of the files among the paths of the epoch; `paths` are those of the batch.
        self.rows = rows

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self.paths, self.rows, self.buffer, self.offsets, self.codes)


class Epoch:
    """One pass over many files: an iterator over batches, which are read ahead while the program works.

    The memory of a batch serves another one once the batch and all that was made of it are gone. `close`, the
    end of a `with` block or of the last reference ends the reading.
    """

    def __init__(self, paths: PathSet, epoch: _lanefs.Epoch, batches: int) -> None:
        """Use `Volume.epoch`."""
        self._paths = paths
        self._epoch = epoch
        self._batches = batches

    def __len__(self) -> int:
        """The number of batches of the pass, those that have been handed out included."""
        return self._batches

    @property
    def position(self) -> int | None:
        """The number of files before the next batch: `start` of an epoch that continues this one.

        None after `close`, and in a forked child.
        """
        return self._epoch.position

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = self._epoch.next()
        if batch is None:
            raise StopIteration
        rows, buffer, offsets, codes = batch
        return Batch(self._paths.take(rows), rows, buffer, offsets.view(np.int64), codes)

    def close(self) -> None:
        """Ends the reading. Batches that were handed out stay."""
        self._epoch.close()

    def __enter__(self) -> Epoch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
