#!/bin/sh
# Cargo for the tests of the Python package: takes the place of `cargo rustc` when maturin builds the wheel.
#
# A package that is built alone has fewer features of its dependencies than in the workspace, so Cargo would
# build most crates once more. This builds the package as scripts/tests.py has built it, so that nothing is
# left to do: without maturin's variables, for which the crates of PyO3 would be built again.
unset PYO3_PYTHON PYO3_ENVIRONMENT_SIGNATURE PYTHON_SYS_EXECUTABLE CARGO_MANIFEST_DIR
export PYO3_BUILD_EXTENSION_MODULE=1
if [ "$1" = rustc ]; then
    exec cargo build --workspace --exclude lanefs-fuzz --locked --lib --bins --tests \
        --message-format json-render-diagnostics
fi
exec cargo "$@"
