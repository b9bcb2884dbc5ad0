//! The rows of publications: bytes and time of a version after a change of the tree.

use super::SyncSettings;
use super::followers::{Follower, Places};
use super::rows::{
    GOAL_PUBLISHED, GOAL_RENAMED, PUBLISH, PUBLISH_APPENDED, PUBLISH_CHANGED, PUBLISH_RENAMED,
};
use super::source::{APPENDED_BYTES, FollowedTree};
use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::measure::values::{LANEFS, Values};
use crate::session::Session;
use crate::systems::peers::run_measured;
use crate::systems::system::Named;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the publication of all in an empty store.
const WHOLE: &str = "publish-all";

/// A publisher, whose store is a directory.
struct Publisher<'a> {
    follower: Follower,
    places: &'a Places,
    store: PathBuf,
}

impl Publisher<'_> {
    /// Publishes the tree as it is now; returns the time and the bytes by which the store has grown.
    fn publish(&self, stop: &Stop) -> Result<(Duration, u64)> {
        let before = bytes_of(&self.store)?;
        let done = if self.follower == Follower::Lanefs {
            let image = self.places.image(self.follower);
            let arguments: [&OsStr; 3] = ["sync".as_ref(), "--delete".as_ref(), image.as_ref()];
            let mut command = self.places.lanefs(&arguments);
            command.arg(self.places.tree()).arg("/").arg("--publish").arg(url_of(&self.store));
            run_measured(command, stop)?
        } else {
            self.follower.follow(self.places, stop)?
        };
        Ok((done.elapsed, bytes_of(&self.store)?.saturating_sub(before)))
    }
}

/// Measures the selected rows.
pub(super) fn measure(
    bench: &mut Session<SyncSettings>,
    places: &Places,
    tree: &mut FollowedTree,
) -> Result<()> {
    let store = places.store();
    fs::create_dir_all(&store).map_err(Error::host(store.display().to_string()))?;
    let mut publishers =
        vec![Publisher { follower: Follower::Lanefs, places, store: store.join("followed") }];
    if Follower::Restic.is_there(bench)? {
        publishers.push(Publisher { follower: Follower::Restic, places, store: places.repository() });
    }
    let all_bytes = publish_all(bench, places, &publishers)?;
    let mut time = Values::default();
    for (name, change, changed_bytes) in [
        (PUBLISH_CHANGED, Change::Files, None),
        (PUBLISH_APPENDED, Change::Append, Some(APPENDED_BYTES as u64)),
        (PUBLISH_RENAMED, Change::Rename, None),
    ] {
        let is_needed = name == PUBLISH_CHANGED && bench.selection.has(PUBLISH);
        if !bench.selection.has(name) && !is_needed {
            continue;
        }
        let mut bytes = Values::default();
        let mut changed = changed_bytes.unwrap_or(0);
        for run in 0..bench.runs {
            match change {
                Change::Files => changed = tree.change(run + 50, &bench.stop)?,
                Change::Append => tree.append(run)?,
                Change::Rename => tree.rename(run)?,
            }
            for publisher in &publishers {
                bench.stop.check()?;
                let system = publisher.follower.name();
                bench.progress.step(&format!("{name}: run {} of {}, {system}", run + 1, bench.runs));
                let (elapsed, grown) = publisher.publish(&bench.stop)?;
                bytes.add(system, grown as f64);
                if name == PUBLISH_CHANGED {
                    time.add(system, elapsed.as_secs_f64() * 1e3);
                }
            }
        }
        if bench.runs % 2 == 1 && matches!(change, Change::Rename) {
            tree.rename(1)?;
        }
        let row = bytes.row(name, "bytes").map(|row| row.param("files", tree.files()));
        bench.row(row.map(|row| match change {
            Change::Files => {
                let reached = row.lanefs.median <= GOAL_PUBLISHED * changed as f64;
                let goal = format!("at most {GOAL_PUBLISHED} of the changed bytes");
                row.param("changed_bytes", changed).goal(goal, reached)
            }
            Change::Append => row.param("changed_bytes", changed),
            Change::Rename => {
                let reached = row.lanefs.median <= GOAL_RENAMED * all_bytes as f64;
                let goal = format!("at most {GOAL_RENAMED} of the bytes of all");
                row.param("all_bytes", all_bytes).goal(goal, reached)
            }
        }));
    }
    if bench.selection.has(PUBLISH) {
        whole(bench, places, &store, &mut time)?;
        bench.row(time.row(PUBLISH, "ms").map(|row| row.param("files", tree.files())));
    }
    let _ = fs::remove_dir_all(&store);
    Ok(())
}

/// Publishes the tree for the first time; returns the bytes of LaneFS's publication.
fn publish_all(
    bench: &mut Session<SyncSettings>,
    places: &Places,
    publishers: &[Publisher<'_>],
) -> Result<u64> {
    let mut all_bytes = 0;
    for publisher in publishers {
        bench.progress.step(&format!("publishing all, {}", publisher.follower.name()));
        publisher.follower.begin(places, &bench.stop)?;
        let (_, bytes) = publisher.publish(&bench.stop)?;
        if publisher.follower == Follower::Lanefs {
            all_bytes = bytes;
        }
    }
    Ok(all_bytes)
}

/// The change of the tree before it is published again.
#[derive(Clone, Copy)]
enum Change {
    Files,
    Append,
    Rename,
}

/// Publishes the volume in empty stores, which is the whole work.
fn whole(bench: &mut Session<SyncSettings>, places: &Places, store: &Path, time: &mut Values) -> Result<()> {
    for run in 1..=bench.runs {
        bench.progress.step(&format!("{PUBLISH}: run {run} of {}, {WHOLE}", bench.runs));
        let (image, to) = (places.image(Follower::Lanefs), store.join("whole"));
        let mut command = places.lanefs(&["publish".as_ref(), image.as_ref()]);
        command.arg(url_of(&to));
        time.add(WHOLE, run_measured(command, &bench.stop)?.elapsed.as_secs_f64() * 1e3);
        fs::remove_dir_all(&to).map_err(Error::host(to.display().to_string()))?;
    }
    debug_assert!(time.systems().any(|system| system == LANEFS));
    Ok(())
}

fn url_of(store: &Path) -> OsString {
    let mut url = OsString::from("file://");
    url.push(store);
    url
}

/// Bytes of all files below a directory; none where it is not there yet.
fn bytes_of(dir: &Path) -> Result<u64> {
    let mut waiting = vec![dir.to_path_buf()];
    let mut bytes = 0;
    while let Some(dir) = waiting.pop() {
        let list = match fs::read_dir(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            list => list.map_err(Error::host(dir.display().to_string()))?,
        };
        for entry in list.flatten() {
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                waiting.push(entry.path());
            } else {
                bytes += about.len();
            }
        }
    }
    Ok(bytes)
}
