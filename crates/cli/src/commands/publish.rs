//! `lanefs publish`.

use crate::session::image::{self, Image};
use crate::session::mounted;
use crate::session::path_lines::PathLines;
use crate::session::publication::{self, Destination, DestinationParser};
use crate::session::receipts;
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use crate::terminal::progress::with_progress;
use crate::terminal::{console, exit, interrupt};
use crate::text::bytes;
use crate::text::count::counted;
use crate::text::escape::escape;
use crate::text::json;
use crate::text::size::{self, human};
use clap::Args;
use lanefs::format::BLOCK;
use lanefs::{Access, FileKind, OpenOptions, PathSet, ResolveOptions, UsedBlocks, Volume};
use lanefs_fuse::RemoteSnapshot;
use lanefs_fuse::client::MountedVolume;
use lanefs_publish::{
    DEFAULT_LEVEL, Error, Location, PublishOptions, PublishReport, Receipt, Reference, Snapshot, Source,
    publish, publish_shard,
};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;

/// Levels of zstd.
const LEVELS: std::ops::RangeInclusive<i64> = 1..=19;

/// Publish a volume to a store, from which others read it
///
/// Writes the volume as a new version to the store at URL, and moves the tag to it (after #; `latest` by
/// default). Blocks that the store has already are not written again. A directory that is missing is made. Of
/// a mounted volume it publishes a snapshot, with all changes so far, while programs go on writing; IMAGE may
/// be its mount point. Ctrl-C leaves the tag on the version that it had; publishing again continues where it
/// stopped. Commands that read a volume take URL in place of IMAGE.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs publish photos.lane file:///srv/photos
  lanefs publish photos.lane file:///srv/photos#draft --dry-run
  lanefs publish /mnt file:///srv/photos
  lanefs publish photos.lane file:///srv/photos --order read.txt
  lanefs publish photos.lane s3://bucket/photos --endpoint http://localhost:9000
  lanefs publish photos.lane file:///srv/joined --prefix /photos --receipt photos.json
  lanefs ls file:///srv/photos#draft /
  lanefs mount file:///srv/photos /mnt")]
pub struct Publish {
    /// Volume: a file, a raw device or a mount point; or the URL of a publication, to publish it elsewhere
    #[arg(value_name = "IMAGE", value_parser = image::parser())]
    image: Image,
    /// The store, and a tag: file:///DIRECTORY[#TAG], s3://BUCKET/FOLDER[#TAG], gs://... or az://...
    #[arg(value_name = "URL", value_parser = DestinationParser)]
    to: Destination,
    /// Level of compression
    #[arg(long, value_name = "LEVEL", default_value_t = DEFAULT_LEVEL, value_parser = clap::value_parser!(i32).range(LEVELS))]
    level: i32,
    /// Memory for blocks of a mounted volume that change before they were read [default: 512M]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size::parse_size)]
    snapshot_memory: Option<u64>,
    /// Read and check all that is taken over from the version before, and replace what is damaged
    #[arg(long)]
    check: bool,
    /// Put the data of the files whose paths FILE has first, in their order: one path per line, such as
    /// `mount --record` writes; `-` is standard input
    ///
    /// A reader of these files finds their data side by side, and nothing else in between. Paths that are not
    /// there are left out. Data that the store has already stay where they are.
    #[arg(long, value_name = "FILE")]
    order: Option<OsString>,
    /// Publish the volume as the shard of a join that has it at this path (see `lanefs join`)
    ///
    /// No tag is moved, unless URL names one. Without --receipt the receipt is printed, and no report.
    #[arg(long, value_name = "PATH")]
    prefix: Option<String>,
    /// File for the receipt of the shard: one line of JSON for `lanefs join`
    #[arg(long, value_name = "FILE", requires = "prefix")]
    receipt: Option<PathBuf>,
    /// Write nothing, and tell what would be written
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Inodes outside the tree of files: the root directory and the orphan directory.
const UNNAMED_INODES: u64 = 2;

/// Message of an interruption.
const INTERRUPTED: &str = "interrupted; the tag is as it was, and publishing again continues from here";

/// The snapshot of a mounted volume, which its server gives.
struct Mounted {
    volume: Volume,
    snapshot: RemoteSnapshot,
}

impl Source for Mounted {
    fn volume(&self) -> &Volume {
        &self.volume
    }

    fn release(&self, blocks: &UsedBlocks) {
        self.snapshot.release(blocks);
    }

    fn given_up(&self) -> Option<String> {
        self.snapshot.given_up()
    }
}

/// The ranges of a volume in the order of the paths in a file. A path that leads to no file has none.
fn order_of(volume: &Volume, file: &OsStr) -> Result<Vec<Range<u64>>, Failure> {
    let (mut lines, mut paths, mut ranges) = (PathLines::open(file)?, PathSet::new(), Vec::new());
    while lines.next_batch(&mut paths)? {
        let paths: Vec<&[u8]> = paths.view().iter().collect();
        let found = volume.resolve_batch(&ResolveOptions::default(), &paths);
        let found = found.map_err(|error| Failure::volume(bytes::of(file), &error))?;
        for ino in found.iter().filter(|found| found.kind == Some(FileKind::File)).filter_map(|row| row.ino) {
            check_interrupt()?;
            // Of a damaged file nothing comes first, and its blocks are published as they are.
            let extents = volume.extents(ino).unwrap_or_default();
            ranges.extend(
                extents.iter().map(|extent| extent.position..extent.position.saturating_add(extent.bytes)),
            );
        }
    }
    Ok(ranges)
}

impl Publish {
    /// A publication with the default options.
    pub fn new(image: Image, to: Location, json: bool) -> Self {
        let (check, dry_run, order, prefix, receipt) = (false, false, None, None, None);
        let to = Destination { location: to, names_tag: true };
        let level = DEFAULT_LEVEL;
        Publish { image, to, level, snapshot_memory: None, check, order, prefix, receipt, dry_run, json }
    }

    /// Makes the end of the process by a request say what it means. To be called before the handler of
    /// requests is installed.
    pub fn explain_interrupts(&self) {
        if !self.dry_run {
            interrupt::before_exit(|| {
                if interrupt::ends_at_once() {
                    console::say(INTERRUPTED);
                }
            });
        }
    }

    /// Publishes the volume.
    ///
    /// # Errors
    /// The volume is open elsewhere; the store's; another publisher was faster.
    pub fn execute(&self) -> Outcome {
        let Reference::Tag(tag) = self.to.location.reference() else {
            let advice = "name a tag after #, as in #latest";
            return Err(Failure::usage(self.to.location.to_string(), "a version does not change", advice));
        };
        if let Some(prefix) = &self.prefix {
            Receipt::check_prefix(prefix.as_bytes()).map_err(|error| publication::failure(&error))?;
        }
        if let Image::Memory(_) = self.image {
            let advice = "name a file or a raw device";
            return Err(Failure::usage(self.image.name(), "a new volume has nothing to publish", advice));
        }
        let store = publication::store(&self.to.location, true)?;
        let source = self.open()?;
        interrupt::wait_for_commands();
        let (level, dry_run, check) = (self.level, self.dry_run, self.check);
        let order = self.order.as_deref().map(|file| order_of(source.volume(), file)).transpose()?;
        let order = order.unwrap_or_default();
        let options = PublishOptions { level, dry_run, check, order, ..Default::default() };
        let report = with_progress("publishing", |update| match self.prefix.is_none() || self.to.names_tag {
            true => publish(source.as_ref(), store, tag, &options, update),
            false => publish_shard(source.as_ref(), store, &options, update),
        });
        let report = report.map_err(|error| self.failure(&error))?;
        let receipt = self.prefix.as_ref().filter(|_| !dry_run).map(|prefix| Receipt {
            prefix: prefix.as_bytes().to_vec(),
            version: report.version,
            uuid: report.facts.uuid,
            files: source.volume().superblock().inodes.saturating_sub(UNNAMED_INODES),
            bytes: report.facts.blocks * BLOCK,
        });
        match (&receipt, &self.receipt) {
            (Some(receipt), Some(file)) => receipts::write(file, receipt, &self.image)?,
            (Some(receipt), None) => return Ok(writeln!(console::output(), "{}", receipts::line(receipt))?),
            (None, _) => {}
        }
        self.print(&report)
    }

    fn open(&self) -> Result<Box<dyn Source>, Failure> {
        let volume = match self.image.open(Access::Read) {
            Err(failure) => return self.snapshot(&mounted::in_place_of(&self.image, failure)?),
            Ok(volume) => volume,
        };
        self.image.warn_of_damage(&volume);
        Ok(Box::new(volume))
    }

    /// Takes a snapshot of a mounted volume.
    fn snapshot(&self, mount: &MountedVolume) -> Result<Box<dyn Source>, Failure> {
        let memory = self.snapshot_memory.unwrap_or(Snapshot::MEMORY);
        let snapshot = RemoteSnapshot::take(mount, memory, interrupt::raised)
            .map_err(|error| mounted::image_mount_failure(&self.image, &error.into()))?;
        let options = OpenOptions { cache: image::cache(), ..OpenOptions::from(Access::Read) };
        let volume = Volume::open_device(Box::new(snapshot.clone()), options);
        let volume = volume.map_err(|error| self.image.failure(&error))?;
        Ok(Box::new(Mounted { volume, snapshot }))
    }

    fn failure(&self, error: &Error) -> Failure {
        match error {
            Error::Volume(error) => self.image.failure(error),
            Error::Interrupted => {
                if !self.dry_run {
                    console::say(INTERRUPTED);
                }
                Failure::Interrupted
            }
            Error::GivenUp(_) => {
                let why = format!("{error} (--snapshot-memory)");
                Failure::Message { exit: exit::IMAGE, text: escape(why.as_bytes()), ends: true }
            }
            error => publication::failure(error),
        }
    }

    fn print(&self, report: &PublishReport) -> Outcome {
        let mut out = console::output();
        if self.json {
            return Ok(writeln!(out, "{}", json::text(&self.as_json(report)))?);
        }
        let PublishReport { version, new_pieces, kept_pieces, written_bytes, found_bytes, .. } = report;
        let done = match (report.previous == Some(*version), self.dry_run) {
            (true, _) => "is there already",
            (false, true) => "would be published",
            (false, false) => "published",
        };
        let would = if self.dry_run { "would be " } else { "" };
        writeln!(out, "{}: version {version} {done}", self.url())?;
        writeln!(
            out,
            "{would}written: {}B ({written_bytes} bytes), with {}; {} there before",
            human(*written_bytes),
            counted(*new_pieces, "new piece", "new pieces"),
            counted(*kept_pieces, "piece was", "pieces were"),
        )?;
        if report.damaged_pieces > 0 {
            let damaged = counted(
                report.damaged_pieces,
                "piece in the store is damaged",
                "pieces in the store are damaged",
            );
            writeln!(out, "{damaged}, or not as claimed; {would}replaced")?;
        }
        if report.equal_blocks > 0 {
            let bytes = human(report.equal_blocks * BLOCK);
            writeln!(out, "{bytes}B are equal to other data of the volume and stored once")?;
        }
        if *found_bytes > 0 {
            writeln!(
                out,
                "{}B ({found_bytes} bytes) of an interrupted upload were there",
                human(*found_bytes)
            )?;
        }
        Ok(())
    }

    /// The URL of the version: with the tag that was moved, if one was.
    fn url(&self) -> String {
        match self.prefix.is_none() || self.to.names_tag {
            true => self.to.location.to_string(),
            false => self.to.location.store_url().to_string(),
        }
    }

    fn as_json(&self, report: &PublishReport) -> serde_json::Value {
        let facts = &report.facts;
        serde_json::json!({
            "url": self.url(),
            "version": report.version.to_string(),
            "previous": report.previous.map(|version| version.to_string()),
            "dry_run": self.dry_run,
            "uuid": uuid::Uuid::from_bytes(facts.uuid).to_string(),
            "bytes": facts.volume_bytes,
            "blocks": facts.blocks,
            "metadata_bytes": facts.metadata_bytes,
            "data_bytes": facts.data_bytes,
            "new_pieces": report.new_pieces,
            "kept_pieces": report.kept_pieces,
            "damaged_pieces": report.damaged_pieces,
            "equal_blocks": report.equal_blocks,
            "written_bytes": report.written_bytes,
            "found_bytes": report.found_bytes,
        })
    }
}
