//! Damaged images.

use crate::input::{Input, edit};
use lanefs_testkit::mutate::{Editor, MutationBase, bases, exercise};
use lanefs_testkit::seeded::Seeded;
use std::sync::OnceLock;

/// Base images that are opened quickly.
fn small_bases() -> &'static [&'static MutationBase] {
    static BASES: OnceLock<Vec<&MutationBase>> = OnceLock::new();
    BASES.get_or_init(|| {
        let bases = bases().expect("sound volumes can be made");
        bases.iter().filter(|base| base.name != "two-levels").collect()
    })
}

/// Chooses a base image, edits blocks of its metadata, makes their checksums good again or not, and puts the
/// image through all that the testkit puts a hostile image through.
pub fn image(data: &[u8]) {
    let mut input = Input::new(data);
    let bases = small_bases();
    let base = bases[usize::from(input.u8()) % bases.len()];
    let flags = input.u8();
    let mut editor = Editor::new(&base.image);
    while !input.is_empty() {
        let block = base.image.metadata[input.below(base.image.metadata.len())];
        edit(&mut input, editor.edit(block.at));
    }
    if flags & 1 == 1 {
        editor.seal();
    }
    let mut numbers = Seeded::new(u64::from(flags >> 1));
    let medium = editor.into_device(&mut numbers);
    if let Err(text) = exercise(&medium, base, &mut numbers) {
        panic!("base {}: {text}", base.name);
    }
}
