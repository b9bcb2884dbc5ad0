//! Hostile archives.

use lanefs::{InodeSize, Volume};
use lanefs_testkit::volume::options;
use lanefs_transfer::{ArchiveSource, Control, ImportOptions, Silent, import_archive};
use std::io::Cursor;

/// Imports the input into an empty volume, which must be sound afterwards.
pub fn archive(data: &[u8]) {
    let volume =
        Volume::create_memory(&options(lanefs_format::MIN_VOLUME, InodeSize::B256)).expect("a volume");
    let source = ArchiveSource::StandardInput(Box::new(Cursor::new(data.to_vec())));
    let control = Control { interrupt: &|| false, progress: &Silent };
    let _ = import_archive(&volume, source, b"/", &ImportOptions::default(), control);
    let report = volume.check(false, &|_, _| {}).expect("a check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
