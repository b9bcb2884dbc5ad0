//! `lanefs sync --watch`: a round whenever the source has changed.
//!
//! The volume is open during a round only, so that other programs can use it between the rounds.

use super::SyncTree;
use crate::common::transfer;
use crate::common::tree_arg::TreeArg;
use crate::terminal::console::say;
use crate::terminal::failure::Failure;
use crate::terminal::{exit, interrupt};
use crate::text::bytes;
use crate::text::escape::escape;
use lanefs_transfer::{Scope, SyncReport, TreeWatch, UnequalLinks, WatchOutcome};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Pause before a round that failed is tried again, at first and at most: each one is twice the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// One round: what it looks at, and what became of it.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) scope: Scope,
    /// Files with names that no round finds.
    pub(super) unequal_links: Arc<UnequalLinks>,
    /// The trees were compared: the volume could be used.
    has_compared: AtomicBool,
    /// Changes were made.
    has_changed: AtomicBool,
    /// Only a round of the whole tree finds the rest.
    needs_whole: AtomicBool,
}

impl Round {
    pub(super) fn ended(&self, report: &SyncReport) {
        self.has_compared.store(true, Relaxed);
        self.has_changed.store(report.counts.differences() > 0, Relaxed);
        self.needs_whole.store(report.needs_whole, Relaxed);
    }
}

/// The volume's side of a watch.
pub(crate) trait Follow {
    /// Runs one round; returns its exit code.
    fn round(&self, sync: SyncTree) -> u8;

    /// Returns whether a round that could not use the volume may be able to: another program has it open, or
    /// has released it since.
    fn may_become_free(&self) -> bool;

    /// Publishes the volume; returns the exit code.
    fn publish(&self) -> u8;
}

/// Follows the source until the user stops it. Returns the exit code.
///
/// # Errors
/// The source is not a directory of the host, or cannot be watched.
pub(crate) fn follow(sync: &SyncTree, volume: &dyn Follow) -> Result<u8, Failure> {
    sync.source.as_ref().map_or(Ok(()), super::is_there)?;
    let Some(TreeArg::Host(source)) = &sync.source else {
        let advice = "SRC is a directory of the host; of a volume or a publication no changes are told";
        return Err(Failure::usage(b"--watch", "cannot follow SRC", advice));
    };
    let interrupt = interrupt::flag();
    let filter = sync.comparison.filter()?;
    // The watch comes first: what changes during the first round is in the second one.
    let mut watch = TreeWatch::new(source, &filter, &interrupt).map_err(|error| failure(&error))?;
    let mut following = Following::new(sync, volume);
    let code = following.first_round(&mut watch, &interrupt).map_err(|error| failure(&error))?;
    if code > exit::PARTIAL || interrupt() {
        return Ok(code);
    }
    say(&format!("watching '{}'; Ctrl-C ends it", escape(bytes::of_path(source))));
    loop {
        following.publish_if_due();
        if interrupt() {
            following.tell_end();
            return Ok(exit::OK);
        }
        let outcome = watch.wait(following.deadline(), &interrupt);
        let done = outcome.and_then(|outcome| match changed(source, outcome) {
            Some(scope) => following.until_done(scope, &mut watch, source, &interrupt),
            None => Ok(()),
        });
        done.map_err(|error| {
            following.tell_end();
            failure(&error)
        })?;
    }
}

/// The part that is to be compared because of what a watch has found; `None` for nothing.
fn changed(source: &Path, outcome: WatchOutcome) -> Option<Scope> {
    match outcome {
        WatchOutcome::Changed(scope) => Some(scope),
        WatchOutcome::Overflow => {
            say(&overflow(source));
            Some(Scope::default())
        }
        WatchOutcome::Replaced => {
            let source = escape(bytes::of_path(source));
            say(&format!("'{source}' names another directory; looking at all of it"));
            Some(Scope::default())
        }
        WatchOutcome::Nothing => None,
    }
}

/// A watch that cannot go on. Each of its errors is the host's: a limit that is reached is as well.
fn failure(error: &lanefs_transfer::Error) -> Failure {
    match transfer::failure(error) {
        Failure::Message { exit: exit::USAGE, text, ends } => {
            Failure::Message { exit: exit::HOST, text, ends }
        }
        failure => failure,
    }
}

fn overflow(source: &Path) -> String {
    let source = escape(bytes::of_path(source));
    format!(
        "'{source}': more has changed than the kernel tells (sysctl fs.inotify.max_queued_events); looking at all of it"
    )
}

/// The pauses before a round is tried again.
struct Pauses(Duration);

impl Pauses {
    fn new() -> Self {
        Pauses(FIRST_PAUSE)
    }

    /// Waits, twice as long as the last time.
    fn wait(&mut self, interrupt: &dyn Fn() -> bool) {
        say(&format!("trying again in {} s", self.0.as_secs()));
        let end = Instant::now() + self.0;
        while Instant::now() < end && !interrupt() {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}

/// The rounds so far.
struct Following<'f> {
    sync: &'f SyncTree,
    volume: &'f dyn Follow,
    last_publication: Option<Instant>,
    unequal_links: Arc<UnequalLinks>,
    /// There are changes that are not published.
    is_behind: bool,
    /// The last round compared the trees.
    has_compared: bool,
}

impl<'f> Following<'f> {
    fn new(sync: &'f SyncTree, volume: &'f dyn Follow) -> Self {
        // The volume may have changed before the first round.
        let (unequal_links, is_behind) = (Arc::default(), sync.publish.is_some());
        Following { sync, volume, last_publication: None, unequal_links, is_behind, has_compared: false }
    }

    /// Runs a round, and one of the whole tree where that turns out to be needed.
    fn round(&mut self, scope: Scope) -> u8 {
        let unequal_links = Arc::clone(&self.unequal_links);
        let round = Arc::new(Round { scope, unequal_links, ..Round::default() });
        let code = self.volume.round(SyncTree { round: Some(round.clone()), ..self.sync.clone() });
        self.has_compared = round.has_compared.load(Relaxed);
        self.is_behind |= self.sync.publish.is_some() && round.has_changed.load(Relaxed);
        match code <= exit::PARTIAL && round.needs_whole.load(Relaxed) {
            true => code.max(self.round(Scope::default())),
            false => code,
        }
    }

    /// Runs the first round, again while another program has the volume open. Any other failure is one of the
    /// command. Returns the exit code.
    ///
    /// # Errors
    /// As [`until_done`](Self::until_done).
    fn first_round(
        &mut self,
        watch: &mut TreeWatch,
        interrupt: &dyn Fn() -> bool,
    ) -> lanefs_transfer::Result<u8> {
        let mut pauses = Pauses::new();
        loop {
            let code = self.round(Scope::default());
            let is_in_use = code == exit::IMAGE && !self.has_compared && self.volume.may_become_free();
            if !is_in_use || interrupt() {
                return Ok(code);
            }
            pauses.wait(interrupt);
            // The whole tree is compared in any case; the watch tells where it is gone.
            watch.now(interrupt)?;
        }
    }

    /// Runs a round again until the volume can be used: another program may have it open for a while. Before
    /// each the watch is asked whether the source is there: where it is unmounted, an empty directory has its
    /// name, and a round would take all names for removed.
    ///
    /// # Errors
    /// The source is gone, or can be watched no longer.
    fn until_done(
        &mut self,
        mut scope: Scope,
        watch: &mut TreeWatch,
        source: &Path,
        interrupt: &dyn Fn() -> bool,
    ) -> lanefs_transfer::Result<()> {
        let mut pauses = Pauses::new();
        while self.round(scope.clone()) > exit::PARTIAL && !interrupt() {
            pauses.wait(interrupt);
            if let Some(more) = changed(source, watch.now(interrupt)?) {
                scope.extend(more);
            }
        }
        Ok(())
    }

    /// The time of the next publication, where there is something to publish.
    fn deadline(&self) -> Option<Instant> {
        let last = self.last_publication.filter(|_| self.is_behind)?;
        Some(last + Duration::from_secs(self.sync.publish_every))
    }

    fn publish_if_due(&mut self) {
        let is_due = self.is_behind && self.deadline().is_none_or(|deadline| Instant::now() >= deadline);
        if is_due {
            // One that fails is tried again after the same time.
            self.is_behind = self.volume.publish() != exit::OK;
            self.last_publication = Some(Instant::now());
        }
    }

    fn tell_end(&self) {
        if self.is_behind {
            say("the last changes are in the volume, and not published");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::cell::Cell;

    /// The arguments of a sync, as a command line.
    #[derive(Parser)]
    struct SyncLine {
        #[command(flatten)]
        sync: SyncTree,
    }

    /// A volume that is in use from the second round on, in which the source goes.
    struct InUse<'s> {
        source: &'s Path,
        rounds: Cell<usize>,
    }

    impl Follow for InUse<'_> {
        fn round(&self, _: SyncTree) -> u8 {
            self.rounds.set(self.rounds.get() + 1);
            match self.rounds.get() {
                1 => std::fs::write(self.source.join("new"), "new").map_or(exit::HOST, |()| exit::OK),
                2 => std::fs::remove_dir_all(self.source).map_or(exit::HOST, |()| exit::IMAGE),
                _ => panic!("a round without a source"),
            }
        }

        fn may_become_free(&self) -> bool {
            true
        }

        fn publish(&self) -> u8 {
            exit::OK
        }
    }

    /// A volume that cannot be used in the first rounds, and a source that goes in the one after them.
    struct NotYet<'s> {
        source: &'s Path,
        may_become_free: bool,
        rounds: Cell<usize>,
    }

    impl Follow for NotYet<'_> {
        fn round(&self, sync: SyncTree) -> u8 {
            self.rounds.set(self.rounds.get() + 1);
            assert!(sync.round.is_some_and(|round| round.scope.is_whole()), "a part of the tree");
            match self.rounds.get() {
                1 => exit::IMAGE,
                2 => std::fs::remove_dir_all(self.source).map_or(exit::HOST, |()| exit::OK),
                _ => panic!("a round too many"),
            }
        }

        fn may_become_free(&self) -> bool {
            self.may_become_free
        }

        fn publish(&self) -> u8 {
            exit::OK
        }
    }

    #[test]
    fn a_first_round_is_tried_again_while_the_volume_is_in_use_and_for_no_other_reason() {
        for may_become_free in [true, false] {
            let temp = tempfile::tempdir().expect("a directory");
            let source = temp.path().join("source");
            std::fs::create_dir(&source).expect("a directory");
            let line = ["sync".as_ref(), source.as_os_str(), "/".as_ref(), "--watch".as_ref()];
            let volume = NotYet { source: &source, may_become_free, rounds: Cell::new(0) };
            let ended = follow(&SyncLine::parse_from(line).sync, &volume);
            match may_become_free {
                true => assert!(matches!(ended, Err(Failure::Message { exit: exit::HOST, .. }))),
                false => assert!(matches!(ended, Ok(exit::IMAGE))),
            }
            assert_eq!(volume.rounds.get(), if may_become_free { 2 } else { 1 });
        }
    }

    #[test]
    fn a_watch_whose_source_is_gone_while_the_volume_is_in_use_ends() {
        let temp = tempfile::tempdir().expect("a directory");
        let source = temp.path().join("source");
        std::fs::create_dir(&source).expect("a directory");
        let line = ["sync".as_ref(), source.as_os_str(), "/".as_ref(), "--watch".as_ref()];
        let volume = InUse { source: &source, rounds: Cell::new(0) };
        let ended = follow(&SyncLine::parse_from(line).sync, &volume);
        assert!(matches!(ended, Err(Failure::Message { exit: exit::HOST, .. })));
        assert_eq!(volume.rounds.get(), 2);
    }

    #[test]
    fn a_limit_of_the_host_has_the_host_s_code() {
        let error = lanefs_transfer::Error::Usage("the limit of watches".into());
        assert!(matches!(failure(&error), Failure::Message { exit: exit::HOST, .. }));
    }
}
