#!/bin/sh
# Checks every crate with the oldest Rust that Cargo.toml promises (`rust-version`).
#
# The toolchain comes from rustup. Without rustup, or where it cannot be downloaded, the script says so; the
# exit code is 0 then.
set -u
cd "$(dirname "$0")/.." || exit 2

say() { printf 'msrv: %s\n' "$*"; }

version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
[ -n "$version" ] || { say "Cargo.toml has no rust-version"; exit 1; }
if ! command -v rustup >/dev/null 2>&1; then
    say "not checked: Rust $version: there is no rustup to get it from"
    exit 0
fi
if ! cargo "+$version" --version >/dev/null 2>&1; then
    say "installing: rustup toolchain $version"
    rustup -q toolchain install "$version" --profile minimal >/dev/null 2>&1
fi
if ! cargo "+$version" --version >/dev/null 2>&1; then
    say "not checked: Rust $version: rustup cannot install it"
    exit 0
fi
cargo "+$version" check --workspace --locked
