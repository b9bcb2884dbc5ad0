#!/usr/bin/env python3
"""The parts of scripts/device-door.sh in Python: make, tensors, kernels, loader."""

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
    stream = torch.cuda.Stream()
    for turn in range(3):
        begun = time.perf_counter()
        files = volume.read_to_device(paths, memory, stream=stream.cuda_stream)
        called = time.perf_counter() - begun
        with torch.cuda.stream(stream):
            copy = torch.from_dlpack(files).clone()
        stream.synchronize()
        rate(f"for a stream, the call took {called * 1e3:.1f} ms", files.nbytes, begun)
        assert copy.cpu().numpy().tobytes() == expected.buffer.tobytes(), f"stream, turn {turn}: other bytes"
        del copy
    print(f"a timeline of the device: {memory._leases.timeline() is not None}")
    try:
        import cupy

        assert cupy.asnumpy(cupy.from_dlpack(files)).tobytes() == expected.buffer.tobytes()
        print("cupy: the same bytes")
    except ImportError:
        print("-- cupy: not installed")
    volume.close()
    print("tensors: the same bytes")


KERNEL = """
extern "C" __global__ void sums(const void *mirror, size_t mirror_bytes, void *table, size_t table_bytes,
                                const char *paths, const long long *offsets, size_t count, long long *out) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    lanefs_view view;
    lanefs_files files;
    if (i >= count || lanefs_open(mirror, mirror_bytes, &view) != LANEFS_SUCCESS
        || lanefs_open_files(table, table_bytes, &files) != LANEFS_SUCCESS) {
        return;
    }
    lanefs_found found = lanefs_lookup(&view, paths + offsets[i], offsets[i + 1] - offsets[i]);
    unsigned char bytes[64];
    long long read = lanefs_read(&view, &files, found.ino, 0, bytes, sizeof bytes), sum = 0;
    for (long long at = 0; at < read; at++) sum += bytes[at];
    out[i] = read < 0 ? read : sum;
}
"""


def kernels(folder: str, count: int) -> None:
    """A kernel that CuPy launches, by the addresses of a mirror and of a table of files."""
    try:
        import cupy
    except ImportError:
        print("-- cupy: not installed")
        return
    import lanefs.cuda

    volume = lanefs.Volume.open(f"{folder}/door.lane", engine="gpu")
    host = lanefs.Volume.open(f"{folder}/door.lane", engine="cpu")
    paths = paths_of(count)[:50_000]
    expected = [sum(bytes(file[:64])) for file in host.read(paths)]
    texts = [path.encode() for path in paths]
    text = cupy.asarray(np.frombuffer(b"".join(texts), np.uint8))
    offsets = cupy.asarray(np.cumsum([0] + [len(one) for one in texts]))
    out = cupy.zeros(len(paths), np.int64)
    module = cupy.RawModule(code=lanefs.cuda.header() + KERNEL, options=("-std=c++17",))
    kernel = module.get_function("sums")
    with volume.export_mirror() as mirror, volume.device_file_table(2 << 30) as table:
        addresses = (mirror.address, np.uint64(mirror.nbytes), table.address, np.uint64(table.nbytes))
        while True:
            begun = time.perf_counter()
            arguments = (*addresses, text, offsets, np.uint64(len(paths)), out)
            kernel((-(-len(paths) // 128),), (128,), arguments)
            brought = table.bring_missed()
            print(f"kernel and bring_missed: {(time.perf_counter() - begun) * 1e3:.1f} ms, {brought}")
            if brought.files + brought.failed == 0:
                break
        assert cupy.asnumpy(out).tolist() == expected, "other sums"
    print("kernels: the same sums")


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
    {"make": make, "tensors": tensors, "kernels": kernels, "loader": loader}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
