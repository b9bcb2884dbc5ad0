//! Pipeline that reads, resolves and prints at the same time: one thread cuts the input into pieces, several
//! threads resolve them and write the lines into memory, and the caller prints these in the order of the
//! input. A few pieces are in flight at a time, so memory stays bounded for input of any size.

use super::format::LineFormat;
use super::totals::LookupTotals;
use crate::engine::BatchResolver;
use crate::failure::{Failure, Outcome, check_interrupt, host_text};
use crate::{console, exit, interrupt};
use lanefs::{Columns, PathSet, ResolveOptions};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Bytes of input for each path of the engine's largest batch: a path of usual length.
const PATH_BYTES: usize = 64;
/// Pieces in flight for each thread: one being resolved and one waiting.
const PIECES_PER_THREAD: usize = 2;

/// Settings of a lookup.
pub(super) struct Pipeline<'e, 'g, 'v> {
    /// Engine that resolves batches.
    pub(super) resolver: &'e BatchResolver<'g, 'v>,
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
    text: Vec<u8>,
}

/// The lines of a piece.
struct ResolvedPiece {
    number: u64,
    lines: Result<(Vec<u8>, LookupTotals), Failure>,
}

impl Pipeline<'_, '_, '_> {
    /// Resolves every path of `input` and prints its line. Adds to `totals` the printed lines.
    ///
    /// # Errors
    /// Input, output or volume fail, or the user stops it. Lines of earlier pieces are printed.
    pub(super) fn run(&self, input: PathInput, out: &mut impl Write, totals: &mut LookupTotals) -> Outcome {
        let PathInput { reader, stop, delimiter, name } = input;
        // The channel takes as many pieces as there are permits, so that sending a piece never waits.
        let (pieces_in, pieces) = sync_channel(self.threads * PIECES_PER_THREAD);
        let (resolved_in, resolved) = channel();
        let (permits_in, permits) = channel();
        for _ in 0..self.threads * PIECES_PER_THREAD {
            let _ = permits_in.send(());
        }
        let pieces = Mutex::new(pieces);
        std::thread::scope(|scope| {
            let failures = resolved_in.clone();
            let cutter = Cutter { reader, delimiter, piece: self.resolver.batch() * PATH_BYTES };
            scope.spawn(console::carried(move || cutter.cut(&name, &permits, &pieces_in, &failures)));
            let pieces = &pieces;
            for _ in 0..self.threads {
                let resolved_in = resolved_in.clone();
                scope.spawn(console::carried(move || self.work(delimiter, pieces, &resolved_in)));
            }
            drop(resolved_in);
            let outcome = print(&resolved, &permits_in, out, totals, self.threads);
            // The other threads now end by themselves: sending and waiting for permits both fail.
            stop.store(true, Ordering::Relaxed);
            drop((resolved, permits_in));
            outcome
        })
    }

    /// Resolves pieces until there are no more, or one fails.
    fn work(&self, delimiter: u8, pieces: &Mutex<Receiver<InputPiece>>, resolved: &Sender<ResolvedPiece>) {
        let mut answers = Columns::of(self.format.columns());
        loop {
            // Waiting under the lock is harmless: the other threads would wait for the same piece.
            let next = match pieces.lock() {
                Ok(pieces) => pieces.recv(),
                Err(_) => return,
            };
            let Ok(piece) = next else { return };
            let lines = self.resolve(delimiter, piece.text, &mut answers);
            let failed = lines.is_err();
            if resolved.send(ResolvedPiece { number: piece.number, lines }).is_err() || failed {
                return;
            }
        }
    }

    /// Resolves the paths of a piece and returns their lines.
    fn resolve(
        &self,
        delimiter: u8,
        text: Vec<u8>,
        answers: &mut Columns,
    ) -> Result<(Vec<u8>, LookupTotals), Failure> {
        let mut totals = LookupTotals::default();
        let mut lines = Vec::with_capacity(text.len() * 2);
        let paths = PathSet::split(text, delimiter);
        let batch = self.resolver.batch();
        for first in (0..paths.len()).step_by(batch) {
            check_interrupt()?;
            let part = paths.view().slice(first..paths.len().min(first + batch));
            let start = Instant::now();
            let resolved = self.resolver.resolve(&self.options, part, answers);
            totals.resolving += start.elapsed();
            resolved.map_err(|error| Failure::volume("lookup", &error))?;
            answers.code().iter().for_each(|code| totals.add(*code));
            for (row, path) in part.iter().enumerate() {
                self.format.push(&mut lines, path, answers, row);
            }
        }
        Ok((lines, totals))
    }
}

/// Cuts the input into pieces.
struct Cutter {
    reader: Box<dyn Read + Send>,
    delimiter: u8,
    /// Bytes of a piece.
    piece: usize,
}

impl Cutter {
    /// Cuts the input at delimiters and sends the pieces on as permits allow.
    fn cut(
        mut self,
        name: &[u8],
        permits: &Receiver<()>,
        pieces: &SyncSender<InputPiece>,
        failures: &Sender<ResolvedPiece>,
    ) {
        let mut text = Vec::new();
        for number in 0.. {
            if permits.recv().is_err() {
                return;
            }
            let end = match self.read_whole_paths(&mut text) {
                Ok(end) => end,
                Err(error) => {
                    let _ = failures.send(ResolvedPiece { number, lines: Err(input_failure(name, &error)) });
                    return;
                }
            };
            let rest = match end {
                Some(end) => text.split_off(end),
                None => Vec::new(),
            };
            let piece = InputPiece { number, text: std::mem::replace(&mut text, rest) };
            let is_last = end.is_none();
            if (!piece.text.is_empty() && pieces.send(piece).is_err()) || is_last {
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
        text.reserve(self.piece);
        let old_len = text.len();
        let mut part = (&mut self.reader).take(self.piece as u64);
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
    permits: &Sender<()>,
    out: &mut impl Write,
    totals: &mut LookupTotals,
    threads: usize,
) -> Outcome {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    for piece in resolved {
        waiting.insert(piece.number, piece.lines);
        while let Some(lines) = waiting.remove(&next) {
            let (lines, part) = lines?;
            out.write_all(&lines)?;
            totals.merge(&part);
            next += 1;
            totals.threads = totals.threads.max(threads.min(usize::try_from(next).unwrap_or(threads)));
            let _ = permits.send(());
        }
    }
    Ok(())
}
