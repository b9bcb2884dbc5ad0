#!/usr/bin/env python3
"""Prints the list of parts of the packages of `make dist`: every crate in them, as CycloneDX 1.5.

    scripts/parts.py VERSION

The crates are those that `cargo tree` names for the program, the Python package and the malloc library on both
processors, without what only builds or tests them; Cargo.lock has their hashes. C code comes within crates
(`zstd-sys`, `ring`, `blake3`).
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

PACKAGES = ["lanefs-cli", "lanefs-python", "lanefs-alloc-c"]
TARGETS = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl",
           "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]
ROOT = pathlib.Path(__file__).resolve().parent.parent


def crates() -> dict[tuple[str, str], str]:
    """Name and version of each crate, with its licence."""
    options = [option for package in PACKAGES for option in ("-p", package)]
    options += [option for target in TARGETS for option in ("--target", target)]
    tree = subprocess.run(
        [os.environ.get("CARGO", "cargo"), "tree", "--locked", "--edges", "normal", "--prefix", "none",
         "--no-dedupe", "--format", "{p}|{l}", *options],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found = {}
    for line in filter(None, tree.splitlines()):
        crate, licence = line.split("|")
        name, version = crate.split()[:2]
        found[name, version.removeprefix("v")] = licence
    return found


def hashes() -> dict[tuple[str, str], str]:
    """SHA-256 of each crate that comes from a registry."""
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return {(p["name"], p["version"]): p["checksum"] for p in packages if "checksum" in p}


def component(name: str, version: str, licence: str, checksum: str | None) -> dict:
    purl = f"pkg:cargo/{name}@{version}"
    part = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if licence:
        # Old crates write a slash for `OR`.
        part["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", licence)}]
    if checksum:
        part["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return part


def main() -> None:
    version = sys.argv[1]
    checksums = hashes()
    parts = [component(*crate, licence, checksums.get(crate)) for crate, licence in sorted(crates().items())]
    json.dump({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "lanefs", "name": "lanefs", "version": version}},
        "components": parts,
    }, sys.stdout, indent=1)
    print()


main()
