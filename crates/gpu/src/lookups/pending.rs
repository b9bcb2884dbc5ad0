//! Batches of paths: submitting them to the device, and their answers.

use super::answering::AnswersWritten;
use super::asked::Asked;
use super::batch::{BatchShape, PathBatch};
use super::batch_pool::{PoolShare, WhenScarce};
use super::mirrored::{Mirrored, refresh};
use super::names::FoundDirectories;
use crate::error::Result;
use crate::resident::tables::MirrorTables;
use crate::shared::query::LookupQuery;
use lanefs::format::{Code, FileKind};
use lanefs::{
    ANSWER_BLOCK, Attr, BatchReport, ColumnSet, Engine, Ino, NamesUnder, Paths, Resolution, Resolutions,
    ResolveOptions, Rows,
};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Paths of one submission at most, and bytes of their text.
pub(crate) const MAX_PATHS: usize = 1 << 18;
const MAX_TEXT: usize = 32 << 20;

// Offsets in the text have 32 bits.
const _: () = assert!(MAX_TEXT <= u32::MAX as usize);

/// Submissions of one call that are in flight at a time: one that the device works on, one that waits, one
/// that is prepared.
pub(crate) const IN_FLIGHT: usize = 3;

/// A batch on the device, or none: then the host answers.
#[derive(Default)]
struct Submission<'m> {
    /// Blocks copied to the device before it.
    copied: u64,
    /// Generation of the mirror, at which the batch sees the volume.
    mirror_generation: u64,
    work: Option<InFlight<'m>>,
    /// A directory has moved since the directories of the batch's names were found.
    is_stale: bool,
}

/// A batch, the number of its submission, and its share of the pool.
struct InFlight<'m> {
    // Dropped first: the bytes are free when the batch has ended.
    batch: PathBatch,
    number: u64,
    share: PoolShare<'m>,
}

/// The answers to a batch, as soon as they exist. Only [`wait`](Self::wait) blocks; as a future it can be
/// awaited.
#[must_use = "the answers are in it"]
pub struct Pending<'m, 'v, 'p> {
    mirrored: &'m Mirrored<'v>,
    options: ResolveOptions,
    asked: Asked<'p>,
    query: LookupQuery,
    submission: Submission<'m>,
}

/// Answers to some of the paths of a batch: the row of each, of those from `first` on.
struct Selected<'r> {
    rows: &'r mut dyn Rows,
    first: usize,
    row_of: &'r [usize],
}

impl Rows for Selected<'_> {
    fn wants(&self) -> ColumnSet {
        self.rows.wants()
    }

    fn found(&mut self, row: usize, ino: Ino, kind: FileKind, attr: Option<&Attr>) {
        self.rows.found(self.first + self.row_of[row], ino, kind, attr);
    }

    fn failed(&mut self, row: usize, code: Code) {
        self.rows.failed(self.first + self.row_of[row], code);
    }
}

impl<'v> Mirrored<'v> {
    /// Gives the answers to a batch, which has ended, to the rows from `first` on. The CPU engine answers the
    /// paths that the device left open, and all without a batch.
    ///
    /// # Errors
    /// An error of the volume.
    pub(crate) fn write_answers(
        &self,
        options: &ResolveOptions,
        asked: Asked<'_>,
        batch: Option<&PathBatch>,
        first: usize,
        rows: &mut dyn Rows,
    ) -> lanefs::Result<BatchReport> {
        let count = asked.len();
        let AnswersWritten { mut found, open: left } = match batch {
            Some(batch) => self.packers().answer(batch, count, first, rows),
            None => AnswersWritten { found: 0, open: (0..count).collect() },
        };
        if !left.is_empty() {
            let mut open = Selected { rows, first, row_of: &left };
            found += asked.resolve_some(self.volume(), options, &left, &mut open)?;
        }
        let by_host = left.len() as u64;
        Ok(BatchReport { by_device: count as u64 - by_host, by_host, found: found as u64, copied: 0 })
    }

    /// Submits paths to the device, which resolves them in the volume as it is now: about a quarter of a
    /// million at most, more are for [`resolve_batch`](lanefs::EngineExt::resolve_batch). The call blocks
    /// only while blocks that changed are copied, where they are many.
    pub fn submit<'m, 'p>(
        &'m self,
        options: &ResolveOptions,
        paths: impl Into<Paths<'p>>,
    ) -> Pending<'m, 'v, 'p> {
        let wanted = if options.attributes { ColumnSet::ALL } else { ColumnSet::ENTRIES };
        let asked = Asked::Paths(paths.into());
        let submission = self.submit_for(options, wanted, asked, None, WhenScarce::Exceed);
        self.pending(options, asked, submission.unwrap_or_default())
    }

    fn pending<'m, 'p>(
        &'m self,
        options: &ResolveOptions,
        asked: Asked<'p>,
        submission: Submission<'m>,
    ) -> Pending<'m, 'v, 'p> {
        Pending { mirrored: self, options: options.clone(), asked, query: self.query(options), submission }
    }

    /// Submits a batch; `None` where its caller must first answer another one, which only
    /// [`WhenScarce::GiveUp`] says. Names come with their directories.
    fn submit_for<'m>(
        &'m self,
        options: &ResolveOptions,
        wanted: ColumnSet,
        asked: Asked<'_>,
        found: Option<&FoundDirectories>,
        scarce: WhenScarce,
    ) -> Option<Submission<'m>> {
        let texts = asked.texts();
        let fits = texts.len() <= MAX_PATHS && texts.text().len() <= MAX_TEXT;
        if !fits || !self.can_answer(options) || self.has_failed() {
            return Some(Submission::default());
        }
        let shape = match found {
            Some(found) => BatchShape::of_names(texts, found.inos().len()),
            None => BatchShape::of(texts),
        };
        let taken = self.pool().take(self.context(), shape, wanted, scarce);
        match taken.map_err(|error| self.fail(error)) {
            Err(()) => Some(Submission::default()),
            Ok(None) => None,
            Ok(Some((batch, share))) => {
                Some(self.submit_to_device(options, asked, found, batch, share).unwrap_or_default())
            }
        }
    }

    /// Packs a batch, begins its upload, refreshes the mirror and submits it. Threads pack at the same time;
    /// the state is locked for the refresh and the submission only.
    fn submit_to_device<'m>(
        &'m self,
        options: &ResolveOptions,
        asked: Asked<'_>,
        found: Option<&FoundDirectories>,
        mut batch: PathBatch,
        share: PoolShare<'m>,
    ) -> Option<Submission<'m>> {
        let packed = match (asked, found) {
            (Asked::Paths(paths), _) => batch.set_paths(paths, self.packers()),
            (Asked::Names(names), Some(found)) => batch.set_names(names, found.inos(), self.packers()),
            (Asked::Names(_), None) => return None,
        };
        packed.and_then(|()| batch.begin_upload()).map_err(|error| self.fail(error)).ok()?;
        let query = self.query(options);
        self.state().attempt(|mirror, watch| {
            let before = mirror.generation();
            refresh(mirror, watch)?;
            let mirror_generation = mirror.generation();
            let copied = mirror_generation - before;
            if found.is_some_and(|found| !found.hold(mirror)) {
                share.give_back(batch);
                return Ok(Submission { copied, mirror_generation, work: None, is_stale: true });
            }
            let number = batch.submit(&MirrorTables::of(mirror), self.cache(), &query, false)?;
            let work = Some(InFlight { batch, number, share });
            Ok(Submission { copied, mirror_generation, work, is_stale: false })
        })
    }
}

impl Pending<'_, '_, '_> {
    /// Returns the number of the submission; `None` where the host answers.
    fn number(&self) -> Option<u64> {
        self.submission.work.as_ref().map(|work| work.number)
    }

    /// Tells whether the device has done its part.
    pub fn is_done(&self) -> bool {
        // A device that is lost does nothing more.
        self.number().is_none_or(|number| self.mirrored.device().is_over(number).unwrap_or(true))
    }

    /// Waits for the answers, in the order of the paths. The CPU engine answers the paths that the device
    /// left open, or all where it fails.
    ///
    /// # Errors
    /// An error of the volume.
    pub fn wait(mut self) -> lanefs::Result<(Vec<Resolution>, BatchReport)> {
        self.resolutions()
    }

    fn resolutions(&mut self) -> lanefs::Result<(Vec<Resolution>, BatchReport)> {
        let mut list = vec![Resolution::failed(Code::NotResident); self.asked.len()];
        let mut rows = Resolutions { list: &mut list, attributes: self.options.attributes };
        let report = self.answers(0, &mut rows)?;
        Ok((list, report))
    }

    /// Waits, and gives the answers to the rows from `first` on.
    fn answers(&mut self, first: usize, rows: &mut dyn Rows) -> lanefs::Result<BatchReport> {
        let work = self.submission.work.take().and_then(|mut work| {
            self.finish(&mut work).map_err(|error| self.mirrored.fail(error)).ok()?;
            Some(work)
        });
        let batch = work.as_ref().map(|work| &work.batch);
        let report = self.mirrored.write_answers(&self.options, self.asked, batch, first, rows)?;
        work.into_iter().for_each(|InFlight { batch, share, .. }| share.give_back(batch));
        Ok(BatchReport { copied: self.submission.copied, ..report })
    }

    /// Waits for the device, and resumes the lookups that one dispatch did not finish.
    fn finish(&self, work: &mut InFlight<'_>) -> Result<()> {
        let generation = self.submission.mirror_generation;
        self.mirrored.finish(&mut work.batch, work.number, &self.query, generation)
    }
}

/// Many paths go in several submissions; the device has the next ones while it works on one. Where the device
/// fails, the CPU engine continues ([`failure`](Mirrored::failure)).
impl Engine for Mirrored<'_> {
    fn resolve_rows(
        &self,
        options: &ResolveOptions,
        paths: Paths<'_>,
        rows: &mut dyn Rows,
    ) -> lanefs::Result<BatchReport> {
        self.resolve_asked(options, Asked::Paths(paths), None, rows)
    }

    /// The text on the way to the device is that of the names. Where that would not pay, as with few names in
    /// each directory or for a caller with an identity, the device gets whole paths.
    fn resolve_names(
        &self,
        options: &ResolveOptions,
        names: NamesUnder<'_>,
        rows: &mut dyn Rows,
    ) -> lanefs::Result<BatchReport> {
        if self.has_failed() {
            return Engine::resolve_names(self.volume(), options, names, rows);
        }
        match self.directories_that_pay(options, names)? {
            Some(found) => self.resolve_asked(options, Asked::Names(names), Some(found), rows),
            None => self.resolve_rows(options, names.to_paths().view(), rows),
        }
    }
}

impl Mirrored<'_> {
    fn resolve_asked(
        &self,
        options: &ResolveOptions,
        asked: Asked<'_>,
        mut found: Option<FoundDirectories>,
        rows: &mut dyn Rows,
    ) -> lanefs::Result<BatchReport> {
        let wanted = rows.wants();
        let options = ResolveOptions { attributes: !wanted.attributes().is_empty(), ..options.clone() };
        // In the order of their numbers, each at the rest that its own leaves.
        let mut pending = [const { None::<Pending<'_, '_, '_>> }; IN_FLIGHT];
        let (mut begun, mut ended, mut sum) = (0, 0, BatchReport::default());
        let (mut submitted, mut answered) = (0, 0);
        loop {
            while submitted < asked.len() && begun - ended < IN_FLIGHT {
                let rest = asked.slice(submitted..asked.len());
                let next = next_batch(rest.texts(), MAX_PATHS, MAX_TEXT);
                let now = rest.slice(0..next);
                // Of many callers each has a batch before one has several.
                let scarce = if begun == ended { WhenScarce::Wait } else { WhenScarce::GiveUp };
                let submission = self.submit_for(&options, wanted, now, found.as_ref(), scarce);
                let Some(mut submission) = submission else { break };
                if let (true, Asked::Names(names)) = (submission.is_stale, asked) {
                    found = Some(self.find_directories(&options, names)?);
                    let again = self.submit_for(&options, wanted, now, found.as_ref(), scarce);
                    sum.copied += submission.copied;
                    // Where directories move all the time, the host answers.
                    submission = again.unwrap_or_default();
                }
                pending[begun % IN_FLIGHT] = Some(self.pending(&options, now, submission));
                begun += 1;
                submitted += next;
            }
            let numbers = (ended..begun).filter_map(|batch| pending[batch % IN_FLIGHT].as_ref()?.number());
            debug_assert!(numbers.is_sorted(), "batches are answered in order");
            let first = pending[ended % IN_FLIGHT].take();
            ended += usize::from(first.is_some());
            let Some(mut first) = first else {
                debug_assert_eq!(answered, asked.len(), "a batch was lost");
                return Ok(sum);
            };
            sum.add(first.answers(answered, rows)?);
            answered += first.asked.len();
        }
    }
}

impl Future for Pending<'_, '_, '_> {
    type Output = lanefs::Result<(Vec<Resolution>, BatchReport)>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.is_done() {
            return Poll::Ready(this.resolutions());
        }
        if let Some(number) = this.number() {
            this.mirrored.device().wake_after(number, context.waker());
        }
        Poll::Pending
    }
}

/// Returns how many of the paths go in one submission of so many paths and bytes of text at most: blocks of
/// answers, where there are more paths, so that the next submission begins with one.
pub(crate) fn next_batch(paths: Paths<'_>, most_paths: usize, most_text: usize) -> usize {
    let mut count = paths.len().min(most_paths);
    while count > 1 && paths.slice(0..count).text().len() > most_text {
        count = count.div_ceil(2);
        if count > ANSWER_BLOCK {
            count -= count % ANSWER_BLOCK;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;
    use crate::kernels::context::{GpuOptions, Probes};
    use crate::lookups::mirrored::MirrorOptions;
    use crate::vulkan::{Choice, fail_call};
    use lanefs::{Caller, Column, Columns, CreateOptions, EngineExt, RenameMode, Volume};

    #[test]
    fn a_submission_that_is_not_the_last_ends_with_a_block_of_answers() {
        for (count, bytes) in [(10, 1), (100, 1_000), (5_000, 700), (70_000, 900)] {
            let set: lanefs::PathSet = (0..count).map(|_| "x".repeat(bytes)).collect();
            let next = next_batch(set.view(), 50_000, 8 << 20);
            let is_last = next == count;
            assert!(is_last || next.is_multiple_of(ANSWER_BLOCK) && next > 0, "{next} of {count}");
            assert!(next * bytes <= 8 << 20);
        }
    }

    #[test]
    fn names_are_not_submitted_once_a_directory_has_moved_since_it_was_found() {
        fail_call(None);
        let gpu = Gpu::open(&Choice::default()).expect("a Vulkan device");
        let options = CreateOptions { size: 16 << 20, ..CreateOptions::default() };
        let volume = Volume::create_memory(&options).expect("a volume");
        volume.mkdir_all("/a/b", 0o755).expect("a directory");
        volume.write_file("/a/b/file", b"").expect("a file");
        let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
        let (options, names) = (ResolveOptions::default(), lanefs::PathSet::under("/a/b", ["file"]));
        mirrored.resolve_batch(&options, &["/"]).expect("a refresh");
        let is_stale = |found: &FoundDirectories| {
            let asked = Asked::Names(names.view());
            let wanted = ColumnSet::ENTRIES;
            let submission = mirrored.submit_for(&options, wanted, asked, Some(found), WhenScarce::Wait);
            let submission = submission.expect("a submission");
            let is_stale = submission.is_stale;
            assert_eq!(submission.work.is_none(), is_stale);
            let (list, _) = mirrored.pending(&options, asked, submission).wait().expect("answers");
            let expected = volume.resolve_batch(&options, &["/a/b/file"]).expect("answers");
            assert_eq!(list, expected);
            is_stale
        };
        let find = || mirrored.find_directories(&options, names.view()).expect("directories");
        let found = find();
        assert!(found.inos()[0] != 0 && !is_stale(&found));
        // Files may come and go.
        volume.write_file("/another", b"").expect("a file");
        assert!(!is_stale(&found));
        let (root, caller) = (volume.root(), Caller::OWNER);
        volume.rename_at(&caller, root, b"a", root, b"c", RenameMode::Replace).expect("a rename");
        volume.mkdir_all("/a/b", 0o755).expect("a directory");
        assert!(is_stale(&found));
        let again = find();
        assert!(again.inos() != found.inos() && !is_stale(&again));
    }

    #[test]
    fn a_stale_batch_whose_upload_has_begun_answers_other_names() {
        const FILES: usize = 1000;
        fail_call(None);
        let options = GpuOptions { own_memory: true, probes: Probes::None, ..GpuOptions::default() };
        let gpu = Gpu::open_with(&options).expect("a Vulkan device");
        let options = CreateOptions { size: 16 << 20, ..CreateOptions::default() };
        let volume = Volume::create_memory(&options).expect("a volume");
        volume.mkdir_all("/a", 0o755).expect("a directory");
        volume.mkdir_all("/b", 0o755).expect("a directory");
        for number in 0..FILES {
            volume.write_file(format!("/b/{number:04}"), b"").expect("a file");
        }
        let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
        let options = ResolveOptions::default();
        let names = |dir: &str, first: usize| {
            lanefs::PathSet::under(dir, (first..first + FILES).map(|number| format!("{number:04}")))
        };
        mirrored.resolve_batch(&options, &["/"]).expect("a refresh");
        // Answers the names under a directory, some of which are not there. Returns the copies by a queue of
        // their own, and whether the batch was stale.
        let ask = |dir: &str, first: usize, is_late: bool| {
            let names = names(dir, first);
            let asked = Asked::Names(names.view());
            let found = mirrored.find_directories(&options, names.view()).expect("directories");
            if is_late {
                let (root, caller) = (volume.root(), Caller::OWNER);
                volume.rename_at(&caller, root, b"a", root, b"c", RenameMode::Replace).expect("a rename");
            }
            let before = gpu.context.device.copies_submitted();
            let submission =
                mirrored.submit_for(&options, ColumnSet::ENTRIES, asked, Some(&found), WhenScarce::Wait);
            let submission = submission.expect("a submission");
            let (copies, is_stale) = (gpu.context.device.copies_submitted() - before, submission.is_stale);
            let (list, report) = mirrored.pending(&options, asked, submission).wait().expect("answers");
            let paths = names.view().to_paths();
            let paths: Vec<&[u8]> = paths.view().iter().collect();
            assert!(list == volume.resolve_batch(&options, &paths).expect("answers"), "{dir}, {first}");
            assert_eq!(report.by_host == 0, !is_stale, "{dir}, {first}");
            (copies, is_stale)
        };
        assert_eq!(ask("/b", 0, false), (1, false));
        // The buffers of the first batch, then once more.
        assert_eq!(ask("/b", 500, true), (1, true));
        assert_eq!(ask("/b", 250, false), (1, false));
        assert_eq!(mirrored.failure(), None);
        // A small batch has one queue, and paths that stay are copied once, by that queue.
        let before = gpu.context.device.copies_submitted();
        mirrored.resolve_batch(&options, &["/b/0001", "/c"]).expect("answers");
        let paths: lanefs::PathSet = (0..FILES).map(|number| format!("/b/{number:04}")).collect();
        let mut kept = mirrored.keep(&options, &paths).expect("kept");
        for _ in 0..2 {
            let mut inos = Columns::of(&[Column::Ino]);
            assert_eq!(kept.resolve_into(&mut inos.rows(FILES)).expect("answers").by_device, FILES as u64);
        }
        assert_eq!(gpu.context.device.copies_submitted(), before);
    }
}
