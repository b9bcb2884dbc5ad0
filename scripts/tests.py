#!/usr/bin/env python3
"""Builds every test of the workspace and runs the test programs and those of the Python package, several at a time.

    scripts/tests.py [--jobs N] [TEXT]      TEXT: only the tests of Rust whose names contain it

`cargo test` runs one test program after another, and each ends with a test or two that leave a processor idle:
a third of the time on two processors. Here the next program begins meanwhile. The output of a program appears
as a whole when it has ended, and at the end the programs that failed. The exit code is 1 where one did.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

CARGO = os.environ.get("CARGO", "cargo")
# With the libraries, of which the Python package is one: scripts/workspace-cargo.sh builds the same.
BUILD = [CARGO, "build", "--workspace", "--exclude", "lanefs-fuzz", "--locked"]
BUILD += ["--lib", "--bins", "--tests"]
# The programs that take minutes, longest first: one that begins late is alone at the end.
LONGEST = ["testkit: tests/it/main.rs", "cli: tests/cli/main.rs", "fs: tests/it/main.rs", "gpu: tests/it/main.rs"]
DOCUMENTATION = [CARGO, "test", "--workspace", "--exclude", "lanefs-fuzz", "--locked", "--doc"]


class Program(NamedTuple):
    """A test program."""

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


def build() -> list[Program]:
    """Builds the test programs, and returns them in the order in which they begin."""
    print(f"==> test: build, {' '.join(BUILD)}", flush=True)
    done = subprocess.run([*BUILD, "--message-format=json-render-diagnostics"], stdout=subprocess.PIPE, text=True)
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
    if unknown := [name for name in LONGEST if name not in {program.name for program in programs}]:
        sys.exit(f"scripts/tests.py: no such test program: {', '.join(unknown)}")
    return sorted(programs, key=lambda program: (LONGEST + [program.name]).index(program.name))


def python_package() -> Program:
    """Returns the tests of the Python package, which begin first: they wait for PyPI."""
    root = Path.cwd()
    target = os.environ.get("CARGO_TARGET_DIR", str(root / "target"))
    # Without a variable of Cargo's: it would build crates again whose build scripts read it.
    return Program("python: tests", ["sh", "scripts/python.sh", target, "test"], root, {})


def libraries() -> str:
    """Returns the search path of shared libraries, with those of the toolchain, as Cargo sets it."""
    sysroot = subprocess.run(["rustc", "--print", "target-libdir"], stdout=subprocess.PIPE, text=True, check=True)
    return ":".join(filter(None, [sysroot.stdout.strip(), os.environ.get("LD_LIBRARY_PATH")]))


def run(program: Program, arguments: list[str], environment: dict[str, str]) -> Outcome:
    """Runs a test program in the folder of its package, as Cargo does."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        running = subprocess.Popen(
            [*program.command, *arguments],
            cwd=program.package,
            env=environment | program.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        processor = usage.ru_utime + usage.ru_stime
        return Outcome(program, running.returncode, time.monotonic() - start, processor, output.read())


def run_all(programs: list[Program], arguments: list[str], jobs: int) -> list[Outcome]:
    """Runs the programs, prints what they print, and returns those that failed."""
    environment = os.environ | {"LD_LIBRARY_PATH": libraries()}
    failed = []
    with ThreadPoolExecutor(jobs) as pool:
        running: list[Future[Outcome]] = [pool.submit(run, program, arguments, environment) for program in programs]
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
    parser.add_argument("text", nargs="?", help="only the tests whose names contain it")
    options = parser.parse_args()
    os.chdir(Path(__file__).resolve().parent.parent)
    # As maturin has it: Python loads the package, and it needs no library of Python.
    os.environ["PYO3_BUILD_EXTENSION_MODULE"] = "1"
    arguments = [options.text] if options.text else []
    programs = build()
    if not arguments:
        programs.insert(0, python_package())
    print(f"==> test: {len(programs)} test programs, {options.jobs} at a time", flush=True)
    failed = run_all(programs, arguments, options.jobs)
    print(f"==> test: examples in the documentation, {' '.join(DOCUMENTATION)}", flush=True)
    documented = subprocess.run([*DOCUMENTATION, *(["--", *arguments] if arguments else [])]).returncode
    for outcome in failed:
        print(f"==> test: FAILED with exit code {outcome.code}: {outcome.program.name}")
    return 1 if failed or documented else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
