//! Reads, resolves and prints at the same time: one thread cuts the input into pieces, some resolve them and write the
//! lines into memory, and the caller prints these in the order of the input. Only a few pieces are under way at a
//! time, so memory stays bounded whatever the input's size.

use super::format::Format;
use crate::console;
use crate::engine::Engine;
use crate::exit::{self, Failure, Outcome};
use lanefs::{Code, ResolveOptions};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bytes of input in a piece: about 65,536 paths of a usual length.
const PIECE: usize = 4 << 20;
/// Pieces under way for each thread: one being resolved and one waiting.
const AHEAD: usize = 2;

/// What does the work.
pub(super) struct Pipeline<'e, 'g, 'v> {
    /// What answers.
    pub(super) engine: &'e Engine<'g, 'v>,
    /// How paths are resolved.
    pub(super) options: ResolveOptions,
    /// How answers are printed.
    pub(super) format: Format,
    /// Threads that resolve.
    pub(super) threads: usize,
}

/// Where paths come from.
pub(super) struct Source {
    /// Gives their bytes.
    pub(super) reader: Box<dyn Read + Send>,
    /// Ends a read that waits.
    pub(super) stop: Arc<AtomicBool>,
}

impl Source {
    /// A source whose reads do not wait for long.
    pub(super) fn ready(reader: impl Read + Send + 'static) -> Self {
        Source { reader: Box::new(reader), stop: Arc::default() }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Paths answered.
    pub(super) paths: u64,
    /// Paths answered with success.
    pub(super) found: u64,
    /// Time inside `resolve_batch`, all threads together.
    pub(super) resolving: Duration,
    /// Threads that resolved anything.
    pub(super) threads: usize,
    /// The exit code that the answers lead to.
    pub(super) status: u8,
}

impl Counts {
    /// The rate on standard error.
    pub(super) fn tell(&self, engine: &str, total: Duration) {
        let rate = |time: Duration| self.paths as f64 / time.as_secs_f64().max(1e-9);
        let alone = self.resolving / u32::try_from(self.threads.max(1)).unwrap_or(1);
        let missing = self.paths - self.found;
        crate::context::say(&format!(
            "{} paths ({missing} not found) in {:.3} s, {:.0} paths/s; resolve_batch alone {:.3} s, {:.0} paths/s \
             (threads: {}, engine: {engine})",
            self.paths,
            total.as_secs_f64(),
            rate(total),
            alone.as_secs_f64(),
            rate(alone),
            self.threads,
        ));
    }

    fn add(&mut self, code: Code) {
        self.paths += 1;
        let status = match code {
            Code::Success => {
                self.found += 1;
                return;
            }
            Code::InvalidPointer | Code::InvariantViolated => exit::IMAGE,
            Code::Io | Code::NoMemory => exit::HOST,
            _ => exit::PARTIAL,
        };
        self.status = self.status.max(status);
    }

    fn merge(&mut self, other: &Counts) {
        self.paths += other.paths;
        self.found += other.found;
        self.resolving += other.resolving;
        self.status = self.status.max(other.status);
    }
}

/// A piece of the input: whole paths, each ended by the delimiter except perhaps the last one of all.
struct Piece {
    number: u64,
    text: Vec<u8>,
}

/// The lines for a piece.
struct Done {
    number: u64,
    lines: Result<(Vec<u8>, Counts), Failure>,
}

impl Pipeline<'_, '_, '_> {
    /// Answers every path of `source`; `name` is its name for messages. `counts` grows by what was printed.
    ///
    /// # Errors
    /// Where input, output or volume fail, or the user stops it; what was answered before is printed.
    pub(super) fn run(
        &self,
        source: Source,
        delimiter: u8,
        name: &[u8],
        out: &mut impl Write,
        counts: &mut Counts,
    ) -> Outcome {
        let Source { reader, stop } = source;
        // As many as there are permits, so that handing a piece on never waits.
        let (pieces_in, pieces) = sync_channel(self.threads * AHEAD);
        let (done_in, done) = channel();
        let (permits_in, permits) = channel();
        for _ in 0..self.threads * AHEAD {
            let _ = permits_in.send(());
        }
        let pieces = Mutex::new(pieces);
        std::thread::scope(|scope| {
            let failures = done_in.clone();
            scope.spawn(console::carried(move || {
                cut(reader, delimiter, name, &permits, &pieces_in, &failures);
            }));
            let pieces = &pieces;
            for _ in 0..self.threads {
                let done_in = done_in.clone();
                scope.spawn(console::carried(move || self.work(delimiter, pieces, &done_in)));
            }
            drop(done_in);
            let outcome = print(&done, &permits_in, out, counts, self.threads);
            // What still runs ends by itself: nobody takes its results, and there are no permits left to wait for.
            stop.store(true, Ordering::Relaxed);
            drop((done, permits_in));
            outcome
        })
    }

    fn work(&self, delimiter: u8, pieces: &Mutex<Receiver<Piece>>, done: &Sender<Done>) {
        loop {
            // The lock is held while waiting: others wait for the same piece either way.
            let next = match pieces.lock() {
                Ok(pieces) => pieces.recv(),
                Err(_) => return,
            };
            let Ok(piece) = next else { return };
            let lines = self.answer(delimiter, &piece.text);
            let failed = lines.is_err();
            if done.send(Done { number: piece.number, lines }).is_err() || failed {
                return;
            }
        }
    }

    fn answer(&self, delimiter: u8, text: &[u8]) -> Result<(Vec<u8>, Counts), Failure> {
        let batch = self.engine.batch();
        let mut counts = Counts::default();
        let mut lines = Vec::with_capacity(text.len() * 2);
        let mut paths: Vec<&[u8]> = Vec::with_capacity(batch.min(text.len()));
        let mut rest = text;
        while !rest.is_empty() {
            crate::interrupt::check()?;
            paths.clear();
            while paths.len() < batch && !rest.is_empty() {
                let end = memchr::memchr(delimiter, rest).unwrap_or(rest.len());
                paths.push(&rest[..end]);
                rest = rest.get(end + 1..).unwrap_or_default();
            }
            let start = Instant::now();
            let answers = self.engine.resolve(&self.options, &paths);
            counts.resolving += start.elapsed();
            let answers = answers.map_err(|error| Failure::volume("lookup", &error))?;
            for (path, answer) in paths.iter().zip(&answers) {
                counts.add(answer.code);
                self.format.push(&mut lines, path, answer);
            }
        }
        Ok((lines, counts))
    }
}

/// Cuts the input into pieces behind delimiters and hands them on as permits allow.
fn cut(
    mut source: Box<dyn Read + Send>,
    delimiter: u8,
    name: &[u8],
    permits: &Receiver<()>,
    pieces: &SyncSender<Piece>,
    failures: &Sender<Done>,
) {
    let mut text = Vec::with_capacity(PIECE);
    for number in 0.. {
        if permits.recv().is_err() {
            return;
        }
        let whole = loop {
            let had = text.len();
            match fill(&mut source, &mut text) {
                Ok(false) => break None,
                Ok(true) => {
                    // Only what is new can hold a delimiter where the text before held none.
                    if let Some(at) = memchr::memrchr(delimiter, &text[had.min(text.len())..]) {
                        break Some(had + at + 1);
                    }
                }
                Err(error) => {
                    let failure = match crate::interrupt::raised() {
                        true => Failure::Interrupted,
                        false => Failure::new(
                            exit::HOST,
                            name,
                            &exit::host_text(&error),
                            "check the list of paths",
                        ),
                    };
                    let _ = failures.send(Done { number, lines: Err(failure) });
                    return;
                }
            }
        };
        let rest = match whole {
            Some(end) => text.split_off(end),
            None => Vec::new(),
        };
        let piece = Piece { number, text: std::mem::replace(&mut text, rest) };
        let last = whole.is_none();
        if (!piece.text.is_empty() && pieces.send(piece).is_err()) || last {
            return;
        }
    }
}

/// Reads up to [`PIECE`] bytes more; false at the end of the input with nothing read.
fn fill(source: &mut impl Read, text: &mut Vec<u8>) -> std::io::Result<bool> {
    let had = text.len();
    text.resize(had + PIECE, 0);
    let mut filled = had;
    let result = loop {
        match source.read(&mut text[filled..]) {
            Ok(0) => break Ok(filled > had),
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
        if filled == text.len() {
            break Ok(true);
        }
    };
    text.truncate(filled);
    result
}

/// Prints what is done, in the order of the input.
fn print(
    done: &Receiver<Done>,
    permits: &Sender<()>,
    out: &mut impl Write,
    counts: &mut Counts,
    threads: usize,
) -> Outcome {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    for piece in done {
        waiting.insert(piece.number, piece.lines);
        while let Some(lines) = waiting.remove(&next) {
            let (lines, part) = lines?;
            out.write_all(&lines)?;
            counts.merge(&part);
            next += 1;
            counts.threads = counts.threads.max(threads.min(usize::try_from(next).unwrap_or(threads)));
            let _ = permits.send(());
        }
    }
    Ok(())
}
