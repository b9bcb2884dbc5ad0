#!/usr/bin/env python3
"""Runs a command and reports the time of each of its stages.

    scripts/stages.py make test                  in this tree
    scripts/stages.py --fresh make demo          in a fresh clone of HEAD, with nothing built
    scripts/stages.py --fresh --limit 20 make test

A stage begins with a line `==> NAME: ...`, as the Makefile and the scripts print. The clone lies in TMPDIR, and
goes when the command has ended. The exit code is the command's, or 1 where it took longer than `--limit` minutes.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STAGE = re.compile(r"==> ([^:]+): (.*)")


class Stages:
    """Stages of a command in the order of their first lines, with their times in seconds."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float]] = []
        self.name, self.since = "start", time.monotonic()

    def begin(self, name: str) -> None:
        """Ends the present stage, and begins another one."""
        now = time.monotonic()
        self.rows.append((self.name, now - self.since))
        self.name, self.since = name, now

    def line(self, text: str) -> None:
        """Takes notice of a line of the command's output."""
        if found := STAGE.match(text):
            self.begin(f"{found[1]}: {found[2]}"[:90].rstrip())

    def table(self) -> str:
        """Ends the last stage, and returns the table of all that took a second."""
        self.begin("end")
        whole = sum(seconds for _, seconds in self.rows)
        rows = [(name, seconds) for name, seconds in self.rows if seconds >= 1] + [("all", whole)]
        return "\n".join(f"{int(seconds) // 60:4d}:{int(seconds) % 60:02d}  {name}" for name, seconds in rows)


def run(command: list[str], tree: Path) -> tuple[int, float, str]:
    """Runs the command in a tree and passes its output on. Returns its exit code, its seconds and the table."""
    stages, start = Stages(), time.monotonic()
    with subprocess.Popen(
        command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as child:
        assert child.stdout is not None
        for text in child.stdout:
            stages.line(text)
            sys.stdout.write(text)
            sys.stdout.flush()
    return child.returncode, time.monotonic() - start, stages.table()


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a command and report the time of each of its stages.")
    parser.add_argument("--fresh", action="store_true", help="run it in a fresh clone of HEAD")
    parser.add_argument("--limit", type=float, metavar="MINUTES", help="fail where it takes longer")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command with its arguments")
    options = parser.parse_args()
    if not options.command:
        parser.error("no command; try: scripts/stages.py --fresh make demo")
    here = Path(__file__).resolve().parent.parent
    clone = Path(tempfile.mkdtemp(prefix="lanefs-fresh-")) if options.fresh else None
    try:
        if clone is not None:
            subprocess.run(["git", "clone", "--quiet", here, clone], check=True)
            # A target folder that others share would not be empty.
            os.environ.pop("CARGO_TARGET_DIR", None)
        code, seconds, table = run(options.command, clone or here)
    finally:
        if clone is not None:
            shutil.rmtree(clone, ignore_errors=True)
    print(f"\n{' '.join(options.command)}: exit code {code}\n{table}")
    if code == 0 and options.limit is not None and seconds > 60 * options.limit:
        print(f"longer than {options.limit:g} minutes")
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
