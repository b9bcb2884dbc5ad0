//! Changes one by one (`Volume::apply`) and together (`Volume::apply_with`), each in a function of its own,
//! so that `scripts/count.sh` can count their instructions with callgrind. A twin stands for the device. Its
//! calls are in functions that the script leaves out, so what it counts is the host's part.

use lanefs::bulk::{Batch, Change, DirEngine, Frozen, Lookup, LookupRequest, Rebuilt, Undecided};
use lanefs::{CreateOptions, Volume};
use lanefs_gpu::twin::change::TwinEngine;
use std::hint::black_box;

const FILES: usize = 20_000;
const DATA: &[u8] = &[7; 100];

/// A device, whose work is left out of the phase that is counted.
struct Device<'v> {
    twin: TwinEngine<'v>,
    is_counted: bool,
}

impl DirEngine for Device<'_> {
    fn begin(&mut self, still: &Frozen<'_>) -> Result<(), Undecided> {
        if self.is_counted { left_out_begin(&mut self.twin, still) } else { self.twin.begin(still) }
    }

    fn seek(&mut self, names: &[LookupRequest<'_>]) -> Result<Vec<Lookup>, Undecided> {
        if self.is_counted { left_out_seek(&mut self.twin, names) } else { self.twin.seek(names) }
    }

    fn rebuild(&mut self, batch: &Batch) -> Result<Rebuilt, Undecided> {
        if self.is_counted { left_out_rebuild(&mut self.twin, batch) } else { self.twin.rebuild(batch) }
    }
}

#[inline(never)]
fn left_out_begin(twin: &mut TwinEngine<'_>, still: &Frozen<'_>) -> Result<(), Undecided> {
    twin.begin(still)
}

#[inline(never)]
fn left_out_seek(twin: &mut TwinEngine<'_>, names: &[LookupRequest<'_>]) -> Result<Vec<Lookup>, Undecided> {
    twin.seek(names)
}

#[inline(never)]
fn left_out_rebuild(twin: &mut TwinEngine<'_>, batch: &Batch) -> Result<Rebuilt, Undecided> {
    twin.rebuild(batch)
}

/// Makes a function for each phase, named as `scripts/count.sh` names it, for both ways of making changes.
macro_rules! phases {
    ($($alone:ident $together:ident)+) => {
        $(
            #[inline(never)]
            fn $alone(volume: &Volume, changes: &[Change<'_>]) {
                // The compiler would merge equal functions.
                black_box(stringify!($alone));
                alone(volume, changes);
            }

            #[inline(never)]
            fn $together(volume: &Volume, device: &mut Device<'_>, changes: &[Change<'_>]) {
                black_box(stringify!($together));
                device.is_counted = std::env::var("PHASE").is_ok_and(|phase| stringify!($together).ends_with(&phase));
                together(volume, device, changes);
            }
        )+
    };
}

phases! {
    count_alone_create count_together_create
    count_alone_flat count_together_flat
    count_alone_unlink count_together_unlink
}

#[inline(always)]
fn alone(volume: &Volume, changes: &[Change<'_>]) {
    volume.apply(volume.root(), changes).expect("changes one by one");
}

#[inline(always)]
fn together(volume: &Volume, device: &mut Device<'_>, changes: &[Change<'_>]) {
    let (_, shares) = volume.apply_with(device, volume.root(), changes).expect("changes together");
    assert_eq!((shares.together, shares.one_by_one), (changes.len() as u64, 0));
}

/// The directory of a file, of five components.
fn directory(file: usize) -> String {
    let (set, class, part) = (file % 20, file / 20 % 20, file / 400 % 2);
    format!("/data/train/set-{set:02}/class-{class:02}/part-{part}")
}

fn volume() -> Volume {
    let options = CreateOptions { size: 256 << 20, seed: Some([7; 16]), ..CreateOptions::default() };
    let volume = Volume::create_memory(&options).expect("volume");
    for file in 0..800 {
        volume.mkdir_all(directory(file), 0o755).expect("directories");
    }
    volume
}

fn main() {
    // In no order, as a program with several threads names them.
    let order: Vec<usize> = (0..FILES).map(|file| file * 7919 % FILES).collect();
    let tree: Vec<String> =
        order.iter().map(|file| format!("{}/sample-{file:06}.bin", directory(*file))).collect();
    let flat: Vec<String> = order.iter().map(|file| format!("/data/sample-{file:06}.bin")).collect();
    let create = |paths: &'static [String]| -> Vec<Change<'static>> {
        paths.iter().map(|path| Change::Create { path: path.as_bytes(), perm: 0o644, data: DATA }).collect()
    };
    let (tree, flat): (&[String], &[String]) = (tree.leak(), flat.leak());
    let (creates, flats) = (create(tree), create(flat));
    let unlinks: Vec<Change<'_>> = tree.iter().map(|path| Change::Unlink { path: path.as_bytes() }).collect();
    let one = volume();
    count_alone_create(&one, &creates);
    count_alone_flat(&one, &flats);
    count_alone_unlink(&one, &unlinks);
    let other = volume();
    let twin = TwinEngine::of(&other).expect("no other engine watches");
    let mut device = Device { twin, is_counted: false };
    count_together_create(&other, &mut device, &creates);
    count_together_flat(&other, &mut device, &flats);
    count_together_unlink(&other, &mut device, &unlinks);
}
