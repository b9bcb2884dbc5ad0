//! Hostile answers of a device.

use crate::input::Input;
use lanefs::bulk::{Batch, Change, DirEngine, Frozen, Home, Lookup, LookupRequest, Rebuilt, Undecided};
use lanefs::{FileKind, InodeSize, RenameMode, Volume};
use lanefs_gpu::twin::change::TwinEngine;
use lanefs_testkit::volume::options;
use std::cell::RefCell;
use std::sync::OnceLock;

/// The kernels' twins as an engine, whose answers the input changes.
struct Hostile<'v, 'd, 'i> {
    honest: TwinEngine<'v>,
    input: &'i RefCell<Input<'d>>,
}

/// Replaces some bits of a number.
fn bend(input: &mut Input<'_>, number: &mut u64) {
    let width = usize::from(input.u8() % 8) + 1;
    let bits = input.number(width);
    *number = match input.u8() % 4 {
        0 => bits,
        1 => *number ^ bits,
        2 => number.wrapping_add(bits),
        _ => number.wrapping_sub(bits),
    };
}

fn bend_home(input: &mut Input<'_>, home: Home) -> Home {
    let mut at = match home {
        Home::Empty => 0,
        Home::Small(at) | Home::Region(at) => at,
    };
    bend(input, &mut at);
    match input.u8() % 3 {
        0 => Home::Empty,
        1 => Home::Small(at),
        _ => Home::Region(at),
    }
}

fn bend_seen(input: &mut Input<'_>, seen: &mut Lookup) {
    let mut number = input.number(4);
    match input.u8() % 6 {
        0 => seen.hash = number as u32,
        1 => seen.home = bend_home(input, seen.home),
        2 => bend(input, &mut seen.dummy),
        3 => seen.count = number as u32,
        4 => seen.entry = None,
        _ => {
            let (mut at, mut ino, kind) = seen.entry.unwrap_or((0, 0, FileKind::File));
            bend(input, &mut at);
            bend(input, &mut ino);
            bend(input, &mut number);
            seen.entry = Some((at, ino, FileKind::from_number(number as u8 % 16).unwrap_or(kind)));
        }
    }
}

impl DirEngine for Hostile<'_, '_, '_> {
    fn begin(&mut self, still: &Frozen<'_>) -> Result<(), Undecided> {
        self.honest.begin(still)
    }

    fn seek(&mut self, names: &[LookupRequest<'_>]) -> Result<Vec<Lookup>, Undecided> {
        let mut seen = self.honest.seek(names)?;
        let input = &mut *self.input.borrow_mut();
        for _ in 0..input.u8() % 4 {
            let which = input.below(seen.len());
            match seen.get_mut(which) {
                Some(seen) if !input.u8().is_multiple_of(16) => bend_seen(input, seen),
                _ => seen.truncate(which),
            }
        }
        Ok(seen)
    }

    fn rebuild(&mut self, batch: &Batch) -> Result<Rebuilt, Undecided> {
        let mut rebuilt = self.honest.rebuild(batch)?;
        let input = &mut *self.input.borrow_mut();
        for _ in 0..input.u8() % 8 {
            let (word, head) = (input.below(rebuilt.words.len()), input.below(rebuilt.heads.len()));
            match input.u8() % 8 {
                0 => rebuilt.words.truncate(word),
                1 => rebuilt.heads.truncate(head),
                2 => {
                    let (mut at, mut value) = rebuilt.words.get(word).copied().unwrap_or_default();
                    bend(input, &mut at);
                    bend(input, &mut value);
                    rebuilt.words.push((at, value));
                }
                kind => {
                    let number = input.number(4) as u32;
                    match (rebuilt.words.get_mut(word), rebuilt.heads.get_mut(head)) {
                        (Some((at, _)), _) if kind < 4 => bend(input, at),
                        (Some((_, value)), _) if kind < 6 => bend(input, value),
                        (_, Some(built)) if kind == 6 => built.lowest = number,
                        (_, Some(built)) => built.count = number % 512,
                        _ => {}
                    }
                }
            }
        }
        Ok(rebuilt)
    }
}

/// A volume with a small directory, one of one region and one with a tree.
fn image() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let size = lanefs_format::MIN_VOLUME;
        let volume = Volume::create_memory(&options(size, InodeSize::B256)).expect("a volume");
        for (dir, names) in [("s", 6), ("r", 100), ("t", 700)] {
            volume.mkdir_all(format!("/{dir}"), 0o755).expect("a directory");
            for name in 0..names {
                volume.write_file(format!("/{dir}/{name}"), b"").expect("a file");
            }
        }
        volume.to_bytes().expect("the bytes")
    })
}

/// Makes batches of changes through the hostile engine. The volume may be damaged by it; every access stays
/// inside the volume, and each call ends.
pub fn answers(data: &[u8]) {
    let input = RefCell::new(Input::new(data));
    let volume = Volume::from_bytes(image().to_vec()).expect("a sound volume opens");
    let honest = TwinEngine::of(&volume).expect("nobody else watches the volume");
    let mut engine = Hostile { honest, input: &input };
    for _ in 0..3 {
        let (paths, kinds) = {
            let input = &mut *input.borrow_mut();
            let count = usize::from(input.u8() % 64) + 1;
            let path = |input: &mut Input<'_>| {
                let dir = [&b"s"[..], b"r", b"t", b"new"][usize::from(input.u8() % 4)];
                [dir, b"/", input.below(900).to_string().as_bytes()].concat()
            };
            let paths: Vec<_> = (0..count).map(|_| [path(input), path(input)]).collect();
            let kinds: Vec<u8> = (0..count).map(|_| input.u8()).collect();
            (paths, kinds)
        };
        let changes: Vec<Change<'_>> = paths
            .iter()
            .zip(kinds)
            .map(|([path, to], kind)| match kind % 6 {
                0 | 1 => Change::Create { path, perm: 0o644, data: b"data" },
                2 => Change::MkdirAll { path, perm: 0o755 },
                3 => Change::Unlink { path },
                4 => Change::Rmdir { path },
                _ => Change::Rename { from: path, to, mode: RenameMode::Replace },
            })
            .collect();
        let _ = volume.apply_with(&mut engine, volume.root(), &changes);
        if input.borrow().is_empty() {
            break;
        }
    }
    let _ = volume.check(false, &|_, _| {});
}
