"""The number of the pass over a data set, which a process and the workers of its loaders agree upon.

A loader gives each worker a copy of the data set, begins a pass in all of them, and may end them at any time.
So a record in memory that they share says which pass has which number. A lock of the host guards it, which
ends with its process.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
from multiprocessing import context, reduction
from typing import Any, NamedTuple


class Resume(NamedTuple):
    """A position to continue from."""

    #: A random number, by which copies of one request are known.
    token: int
    #: The process that asked.
    process: int
    epoch: int
    position: int


class Passes:
    """The records: one for each process whose loaders have workers, and for each process without any."""

    def __init__(self, following: int = 0) -> None:
        self._file = os.memfd_create("lanefs-passes")
        self._first = following

    def following(self) -> int:
        """The epoch of the next pass."""
        with _Locked(self._file) as records:
            return int(self._record(records)["next"])

    def set_following(self, epoch: int) -> None:
        """Chooses the epoch of the next pass."""
        self._first = epoch
        with _Locked(self._file) as records:
            self._record(records)["next"] = epoch

    def begin(self, loader: int | None, turn: int, resume: Resume | None) -> tuple[int, int]:
        """Begins a pass, and returns its epoch and its first position.

        `loader` and `turn` are the same in all workers of a loader in a pass, and those of no other pass;
        without a loader each call begins a pass.
        """
        with _Locked(self._file) as records:
            record = self._record(records)
            inherited = resume is not None and resume.process != os.getpid()
            if loader is None or record["loader"] != loader or record["turn"] < turn:
                record["loader"], record["turn"] = loader, turn
                if resume is not None and not (inherited and record["token"] == resume.token):
                    record["token"], record["epoch"] = resume.token, resume.epoch
                else:
                    record["epoch"] = record["next"]
                record["next"] = record["epoch"] + 1
            epoch = record["epoch"]
            if resume is None or resume.epoch != epoch or (inherited and record["token"] != resume.token):
                return epoch, 0
            return epoch, resume.position

    def waits(self, resume: Resume) -> bool:
        """True until a pass has continued there."""
        with _Locked(self._file) as records:
            return bool(self._record(records)["token"] != resume.token)

    def _record(self, records: dict[str, Any]) -> dict[str, Any]:
        """The record of this process, or of the one whose worker it is."""
        parent = multiprocessing.parent_process()
        owner = os.getpid() if parent is None or not _is_worker() else parent.pid
        empty = {"next": self._first, "loader": None, "turn": 0, "token": None, "epoch": 0}
        record: dict[str, Any] = records.setdefault(str(owner), empty)
        return record

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            # A copy that goes elsewhere counts for itself.
            return Passes, (self.following(),)
        return _share, (self._first, reduction.DupFd(self._file))

    def __del__(self) -> None:
        os.close(self._file)


def _share(first: int, file: Any) -> Passes:
    """The records of another process."""
    passes = Passes.__new__(Passes)
    passes._file, passes._first = file.detach(), first
    return passes


def _is_worker() -> bool:
    from torch.utils.data import get_worker_info

    return get_worker_info() is not None


class _Locked:
    """The records, while no other process has them."""

    def __init__(self, file: int) -> None:
        self._file = file

    def __enter__(self) -> dict[str, Any]:
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        records: dict[str, Any] = json.loads(os.pread(self._file, 1 << 20, 0) or b"{}")
        self._records = records
        return records

    def __exit__(self, *_: object) -> None:
        content = json.dumps(self._records).encode()
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, content, 0)
        fcntl.lockf(self._file, fcntl.LOCK_UN)
