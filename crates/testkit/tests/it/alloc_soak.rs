//! A short soak of the heap, and proofs that the soak finds planted bugs. (A program of its own, because it
//! reads the memory use of its process.)

use std::process::{Command, Output};

fn soak(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_alloc_soak");
    Command::new(program).args(arguments).args(["--seed", "1"]).output().expect("run")
}

#[test]
fn a_short_soak_finds_nothing() {
    // Each heap keeps a slab in part use for each size class: with 64 MiB in use, these alone reach the
    // limit.
    let done = soak(&["--phases", "9", "--turns", "4", "--mib", "256"]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("MiB resident"), "{text}");
}

#[test]
fn canary_an_object_that_two_have_is_noticed() {
    let done = soak(&["--phases", "1", "--mib", "8", "--plant", "share"]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.code() == Some(1) && text.contains("is another's"), "{text}");
}

#[test]
fn canary_memory_that_is_not_given_back_is_noticed() {
    // The leak is an eightieth of each turn: 25 MiB after 120, three times what the limit leaves.
    let done = soak(&["--phases", "1", "--turns", "120", "--mib", "16", "--plant", "leak"]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.code() == Some(1) && text.contains("of the bytes in use"), "{text}");
}

#[test]
fn each_soak_refuses_arguments_that_it_does_not_have() {
    // `soak` once took its limits from the environment, and none of the arguments that `make soak` gives.
    let programs =
        [env!("CARGO_BIN_EXE_alloc_soak"), env!("CARGO_BIN_EXE_crash_soak"), env!("CARGO_BIN_EXE_soak")];
    for program in programs {
        for arguments in [&["--years", "1"][..], &["--seconds"], &["--seed", "one"]] {
            let done = Command::new(program).args(arguments).output().expect("run");
            assert_eq!(done.status.code(), Some(2), "{program} {arguments:?}");
        }
    }
}
