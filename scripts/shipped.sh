#!/bin/sh
# Checks that the program `lanefs`, as `make build` makes it, has no code that only tests and benchmarks need:
# no crate of the workspace in it has a feature whose name begins with an underscore. (A build of several
# packages together has the features that any of them asks for, so `make build` names one.)
set -u
cd "$(dirname "$0")/.." || exit 2

# shipped PACKAGE...: crates of the workspace with such a feature, where these packages are built together.
shipped() {
    for package; do set -- "$@" -p "$package"; shift; done
    cargo tree --locked --edges no-dev --prefix none --format '{p} [{f}]' "$@" | grep '^lanefs.*\[\(.*,\)\?_' | sort -u
}

# The check must see one where it is.
if [ -z "$(shipped lanefs-cli lanefs-bench)" ]; then
    echo "shipped: the check does not find the feature \`_testing\` in lanefs-bench"
    exit 1
fi
found=$(shipped lanefs-cli)
if [ -n "$found" ]; then
    printf 'shipped: the program lanefs would be built with code for tests:\n%s\n' "$found"
    exit 1
fi
