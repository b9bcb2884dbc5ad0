//! Hostile images: sound volumes, damaged in every way that a flipped bit, a lost write or an enemy could.
//!
//! A case is a base image and a seed; both together give the same image for ever (as long as the engine lays
//! out the base alike). Half of the cases have their checksums made valid again, so that the damage passes
//! the verification and meets the code that reads structures. [`exercise`] defines the work on each image.

mod bases;
mod editor;
mod exercise;
mod image;
mod kept;
mod log;
mod medium;
mod mutation;
mod work;

pub use bases::{MutationBase, bases};
pub use editor::Editor;
pub use exercise::{ExerciseEffort, exercise};
pub use image::{Image, MetadataBlock};
pub use kept::{KEPT_CASES, KeptCase};
pub use log::{JournalLog, LoggedCommit};
pub use medium::ImageDevice;
pub use mutation::mutate;

use crate::seeded::Seeded;
use crate::watchdog::guarded;

/// Describes the mutations of a case in words.
pub fn describe(base: &MutationBase, seed: u64) -> String {
    mutate(&mut Editor::new(&base.image), &mut Seeded::new(seed)).join("; ")
}

/// Makes the image of a case.
pub fn hostile(base: &MutationBase, seed: u64) -> Vec<u8> {
    let mut numbers = Seeded::new(seed);
    let mut editor = Editor::new(&base.image);
    mutate(&mut editor, &mut numbers);
    editor.into_bytes(&mut numbers)
}

/// Makes the image of a case and does all work on it.
///
/// # Errors
/// A panic, or a finding of a check after a repair, with the case and its mutations.
pub fn run_case(base: &MutationBase, seed: u64) -> Result<ExerciseEffort, String> {
    let mut numbers = Seeded::new(seed);
    let mut editor = Editor::new(&base.image);
    let mutations = mutate(&mut editor, &mut numbers);
    run(editor, base, &mut numbers)
        .map_err(|text| format!("case {} {seed}: {text}\n  mutations: {}", base.name, mutations.join("; ")))
}

/// Does all work on the image of a kept case; `seed` chooses the order of the work.
///
/// # Errors
/// As [`run_case`].
pub fn run_kept(case: &KeptCase, base: &MutationBase, seed: u64) -> Result<ExerciseEffort, String> {
    let editor = case.editor(base)?;
    run(editor, base, &mut Seeded::new(seed))
        .map_err(|text| format!("{} in {}, work {seed}: {text}", case.name, base.name))
}

/// Works on an image. A panic is an error.
fn run(editor: Editor<'_>, base: &MutationBase, numbers: &mut Seeded) -> Result<ExerciseEffort, String> {
    let medium = editor.into_device(numbers);
    guarded(|| exercise(&medium, base, numbers))
}
