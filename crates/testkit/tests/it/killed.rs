//! A process that changes a volume is killed, again and again: the changes that it acknowledged are there,
//! and the rest is as after some step.
//!
//! The program is `src/bin/writer.rs`. `LANEFS_KILLS` sets the number of kills, `LANEFS_SEED` the first seed.

use lanefs::{Access, Volume};
use lanefs_testkit::model::Model;
use lanefs_testkit::seeded::Seeded;
use lanefs_testkit::settings::Seeds;
use lanefs_testkit::steps::{Step, StepTree, prepared_model, tree_of_model, tree_of_volume};
use lanefs_testkit::watchdog::Watchdog;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Most steps that the writer can have done after the last acknowledged one: it syncs at least once in about
/// forty steps, so a thousand without a sync are practically impossible.
const MOST_AHEAD: u64 = 1000;

/// A volume's file on a disk, removed at the end.
struct Image(PathBuf);

impl Image {
    fn new(name: &str) -> Self {
        let image =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.lane", std::process::id()));
        // An earlier process with this number may have left one.
        let _ = std::fs::remove_file(&image);
        Image(image)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A running writer. It is killed when dropped.
struct Writer {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Writer {
    /// Starts one and waits until it has opened the volume.
    fn start(image: &Image, seed: u64, mode: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_writer"));
        command.arg(&image.0).arg(seed.to_string()).arg(mode);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the writer starts");
        let lines = BufReader::new(child.stdout.take().expect("the writer's output"));
        let mut writer = Writer { child, lines };
        assert_eq!(writer.line().as_deref(), Some("ready"), "the writer does not open the volume");
        writer
    }

    /// Returns the writer's next line; `None` where it is dead.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let len = self.lines.read_line(&mut line).expect("a line");
        // A line without its end was cut off by the kill.
        (len > 0 && line.ends_with('\n')).then(|| line.trim_end().to_owned())
    }

    /// Kills it, and returns how many steps it acknowledged.
    fn kill(mut self) -> u64 {
        self.child.kill().expect("kill");
        let status = self.child.wait().expect("wait");
        assert_eq!(status.code(), None, "the writer ended by itself: {status}");
        let mut acknowledged = 0;
        while let Some(line) = self.line() {
            acknowledged = line.parse().expect("the number of steps");
        }
        acknowledged
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // It is dead already unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Moves the model to the state that the volume has: that after `acknowledged` steps of `seed`, or some more.
/// Returns how many more.
fn find_state(model: &mut Model, seed: u64, acknowledged: u64, seen: &StepTree) -> Result<u64, String> {
    for number in 0..acknowledged {
        let _ = Step::new(seed, number).on_model(model);
    }
    for ahead in 0..MOST_AHEAD {
        if tree_of_model(model) == *seen {
            return Ok(ahead);
        }
        let _ = Step::new(seed, acknowledged + ahead).on_model(model);
    }
    Err(format!("the volume is in no state at or after step {acknowledged}"))
}

/// Checks the volume after the writer of `seed` was killed; the error describes it.
fn examine(image: &Image, model: &mut Model, seed: u64, acknowledged: u64) -> Result<u64, String> {
    let failed = |what: &'static str| move |error: lanefs::Error| format!("{what}: {error}");
    let volume = Volume::open(&image.0, Access::Write).map_err(failed("open"))?;
    let tree = tree_of_volume(&volume).map_err(failed("read"))?;
    let report = volume.check(false, &|_, _| {}).map_err(failed("check"))?;
    if let Some(finding) = report.findings.first() {
        return Err(format!("fsck: {finding:?}"));
    }
    volume.close().map_err(failed("close"))?;
    find_state(model, seed, acknowledged, &tree)
}

#[test]
fn what_a_killed_writer_acknowledged_is_there_and_the_rest_is_whole() {
    let watchdog = Watchdog::new("killing");
    let image = Image::new("killed");
    let mut model = prepared_model().expect("model");
    let (mut acknowledgements, mut runs_ahead) = (0, 0);
    for seed in Seeds::from_environment("LANEFS_KILLS", 1, 200) {
        watchdog.at(|| format!("seed {seed}"));
        let writer = Writer::start(&image, seed, "");
        std::thread::sleep(Duration::from_micros(Seeded::new(seed).between(5_000, 60_000)));
        let acknowledged = writer.kill();
        match examine(&image, &mut model, seed, acknowledged) {
            Ok(ahead) => {
                acknowledgements += acknowledged;
                runs_ahead += u64::from(ahead > 0);
            }
            Err(what) => panic!("seed {seed}, {acknowledged} steps acknowledged: {what}"),
        }
    }
    assert!(acknowledgements > 0, "no writer ever acknowledged anything");
    eprintln!("{acknowledgements} steps acknowledged, {runs_ahead} writers were further than they said");
}

#[test]
fn a_writer_that_acknowledges_too_early_is_caught() {
    let watchdog = Watchdog::new("acknowledging too early");
    let image = Image::new("early");
    let mut model = prepared_model().expect("model");
    let caught = (0..60).any(|seed| {
        watchdog.at(|| format!("acknowledging too early, seed {seed}"));
        let writer = Writer::start(&image, seed, "early");
        std::thread::sleep(Duration::from_micros(Seeded::new(seed).between(5_000, 60_000)));
        let acknowledged = writer.kill();
        examine(&image, &mut model, seed, acknowledged).is_err()
    });
    assert!(caught, "the test cannot fail");
}

#[test]
fn a_volume_in_use_is_refused_and_free_again_when_its_writer_is_killed() {
    let _watchdog = Watchdog::new("two openers");
    let image = Image::new("locked");
    for seed in 0..5 {
        let mut writer = Writer::start(&image, seed, "");
        for access in [Access::Write, Access::Read, Access::Repair] {
            match Volume::open(&image.0, access) {
                Ok(_) => panic!("{access:?}: opened by two"),
                Err(error) => {
                    let text = error.to_string();
                    let expected =
                        format!("in use by another process: process {} (writer)", writer.child.id());
                    assert!(text.contains(&expected), "{access:?}: {text}");
                }
            }
        }
        // A second writer does no harm to the first one.
        assert!(writer.line().is_some(), "the writer has died");
        writer.kill();
        Volume::open(&image.0, Access::Write).and_then(Volume::close).expect("free again");
    }
}

/// Kills a writer of whole files while it replaces one. Returns the content that is there, if it is not
/// whole.
fn torn_content(image: &Image, seed: u64, mode: &str) -> Option<Vec<u8>> {
    let writer = Writer::start(image, seed, mode);
    std::thread::sleep(Duration::from_micros(Seeded::new(seed).between(1_000, 30_000)));
    writer.kill();
    let volume = Volume::open(&image.0, Access::Write).expect("open");
    let content = volume.read_file("/whole").expect("read");
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "seed {seed}: {:?}", report.findings);
    volume.close().expect("close");
    let is_whole = content.first().is_some_and(|first| content.iter().all(|byte| byte == first));
    (!is_whole).then_some(content)
}

#[test]
fn a_file_that_was_being_replaced_is_whole_after_a_kill() {
    let watchdog = Watchdog::new("killing a writer of whole files");
    let image = Image::new("whole");
    for seed in 0..40 {
        watchdog.at(|| format!("seed {seed}"));
        let torn = torn_content(&image, seed, "replace");
        assert!(torn.is_none(), "seed {seed}: {} bytes are there", torn.unwrap_or_default().len());
    }
}

#[test]
fn a_file_that_is_emptied_first_is_found_torn() {
    let watchdog = Watchdog::new("killing a writer that tears files");
    let image = Image::new("torn");
    let is_found = (0..200).any(|seed| {
        watchdog.at(|| format!("tearing, seed {seed}"));
        torn_content(&image, seed, "tear").is_some()
    });
    assert!(is_found, "the test cannot fail");
}
