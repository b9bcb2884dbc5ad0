#!/bin/sh
# Checks licences, duplicates, sources and known vulnerabilities of all dependencies by deny.toml.
#
# Without cargo-deny, or without GitHub, where the database of vulnerabilities lies, it names the checks that
# it leaves out; the exit code is 0 if the others pass.
set -u
cd "$(dirname "$0")/.." || exit 2

# Seconds that the database may take to arrive.
FETCH_SECONDS=60

say() { printf 'deny: %s\n' "$*"; }

if ! cargo deny --version >/dev/null 2>&1; then
    say "not checked: licences, duplicates, sources, vulnerabilities: there is no cargo-deny (scripts/setup.sh installs it)"
    exit 0
fi
cargo deny --locked check licenses bans sources || exit 1
if timeout "$FETCH_SECONDS" cargo deny --locked fetch db >/dev/null 2>&1; then
    cargo deny --locked check --disable-fetch advisories || exit 1
else
    say "not checked: vulnerabilities: the advisory database at github.com cannot be reached"
fi
