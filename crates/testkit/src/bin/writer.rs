//! Changes a volume until it is killed: `writer IMAGE SEED [early | replace | tear]`.
//!
//! It prints `ready` when the volume is open, and then `N` for each sync that has returned: steps 0 to N - 1
//! of the sequence of the seed are durable. With `early` it prints `N` before the sync, and often leaves the
//! sync out: a planted bug that the test must find.
//!
//! With `replace` it replaces one file again and again by content of which all bytes are the same, while
//! another thread syncs. With `tear` it empties the file first, in a transaction of its own: a planted bug.

use lanefs::{Access, Caller, CreateOptions, Ino, InodeSize, SetAttr, Volume};
use lanefs_testkit::seeded::Seeded;
use lanefs_testkit::steps::{Step, prepare};
use lanefs_testkit::volume::options;
use std::error::Error;
use std::io::Write;
use std::path::Path;

const VOLUME_BYTES: u64 = 24 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, image, seed, rest @ ..] = &arguments[..] else { return Err("writer IMAGE SEED [MODE]".into()) };
    let mode = rest.first().map_or("", String::as_str);
    let image = Path::new(image);
    let volume = if image.exists() {
        Volume::open(image, Access::Write)?
    } else {
        let options = CreateOptions { force: false, ..options(VOLUME_BYTES, InodeSize::B256) };
        let volume = Volume::create(image, &options)?;
        prepare(&volume)?;
        volume.sync()?;
        volume
    };
    match mode {
        "replace" | "tear" => replace(&volume, seed.parse()?, mode == "tear"),
        mode => write(&volume, seed.parse()?, mode == "early"),
    }
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Makes one file durable with all directories that lead to it.
fn fsync(volume: &Volume, ino: Ino) -> lanefs::Result<()> {
    volume.fsync(ino, false)
}

fn write(volume: &Volume, seed: u64, early: bool) -> Result<(), Box<dyn Error>> {
    say("ready")?;
    // The frequency of syncs does not follow from the steps, so that it may change without them.
    let mut random = Seeded::new(!seed);
    let sync_one_in = *random.pick(&[2, 6, 40]);
    for number in 0.. {
        let changed = match Step::new(seed, number).on_volume(volume) {
            Ok(ino) => Some(ino),
            Err(error) if error.errno() == lanefs::Code::Io.errno() => return Err(error.into()),
            // An ordinary failure, as in the model.
            Err(_) => None,
        };
        if random.below(sync_one_in) > 0 {
            continue;
        }
        if early {
            say(&(number + 1).to_string())?;
            if random.below(6) > 0 {
                continue;
            }
        }
        match changed {
            Some(ino) if random.chance(50) => fsync(volume, ino)?,
            _ => volume.sync()?,
        }
        if !early {
            say(&(number + 1).to_string())?;
        }
    }
    Ok(())
}

fn replace(volume: &Volume, seed: u64, tears: bool) -> Result<(), Box<dyn Error>> {
    let mut random = Seeded::new(seed);
    let mut next = || vec![random.below(255) as u8 + 1; random.between(1, 60_000) as usize];
    let ino = volume.write_file("/whole", next())?.ino;
    volume.sync()?;
    say("ready")?;
    std::thread::scope(|scope| {
        scope.spawn(|| while volume.sync().is_ok() {});
        loop {
            if tears {
                let empty = SetAttr { size: Some(0), ..SetAttr::default() };
                volume.setattr(&Caller::OWNER, ino, &empty)?;
            }
            volume.write_file("/whole", next())?;
        }
    })
}
