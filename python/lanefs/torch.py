"""Volumes as data sets of PyTorch. Only programs that import this module need torch."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from lanefs._batches import Paths, path_set
from lanefs._device import DeviceFiles, DeviceMemory, bytes_of
from lanefs._lanefs import PathSet, shuffled
from lanefs._passes import Passes, Resume
from lanefs._paths import Path
from lanefs._volume import Volume

#: The names of images, as torchvision has them.
IMAGES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def load_image(content: memoryview) -> Any:
    """Decodes an image by PIL, in RGB."""
    from io import BytesIO

    from PIL import Image

    with Image.open(BytesIO(content)) as image:
        return image.convert("RGB")


class FolderDataset(Dataset[tuple[Any, Any]]):
    """A tree with a directory for each class, as torchvision's `ImageFolder`.

    A `DataLoader` gets each batch by one call (`__getitems__`). With workers the volume is open for reading:
    each worker opens it again.
    """

    def __init__(
        self,
        volume: Volume,
        root: Path = "/",
        *,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        loader: Callable[[memoryview], Any] = load_image,
        extensions: Sequence[str] | None = IMAGES,
        threads: int = 0,
    ) -> None:
        """Lists the files below `root`.

        `loader` gets the content of a file, which is valid until it returns. Files whose names end in none
        of the `extensions` are left out; `None` takes all.
        """
        self.volume = volume
        self.root = os.fsdecode(root)
        self.transform = transform
        self.target_transform = target_transform
        self.loader = loader
        self.threads = threads
        #: The names of the classes, in order.
        self.classes = sorted(name for name, kind in volume.entries(root) if kind == kind.DIRECTORY)
        if not self.classes:
            raise FileNotFoundError(2, "no directory for a class", self.root)
        #: The number of each class.
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        endings = None if extensions is None else tuple(ending.lower() for ending in extensions)
        #: The path and the number of the class of each file.
        self.samples: list[tuple[str, int]] = []
        for name, number in self.class_to_idx.items():
            below = len(self.samples)
            for directory, _, files in volume.walk(os.path.join(self.root, name), onerror=_raise):
                self.samples.extend(
                    (os.path.join(directory, file), number)
                    for file in files
                    if endings is None or file.lower().endswith(endings)
                )
            if len(self.samples) == below:
                raise FileNotFoundError(2, f"no file for the class {name!r}", self.root)
            self.samples[below:] = sorted(self.samples[below:])
        #: The number of the class of each file.
        self.targets = [number for _, number in self.samples]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, Any]]:
        """Reads the files of a batch by one call."""
        chosen = [self.samples[index] for index in indices]
        files = self.volume.read([path for path, _ in chosen], threads=self.threads)
        return [self._sample(file, number) for file, (_, number) in zip(files, chosen)]

    def _sample(self, content: memoryview, number: int) -> tuple[Any, Any]:
        sample = self.loader(content)
        if self.transform is not None:
            sample = self.transform(sample)
        target = number if self.target_transform is None else self.target_transform(number)
        return sample, target


def _raise(error: OSError) -> None:
    raise error


def with_row(content: memoryview, row: int) -> tuple[bytes, int]:
    """A copy of the content, and the index of the path."""
    return bytes(content), row


class EpochDataset(IterableDataset[Any]):
    """Each file once an epoch, in an order that seed and epoch determine, read ahead.

    Every worker of a `DataLoader` and every rank of a distributed program reads a part of its own. The volume
    is open for reading: each worker opens it again. Each pass is the next epoch, with workers too, also after a
    pass that was broken off.

    `state_dict` has the position of the part that this process reads, so that a run can continue: use it
    without workers, or with a loader that asks the workers, such as torchdata's `StatefulDataLoader`.
    """

    def __init__(
        self,
        volume: Volume,
        paths: Paths,
        *,
        decode: Callable[[memoryview, int], Any] = with_row,
        seed: int = 0,
        batch_size: int = 256,
        memory: int = 256 << 20,
        rank: int | None = None,
        world_size: int | None = None,
        even: bool = False,
        threads: int = 0,
    ) -> None:
        """`decode` gets the content of a file, which is valid until it returns, and the index of its path.

        `batch_size` files are read ahead at a time, in `memory` bytes for all workers together. Rank and
        world size are those of `torch.distributed` where they are not given. With `even` all parts have the
        same length, and files that are left over are left out of this epoch.
        """
        self.volume = volume
        self.paths = path_set(paths)
        self.decode = decode
        self.seed = seed
        self.batch_size = batch_size
        self.memory = memory
        self.even = even
        self.threads = threads
        self._rank = rank
        self._world_size = world_size
        self._passes = Passes()
        self._resume: Resume | None = None
        # The epoch and the position of a pass that has begun in this process.
        self._now: tuple[int, int] | None = None
        # The loader whose worker this is, and its passes so far.
        self._loader: tuple[int | None, int] = (None, 0)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass, which begins at its first file."""
        self._resume = self._now = None
        self._passes.set_following(epoch)

    def state_dict(self) -> dict[str, int]:
        """The epoch, and the number of files of this part that have been handed out."""
        if self._now is not None:
            epoch, position = self._now
        elif self._resume is not None and self._passes.waits(self._resume):
            epoch, position = self._resume.epoch, self._resume.position
        else:
            epoch, position = self._passes.following(), 0
        return {"seed": self.seed, "epoch": epoch, "position": position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continues where the state was taken, in the next pass; the number of parts must be the same."""
        self.seed, self._now = state["seed"], None
        self._resume = Resume(random.getrandbits(62), os.getpid(), state["epoch"], state["position"])

    def __len__(self) -> int:
        """The number of files of the part of this rank, whatever number of workers shares it."""
        rank, world_size = self._place()
        worker = get_worker_info()
        workers = 1 if worker is None else worker.num_workers
        return sum(len(range(*self._part(rank, world_size, workers, mine))) for mine in range(workers))

    def _part(self, rank: int, world_size: int, workers: int, mine: int) -> tuple[int, int, int]:
        """The positions in the order that are a worker's: start, end and step."""
        parts, count = world_size * workers, len(self.paths)
        return rank * workers + mine, count - count % parts if self.even else count, parts

    def __iter__(self) -> Iterator[Any]:
        rank, world_size = self._place()
        worker = get_worker_info()
        workers, mine = (1, 0) if worker is None else (worker.num_workers, worker.id)
        number, first = self._begin(None if worker is None else worker.seed - worker.id)
        order = shuffled(len(self.paths), self.seed + number)
        rows = order[slice(*self._part(rank, world_size, workers, mine))]
        start, memory = min(first, len(rows)), self.memory // workers
        position = start
        self._now = (number, position)
        with self.volume.epoch(
            self.paths, self.batch_size, rows=rows, memory=memory, start=start, threads=self.threads
        ) as epoch:
            for batch in epoch:
                for row, content in zip(batch.rows.tolist(), batch):
                    position += 1
                    self._now = (number, position)
                    yield self.decode(content, row)
        self._now = None

    def _begin(self, loader: int | None) -> tuple[int, int]:
        """Begins a pass, and returns its epoch and its first position."""
        turn = self._loader[1] + 1 if self._loader[0] == loader else 1
        self._loader = (loader, turn)
        begun = self._passes.begin(loader, turn, self._resume)
        self._resume = None
        return begun

    def _place(self) -> tuple[int, int]:
        """The rank of this process, and the number of ranks."""
        group = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank = self._rank if self._rank is not None else torch.distributed.get_rank() if group else 0
        size = self._world_size
        if size is None:
            size = torch.distributed.get_world_size() if group else 1
        if not 0 <= rank < size:
            raise ValueError(f"rank is {rank}, and world_size {size}")
        return rank, size


class DeviceBatch(NamedTuple):
    """Files in the memory of a GPU."""

    #: The bytes of all files, one after the other.
    content: torch.Tensor
    #: File `i` is `content[offsets[i]:offsets[i + 1]]`. The tensor is on the host.
    offsets: torch.Tensor
    #: The labels of the files, in their order; their rows where the loader has no labels.
    labels: Any
    #: The indices of the files among the paths.
    rows: NDArray[np.uint32]


class DeviceLoader:
    """Each file once an epoch in the memory of a GPU, read ahead, in an order that seed and epoch determine.

    The volume is one that was opened with `engine="gpu"`. A thread reads the batches; the memory of a batch
    serves a later one when its tensor is gone, after all work on the device at that time. A file that cannot
    be read raises its `OSError` when its batch is due.
    """

    def __init__(
        self,
        volume: Volume,
        paths: Paths,
        labels: Sequence[Any] | NDArray[Any] | torch.Tensor | None = None,
        *,
        batch_size: int = 256,
        seed: int | None = 0,
        ahead: int = 2,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        threads: int = 0,
    ) -> None:
        """`ahead` batches are ready before they are due. Without a `seed` the order is that of the paths.

        Each rank of a distributed program reads a part of its own. All parts have the same number of files,
        so that no rank waits for another one: with `drop_last` the files at the end that not every rank has
        are left out, and so is a last batch that is not full; else files from the beginning of the order come
        a second time, as with torch's `DistributedSampler`.
        """
        self.volume = volume
        self.paths = path_set(paths)
        if labels is not None and len(labels) != len(self.paths):
            raise ValueError(f"{len(labels)} labels for {len(self.paths)} paths")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank is {rank}, and world_size {world_size}")
        if batch_size < 1 or ahead < 1:
            raise ValueError(f"batch_size is {batch_size}, and ahead {ahead}; both are 1 at least")
        self.labels = None if labels is None else torch.as_tensor(labels)
        self.batch_size = batch_size
        self.seed = seed
        self.ahead = ahead
        self.drop_last = drop_last
        self.threads = threads
        self._part = (rank, world_size)
        self._epoch = 0
        # Files of the epoch that have been handed out.
        self._position = 0
        self._free: list[DeviceMemory] = []

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass, which begins at its first file."""
        self._epoch, self._position = epoch, 0

    def state_dict(self) -> dict[str, int | None]:
        """The epoch, and the number of its files that have been handed out."""
        return {"seed": self.seed, "epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: dict[str, int | None]) -> None:
        """Continues where the state was taken, in the next pass; number of parts and paths must be the same."""
        self.seed = state["seed"]
        self._epoch, self._position = state["epoch"] or 0, state["position"] or 0

    def _rows(self) -> NDArray[np.uint32]:
        """The files of this epoch and rank, in order."""
        rank, world_size = self._part
        count = len(self.paths)
        order = np.arange(count, dtype=np.uint32) if self.seed is None else shuffled(count, self.seed + self._epoch)
        each = count // world_size if self.drop_last else -(-count // world_size)
        if self.drop_last:
            each -= each % self.batch_size
        # Where the order is too short it begins again.
        return np.resize(order, each * world_size)[rank::world_size]

    def __len__(self) -> int:
        """The number of batches of a whole pass."""
        return -(-len(self._rows()) // self.batch_size)

    def __iter__(self) -> Iterator[DeviceBatch]:
        rows = self._rows()[self._position :]
        cuts = [rows[at : at + self.batch_size] for at in range(0, len(rows), self.batch_size)]
        ready: queue.Queue[DeviceFiles | BaseException] = queue.Queue(self.ahead)
        stop = threading.Event()
        thread = threading.Thread(target=self._read_ahead, args=(cuts, ready, stop), daemon=True)
        thread.start()
        try:
            for cut in cuts:
                files = ready.get()
                if isinstance(files, BaseException):
                    raise files
                for error in files.errors().values():
                    raise error
                self._position += len(cut)
                yield self._batch(files, cut)
                del files
            self._epoch, self._position = self._epoch + 1, 0
        finally:
            stop.set()
            while thread.is_alive():
                # A reader that waits for room goes on, and ends.
                with contextlib.suppress(queue.Empty):
                    ready.get(timeout=0.01)

    def _batch(self, files: DeviceFiles, rows: NDArray[np.uint32]) -> DeviceBatch:
        content, memory = _on_device(files), files.memory
        # The tensor keeps the lease; when that ends the memory is free again.
        self._free.append(memory)
        labels = rows if self.labels is None else self.labels[torch.from_numpy(rows.astype(np.int64))]
        return DeviceBatch(content, torch.from_numpy(files.offsets.copy()), labels, rows)

    def _read_ahead(
        self,
        cuts: list[NDArray[np.uint32]],
        ready: queue.Queue[DeviceFiles | BaseException],
        stop: threading.Event,
    ) -> None:
        try:
            for cut in cuts:
                if stop.is_set():
                    return
                ready.put(self._read(self.paths.take(cut)))
        except BaseException as error:
            ready.put(error)

    def _read(self, paths: PathSet) -> DeviceFiles:
        """Reads a batch into memory that no tensor uses."""
        while True:
            room = bytes_of(self.volume._volume, paths)
            unused = [memory for memory in self._free if not memory.in_use]
            fitting = next((memory for memory in unused if memory.capacity >= room), None)
            # Memory that is too small for this batch gives way to a larger one.
            for memory in [fitting] if fitting is not None else unused[:1]:
                self._free.remove(memory)
            if fitting is None:
                fitting = self.volume.device_memory(room + room // 4, exportable=True)
            try:
                return self.volume.read_to_device(paths, fitting, threads=self.threads)
            except ValueError:
                if bytes_of(self.volume._volume, paths) <= fitting.capacity:
                    raise


def _on_device(files: DeviceFiles) -> torch.Tensor:
    """The bytes of a batch, without a copy."""
    return torch.from_dlpack(files)


def read(volume: Volume, paths: Paths, *, pin_memory: bool = False, threads: int = 0) -> list[torch.Tensor]:
    """Reads many files as tensors of bytes, which share one piece of memory.

    With `pin_memory` that memory is page-locked, so that a copy to a device goes on beside other work
    (`tensor.to("cuda", non_blocking=True)`). Raises the `OSError` of the first file that was not read.
    """
    paths = path_set(paths)
    found = volume.resolve(paths, ["size"])
    # A file that grows between the calls is read again, with room for what it has then.
    room = int(found.size.sum())
    while True:
        memory = torch.empty(room, dtype=torch.uint8, pin_memory=pin_memory)
        try:
            files = volume.read_into(paths, memory.numpy(), threads=threads)
            break
        except ValueError:
            grown = int(volume.resolve(paths, ["size"]).size.sum())
            if grown <= room:
                raise
            room = grown
    for error in files.errors().values():
        raise error
    ends = files.offsets.tolist()
    return [memory[begin:end] for begin, end in zip(ends, ends[1:])]
