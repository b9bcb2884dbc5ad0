"""Volumes as data sets of PyTorch: `make test-torch`."""

import ctypes
import io
import pickle
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from PIL import Image  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

import lanefs  # noqa: E402
import lanefs.torch  # noqa: E402
from conftest import MIB  # noqa: E402
from documents import example  # noqa: E402
from test_cuda import Tensor, calls, library, volume  # noqa: E402, F401

COLOURS = {"blue": (0, 0, 255), "green": (0, 255, 0), "red": (255, 0, 0)}


def png(colour):
    memory = io.BytesIO()
    Image.new("RGB", (4, 4), colour).save(memory, "png")
    return memory.getvalue()


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "images.lane"
    with lanefs.Volume.open(path, "x", size=64 * MIB) as volume:
        names = [f"/train/{name}/sub{i % 2}/{i}.png" for name in COLOURS for i in range(10)]
        contents = [png(colour) for colour in COLOURS.values() for _ in range(10)]
        assert volume.write_many(names, contents, make_directories=True) == {}
        volume.write_file("/train/red/notes.txt", b"not an image")
        files = [f"/files/{i}" for i in range(100)]
        assert volume.write_many(files, [b"%d" % i for i in range(100)], make_directories=True) == {}
    return path


def first_pixel(picture):
    return torch.from_numpy(np.array(picture))[0, 0]


def test_a_folder_has_the_classes_of_its_directories(image):
    with lanefs.Volume.open(image) as volume:
        data = lanefs.torch.FolderDataset(volume, "/train")
        assert data.classes == ["blue", "green", "red"] and data.class_to_idx["red"] == 2
        assert len(data) == 30 and data.targets == [0] * 10 + [1] * 10 + [2] * 10
        picture, target = data[29]
        assert (picture.getpixel((0, 0)), target) == ((255, 0, 0), 2)
        everything = lanefs.torch.FolderDataset(volume, "/train", extensions=None, loader=bytes)
        assert len(everything) == 31
        with pytest.raises(FileNotFoundError, match="class"):
            lanefs.torch.FolderDataset(volume, "/train/red/sub0")


@pytest.mark.parametrize(("workers", "context"), [(0, None), (2, "fork"), (2, "spawn")])
def test_a_loader_gets_each_batch_in_one_call(image, workers, context, monkeypatch):
    with lanefs.Volume.open(image) as volume:
        data = lanefs.torch.FolderDataset(volume, "/train", transform=first_pixel)
        calls = []
        if not workers:
            read = volume.read
            monkeypatch.setattr(volume, "read", lambda *a, **o: calls.append(len(a[0])) or read(*a, **o))
        loader = DataLoader(data, batch_size=8, num_workers=workers, multiprocessing_context=context)
        seen = [(tuple(p.tolist()), int(t)) for pixels, targets in loader for p, t in zip(pixels, targets)]
    assert seen == [(colour, at) for at, colour in enumerate(COLOURS.values()) for _ in range(10)]
    assert workers or calls == [8, 8, 8, 6]


def test_a_file_that_is_gone_is_an_error_with_its_name(image):
    with lanefs.Volume.open(image, "r+") as volume:
        data = lanefs.torch.FolderDataset(volume, "/train", loader=bytes)
        volume.remove("/train/blue/sub0/0.png")
        with pytest.raises(FileNotFoundError) as gone:
            data.__getitems__([0, 1])
        assert gone.value.filename == "/train/blue/sub0/0.png"


PATHS = [f"/files/{i}" for i in range(100)]


@pytest.mark.parametrize(("workers", "context"), [(0, None), (2, "fork"), (2, "spawn")])
@pytest.mark.parametrize("world", [1, 2])
def test_workers_and_ranks_share_an_epoch(image, workers, context, world):
    seen = []
    with lanefs.Volume.open(image) as volume:
        for rank in range(world):
            data = lanefs.torch.EpochDataset(volume, PATHS, seed=5, batch_size=7, rank=rank, world_size=world)
            loader = DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context=context)
            seen += [(bytes(content), row) for content, row in loader]
    assert sorted(row for _, row in seen) == list(range(100))
    assert all(content == b"%d" % row for content, row in seen)


def test_even_parts_have_one_length(image):
    with lanefs.Volume.open(image) as volume:
        lengths = [
            sum(1 for _ in lanefs.torch.EpochDataset(volume, PATHS, rank=rank, world_size=7, even=True))
            for rank in range(7)
        ]
        assert lengths == [14] * 7
        with pytest.raises(ValueError, match="rank"):
            list(lanefs.torch.EpochDataset(volume, PATHS, rank=7, world_size=7))


def test_an_epoch_continues_from_its_state(image):
    with lanefs.Volume.open(image) as volume:
        whole = list(lanefs.torch.EpochDataset(volume, PATHS, seed=9))
        data = lanefs.torch.EpochDataset(volume, PATHS, seed=9, batch_size=16)
        samples = iter(data)
        first = [next(samples) for _ in range(41)]
        state = data.state_dict()
        samples.close()
        again = lanefs.torch.EpochDataset(volume, PATHS)
        again.load_state_dict(state)
        assert first + list(again) == whole
        # The next epoch has another order.
        assert again.state_dict() == {"seed": 9, "epoch": 1, "position": 0}
        following = list(again)
        assert following != whole and sorted(following) == sorted(whole)


def test_files_are_tensors_in_one_memory(image):
    with lanefs.Volume.open(image) as volume:
        tensors = lanefs.torch.read(volume, ["/files/7", "/files/42"], pin_memory=torch.cuda.is_available())
        assert [bytes(tensor.numpy()) for tensor in tensors] == [b"7", b"42"]
        assert tensors[0].untyped_storage().data_ptr() == tensors[1].untyped_storage().data_ptr()
        assert tensors[0].is_pinned() == torch.cuda.is_available()
        with pytest.raises(FileNotFoundError):
            lanefs.torch.read(volume, ["/files/7", "/no"])


def test_files_go_by_dlpack_without_a_copy(image):
    with lanefs.Volume.open(image) as volume:
        files = volume.read(PATHS)
        tensor = torch.from_dlpack(files)
        assert bytes(tensor.numpy()) == b"".join(files.to_bytes())
        assert tensor.data_ptr() == files.buffer.ctypes.data


def test_the_readme_feeds_a_loader(tmp_path, monkeypatch, capsys):
    for number, (name, colour) in enumerate(COLOURS.items()):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for i in range(100 + number):
            (folder / f"{i}.png").write_bytes(png(colour))
    monkeypatch.chdir(tmp_path)
    exec(example("README.md", "DataLoader"), {})
    batches = capsys.readouterr().out.splitlines()
    assert batches == [
        "torch.Size([256, 4, 4, 3]) torch.Size([256])",
        "torch.Size([47, 4, 4, 3]) torch.Size([47])",
    ]


def test_the_page_feeds_a_loader(image, monkeypatch):
    monkeypatch.chdir(image.parent)
    image.rename("photos.lane")
    names = {"lanefs": lanefs, "torch": torch, "transform": lambda image: torch.from_numpy(np.array(image))}
    exec(example("docs/python.md", "DataLoader"), names)
    assert names["images"].shape == (30, 4, 4, 3)


def order_of(loader, stop=None):
    """The rows of a pass, or of its beginning."""
    rows = []
    for _, row in loader:
        rows.append(int(row))
        if len(rows) == stop:
            break
    return rows


@pytest.mark.parametrize(
    ("workers", "context", "persistent"),
    [(0, None, False), (2, "fork", False), (2, "spawn", False), (2, "fork", True), (2, "forkserver", False)],
)
def test_each_pass_is_the_next_epoch(image, workers, context, persistent):
    with lanefs.Volume.open(image) as volume:
        # Two workers take turns, so that the loader has the order of the epoch.
        expected = [lanefs.shuffled(len(PATHS), 3 + epoch).tolist() for epoch in range(5)]
        data = lanefs.torch.EpochDataset(volume, PATHS, seed=3, batch_size=7)
        loader = DataLoader(
            data,
            batch_size=None,
            num_workers=workers,
            multiprocessing_context=context,
            persistent_workers=persistent,
        )
        assert order_of(loader) == expected[0]
        assert data.state_dict() == {"seed": 3, "epoch": 1, "position": 0}
        # A pass that is broken off is one, and the next is whole.
        assert order_of(loader, stop=11) == expected[1][:11]
        assert order_of(loader) == expected[2]
        data.set_epoch(1)
        assert order_of(loader) == expected[1]
        if not persistent:
            # Each worker leaves out what it had handed out.
            data.load_state_dict({"seed": 3, "epoch": 4, "position": 10})
            rest = order_of(loader)
            assert rest == expected[4][10 * max(workers, 1) :]
            data.set_epoch(0)
            assert order_of(loader) == expected[0]


def test_a_data_set_has_a_length_and_goes_into_a_pickle(image):
    with lanefs.Volume.open(image) as volume:
        lengths = []
        for rank in range(3):
            data = lanefs.torch.EpochDataset(volume, PATHS, rank=rank, world_size=3)
            lengths.append(len(data))
            assert len(list(data)) == len(data)
        assert lengths == [34, 33, 33]
        assert len(lanefs.torch.EpochDataset(volume, PATHS, rank=1, world_size=3, even=True)) == 33
        copy = pickle.loads(pickle.dumps(data))
        assert copy.state_dict() == {"seed": 0, "epoch": 1, "position": 0}
        assert order_of(copy) == order_of(data)


def on_host(files):
    """A tensor over the memory of a batch, which the stand-in for CUDA has mapped on the host."""
    taken = Tensor(files)
    count = taken.managed.shape[0]
    if count == 0:
        taken.end()
        return torch.empty(0, dtype=torch.uint8)
    tensor = torch.frombuffer((ctypes.c_uint8 * count).from_address(taken.managed.data), dtype=torch.uint8)
    weakref.finalize(tensor, taken.end)
    return tensor


@pytest.fixture
def loaders(volume, calls, monkeypatch):
    """Makes loaders of the 100 files."""
    monkeypatch.setattr(lanefs.torch, "_on_device", on_host)
    return lambda **options: lanefs.torch.DeviceLoader(volume, PATHS, **options)


def files_of(batch):
    ends = batch.offsets.tolist()
    return [bytes(batch.content[begin:end].tolist()) for begin, end in zip(ends, ends[1:])]


def test_a_device_loader_has_each_file_once_in_the_order_of_its_seed(loaders, calls):
    labels = [row * 10 for row in range(100)]
    loader = loaders(labels=labels, seed=3, batch_size=7)
    assert len(loader) == 15
    for epoch in range(3):
        order = lanefs.shuffled(100, 3 + epoch).tolist()
        seen = []
        for batch in loader:
            assert files_of(batch) == [b"%d" % row for row in batch.rows]
            assert batch.labels.tolist() == [row * 10 for row in batch.rows]
            seen += batch.rows.tolist()
        assert seen == order
    del batch
    # The memory of a batch serves later ones.
    assert calls().count("cuImportExternalMemory") <= 8
    parts = [[row for batch in loaders(seed=None, rank=rank, world_size=3) for row in batch.rows] for rank in range(3)]
    assert parts == [[*range(0, 100, 3)], [*range(1, 100, 3), 0], [*range(2, 100, 3), 1]]
    assert [len(batch.rows) for batch in loaders(batch_size=30, drop_last=True)] == [30] * 3


def test_all_ranks_of_a_device_loader_have_the_same_number_of_batches(volume):
    def parts(count, ranks, **options):
        paths = [f"/{number}" for number in range(count)]
        loaders = [
            lanefs.torch.DeviceLoader(volume, paths, rank=rank, world_size=ranks, **options) for rank in range(ranks)
        ]
        return [len(loader) for loader in loaders], [loader._rows().tolist() for loader in loaders]

    order = lanefs.shuffled(257, 3).tolist()
    lengths, rows = parts(257, 2, batch_size=128, seed=3)
    assert lengths == [2, 2]
    assert rows == [order[::2], [*order[1::2], order[0]]]
    lengths, rows = parts(257, 2, batch_size=128, seed=3, drop_last=True)
    assert lengths == [1, 1]
    assert rows == [order[:256:2], order[1:256:2]]
    # Fewer files than ranks, and none.
    assert parts(2, 5, seed=None)[1] == [[0], [1], [0], [1], [0]]
    assert parts(2, 5, seed=None, drop_last=True) == ([0] * 5, [[]] * 5)
    assert parts(0, 2) == ([0, 0], [[], []])


def test_a_device_loader_continues_from_its_state(loaders):
    whole = [file for batch in loaders(seed=9, batch_size=16) for file in files_of(batch)]
    loader = loaders(seed=9, batch_size=16)
    first = []
    for batch in loader:
        first += files_of(batch)
        if len(first) == 48:
            break
    state = loader.state_dict()
    assert state == {"seed": 9, "epoch": 0, "position": 48}
    again = loaders(batch_size=10)
    again.load_state_dict(state)
    assert first + [file for batch in again for file in files_of(batch)] == whole
    assert again.state_dict() == {"seed": 9, "epoch": 1, "position": 0}


def test_batches_that_are_kept_keep_their_bytes(loaders):
    batches = list(loaders(seed=1, batch_size=5))
    assert all(files_of(batch) == [b"%d" % row for row in batch.rows] for batch in batches)


def test_a_device_loader_ends_with_the_error_of_a_file(loaders, volume):
    volume.remove(PATHS[50])
    seen = 0
    with pytest.raises(FileNotFoundError) as gone:
        for batch in loaders(seed=None, batch_size=20):
            seen += len(batch.rows)
    assert (seen, gone.value.filename) == (40, PATHS[50])
    with pytest.raises(ValueError, match="labels"):
        loaders(labels=[1])
    for wrong in [{"batch_size": 0}, {"ahead": 0}, {"rank": 1}]:
        with pytest.raises(ValueError, match="batch_size|rank"):
            loaders(**wrong)
