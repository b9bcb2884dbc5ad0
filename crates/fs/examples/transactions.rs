//! Changes that happen together or not at all, durably, as with an embedded database: docs/rust.md has the
//! same steps with redb beside these.

use lanefs::{Access, CreateOptions, Volume};
use std::path::Path;

/// Moves an amount between two accounts. After a power cut both have changed, or neither.
fn transfer(volume: &Volume, from: &str, to: &str, amount: u64) -> lanefs::Result<()> {
    let balance = |path: &str| {
        let text = volume.read_file(path)?;
        Ok::<u64, lanefs::Error>(String::from_utf8_lossy(&text).parse().unwrap_or(0))
    };
    let rest = (balance(from)? - amount).to_string();
    let sum = (balance(to)? + amount).to_string();
    let mut transaction = volume.transaction();
    transaction.write_file(from, &rest).write_file(to, &sum);
    transaction.commit()?;
    volume.sync()
}

fn run(image: &Path) -> lanefs::Result<()> {
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    let volume = Volume::open_or_create(image, &options, Access::Write)?;
    let mut transaction = volume.transaction();
    transaction.create_dir_all("/accounts").write_file("/accounts/a", "100").write_file("/accounts/b", "0");
    transaction.commit()?;
    transfer(&volume, "/accounts/a", "/accounts/b", 30)?;
    assert_eq!(volume.read_file("/accounts/b")?, b"30");

    // A step that fails undoes those before it.
    let mut transaction = volume.transaction();
    transaction.write_file("/accounts/a", "0").rename("/accounts/none", "/accounts/c");
    let error = transaction.commit().expect_err("there is no such file");
    assert_eq!(error.to_string(), "change 2 of 2, /accounts/none to /accounts/c: not found");
    assert_eq!(volume.read_file("/accounts/a")?, b"70");
    volume.close()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    run(&dir.path().join("accounts.lane"))?;
    Ok(())
}
