//! The parts: volumes by size, and things by number.

use super::rows::{ITEMS, RowOf, SIZES, Step};
use super::steps::{Measured, ScaleBench};
use super::worker::ScaleWorkerArgs;
use super::{GIB, TIB};
use crate::error::Result;
use crate::measure::report::Row;
use crate::systems::temporary::temp_dir;
use lanefs::format::MAX_VOLUME;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Largest memory of making a volume of any size, and of growing to it.
const TABLE_MEMORY: f64 = (64 << 20) as f64;
/// Times as long as in the first volume that a create in one of 16 TiB may take.
const CREATE_RATIO: f64 = 1.1;
/// Size of the volume for files without a name.
const ORPHANS: u64 = 16 * GIB;

/// Measures each size in turn, run by run.
pub(super) fn measure(bench: &mut ScaleBench) -> Result<()> {
    let dir = temp_dir()?;
    let volumes = bench.settings.sizes.volumes.clone();
    let largest = volumes.iter().max().copied().unwrap_or(0);
    let packed = bench.settings.packed || !holds(dir.path(), largest);
    if packed {
        let size = label(largest).replace('_', " ");
        bench.note(format!(
            "the host holds no file of {size}: all volumes are in a device that stores only what is not zero"
        ));
    }
    let mut measured = Measured::default();
    for run in 0..bench.runs {
        for (column, &bytes) in volumes.iter().enumerate() {
            size(bench, &mut measured, column, &base(dir.path(), packed, bytes, run))?;
        }
    }
    let labels: Vec<String> = volumes.iter().map(|&bytes| label(bytes)).collect();
    let title = format!(
        "Median by the size of the volume, and times that of {}. A volume of this format ends at {} TiB.",
        labels[0].replace('_', " "),
        MAX_VOLUME / TIB
    );
    add(bench, &measured, title, &labels, &SIZES);
    Ok(())
}

/// Takes all steps on a volume of one size.
fn size(bench: &ScaleBench, measured: &mut Measured, column: usize, base: &ScaleWorkerArgs) -> Result<()> {
    let sizes = &bench.settings.sizes;
    let selected = |step| SIZES.iter().any(|(name, _, of)| *of == step && bench.selection.has(name));
    let with = |step, count| ScaleWorkerArgs { step, count, ..base.clone() };
    // First: a table of 1 PiB has 33 GiB, and a host has room for one of them rather than two.
    if selected(Step::Grow) && base.bytes > GIB {
        let image = base.image.with_extension("grown");
        measured.step(bench, column, &ScaleWorkerArgs { image: image.clone(), ..with(Step::Grow, 1) })?;
        // The next volume needs the room.
        let _ = std::fs::remove_file(&image).or_else(|_| std::fs::remove_dir_all(&image));
    }
    if [Step::Make, Step::Use, Step::Recover, Step::Check].into_iter().any(selected) {
        measured.step(bench, column, &with(Step::Make, 1))?;
    }
    if selected(Step::Use) {
        let args = ScaleWorkerArgs { written: sizes.written, ..with(Step::Use, sizes.creates) };
        measured.step(bench, column, &args)?;
    }
    if selected(Step::Recover) && measured.step(bench, column, &with(Step::Leave, 100))? {
        measured.step(bench, column, &with(Step::Recover, 100))?;
    }
    if selected(Step::Check) {
        measured.step(bench, column, &with(Step::Check, 1))?;
    }
    Ok(())
}

/// Measures things by number: all of them, and a tenth.
pub(super) fn measure_items(bench: &mut ScaleBench) -> Result<()> {
    let dir = temp_dir()?;
    let sizes = bench.settings.sizes.clone();
    let steps = [
        (Step::Entries, sizes.entries),
        (Step::Links, sizes.many),
        (Step::Attributes, sizes.many),
        (Step::Extents, sizes.many),
        (Step::Levels, sizes.levels),
        (Step::Handles, sizes.handles),
        (Step::Recover, sizes.handles),
    ];
    let mut measured = Measured::default();
    for run in 0..bench.runs {
        for (step, all) in steps {
            if !ITEMS.iter().any(|(name, _, of)| *of == step && bench.selection.has(name)) {
                continue;
            }
            for (column, count) in [all / 10, all].into_iter().enumerate() {
                let base = base(dir.path(), true, ORPHANS, run);
                let with = |step| ScaleWorkerArgs { step, count, ..base.clone() };
                if step == Step::Recover {
                    measured.step(bench, column, &with(Step::Make))?;
                    measured.step(bench, column, &with(Step::Leave))?;
                }
                measured.step(bench, column, &with(step))?;
            }
        }
    }
    let labels = ["a_tenth", "all"].map(String::from);
    let title = "Median by the number of things, a tenth of them and all; one thing takes as long in both.";
    add(bench, &measured, title.into(), &labels, &ITEMS);
    Ok(())
}

/// Adds rows and a table: the first column is the row's value, the others are further values.
fn add(bench: &mut ScaleBench, measured: &Measured, title: String, labels: &[String], rows: &[RowOf]) {
    for (name, unit, _) in rows.iter().filter(|(name, ..)| bench.selection.has(name)) {
        // Only a volume that is larger than the first one grows.
        let Some(first) = (0..labels.len()).find_map(|column| measured.get(name, column)) else { continue };
        let mut row = Row { name: (*name).into(), unit: (*unit).into(), lanefs: first, ..Row::default() };
        for (column, label) in labels.iter().enumerate() {
            if let Some(found) = measured.get(name, column) {
                row = row.extra(&format!("at_{label}"), found.median);
            }
        }
        row = goals(row);
        bench.report.rows.push(row);
    }
    let heading: Vec<String> = labels.iter().map(|label| label.replace('_', " ")).collect();
    let rows: Vec<RowOf> = rows.iter().filter(|(name, ..)| bench.selection.has(name)).copied().collect();
    bench.report.tables.push(measured.table(title, &heading, &rows));
}

fn goals(row: Row) -> Row {
    let most = row.extra.values().copied().fold(0.0, f64::max);
    let at_16 = row.extra.get("at_16_TiB").map(|value| value / row.lanefs.median);
    match (row.name.as_str(), at_16) {
        ("size-mkfs-memory" | "size-grow-memory", _) => row.goal("any size <= 64 MiB", most <= TABLE_MEMORY),
        ("size-create", Some(ratio)) => {
            row.goal(format!("16 TiB <= {CREATE_RATIO}x 1 GiB"), ratio <= CREATE_RATIO)
        }
        _ => row,
    }
}

/// Returns the arguments that all steps of a volume share.
fn base(dir: &Path, packed: bool, bytes: u64, run: usize) -> ScaleWorkerArgs {
    let image: PathBuf = dir.join(format!("{bytes}.lane"));
    ScaleWorkerArgs { step: Step::Make, image, packed, bytes, count: 1, written: 0, run: run as u64 }
}

/// Returns whether the host's file system holds a sparse file of `bytes` bytes.
fn holds(dir: &Path, bytes: u64) -> bool {
    let path = dir.join("sparse");
    let is_held = File::create(&path).and_then(|file| file.set_len(bytes)).is_ok();
    let _ = std::fs::remove_file(path);
    is_held
}

/// Names a size, as `16_TiB`.
fn label(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1024 * TIB) => format!("{}_PiB", bytes / TIB / 1024),
        _ if bytes.is_multiple_of(TIB) => format!("{}_TiB", bytes / TIB),
        _ if bytes.is_multiple_of(GIB) => format!("{}_GiB", bytes / GIB),
        _ => format!("{}_MiB", bytes >> 20),
    }
}
