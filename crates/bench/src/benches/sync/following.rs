//! The rows of followers: all is new, nothing has changed, some files have.

use super::SyncSettings;
use super::floor;
use super::followers::{Follower, Places};
use super::rows::{
    CHANGED, COLD, GOAL_FLOOR, GOAL_MEMORY_BYTES, GOAL_NAME_BYTES, GOAL_NEW, GOAL_RSYNC, MEMORY, NEW, SAME,
};
use super::source::{FILES_PER_DIRECTORY, FollowedTree};
use crate::error::{Error, Result};
use crate::measure::report::Row;
use crate::measure::values::Values;
use crate::session::Session;
use crate::systems::served::forget;
use crate::systems::system::Named;

/// Name of the walk that only asks for attributes.
const FLOOR: &str = "statx";

/// Whether the host has the tree in memory.
#[derive(Clone, Copy)]
enum HostCache {
    Warm,
    Cold,
}

/// Measures the selected rows.
pub(super) fn measure(
    bench: &mut Session<SyncSettings>,
    places: &Places,
    tree: &mut FollowedTree,
) -> Result<()> {
    let mut followers = vec![Follower::Lanefs];
    for peer in [Follower::Rsync, Follower::RsyncAll, Follower::Copy, Follower::Restic] {
        if peer.is_there(bench)? {
            followers.push(peer);
        }
    }
    let mut memory = Values::default();
    all_new(bench, places, tree, &followers, &mut memory)?;
    nothing_changed(bench, places, tree, &followers, HostCache::Warm, &mut memory)?;
    nothing_changed(bench, places, tree, &followers, HostCache::Cold, &mut memory)?;
    some_changed(bench, places, tree, &followers, &mut memory)?;
    let most = GOAL_MEMORY_BYTES + GOAL_NAME_BYTES * FILES_PER_DIRECTORY as f64;
    let row = row(memory.row(MEMORY, "bytes"), tree);
    bench.row(row.map(|row| {
        let reached = row.lanefs.max <= most;
        row.goal("at most 64 MiB and 40 bytes a file of the largest directory", reached)
    }));
    Ok(())
}

/// Lets all followers copy the whole tree. The other rows need their copies, so it runs once at least.
fn all_new(
    bench: &mut Session<SyncSettings>,
    places: &Places,
    tree: &FollowedTree,
    followers: &[Follower],
    memory: &mut Values,
) -> Result<()> {
    let mut values = Values::default();
    let is_selected = bench.selection.has(NEW);
    let rounds = if is_selected { bench.runs } else { 1 };
    for round in 1..=rounds {
        let once = followers.iter().copied().filter(|follower| *follower != Follower::RsyncAll);
        let import = is_selected.then_some(Follower::Import);
        for follower in once.chain(import) {
            bench.stop.check()?;
            bench.progress.step(&format!("all is new: run {round} of {rounds}, {}", follower.name()));
            follower.begin(places, &bench.stop)?;
            settle();
            let done = follower.follow(places, &bench.stop)?;
            values.add(follower.name(), done.elapsed.as_secs_f64() * 1e3);
            memory.add(follower.name(), done.memory_bytes as f64);
        }
    }
    let _ = std::fs::remove_file(places.image(Follower::Import));
    let row = row(values.row(NEW, "ms"), tree);
    bench.row(row.map(|row| row.goal_ratio("import", GOAL_NEW)));
    Ok(())
}

/// Writes out the rest of what one program has written, so that the next one does not pay for it.
fn settle() {
    rustix::fs::sync();
}

fn nothing_changed(
    bench: &mut Session<SyncSettings>,
    places: &Places,
    tree: &FollowedTree,
    followers: &[Follower],
    host: HostCache,
    memory: &mut Values,
) -> Result<()> {
    let name = match host {
        HostCache::Warm => SAME,
        HostCache::Cold => COLD,
    };
    if !bench.selection.has(name) {
        return Ok(());
    }
    if matches!(host, HostCache::Cold) && !rustix::process::geteuid().is_root() {
        bench.note(format!("{name} is left out: only root can make the host forget what it has cached"));
        return Ok(());
    }
    let prepare = || match host {
        HostCache::Warm => {
            settle();
            Ok(())
        }
        HostCache::Cold => forget(true),
    };
    let mut values = Values::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // The walk comes last in each round, after all programs have the tree in the host's cache.
    bench.in_turn("nothing has changed", &followers.iter().collect::<Vec<_>>(), |follower, run| {
        prepare()?;
        let done = follower.follow(places, &bench.stop)?;
        if run > 0 {
            values.add(follower.name(), done.elapsed.as_secs_f64() * 1e3);
            memory.add(follower.name(), done.memory_bytes as f64);
        }
        if run > 0 && Some(follower) == followers.last() {
            prepare()?;
            let (elapsed, names) = floor::walk(&tree.dir, threads, &bench.stop)?;
            if names < tree.files() as u64 {
                let (system, expected) = (FLOOR.into(), tree.files() as u64);
                return Err(Error::Wrong { system, what: "names", found: names, expected });
            }
            values.add(FLOOR, elapsed.as_secs_f64() * 1e3);
        }
        Ok(())
    })?;
    let row = row(values.row(name, "ms"), tree).map(|row| row.param("threads", threads));
    bench.row(row.map(with_goals));
    Ok(())
}

fn some_changed(
    bench: &mut Session<SyncSettings>,
    places: &Places,
    tree: &mut FollowedTree,
    followers: &[Follower],
    memory: &mut Values,
) -> Result<()> {
    if !bench.selection.has(CHANGED) {
        return Ok(());
    }
    // The two modes of rsync share a copy, and the first of them would leave nothing to the second.
    let followers = followers.iter().filter(|follower| **follower != Follower::RsyncAll);
    let followers: Vec<Follower> = followers.copied().collect();
    let mut values = Values::default();
    for run in 0..=bench.runs {
        tree.change(run, &bench.stop)?;
        for follower in &followers {
            bench.stop.check()?;
            let of = if run == 0 { "warm-up".into() } else { format!("run {run} of {}", bench.runs) };
            bench.progress.step(&format!("1 % has changed: {of}, {}", follower.name()));
            settle();
            let done = follower.follow(places, &bench.stop)?;
            if run > 0 {
                values.add(follower.name(), done.elapsed.as_secs_f64() * 1e3);
                memory.add(follower.name(), done.memory_bytes as f64);
            }
        }
    }
    let row = row(values.row(CHANGED, "ms"), tree);
    bench.row(row.map(|row| row.goal_ratio("rsync", GOAL_RSYNC)));
    Ok(())
}

fn row(row: Option<Row>, tree: &FollowedTree) -> Option<Row> {
    row.map(|row| row.param("files", tree.files()).param("bytes", tree.bytes()))
}

fn with_goals(row: Row) -> Row {
    let row = row.goal_ratio("rsync", GOAL_RSYNC);
    match row.ratio.get(FLOOR) {
        Some(&ratio) => row.goal(format!("at most {GOAL_FLOOR} of {FLOOR}"), ratio >= 1.0 / GOAL_FLOOR),
        None => row,
    }
}
