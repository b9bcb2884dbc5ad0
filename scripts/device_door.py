#!/usr/bin/env python3
"""The parts of scripts/device-door.sh in Python: make, tensors, loader."""

import sys
import time

import numpy as np

import lanefs


def paths_of(count: int) -> list[str]:
    return [f"/d/c{i % 400:03d}/f{i:07d}.bin" for i in range(count)]


def make(folder: str, count: int) -> None:
    numbers = np.random.default_rng(1)
    sizes = np.clip(numbers.lognormal(9.0, 0.6, count).astype(int), 100, 200_000)
    noise = numbers.integers(0, 256, 1 << 22, dtype=np.uint8)
    # The word that the example looks for.
    for at in range(0, len(noise), 4999):
        noise[at : at + 4] = list(b"lane")
    pool = noise.tobytes()
    paths = paths_of(count)
    with lanefs.Volume.open(f"{folder}/door.lane", "x", size=int(sizes.sum()) * 2 + (1 << 30)) as volume:
        for number in range(400):
            volume.makedirs(f"/d/c{number:03d}")
        contents = [pool[(i * 977) % (1 << 21) :][:size] for i, size in enumerate(sizes)]
        assert volume.write_many(paths, contents) == {}
    with open(f"{folder}/paths", "w") as file:
        file.write("\n".join(paths) + "\n")
    print(f"{count} files, {int(sizes.sum()) >> 20} MiB")


def rate(name: str, count: int, begun: float) -> None:
    seconds = time.perf_counter() - begun
    print(f"{name:48} {count / seconds / 1e9:8.2f} GB/s")


def tensors(folder: str, count: int) -> None:
    import torch

    volume = lanefs.Volume.open(f"{folder}/door.lane", engine="gpu")
    host = lanefs.Volume.open(f"{folder}/door.lane", engine="cpu")
    order = np.random.default_rng(2).permutation(count)[:50_000]
    paths = lanefs.PathSet([path for path in map(paths_of(count).__getitem__, order.tolist())])
    expected = host.read(paths)
    memory = volume.device_memory(expected.buffer.nbytes, exportable=True)
    for turn in range(3):
        begun = time.perf_counter()
        files = volume.read_to_device(paths, memory)
        rate("read_to_device", files.nbytes, begun)
        begun = time.perf_counter()
        tensor = torch.from_dlpack(files)
        print(f"from_dlpack: {(time.perf_counter() - begun) * 1e6:.0f} us, {tensor.device}")
        assert tensor.cpu().numpy().tobytes() == expected.buffer.tobytes(), f"turn {turn}: other bytes"
        one = torch.from_dlpack(files.on_device(7))
        assert one.cpu().numpy().tobytes() == bytes(expected[7])
        del tensor, one
        begun = time.perf_counter()
        torch.from_numpy(np.array(host.read(paths).buffer)).cuda()
        torch.cuda.synchronize()
        rate("read and .cuda()", expected.buffer.nbytes, begun)
    try:
        import cupy

        assert cupy.asnumpy(cupy.from_dlpack(files)).tobytes() == expected.buffer.tobytes()
        print("cupy: the same bytes")
    except ImportError:
        print("-- cupy: not installed")
    volume.close()
    print("tensors: the same bytes")


def loader(folder: str, count: int) -> None:
    import torch
    from torch.utils.data import DataLoader

    import lanefs.torch

    volume = lanefs.Volume.open(f"{folder}/door.lane", engine="gpu")
    host = lanefs.Volume.open(f"{folder}/door.lane", engine="cpu")
    paths = lanefs.PathSet(paths_of(count)[:40_000])
    for turn in range(2):
        begun, total, checked = time.perf_counter(), 0, 0
        for batch in lanefs.torch.DeviceLoader(volume, paths, seed=turn, batch_size=512):
            total += batch.content.numel()
            if checked < 5:
                wanted = host.read([paths[row] for row in batch.rows.tolist()])
                assert batch.content.cpu().numpy().tobytes() == wanted.buffer.tobytes(), "other bytes"
                checked += 1
        torch.cuda.synchronize()
        rate(f"DeviceLoader, {len(paths)} files", total, begun)

        def decode(content: memoryview, row: int) -> torch.Tensor:
            return torch.tensor(content)

        data = lanefs.torch.EpochDataset(host, paths, seed=turn, decode=decode)
        begun, total = time.perf_counter(), 0
        for tensor in DataLoader(data, batch_size=None):
            total += tensor.cuda(non_blocking=True).numel()
        torch.cuda.synchronize()
        rate("DataLoader and .cuda()", total, begun)
    print("DeviceLoader: the same bytes")


if __name__ == "__main__":
    {"make": make, "tensors": tensors, "loader": loader}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
