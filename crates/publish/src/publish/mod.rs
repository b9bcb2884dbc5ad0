//! Publishing a volume that was closed, or the snapshot of one that is in use ([`source`]).
//!
//! 1. [`base`]: the version that the tag names, and packs that no version names yet: an interrupted upload.
//! 2. [`choose`]: for each window, the pieces of the store that are still right, the blocks that are equal to
//!    those of another window ([`equal`]), and the blocks that need new pieces.
//! 3. [`upload`]: packs of new pieces, in the order in which they are read ([`order`]).
//! 4. [`pages`]: pages that changed, in packs, and the root.
//! 5. The tag, if it still names the same version as in step 1.
//!
//! The root is written when all packs are, and the tag last. So a publisher that ends anywhere leaves the tag
//! as it was, and objects that the next publisher finds. A prune at the same time: [`condemned`].

mod base;
mod choose;
mod equal;
mod order;
mod pages;
mod source;
mod upload;

use crate::condemned;
use crate::error::{Error, Result};
use crate::format::facts::Facts;
use crate::format::frames::codec_by_size;
use crate::format::hash::Hash;
use crate::format::layout::{VERSION, WINDOW_BYTES};
use crate::format::packs::{PackNumber, Stored};
use crate::format::page::{Piece, raw_bytes};
use crate::format::piece::Packed;
use crate::format::root::{Root, Tag};
use crate::objects::Objects;
use crate::publication::{ReadOptions, read_tag};
use crate::reading::fetch::{Bytes, Fetcher};
use crate::reading::manifest::Manifest;
use crate::reading::threads;
use crate::store::{Stamp, Store};
use crate::versions::replace_tag;
use base::{Base, Footers};
use choose::{Choice, Content, Examined, KeptPiece, NewBlocks, NewPieces};
use equal::{Borrowed, EqualBlocks, Lender};
use lanefs::format::BLOCK;
use lanefs::{UsedBlocks, Volume};
use lanefs_sync::lock::Mutex;
use order::PackOrder;
pub use source::{Snapshot, Source};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use upload::{OpenPack, Uploader};

/// Windows that are read and compressed at the same time: 16 MiB.
const BATCH_WINDOWS: usize = 64;

/// Level of compression by default.
pub const DEFAULT_LEVEL: i32 = 9;

/// Bytes of a frame by default. (Why: `docs/publication.md`.)
pub const DEFAULT_FRAME: u32 = 32 << 10;

/// Options of [`publish`].
#[derive(Clone, Debug)]
pub struct PublishOptions {
    /// Level of zstd, 1 to 19.
    pub level: i32,
    /// Bytes of a frame of file data before compression: 64, 32 or 16 KiB, and with any other number the
    /// largest of these that is not larger. Less than 16 KiB: the pieces have no frames.
    pub frame_bytes: u32,
    /// Writes nothing, and reports what would be written.
    pub dry_run: bool,
    /// Reads and checks all pieces that are taken over from the version of the tag. Damaged ones are replaced
    /// by new pieces. (Those that no version names are always read.)
    pub check: bool,
    /// Ranges of bytes of the volume in the order in which readers want them, such as the
    /// [extents](Volume::extents) of the files of a trace. New blocks in them get pieces of their own, which
    /// come before other data in packs and follow one another in this order. (What the store has already
    /// stays where it is.)
    pub order: Vec<Range<u64>>,
    /// Time of the publication, in nanoseconds since 1970.
    pub now: i64,
}

impl Default for PublishOptions {
    fn default() -> Self {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let now = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        let (dry_run, check, order) = (false, false, Vec::new());
        PublishOptions { level: DEFAULT_LEVEL, frame_bytes: DEFAULT_FRAME, dry_run, check, order, now }
    }
}

/// Result of [`publish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishReport {
    /// The version that the tag names now. A dry run knows it, too.
    pub version: Hash,
    /// The version that the tag named before.
    pub previous: Option<Hash>,
    /// Facts of the version.
    pub facts: Facts,
    /// Pieces that were stored.
    pub new_pieces: u64,
    /// Pieces that the store had.
    pub kept_pieces: u64,
    /// Pieces of the store that seemed to have what is needed, and turned out to be damaged or planted when
    /// they were read. New ones replace them.
    pub damaged_pieces: u64,
    /// Blocks that are equal to others of the version and were not stored again.
    pub equal_blocks: u64,
    /// Bytes of all objects that were written.
    pub written_bytes: u64,
    /// Bytes of packs of an interrupted upload that were found complete.
    pub found_bytes: u64,
}

/// Function that learns of progress, in blocks done and blocks of all, and returns false to stop.
pub type OnProgress<'f> = &'f dyn Fn(u64, u64) -> bool;

/// Publishes a volume, which was closed and is open for reading, as the next version of a tag; or the
/// [`Snapshot`] of one that is in use.
///
/// # Errors
/// [`Error::TagMoved`] where another publisher was faster; [`Error::Condemned`] where a prune was;
/// [`Error::OtherVolume`]; [`Error::Interrupted`]; [`Error::GivenUp`]; the store's and the volume's. The tag
/// is then as it was.
pub fn publish(
    source: &dyn Source,
    store: Arc<dyn Store>,
    tag: &str,
    options: &PublishOptions,
    progress: OnProgress<'_>,
) -> Result<PublishReport> {
    explained(source, publish_source(source, store, Some(tag), options, progress))
}

/// Publishes a volume as a shard: as a version that no tag names. A [join](crate::join) needs it while it is
/// younger than the grace period of a prune.
///
/// # Errors
/// As [`publish`], but for those of tags.
pub fn publish_shard(
    source: &dyn Source,
    store: Arc<dyn Store>,
    options: &PublishOptions,
    progress: OnProgress<'_>,
) -> Result<PublishReport> {
    explained(source, publish_source(source, store, None, options, progress))
}

/// Says of a snapshot that could not be kept that it was given up.
fn explained(source: &dyn Source, published: Result<PublishReport>) -> Result<PublishReport> {
    match (published, source.given_up()) {
        (Err(Error::Volume(_)), Some(why)) => Err(Error::GivenUp(why)),
        (published, _) => published,
    }
}

fn publish_source(
    source: &dyn Source,
    store: Arc<dyn Store>,
    tag: Option<&str>,
    options: &PublishOptions,
    progress: OnProgress<'_>,
) -> Result<PublishReport> {
    let volume = source.volume();
    let objects = Objects { store };
    let order = PackOrder::new(&options.order, volume.superblock().volume_bytes);
    let used = used_windows(volume, &order)?;
    // A publisher reads each page twice: for the pieces, and to see whether it has changed.
    let fetcher = Fetcher::new(objects.clone(), None, ReadOptions::MEMORY_BYTES);
    let found = match tag {
        Some(tag) => read_tag(&objects, tag)?,
        None => None,
    };
    if let Some((present, _)) = &found {
        check_tag(&fetcher, present, tag.unwrap_or_default(), volume)?;
    }
    let present = found.as_ref().map(|(tag, _)| tag);
    let base = Base::load(&fetcher, volume, present, tag.is_none(), options.check)?;
    let damaged = Mutex::default();
    let job = PublishJob { source, volume, objects, fetcher, base, damaged, order, options, progress };
    job.run(&used, tag, found)
}

/// Checks that a tag names versions of a volume.
fn check_tag(fetcher: &Fetcher, present: &Tag, tag: &str, volume: &Volume) -> Result<()> {
    if present.uuid == volume.superblock().uuid {
        return Ok(());
    }
    let shown = format!("{}#{tag}", fetcher.objects.store.name());
    let (manifest, _) = Manifest::open(fetcher, present.version, present.root_bytes as usize)?;
    if manifest.root.join.is_some() {
        return Err(Error::IsJoin(shown));
    }
    let there = uuid::Uuid::from_bytes(present.uuid).to_string();
    Err(Error::OtherVolume { tag: shown, there })
}

/// All windows with used blocks: those with metadata first, then those that are read first, each kind by
/// position.
fn used_windows(volume: &Volume, order: &PackOrder) -> Result<Vec<UsedBlocks>> {
    let mut used = Vec::new();
    for group in 0..volume.group_count() {
        used.extend(volume.used_blocks(group)?);
    }
    order.sort(&mut used);
    Ok(used)
}

/// A piece of the new version. The pack of a new one is not complete before all of its pieces are in it.
struct Placed {
    piece: Piece,
    /// The pack of a new piece.
    pack: Option<PackNumber>,
}

/// A publication that is being made.
struct PublishJob<'j> {
    source: &'j dyn Source,
    volume: &'j Volume,
    objects: Objects,
    fetcher: Fetcher,
    base: Base,
    /// Pieces of the store that were read, and have other content than they seemed to have.
    damaged: Mutex<HashSet<Stored>>,
    order: PackOrder,
    options: &'j PublishOptions,
    progress: OnProgress<'j>,
}

/// Sums of a publication that is being made.
#[derive(Default)]
struct Sums {
    new_pieces: u64,
    kept_pieces: u64,
    equal_blocks: u64,
    blocks: u64,
}

impl PublishJob<'_> {
    fn run(
        self,
        used: &[UsedBlocks],
        tag: Option<&str>,
        found: Option<(Tag, Stamp)>,
    ) -> Result<PublishReport> {
        std::thread::scope(|scope| {
            let mut uploader = Uploader::new(scope, &self.objects, &self.base, self.options.dry_run);
            let (placed, sums) = self.pieces(used, &mut uploader)?;
            let (root, bytes, packs) = self.root(&placed, &sums, &mut uploader)?;
            let version = Hash::of(&bytes);
            let sent = uploader.finish()?;
            let previous = found.as_ref().map(|(tag, _)| tag.version);
            let mut report = PublishReport {
                version,
                previous,
                facts: root.facts,
                new_pieces: sums.new_pieces,
                kept_pieces: sums.kept_pieces,
                damaged_pieces: self.damaged.lock().len() as u64,
                equal_blocks: sums.equal_blocks,
                written_bytes: sent.written,
                found_bytes: sent.found,
            };
            if previous != Some(version) {
                report.written_bytes += self.publish_root(version, bytes, &packs, tag, found)?;
            }
            Ok(report)
        })
    }

    /// Chooses and stores the pieces of all windows.
    fn pieces(&self, used: &[UsedBlocks], uploader: &mut Uploader<'_, '_>) -> Result<(Vec<Placed>, Sums)> {
        let all: u64 = used.iter().map(|window| u64::from(window.used.count_ones())).sum();
        let (mut placed, mut sums) = (Vec::new(), Sums::default());
        // The pieces of a window with blocks that come first go to two packs.
        let (mut first, mut rest) = (uploader.begin(), uploader.begin());
        let mut is_metadata = true;
        let mut equal = EqualBlocks::new();
        for batch in
            used.chunk_by(|a, b| a.is_metadata == b.is_metadata).flat_map(|run| run.chunks(BATCH_WINDOWS))
        {
            if !(self.progress)(sums.blocks, all) {
                return Err(Error::Interrupted);
            }
            // Metadata and data share no pack, so that reading names touches no data.
            if batch[0].is_metadata != is_metadata {
                uploader.renew(&mut rest)?;
                is_metadata = batch[0].is_metadata;
            }
            equal.trim();
            let choices = self.choose(batch, &mut equal)?;
            for (window, (choice, packed)) in batch.iter().zip(choices) {
                sums.blocks += u64::from(window.used.count_ones());
                sums.kept_pieces += choice.kept.len() as u64;
                placed.extend(choice.kept.into_iter().map(|piece| Placed { piece, pack: None }));
                for (loan, content) in choice.borrowed {
                    sums.equal_blocks += u64::from(loan.taken.count_ones());
                    // The lender was placed before: it is of a window before this one.
                    let lender = equal.lender(loan.lender).ok_or(Error::Interrupted)?;
                    placed.push(borrow(window, &loan, content, lender));
                }
                for (new, packed) in choice.new.into_iter().zip(packed) {
                    sums.new_pieces += 1;
                    let lender = new.lender;
                    let pack = if new.is_first { &mut first } else { &mut rest };
                    let made = add_piece(window, new, &packed, pack);
                    if let Some(number) = lender {
                        let Placed { piece, pack } = &made;
                        let (stored, blocks) = (piece.stored, piece.blocks);
                        equal.place(number, Lender { stored, blocks, pack: *pack });
                    }
                    placed.push(made);
                    if pack.builder.is_full() {
                        uploader.renew(pack)?;
                    }
                }
            }
        }
        uploader.send(first)?;
        uploader.send(rest)?;
        Ok((placed, sums))
    }

    /// Chooses the pieces of some windows, and compresses the new ones.
    fn choose(&self, batch: &[UsedBlocks], equal: &mut EqualBlocks) -> Result<Vec<(Choice, Vec<Packed>)>> {
        let footers = self.base.footers(&self.fetcher, batch)?;
        let (source, volume, level) = (self.source, self.volume, self.options.level);
        let read = |window: &UsedBlocks| -> Result<Content> {
            let blocks = read_window(volume, window)?;
            source.release(window);
            Ok(Content::new(window, blocks))
        };
        let processors = threads::processors();
        let contents = threads::map(processors, batch.iter().collect(), read);
        let contents = contents.into_iter().collect::<Result<Vec<Content>>>()?;
        let windows = batch.iter().zip(&contents).collect();
        let (base, damaged, order) = (&self.base, &self.damaged, &self.order);
        let examine = |of_window| examine(base, damaged, order, of_window, &footers);
        let mut examined = threads::map(processors, windows, examine);
        while self.find_damage(&examined)? {
            for (of_window, examined) in batch.iter().zip(&contents).zip(&mut examined) {
                *examined = examine(of_window);
            }
        }
        // One window after the other: so what is equal is found whatever the threads do.
        let windows = batch.iter().zip(&contents).zip(examined);
        let frames = codec_by_size(self.options.frame_bytes);
        let choose = |((window, content), examined)| {
            let pieces = NewPieces { frames, first: order.first(window) };
            choose::choose(window, content, examined, equal, pieces)
        };
        let choices: Vec<Choice> = windows.map(choose).collect();
        let pack = |choice: Choice| {
            let packed = choice.new.iter().map(|new| new.pack(level)).collect();
            (choice, packed)
        };
        Ok(threads::map(processors, choices, pack))
    }

    /// Reads the pieces that are taken over and that nobody vouches for. Returns whether one of them is
    /// damaged, or was planted: then the windows are examined again, without it.
    fn find_damage(&self, examined: &[Examined<'_>]) -> Result<bool> {
        let kept: Vec<&KeptPiece<'_>> =
            examined.iter().flat_map(|window| &window.kept).filter(|kept| !kept.is_trusted).collect();
        let mut wanted: Vec<Stored> = kept.iter().map(|kept| kept.piece.stored).collect();
        wanted.sort_unstable_by_key(|stored| (stored.pack.name, stored.offset));
        wanted.dedup();
        let read: HashMap<Stored, Result<Bytes>> =
            wanted.iter().copied().zip(self.fetcher.get_many(&wanted)).collect();
        let mut found = Vec::new();
        for kept in kept {
            match read.get(&kept.piece.stored) {
                Some(Ok(bytes)) if kept.is_sound(bytes) => {}
                // The store fails, and nothing is known of the piece.
                Some(Err(error)) if !error.is_broken_object() => return Err(error.clone()),
                _ => found.push(kept.piece.stored),
            }
        }
        let is_found = !found.is_empty();
        self.damaged.lock().extend(found);
        Ok(is_found)
    }

    /// Makes the pages and the root. Returns also the packs that this version needs and the version of the
    /// tag does not name.
    fn root(
        &self,
        placed: &[Placed],
        sums: &Sums,
        uploader: &mut Uploader<'_, '_>,
    ) -> Result<(Root, Vec<u8>, HashSet<Hash>)> {
        let mut pieces = uploader.resolve(placed)?;
        let mut packs: HashSet<Hash> = pieces.iter().map(|piece| piece.stored.pack.name).collect();
        let stored = |is_metadata: bool, pieces: &[Piece]| {
            let of_kind = pieces.iter().filter(|piece| piece.is_metadata == is_metadata);
            // Several windows may borrow from one piece.
            let once: HashSet<Stored> = of_kind.map(|piece| piece.stored).collect();
            once.iter().map(|stored| u64::from(stored.bytes)).sum()
        };
        let superblock = self.volume.superblock();
        let facts = Facts {
            uuid: superblock.uuid,
            volume_bytes: superblock.volume_bytes,
            sequence: superblock.sequence,
            blocks: sums.blocks,
            metadata_bytes: stored(true, &pieces),
            data_bytes: stored(false, &pieces),
        };
        let ranges = pages::ranges(&pieces);
        // The same pieces always stand in the same order, so that a page without a change stays as it is.
        pieces.sort_by_key(|piece| (piece.window, piece.taken.trailing_zeros()));
        let (level, pages) = self.pages(pieces, facts.volume_bytes, uploader, &mut packs)?;
        packs.retain(|pack| !self.base.named.contains(pack));
        let root = Root { format: VERSION, facts, level, pages, ranges, join: None };
        let bytes = root.encode();
        Ok((root, bytes, packs))
    }

    /// Writes the root and moves the tag. Returns the bytes written.
    fn publish_root(
        &self,
        version: Hash,
        bytes: Vec<u8>,
        packs: &HashSet<Hash>,
        tag: Option<&str>,
        found: Option<(Tag, Stamp)>,
    ) -> Result<u64> {
        let next = Tag {
            version,
            root_bytes: bytes.len() as u32,
            uuid: self.base.uuid,
            published: self.options.now,
        };
        let content = next.encode(&bytes);
        let written = bytes.len() + tag.map_or(0, |_| content.len());
        let written = written as u64;
        if self.options.dry_run {
            return Ok(written);
        }
        condemned::secure(&self.objects, self.base.seen, bytes, packs)?;
        let Some(tag) = tag else { return Ok(written) };
        replace_tag(&self.objects, tag, &next, content, found.map(|(_, stamp)| stamp))?;
        Ok(written)
    }
}

/// Compares a window with the pieces of the store that are not damaged, as far as is known.
fn examine<'f>(
    base: &'f Base,
    damaged: &Mutex<HashSet<Stored>>,
    order: &PackOrder,
    (window, content): (&UsedBlocks, &Content),
    footers: &'f Footers,
) -> Examined<'f> {
    let mut candidates = base.candidates(window.position / WINDOW_BYTES, footers);
    let damaged = damaged.lock();
    candidates.retain(|candidate| !damaged.contains(&candidate.stored));
    drop(damaged);
    choose::examine(window, content, &candidates, order.first(window))
}

/// Puts a new piece into the pack.
fn add_piece(window: &UsedBlocks, new: NewBlocks, packed: &Packed, pack: &mut OpenPack) -> Placed {
    let number = window.position / WINDOW_BYTES;
    let offset = pack.builder.add_piece(number, new.blocks, new.digests(), packed);
    let stored = Stored {
        pack: upload::INCOMPLETE,
        offset,
        bytes: packed.bytes.len() as u32,
        raw: raw_bytes(new.blocks),
        codec: packed.codec,
        hash: packed.hash,
        framing: packed.framing,
    };
    let piece = Piece {
        window: number,
        is_metadata: window.is_metadata,
        taken: new.blocks,
        blocks: new.blocks,
        borrowed: None,
        stored,
        content: Some(new.content),
    };
    Placed { piece, pack: Some(pack.number) }
}

/// Refers to blocks of another window's piece.
fn borrow(window: &UsedBlocks, loan: &Borrowed, content: Hash, lender: &Lender) -> Placed {
    let piece = Piece {
        window: window.position / WINDOW_BYTES,
        is_metadata: window.is_metadata,
        taken: loan.taken,
        blocks: lender.blocks,
        borrowed: Some(loan.first),
        stored: lender.stored,
        content: Some(content),
    };
    Placed { piece, pack: lender.pack }
}

/// Reads the used blocks of a window, one after the other.
fn read_window(volume: &Volume, window: &UsedBlocks) -> Result<Vec<u8>> {
    let mut bytes = vec![0; window.used.count_ones() as usize * BLOCK as usize];
    let (mut done, mut block) = (0, 0);
    while block < 64 {
        let rest = window.used >> block;
        let count = rest.trailing_ones();
        if count == 0 {
            block += rest.trailing_zeros();
            continue;
        }
        let len = count as usize * BLOCK as usize;
        let at = window.position + u64::from(block) * BLOCK;
        volume.read_image(at, &mut bytes[done..done + len])?;
        done += len;
        block += count;
    }
    Ok(bytes)
}
