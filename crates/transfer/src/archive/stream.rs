//! Bytes of an archive from and to the host, compressed or not.

use super::compression::{Compression, MAGIC_BYTES, Written};
use super::frames::{Frames, is_remainder, pass_over};
use super::input::Input;
use crate::vocabulary::error::{Error, Result};
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Bytes of one chunk that is read ahead, and the number of chunks.
const CHUNK_BYTES: usize = 1 << 20;
const MAX_CHUNKS: usize = 8;
/// A wait for the thread checks so often whether the transfer stops.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Decompresses an archive. Its first bytes tell the compression; its name does not matter.
/// True: it is compressed.
fn decompressed(what: &str, input: Box<dyn Read + Send>) -> Result<(Box<dyn Read + Send>, bool)> {
    let unreadable = |why: String| Error::Archive { what: what.into(), why };
    let damaged = |error: io::Error| unreadable(error.to_string());
    let mut input = Input::new(input);
    pass_over(&mut input, false).map_err(damaged)?;
    let compression = Compression::of_content(input.peek(MAGIC_BYTES).map_err(damaged)?);
    if compression == Compression::None {
        return Ok((Box::new(input), false));
    }
    match Frames::new(compression, input).map_err(damaged)? {
        Some(frames) => Ok((Box::new(frames), true)),
        None => Err(unreadable(format!("has a compression that is not read here; {}", compression.pipe("")))),
    }
}

/// A reader whose bytes come from another thread, which reads and decompresses ahead.
pub(crate) struct ReadAhead<'e> {
    chunks: Receiver<io::Result<Vec<u8>>>,
    is_compressed: bool,
    current: Vec<u8>,
    offset: usize,
    /// Polled while this reader waits: true ends the wait with an error.
    should_stop: &'e dyn Fn() -> bool,
}

impl<'e> ReadAhead<'e> {
    /// Starts the thread, and waits until it knows the compression; `None` where the transfer stops first.
    /// The thread ends with its input, or when this reader is dropped. One that waits for standard input or a
    /// pipe may outlive the transfer, and ends with the process.
    ///
    /// # Errors
    /// [`Error::Archive`] for an input that cannot be read, or a compression that is not known here.
    pub(crate) fn start(
        what: &str,
        input: Box<dyn Read + Send>,
        should_stop: &'e dyn Fn() -> bool,
    ) -> Result<Option<Self>> {
        let (sender, chunks) = sync_channel(MAX_CHUNKS);
        let (opened, compression) = sync_channel(1);
        let what = what.to_owned();
        std::thread::spawn(move || match decompressed(&what, input) {
            Ok((input, is_compressed)) => {
                let _ = opened.send(Ok(is_compressed));
                send_chunks(input, &sender);
            }
            Err(error) => drop(opened.send(Err(error))),
        });
        let is_compressed = loop {
            match compression.recv_timeout(POLL_INTERVAL) {
                Ok(opened) => break opened?,
                Err(RecvTimeoutError::Timeout) if should_stop() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break false,
            }
        };
        Ok(Some(ReadAhead { chunks, is_compressed, current: Vec::new(), offset: 0, should_stop }))
    }
}

impl ReadAhead<'_> {
    pub(crate) fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// Reads and forgets what follows the archive, so that the checksums of compressed data are compared, and
    /// a program that writes the archive into a pipe can end. Bytes that are not compressed data may follow.
    ///
    /// # Errors
    /// The input's; none once the transfer stops.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        match io::copy(&mut self, &mut io::sink()) {
            Err(error) if !is_remainder(&error) && !(self.should_stop)() => Err(error),
            _ => Ok(()),
        }
    }
}

/// Reads an input to its end.
fn send_chunks(mut input: Box<dyn Read + Send>, sender: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let read = input.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
        let last = read.as_ref().map_or(true, |count| *count < CHUNK_BYTES);
        // Bytes that were read before an error are valid.
        if !chunk.is_empty() && sender.send(Ok(chunk)).is_err() {
            return;
        }
        if let Err(error) = read {
            let _ = sender.send(Err(error));
        }
        if last {
            return;
        }
    }
}

impl Read for ReadAhead<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.offset == self.current.len() {
            match self.chunks.recv_timeout(POLL_INTERVAL) {
                Ok(chunk) => {
                    self.current = chunk?;
                    self.offset = 0;
                }
                Err(RecvTimeoutError::Timeout) if (self.should_stop)() => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        let len = buffer.len().min(self.current.len() - self.offset);
        buffer[..len].copy_from_slice(&self.current[self.offset..self.offset + len]);
        self.offset += len;
        Ok(len)
    }
}

/// A writer that compresses.
pub(crate) enum CompressedOutput<W: Write> {
    Plain(io::BufWriter<W>),
    Gzip(flate2::write::GzEncoder<io::BufWriter<W>>),
    Zstd(zstd::Encoder<'static, io::BufWriter<W>>),
}

impl<W: Write> CompressedOutput<W> {
    /// Compresses at the default level of each format, as the programs `gzip` and `zstd` do.
    pub(crate) fn new(compression: Written, output: W) -> io::Result<Self> {
        let output = io::BufWriter::with_capacity(CHUNK_BYTES, output);
        Ok(match compression {
            Written::Plain => CompressedOutput::Plain(output),
            Written::Gzip => {
                let level = flate2::Compression::default();
                CompressedOutput::Gzip(flate2::write::GzEncoder::new(output, level))
            }
            Written::Zstd => {
                let mut encoder = zstd::Encoder::new(output, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                encoder.include_checksum(true)?;
                CompressedOutput::Zstd(encoder)
            }
        })
    }

    /// Writes all that is still buffered and returns the output.
    pub(crate) fn finish(self) -> io::Result<W> {
        let buffered = match self {
            CompressedOutput::Plain(output) => output,
            CompressedOutput::Gzip(output) => output.finish()?,
            CompressedOutput::Zstd(output) => output.finish()?,
        };
        buffered.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl<W: Write> Write for CompressedOutput<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            CompressedOutput::Plain(output) => output.write(data),
            CompressedOutput::Gzip(output) => output.write(data),
            CompressedOutput::Zstd(output) => output.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            CompressedOutput::Plain(output) => output.flush(),
            CompressedOutput::Gzip(output) => output.flush(),
            CompressedOutput::Zstd(output) => output.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::WINDOW_LOG_MAX;
    use super::*;

    fn read(input: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let input = ReadAhead::start("x", Box::new(io::Cursor::new(input)), &|| false);
        input.map_err(io::Error::other)?.ok_or(io::ErrorKind::TimedOut)?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn compressed(compression: Written, data: &[u8]) -> Vec<u8> {
        let mut output = CompressedOutput::new(compression, Vec::new()).unwrap();
        output.write_all(data).unwrap();
        output.finish().unwrap()
    }

    #[test]
    fn the_content_tells_the_compression() {
        let long = b"lane ".repeat(1 << 20);
        for compression in [Written::Plain, Written::Gzip, Written::Zstd] {
            assert_eq!(read(compressed(compression, &long)).unwrap(), long, "{compression:?}");
        }
        let (one, two) = (compressed(Written::Zstd, b"one "), compressed(Written::Zstd, b"two"));
        assert_eq!(read([one, two].concat()).unwrap(), b"one two", "frames may follow each other");
        assert!(read(b"BZh91AY".to_vec()).unwrap_err().to_string().contains("bzip2"));
        assert_eq!(read(Vec::new()).unwrap(), b"");
    }

    #[test]
    fn damaged_zstd_ends_with_an_error() {
        // Noise, so that the frame has many bytes; a linear congruence is enough.
        let noise: Vec<u8> = (0..20_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let whole = compressed(Written::Zstd, &noise);
        for len in (4..whole.len()).step_by(101).chain([whole.len() - 1]) {
            assert!(read(whole[..len].to_vec()).is_err(), "cut to {len} bytes");
        }
        // Behind the header, which has bits that mean nothing.
        for at in (6..whole.len()).step_by(97).chain([whole.len() - 1]) {
            let mut bent = whole.clone();
            bent[at] ^= 0x10;
            // The checksum finds what the format itself allows.
            assert!(read(bent).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_zstd_window_beyond_the_limit_is_refused_with_advice() {
        // Magic; a header without content size; the window's exponent (31 - 10, shifted by 3); an empty last
        // block.
        let header = |log: u8| vec![0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3, 1, 0, 0];
        assert_eq!(read(header(WINDOW_LOG_MAX as u8)).unwrap(), b"");
        for log in [WINDOW_LOG_MAX as u8 + 1, 31, 41] {
            let text = read(header(log)).unwrap_err().to_string();
            assert!(text.contains("128 MiB") && text.contains("--long=31"), "{text}");
        }
    }
}
