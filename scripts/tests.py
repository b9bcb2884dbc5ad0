#!/usr/bin/env python3
"""Builds every test of the workspace and runs the test programs and those of the Python package, several at a time.

    scripts/tests.py [--jobs N] [TEXT]      TEXT: only the tests of Rust whose names contain it
    scripts/tests.py --schedules            only the tests under a schedule explorer

`cargo test` runs one test program after another, and each ends with a test or two that leave a processor idle:
a third of the time on two processors. Here the next program begins meanwhile. Steps that Cargo builds for run
beside the programs, one after the other: the schedule explorers, the examples of the documentation, and the
documentation itself. The output of a program or step appears as a whole when it has ended, and at the end those
that failed. The exit code is 1 where one did.
"""

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

CARGO = os.environ.get("CARGO", "cargo")
# With the libraries, of which the Python package is one: scripts/workspace-cargo.sh builds the same.
BUILD = [CARGO, "build", "--workspace", "--exclude", "lanefs-fuzz", "--locked"]
BUILD += ["--lib", "--bins", "--tests"]
# The programs that take minutes, longest first: one that begins late is alone at the end.
LONGEST = ["testkit: tests/it/main.rs", "cli: tests/cli/main.rs", "fs: tests/it/main.rs", "gpu: tests/it/main.rs"]
# Programs whose temporary files are in memory where there is room. These tests make and remove so many that ext4
# took a fifth of their processor time. Others stay on the disk: they compare with its file system.
IN_MEMORY = ["cli: tests/cli/main.rs"]
MEMORY_FOLDER = "/dev/shm"
# Bytes of it that such a program may take.
MEMORY_BYTES = 4 << 30
EXAMPLES = [CARGO, "test", "--workspace", "--exclude", "lanefs-fuzz", "--locked", "--doc"]
DOCUMENTATION = [CARGO, "doc", "--workspace", "--exclude", "lanefs-alloc-c", "--exclude", "lanefs-fuzz", "--locked"]
DOCUMENTATION += ["--lib", "--no-deps"]
# With an example the dependencies have the features that tests ask for, so clippy has checked them already.
DOCUMENTATION += ["--example", "transactions"]
# A build of its own: its feature reaches each crate that uses `lanefs-sync`. One build for all four crates makes
# what they depend on once.
EXPLORED = [CARGO, "test", "--no-run", "-p", "lanefs-sync", "-p", "lanefs-store", "-p", "lanefs", "-p", "lanefs-alloc"]
EXPLORED += ["--features", "_shuttle", "--lib", "--locked"]
# The schedules of this crate meet a few queues of it, and it is most of the build where it is optimised.
EXPLORED += ["--config", "profile.dev.package.lanefs.opt-level=0"]
# Tests of these crates that are run under the explorer; empty: all.
SCHEDULES = {"sync": [], "store": ["schedules"], "fs": ["schedules"], "alloc": ["schedules"]}


class Program(NamedTuple):
    """A test program, or a step of several."""

    name: str
    command: list[str]
    # The folder in which it runs.
    package: Path
    # Variables that Cargo sets for a test program.
    environment: dict[str, str]


class Outcome(NamedTuple):
    """The end of a test program."""

    program: Program
    code: int
    seconds: float
    # Processor time of the program and of all processes that it waited for, in seconds.
    processor: float
    output: str


def built(command: list[str]) -> list[Program]:
    """Builds test programs, and returns them."""
    done = subprocess.run([*command, "--message-format=json-render-diagnostics"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    programs = []
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["executable"] and message["profile"]["test"]:
            package = Path(message["manifest_path"]).parent
            target = message["target"]
            name = f"{package.name}: {Path(target['src_path']).relative_to(package)}"
            environment = {"CARGO_MANIFEST_DIR": str(package)}
            programs.append(Program(name, [message["executable"]], package, environment))
    return programs


def build() -> list[Program]:
    """Builds the test programs, and returns them in the order in which they begin."""
    print(f"==> test: build, {' '.join(BUILD)}", flush=True)
    programs = built(BUILD)
    if unknown := [name for name in LONGEST if name not in {program.name for program in programs}]:
        sys.exit(f"scripts/tests.py: no such test program: {', '.join(unknown)}")
    return sorted(programs, key=lambda program: (LONGEST + [program.name]).index(program.name))


def explore() -> int:
    """Builds and runs the tests under a schedule explorer. Returns the exit code."""
    print(f"==> test: schedules, {' '.join(EXPLORED)}", flush=True)
    programs = built(EXPLORED)
    if sorted(program.package.name for program in programs) != sorted(SCHEDULES):
        sys.exit(f"scripts/tests.py: other programs: {', '.join(program.name for program in programs)}")
    codes = []
    for program in programs:
        print(f"     Running {program.name}", flush=True)
        command = [*program.command, *SCHEDULES[program.package.name]]
        environment = os.environ | {"LD_LIBRARY_PATH": libraries()} | program.environment
        codes.append(subprocess.run(command, cwd=program.package, env=environment).returncode)
    return 1 if any(codes) else 0


def steps(arguments: list[str]) -> list[Program]:
    """Returns the steps that Cargo builds for, which run one after the other: each waits for the build folder."""
    root = Path.cwd()
    filtered = ["--", *arguments] if arguments else []
    examples = Program("documentation: examples", [*EXAMPLES, *filtered], root, {})
    if arguments:
        return [examples]
    schedules = [sys.executable, str(root / "scripts/tests.py"), "--schedules"]
    documentation = {"RUSTDOCFLAGS": "-D warnings"}
    return [
        Program("schedules: explored", schedules, root, {}),
        examples,
        Program("documentation: no warning", DOCUMENTATION, root, documentation),
    ]


def python_package() -> Program:
    """Returns the tests of the Python package, which begin first: they wait for PyPI."""
    root = Path.cwd()
    target = os.environ.get("CARGO_TARGET_DIR", str(root / "target"))
    # Without a variable of Cargo's: it would build crates again whose build scripts read it.
    return Program("python: tests", ["sh", "scripts/python.sh", target, "test"], root, {})


@functools.cache
def libraries() -> str:
    """Returns the search path of shared libraries, with those of the toolchain, as Cargo sets it."""
    sysroot = subprocess.run(["rustc", "--print", "target-libdir"], stdout=subprocess.PIPE, text=True, check=True)
    return ":".join(filter(None, [sysroot.stdout.strip(), os.environ.get("LD_LIBRARY_PATH")]))


@functools.cache
def memory_folder() -> dict[str, str]:
    """Returns the variable that puts temporary files in memory; none where the user chose a folder or room is short."""
    if "TMPDIR" in os.environ or not os.path.ismount(MEMORY_FOLDER):
        return {}
    room = os.statvfs(MEMORY_FOLDER)
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    if room.f_flag & os.ST_NOEXEC:
        # Some tests run a script that they have made.
        return {}
    # The tests themselves need as much again.
    has_room = min(room.f_bavail * room.f_frsize, available // 2) >= MEMORY_BYTES
    return {"TMPDIR": MEMORY_FOLDER} if has_room and os.access(MEMORY_FOLDER, os.W_OK) else {}


def run(program: Program, arguments: list[str], environment: dict[str, str]) -> Outcome:
    """Runs a test program in the folder of its package, as Cargo does."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        running = subprocess.Popen(
            [*program.command, *arguments],
            cwd=program.package,
            env=environment | (memory_folder() if program.name in IN_MEMORY else {}) | program.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        processor = usage.ru_utime + usage.ru_stime
        return Outcome(program, running.returncode, time.monotonic() - start, processor, output.read())


def run_all(programs: list[Program], beside: list[Program], arguments: list[str], jobs: int) -> list[Outcome]:
    """Runs the programs and beside them the steps, prints what they print, and returns those that failed."""
    environment = os.environ | {"LD_LIBRARY_PATH": libraries()}
    failed = []
    with ThreadPoolExecutor(jobs) as pool, ThreadPoolExecutor(1) as lane:
        # Cargo finds the libraries of the toolchain, and a step has its arguments.
        running = [lane.submit(run, step, [], dict(os.environ)) for step in beside]
        running += [pool.submit(run, program, arguments, environment) for program in programs]
        for future in as_completed(running):
            outcome = future.result()
            print(f"     Running {outcome.program.name} ({outcome.seconds:.0f} s, {outcome.processor:.0f} s of processor)")
            print(outcome.output, flush=True)
            if outcome.code != 0:
                failed.append(outcome)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description="Build and run every test of the workspace.")
    # One more than processors, for the times at which a program waits for a disk or for its last test.
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1, help="test programs at a time")
    parser.add_argument("--schedules", action="store_true", help="only the tests under a schedule explorer")
    parser.add_argument("text", nargs="?", help="only the tests whose names contain it")
    options = parser.parse_args()
    os.chdir(Path(__file__).resolve().parent.parent)
    # As maturin has it: Python loads the package, and it needs no library of Python.
    os.environ["PYO3_BUILD_EXTENSION_MODULE"] = "1"
    if options.schedules:
        return explore()
    arguments = [options.text] if options.text else []
    programs, beside = build(), steps(arguments)
    if not arguments:
        programs.insert(0, python_package())
    print(f"==> test: {len(programs)} test programs, {options.jobs} at a time, and {len(beside)} steps", flush=True)
    failed = run_all(programs, beside, arguments, options.jobs)
    for outcome in failed:
        print(f"==> test: FAILED with exit code {outcome.code}: {outcome.program.name}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
