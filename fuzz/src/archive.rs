//! Hostile archives.

use lanefs::{InodeSize, Volume};
use lanefs_testkit::volume::options;
use lanefs_transfer::{ArchiveSource, Control, ImportOptions, Silent, import_archive};
use std::io::Cursor;

/// Imports the input into an empty volume, which must be sound afterwards: as it is, and with damage skipped.
pub fn archive(data: &[u8]) {
    [false, true].into_iter().for_each(|ignore_damage| import(data, ignore_damage));
}

fn import(data: &[u8], ignore_damage: bool) {
    let volume =
        Volume::create_memory(&options(lanefs_format::MIN_VOLUME, InodeSize::B256)).expect("a volume");
    let source = ArchiveSource::StandardInput(Box::new(Cursor::new(data.to_vec())));
    let control = Control { interrupt: &|| false, progress: &Silent };
    let import = ImportOptions { ignore_damage, ..ImportOptions::default() };
    let _ = import_archive(&volume, source, b"/", &import, control);
    let report = volume.check(false, &|_, _| {}).expect("a check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
