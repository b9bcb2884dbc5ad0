//! The compiled module, which cargo builds with the tests of the workspace: `scripts/python.sh` installs it
//! for the tests of the package.

use std::path::PathBuf;

/// The folder of `cargo build`, in which this test's own folder lies.
fn built() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    program.ancestors().nth(2).expect("the folder of cargo").to_path_buf()
}

#[test]
fn the_module_has_the_entry_that_python_calls() {
    let module = built().join("lib_lanefs.so");
    let bytes = std::fs::read(&module).unwrap_or_else(|why| panic!("{}: {why}", module.display()));
    let entry = b"PyInit__lanefs\0";
    assert!(bytes.windows(entry.len()).any(|part| part == entry), "{}", module.display());
}
