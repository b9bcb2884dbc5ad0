//! `lanefs sync`.

pub(crate) mod watch;

use crate::common::differences::{self, Collected, ComparisonArgs};
use crate::common::transfer::{self, TransferArgs, TransferTarget};
use crate::common::tree_arg::{TreeArg, TreeParser};
use crate::session::command::{AfterCommand, Command, HostCommand};
use crate::session::context::Context;
use crate::session::image::Image;
use crate::session::publication::LocationParser;
use crate::session::sync_record::SyncRecord;
use crate::terminal::console::say;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::TransferProgress;
use crate::terminal::{exit, interrupt};
use crate::text::bytes;
use crate::text::escape::escape;
use crate::text::json;
use crate::text::size::human;
use clap::Args;
use lanefs::{FileSystem, host_text};
use lanefs_fuse::RemoteVolume;
use lanefs_publish::Location;
use lanefs_transfer::{Control, Difference, HostTop, LastSync, SyncOptions, SyncReport, sync_tree};
use std::ffi::OsString;
use std::io::Write;
use std::sync::Arc;
use watch::Round;

/// Make a directory of the volume the same as another directory, by the differences alone
///
/// Compares the directory SRC with the directory DEST of the volume, and copies what differs: `lanefs sync
/// v.lane /usr/share /share` makes /share the same as /usr/share. DEST is made with its parents if it is
/// missing. SRC may be in another volume, IMAGE:/PATH, or in a publication, URL:/PATH, or a tar archive,
/// which is unpacked in $TMPDIR first. Names that SRC lacks stay, unless --delete is given. Without SRC it
/// only makes all changes so far durable.
///
/// A file is unchanged if type, size, time of modification (to the nanosecond), mode, owner, group, target of
/// a link, number of a device, extended attributes, access control lists and its hard links are the same. A
/// file whose size or time differs is copied as a whole, beside the old one, and takes its place when it is
/// complete: no reader sees half of it. All other attributes are set in place; where a file gets another
/// owner, a set-id bit or capabilities, its content is compared first. Files that change while they are read
/// are copied again, up to three times, and then named, as are those that vanish or cannot be read; the
/// others are copied, and the exit code is 1.
///
/// A record of the sync in the user's local cache lets the next one pass over each directory whose names, and
/// the attributes and times of last change (ctime) of their files, are as they were: it compares nothing else
/// of them. It counts while the volume is as that sync has left it, for the same SRC, rights and options; all
/// names are compared otherwise, and with --checksum, with patterns and with --no-cache.
///
/// With --delete a file or directory that has another name in SRC is renamed, and not copied, once its
/// content is found to be the same: size and time alone prove nothing. --no-renames copies it.
///
/// With --watch the volume is open during a sync only, so that other programs can use it in between. A sync
/// for which it is in use is tried again. The host tells neither of changes by other machines of a shared
/// file system nor of those through a memory map before the file is closed.
///
/// Ctrl-C stops cleanly. After that, or after a power cut, the volume has each file old or new, and the next
/// sync finishes the work.
///
/// With --dry-run or --itemize-changes each difference is a line in the form of rsync: `>` for a file that is
/// copied, `c` for another one that is made, `h` for a hard link, `r` for one that had another name (`NEW <-
/// OLD`), `.` where only attributes are set, or `*deleting`; the type (f, d, L, D for a device, S for a fifo
/// or socket); then `+` for a new name, or a letter for what differs: c content (with --checksum), target or
/// number, s size, t time, p mode, o owner, g group, a access control list, x other extended attribute.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lanefs sync v.lane /usr/share /share
  lanefs sync v.lane /usr/share /share --delete --dry-run
  lanefs sync v.lane src /src --delete --exclude '*.o' --exclude target/
  lanefs sync v.lane src /src --delete --publish file:///srv/photos
  lanefs sync v.lane src /src --delete --watch
  lanefs sync copy.lane v.lane:/share /share
  lanefs sync v.lane 'file:///srv/photos#2026-10' / --delete")]
pub struct SyncTree {
    /// Directory of the host, IMAGE[:/PATH] of another volume, URL[:/PATH] of a publication, or a tar archive
    /// (`-` for one on standard input)
    #[arg(value_name = "SRC", value_parser = TreeParser)]
    source: Option<TreeArg>,
    /// Directory of the volume
    #[arg(value_name = "DEST", default_value = "/")]
    dest: OsString,
    /// Remove names that SRC lacks
    #[arg(long)]
    delete: bool,
    /// Change nothing, and list what would change
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// List each change, sorted by path
    #[arg(long, short = 'i')]
    itemize_changes: bool,
    /// Print numbers of names and bytes, and rates; the last object of --json has them, too
    #[arg(long)]
    stats: bool,
    /// Publish the volume to the store URL[#TAG] afterwards, as `lanefs publish` does: only blocks that
    /// changed go there
    #[arg(long, value_name = "URL", value_parser = LocationParser)]
    publish: Option<Location>,
    /// Go on after the first sync, and follow SRC as it changes until Ctrl-C: half a second after the last
    /// change, or ten seconds after the first one, the directories that changed are synced
    #[arg(long, requires = "source", conflicts_with = "dry_run")]
    watch: bool,
    /// Least time between two publications with --watch
    #[arg(long, value_name = "SECONDS", default_value = "60", requires = "watch", requires = "publish")]
    publish_every: u64,
    /// The round of a watch.
    #[arg(skip)]
    round: Option<Arc<Round>>,
    /// The record for the next sync.
    #[arg(skip)]
    record: SyncRecord,
    #[command(flatten)]
    comparison: ComparisonArgs,
    #[command(flatten)]
    transfer: TransferArgs,
}

impl Command for SyncTree {
    fn changes(&self) -> bool {
        !self.dry_run
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        // A round of a part neither uses a record nor makes one.
        let is_whole = self.round.as_ref().is_none_or(|round| round.scope.is_whole());
        let (image, volume) = (context.image, context.volume);
        let dest = transfer::volume_path(context, &self.dest);
        let last_sync =
            |source: &HostTop| is_whole.then(|| self.record.open(image, volume, source, &dest)).flatten();
        let outcome = self.execute_on(context, &last_sync);
        self.record.ended(context.volume);
        outcome
    }

    fn on_host(&self) -> Option<&dyn HostCommand> {
        Some(self)
    }

    fn publishes(&self) -> Option<AfterCommand<'_>> {
        self.publish.as_ref().map(|to| AfterCommand { to, json: self.transfer.is_json() })
    }
}

impl HostCommand for SyncTree {
    fn execute_beside(&self, context: &mut Context<'_, RemoteVolume>) -> Outcome {
        self.execute_on(context, &|_| None)
    }
}

/// Finds the record of the last sync from a directory.
type FindRecord<'r> = dyn Fn(&HostTop) -> Option<Arc<LastSync>> + 'r;

/// Cache of a volume that follows, in bytes, where the user sets none. A sync reads each block once or twice,
/// in order.
pub(crate) const CACHE_BYTES: u64 = 12 << 20;

/// Fails for a source that the host does not have.
fn is_there(source: &TreeArg) -> Result<(), Failure> {
    let TreeArg::Volume(Image::Path(path), _) = source else { return Ok(()) };
    std::fs::metadata(path).map(drop).map_err(|error| {
        let what = format!("cannot sync '{}': {}", escape(bytes::of_path(path)), host_text(&error));
        Failure::new(exit::HOST, b"sync", &what, "SRC is a directory, a volume, a URL or a tar archive")
    })
}

impl SyncTree {
    /// True where the command goes on after the first sync.
    pub(crate) fn is_watch(&self) -> bool {
        self.watch
    }

    /// True where each difference is printed.
    fn is_listed(&self) -> bool {
        self.dry_run || self.itemize_changes
    }

    /// Refuses options that have no use together.
    fn check_options(&self) -> Outcome {
        let alone = [
            (self.delete, "--delete"),
            (self.dry_run, "--dry-run"),
            (self.itemize_changes, "--itemize-changes"),
            (self.publish.is_some(), "--publish"),
        ];
        if self.source.is_none()
            && let Some((_, option)) = alone.iter().find(|option| option.0)
        {
            let advice = "name the tree that the volume is to follow: `lanefs sync IMAGE SRC [DEST]`";
            return Err(Failure::usage(option, "is of no use without SRC", advice));
        }
        if self.dry_run && self.publish.is_some() {
            let advice = "leave out --publish or --dry-run";
            return Err(Failure::usage("--publish", "a dry run has nothing to publish", advice));
        }
        if self.stats && self.transfer.is_json() {
            let advice = "leave out --stats or --json";
            return Err(Failure::usage("--stats", "the last object of --json has these numbers", advice));
        }
        Ok(())
    }

    /// Keeps a record for the next sync, once the volume is closed.
    pub(crate) fn keep_record(&self) {
        self.record.keep();
    }

    fn execute_on(&self, context: &mut Context<'_, impl FileSystem>, last_sync: &FindRecord<'_>) -> Outcome {
        self.check_options()?;
        let Some(source) = &self.source else {
            let synced = context.volume.sync();
            return synced.map_err(|error| Failure::volume(context.image.name(), &error));
        };
        if self.watch && self.round.is_none() {
            let advice = "run `lanefs sync IMAGE SRC DEST --watch` outside of the shell";
            return Err(Failure::usage(b"--watch", "cannot follow SRC here", advice));
        }
        let collected = Collected::default();
        let receiver = |difference: &Difference| {
            if self.is_listed() {
                collected.push(difference);
            }
        };
        let report = self.sync(context, source, last_sync, &receiver)?;
        collected.print(&mut context.out, self.transfer.is_json())?;
        self.report(context, &report)
    }

    fn sync(
        &self,
        context: &Context<'_, impl FileSystem>,
        source: &TreeArg,
        last_sync: &FindRecord<'_>,
        receiver: &(dyn Fn(&Difference) + Sync),
    ) -> Result<SyncReport, Failure> {
        let options = SyncOptions {
            delete: self.delete,
            dry_run: self.dry_run,
            scope: self.round.as_ref().map(|round| round.scope.clone()).unwrap_or_default(),
            unequal_links: self.round.as_ref().map(|round| Arc::clone(&round.unequal_links)),
            in_order: self.is_listed(),
            ..self.comparison.options(&self.transfer, context.image.files())?
        };
        if source.is_of(context.image) {
            let what = "a volume does not follow itself";
            return Err(Failure::usage(context.image.name(), what, "`lanefs cp` copies within a volume"));
        }
        is_there(source)?;
        let mut source = source.open("cannot sync")?;
        let (problems, notes) = (source.problems(), source.notes());
        // The record is that of the directory which is walked, whatever its name is that of by now.
        let last_sync = source.top().and_then(last_sync);
        // A name that the archive lacks may be that of a member that could not be read.
        let options = SyncOptions { delete: options.delete && problems.is_empty(), last_sync, ..options };
        let dest = transfer::volume_path(context, &self.dest);
        let progress = TransferProgress::new("syncing");
        let interrupt = interrupt::flag();
        let control = Control { interrupt: &interrupt, progress: &progress };
        let outcome = sync_tree(context.volume, source.side(), &dest, &options, receiver, control);
        progress.clear();
        let mut report = outcome.map_err(|error| transfer::failure(&error))?;
        if self.delete && !options.delete {
            report.report.notes.push("names that the archive lacks stay, as it has problems".into());
        }
        report.report.problems.splice(0..0, problems);
        report.report.notes.splice(0..0, notes);
        Ok(report)
    }

    fn report(&self, context: &mut Context<'_, impl FileSystem>, report: &SyncReport) -> Outcome {
        self.transfer.tell("synced", TransferTarget::Followed, &report.report);
        if let Some(round) = &self.round {
            round.ended(report);
            // A watch tells what it does, and not what it need not do.
            if report.counts.differences() == 0 && !round.scope.is_whole() {
                context.raise_status(report.report.exit_code());
                return Ok(());
            }
        }
        if self.stats {
            differences::print_stats(context, report)?;
        }
        if self.transfer.is_json() {
            writeln!(context.out, "{}", json::text(&differences::as_json(report)))?;
        } else {
            let words = differences::in_words(report, self.dry_run);
            let problems = match report.report.problems.len() {
                0 => String::new(),
                count => format!("; {count} not done"),
            };
            let (copied, seconds) = (human(report.report.counts.bytes), report.report.elapsed.as_secs_f64());
            say(&match self.dry_run {
                true => format!("dry run: {words}{problems}"),
                false => format!("synced: {words}; {copied}B copied in {seconds:.2} s{problems}"),
            });
        }
        context.raise_status(report.report.exit_code());
        Ok(())
    }
}
