//! Hostile images: sound volumes, damaged in every way that a flipped bit, a lost write or an enemy could.
//!
//! A case is a base image and a seed; both together give the same image for ever (as long as the engine lays
//! out the base alike). Half of the cases have their checksums made valid again, so that the damage passes
//! the verification and meets the code that reads structures. [`exercise`] defines the work on each image.

mod bases;
mod corpus;
mod editor;
mod exercise;
mod image;
mod log;
mod mutation;
mod work;

pub use bases::{Base, bases};
pub use corpus::{Case, kept_cases};
pub use editor::Editor;
pub use exercise::{Effort, exercise};
pub use image::{Image, MetadataBlock};
pub use log::{Log, LoggedCommit};
pub use mutation::mutate;

use crate::seeded::Seeded;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Describes the mutations of a case in words.
pub fn describe(base: &Base, seed: u64) -> String {
    mutate(&mut Editor::new(&base.image), &mut Seeded::new(seed)).join("; ")
}

/// Makes the image of a case.
pub fn hostile(base: &Base, seed: u64) -> Vec<u8> {
    let mut numbers = Seeded::new(seed);
    let mut editor = Editor::new(&base.image);
    mutate(&mut editor, &mut numbers);
    editor.into_bytes(&mut numbers)
}

/// Makes the image of a case and does all work on it.
///
/// # Errors
/// A panic, or a finding of a check after a repair, with the case and its mutations.
pub fn run_case(base: &Base, seed: u64) -> Result<Effort, String> {
    let mut numbers = Seeded::new(seed);
    let mut editor = Editor::new(&base.image);
    let mutations = mutate(&mut editor, &mut numbers);
    let bytes = editor.into_bytes(&mut numbers);
    let outcome = catch_unwind(AssertUnwindSafe(|| exercise(bytes, base, &mut numbers)));
    let text = match outcome {
        Ok(Ok(effort)) => return Ok(effort),
        Ok(Err(text)) => text,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            format!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?"))
        }
    };
    Err(format!("case {} {seed}: {text}\n  mutations: {}", base.name, mutations.join("; ")))
}
