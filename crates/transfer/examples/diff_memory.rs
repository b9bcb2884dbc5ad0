//! Memory of a comparison: `diff_memory make DIR NAMES` makes two directories with as many empty files each,
//! `diff_memory compare DIR` compares them and prints the peak of the process's resident memory.

use lanefs_transfer::{Control, Side, Silent, SyncOptions, diff_trees};
use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", dir, names] => make(Path::new(dir), names.parse()?),
        ["compare", dir] => compare(Path::new(dir)),
        _ => Err("make DIR NAMES, or compare DIR".into()),
    }
}

fn make(dir: &Path, names: u64) -> Result<(), Box<dyn Error>> {
    for side in ["a", "b"] {
        let side = dir.join(side);
        fs::create_dir_all(&side)?;
        for number in 0..names {
            fs::File::create(side.join(format!("file {number:07}")))?;
        }
    }
    Ok(())
}

fn compare(dir: &Path) -> Result<(), Box<dyn Error>> {
    let (a, b) = (dir.join("a"), dir.join("b"));
    let control = Control { interrupt: &|| false, progress: &Silent };
    let (from, to) = (Side::Host(&a), Side::Host(&b));
    let report = diff_trees(from, to, &SyncOptions::default(), &|_| (), control)?;
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!("{} names, {} differences, {peak}", report.counts.compared, report.counts.differences());
    Ok(())
}
