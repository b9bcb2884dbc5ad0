#!/usr/bin/env python3
"""Compiles crates/gpu/include/lanefs_device.h as CUDA C++ and as HIP, without a GPU, and prints registers.

    scripts/device_header.py [TARGET_DIR]      (make device-header)

CUDA: `nvcc`, or else NVRTC, of the package `nvidia-cuda-nvrtc-cu12`, which is installed in
TARGET_DIR/python-nvrtc. HIP: `hipcc`, or else `clang++`, which compiles for AMD's devices, too. The output
says what is missing. The exit code is 1 where a compiler refuses the header, or a kernel needs more than
MAX_REGISTERS.
"""

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "crates/gpu/include/lanefs_device.h"
EXAMPLE = ROOT / "crates/gpu/examples/cuda_grep.cu"
NVRTC = "nvidia-cuda-nvrtc-cu12==12.9.86"

#: Registers of a thread at most. (The largest kernel has 80 today.)
MAX_REGISTERS = 96

#: A kernel for each call.
KERNELS = """
#include "lanefs_device.h"
#define OPEN lanefs_view view; if (lanefs_open(base, bytes, &view) != LANEFS_SUCCESS) return;
#define KERNEL extern "C" __global__ void
KERNEL k_lookup(const void *base, uint64_t bytes, const char *path, uint64_t n, lanefs_found *out) {
    OPEN *out = lanefs_lookup(&view, path, n);
}
KERNEL k_lookup_warp(const void *base, uint64_t bytes, const char *path, uint64_t n, lanefs_found *out) {
    OPEN *out = lanefs_lookup_warp(&view, path, n);
}
KERNEL k_stat(const void *base, uint64_t bytes, uint64_t ino, lanefs_attributes *out) {
    OPEN lanefs_stat(&view, ino, out);
}
KERNEL k_extents(const void *base, uint64_t bytes, uint64_t ino, lanefs_extent *out) {
    OPEN lanefs_extents(&view, ino, out->offset, out);
}
KERNEL k_stat_warp(const void *base, uint64_t bytes, uint64_t ino, lanefs_attributes *out) {
    OPEN lanefs_attributes found;
    lanefs_stat_warp(&view, ino, &found);
    *out = found;
}
KERNEL k_extents_warp(const void *base, uint64_t bytes, uint64_t ino, lanefs_extent *out) {
    OPEN lanefs_extent found;
    if (lanefs_extents_warp(&view, ino, out->offset, &found) == LANEFS_SUCCESS) out[1] = found;
}
KERNEL k_readdir(const void *base, uint64_t bytes, uint64_t ino, lanefs_entry *out) {
    OPEN lanefs_directory directory;
    lanefs_opendir(&view, ino, 0, &directory);
    lanefs_readdir(&view, &directory, out);
    lanefs_readdir_warp(&view, &directory, out + 1);
}
KERNEL k_read(const void *base, uint64_t bytes, void *table, uint64_t ino, void *to, int64_t *out) {
    OPEN lanefs_files files;
    if (lanefs_open_files(table, bytes, &files) != LANEFS_SUCCESS) return;
    *out = lanefs_read(&view, &files, ino, 0, to, 1000);
    out[1] = lanefs_read_warp(&view, &files, ino, 0, to, 1000);
}
"""

#: What compilers for HIP have in headers that a machine without ROCm lacks.
HIP_STUB = """
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
typedef __SIZE_TYPE__ size_t;
struct dim3_of { unsigned x, y, z; };
extern __device__ const dim3_of threadIdx, blockDim;
#define warpSize 32
extern "C" __device__ unsigned long long stub_ballot(bool);
#define __ballot stub_ballot
typedef unsigned long long u64;
__device__ inline u64 atomicCAS(u64 *at, u64 old, u64 value) {
    __atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}
__device__ inline unsigned atomicCAS(unsigned *at, unsigned old, unsigned value) {
    __atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}
__device__ inline unsigned atomicAdd(unsigned *at, unsigned value) {
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
"""


def say(text: str) -> None:
    print(f"device-header: {text}", flush=True)


def run(command: list[str]) -> bool:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        say(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def by_nvrtc(library: Path) -> bool:
    nvrtc = ctypes.CDLL(str(library))
    program = ctypes.c_void_p()
    names, texts = (ctypes.c_char_p * 1)(b"lanefs_device.h"), (ctypes.c_char_p * 1)(HEADER.read_bytes())
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), KERNELS.encode(), b"kernels.cu", 1, texts, names)
    options = [b"--gpu-architecture=sm_90", b"--std=c++17", b"--ptxas-options=-v"]
    code = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    text = log.value.decode()
    if code != 0:
        say(f"NVRTC refuses the header:\n{text}")
        return False
    return report(text)


def report(text: str) -> bool:
    """Prints the registers of each kernel; false where one has too many."""
    pattern = r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame.*?Used (\d+) registers"
    found = re.findall(pattern, text, re.S)
    for name, stack, registers in found:
        say(f"sm_90: {name}: {registers} registers, {stack} bytes of stack")
    most = max((int(registers) for _, _, registers in found), default=0)
    if not found:
        say(f"no registers in the compiler's words:\n{text}")
    return bool(found) and most <= MAX_REGISTERS


def cuda(target: Path) -> bool:
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc:
        with tempfile.TemporaryDirectory() as folder:
            say(f"CUDA by {nvcc}")
            options = ["-std=c++17", "-O3", "-arch=sm_90", "-I", str(HEADER.parent), "-o", f"{folder}/a"]
            return run([nvcc, *options, str(EXAMPLE)])
    place = target / "python-nvrtc"
    libraries = list(place.glob("lib/python*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.*"))
    if not libraries:
        venv.create(place, with_pip=True)
        pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if not run([*pip, NVRTC]):
            say("not compiled as CUDA: no nvcc, and the package with NVRTC cannot be installed")
            return True
        libraries = list(place.glob("lib/python*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.*"))
    say(f"CUDA by NVRTC ({NVRTC})")
    return by_nvrtc(next(one for one in libraries if "alt" not in one.name))


def hip() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        hipcc, clang = shutil.which("hipcc"), shutil.which("clang++")
        if hipcc:
            say(f"HIP by {hipcc}")
            options = ["-std=c++17", "-O3", "-I", str(HEADER.parent), "-x", "hip", "-o", f"{folder}/a"]
            return run([hipcc, *options, str(EXAMPLE)])
        if not clang:
            say("not compiled as HIP: neither hipcc nor clang++ is here (Debian: apt install clang)")
            return True
        source = Path(folder) / "kernels.hip"
        source.write_text(HIP_STUB + KERNELS)
        say(f"HIP by {clang}")
        options = ["-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "--offload-arch=gfx1030"]
        options += ["-std=c++17", "-O2", "-S", "-I", str(HEADER.parent), "-o", f"{folder}/a"]
        return run([clang, *options, str(source)])


def host() -> bool:
    """The example, which reads llvmpipe's memory."""
    compiler = shutil.which("c++")
    if not compiler:
        say("not compiled for the host: no c++ (Debian: apt install g++)")
        return True
    say(f"the example for the host by {compiler}")
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", str(HEADER.parent)]
    return run([compiler, *options, "-x", "c++", str(EXAMPLE)])


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "target").resolve()
    outcomes = [host(), cuda(target), hip()]
    sys.exit(0 if all(outcomes) else 1)
