//! Pipeline that reads, resolves and prints at the same time: one thread cuts the input into pieces, several
//! threads resolve them and write the lines into memory, and the caller prints these in the order of the
//! input. A few pieces are in flight at a time, so memory stays bounded for input of any size.

use super::format::LineFormat;
use super::totals::LookupTotals;
use crate::common::engine::report;
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use crate::terminal::{console, exit, interrupt};
use lanefs::{Columns, EngineExt, PathSet, Paths, ResolveOptions, host_text};
use lanefs_gpu::Engines;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Instant;

/// Bytes of input for each path of the engine's largest batch: a path of usual length.
const PATH_BYTES: usize = 64;
/// Pieces in flight for each thread: one being resolved and one waiting.
const PIECES_PER_THREAD: usize = 2;

/// Settings of a lookup.
pub(super) struct Pipeline<'e, 'v> {
    /// Engines that resolve batches.
    pub(super) engines: &'e Engines<'v>,
    /// Options of the resolution.
    pub(super) options: ResolveOptions,
    /// Form of the lines.
    pub(super) format: LineFormat,
    /// Threads that resolve.
    pub(super) threads: usize,
}

/// Input of paths.
pub(super) struct PathInput {
    /// Reads their bytes.
    pub(super) reader: Box<dyn Read + Send>,
    /// Ends a read that waits.
    pub(super) stop: Arc<AtomicBool>,
    /// The byte that ends a path.
    pub(super) delimiter: u8,
    /// Name for messages.
    pub(super) name: Vec<u8>,
}

/// A piece of the input: whole paths, each ended by the delimiter except perhaps the last path of the input.
struct InputPiece {
    number: u64,
    memory: PieceMemory,
}

/// Memory of a piece: the text of its paths, and their lines. Fresh memory costs a page fault for each 4 KiB,
/// so each piece has that of one that has been printed.
#[derive(Default)]
struct PieceMemory {
    text: Vec<u8>,
    lines: Vec<u8>,
}

/// A piece whose lines are in its memory.
struct ResolvedPiece {
    number: u64,
    lines: Result<(PieceMemory, LookupTotals), Failure>,
}

impl Pipeline<'_, '_> {
    /// Resolves every path of `input` and prints its line. Adds to `totals` the printed lines.
    ///
    /// # Errors
    /// Input, output or volume fail, or the user stops it. Lines of earlier pieces are printed.
    pub(super) fn run(&self, input: PathInput, out: &mut impl Write, totals: &mut LookupTotals) -> Outcome {
        let PathInput { reader, stop, delimiter, name } = input;
        // A piece in flight has one of these memories. The channel takes as many pieces, so that sending one
        // never waits.
        let (pieces_in, pieces) = sync_channel(self.threads * PIECES_PER_THREAD);
        let (resolved_in, resolved) = channel();
        let (free_in, free) = channel();
        for _ in 0..self.threads * PIECES_PER_THREAD {
            let _ = free_in.send(PieceMemory::default());
        }
        let pieces = Mutex::new(pieces);
        std::thread::scope(|scope| {
            let failures = resolved_in.clone();
            let cutter = Cutter { reader, delimiter, engines: self.engines };
            scope.spawn(console::carried(move || cutter.cut(&name, &free, &pieces_in, &failures)));
            let pieces = &pieces;
            for _ in 0..self.threads {
                let resolved_in = resolved_in.clone();
                scope.spawn(console::carried(move || self.work(delimiter, pieces, &resolved_in)));
            }
            drop(resolved_in);
            let outcome = print(&resolved, &free_in, out, totals, self.threads);
            // The other threads now end by themselves: sending and waiting for memory both fail.
            stop.store(true, Ordering::Relaxed);
            drop((resolved, free_in));
            outcome
        })
    }

    /// Resolves pieces until there are no more, or one fails.
    fn work(&self, delimiter: u8, pieces: &Mutex<Receiver<InputPiece>>, resolved: &Sender<ResolvedPiece>) {
        let (mut paths, mut answers) = (PathSet::new(), Columns::of(self.format.columns()));
        loop {
            // Waiting under the lock is harmless: the other threads would wait for the same piece.
            let next = pieces.lock().recv();
            let Ok(InputPiece { number, mut memory }) = next else { return };
            let unused = paths.replace(memory.text, delimiter);
            let totals = self.resolve(delimiter, paths.view(), &mut answers, &mut memory.lines);
            memory.text = unused;
            let failed = totals.is_err();
            let lines = totals.map(|totals| (memory, totals));
            if resolved.send(ResolvedPiece { number, lines }).is_err() || failed {
                return;
            }
        }
    }

    /// Resolves the paths of a piece and writes their lines.
    fn resolve(
        &self,
        delimiter: u8,
        paths: Paths<'_>,
        answers: &mut Columns,
        lines: &mut Vec<u8>,
    ) -> Result<LookupTotals, Failure> {
        let mut totals = LookupTotals::default();
        lines.clear();
        let mut first = 0;
        while first < paths.len() {
            check_interrupt()?;
            let part = paths.slice(first..paths.len().min(first + self.engines.batch()));
            first += part.len();
            let start = Instant::now();
            let resolved = self.engines.resolve_into(&self.options, part, &mut answers.rows(part.len()));
            totals.resolving += start.elapsed();
            resolved.map_err(|error| Failure::volume("lookup", &error))?;
            report(self.engines.take_failure());
            totals.add_all(answers.code().unwrap_or_default());
            self.format.push_all(lines, part, delimiter, answers);
        }
        Ok(totals)
    }
}

/// Cuts the input into pieces.
struct Cutter<'e, 'v> {
    reader: Box<dyn Read + Send>,
    delimiter: u8,
    /// Engines that resolve the pieces: one piece is enough for a batch.
    engines: &'e Engines<'v>,
}

impl Cutter<'_, '_> {
    /// Cuts the input at delimiters and sends the pieces on as memory becomes free.
    fn cut(
        mut self,
        name: &[u8],
        free: &Receiver<PieceMemory>,
        pieces: &SyncSender<InputPiece>,
        failures: &Sender<ResolvedPiece>,
    ) {
        // The start of a path that continues in the next piece.
        let mut rest = Vec::new();
        for number in 0.. {
            let Ok(mut memory) = free.recv() else { return };
            let text = &mut memory.text;
            text.clear();
            text.append(&mut rest);
            let end = match self.read_whole_paths(text) {
                Ok(end) => end,
                Err(error) => {
                    let _ = failures.send(ResolvedPiece { number, lines: Err(input_failure(name, &error)) });
                    return;
                }
            };
            if let Some(end) = end {
                rest.extend_from_slice(&text[end..]);
                text.truncate(end);
            }
            let is_last = end.is_none();
            if (!text.is_empty() && pieces.send(InputPiece { number, memory }).is_err()) || is_last {
                return;
            }
        }
    }

    /// Reads until `text`, which has no delimiter at first, has at least one whole path. Returns the end of
    /// the last whole path; `None` at the end of the input, where all of `text` counts.
    fn read_whole_paths(&mut self, text: &mut Vec<u8>) -> std::io::Result<Option<usize>> {
        loop {
            let old_len = text.len();
            if !self.read_more(text)? {
                return Ok(None);
            }
            // Only the new bytes can contain a delimiter.
            if let Some(at) = memchr::memrchr(self.delimiter, &text[old_len..]) {
                return Ok(Some(old_len + at + 1));
            }
        }
    }

    /// Reads up to a piece more. Returns false at the end of the input with nothing read.
    fn read_more(&mut self, text: &mut Vec<u8>) -> std::io::Result<bool> {
        // The piece itself and the room for the end of its last path are allocated at once.
        let piece = self.engines.batch() * PATH_BYTES;
        text.reserve(piece);
        let old_len = text.len();
        let mut part = (&mut self.reader).take(piece as u64);
        part.read_to_end(text)?;
        Ok(text.len() > old_len)
    }
}

fn input_failure(name: &[u8], error: &std::io::Error) -> Failure {
    match interrupt::raised() {
        true => Failure::Interrupted,
        false => Failure::new(exit::HOST, name, &host_text(error), "check the list of paths"),
    }
}

/// Prints resolved pieces in the order of the input.
fn print(
    resolved: &Receiver<ResolvedPiece>,
    free: &Sender<PieceMemory>,
    out: &mut impl Write,
    totals: &mut LookupTotals,
    threads: usize,
) -> Outcome {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    for piece in resolved {
        waiting.insert(piece.number, piece.lines);
        while let Some(lines) = waiting.remove(&next) {
            let (memory, part) = lines?;
            out.write_all(&memory.lines)?;
            totals.merge(&part);
            next += 1;
            totals.threads = totals.threads.max(threads.min(usize::try_from(next).unwrap_or(threads)));
            let _ = free.send(memory);
        }
    }
    Ok(())
}
