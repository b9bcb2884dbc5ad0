//! Bytes of an archive from and to the host, compressed or not.

use crate::error::{Error, Result};
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Bytes of one chunk that is read ahead, and the number of chunks.
const CHUNK_BYTES: usize = 1 << 20;
const MAX_CHUNKS: usize = 8;
/// A wait for the thread checks so often whether the transfer stops.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Largest window of a zstd frame that is read, as a power of two: an archive may demand 128 MiB of memory
/// and no more. `zstd` itself needs `--long=28` and up to write or read more.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// True for a name with the suffix of a tar archive: `.tar`, `.tar.gz`, `.tgz`, `.tar.zst`, `.tzst`.
pub fn is_archive_name(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    [&b".tar"[..], b".tar.gz", b".tgz", b".tar.zst", b".tzst"].iter().any(|end| name.ends_with(end))
}

/// Compression of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// The compression that a name's suffix asks for; advice for one that is not written here.
    pub(crate) fn of_name(name: &[u8]) -> std::result::Result<Self, &'static str> {
        let name = name.to_ascii_lowercase();
        let ends_in = |ends: &[&[u8]]| ends.iter().any(|end| name.ends_with(end));
        if ends_in(&[b".gz", b".tgz"]) {
            Ok(Compression::Gzip)
        } else if ends_in(&[b".zst", b".tzst"]) {
            Ok(Compression::Zstd)
        } else if ends_in(&[b".xz", b".txz", b".bz2", b".tbz", b".tbz2", b".lz4", b".lz", b".lzma"]) {
            Err("this compression is not written here; pipe the archive to its program, as in \
                 `lanefs export IMAGE PATH --tar - | xz > FILE`")
        } else if ends_in(&[b".zip", b".7z", b".rar"]) {
            Err("only tar archives are written; name the file .tar, .tar.gz or .tar.zst")
        } else {
            Ok(Compression::None)
        }
    }
}

/// Decompresses an archive. Its first bytes tell the compression; its name does not matter.
fn decompressed(what: &str, mut input: Box<dyn Read + Send>) -> Result<Box<dyn Read + Send>> {
    let damaged =
        |error: &dyn std::fmt::Display| Error::Archive { what: what.into(), why: error.to_string() };
    let mut magic = Vec::new();
    input.by_ref().take(6).read_to_end(&mut magic).map_err(|e| damaged(&e))?;
    let compressed = io::Cursor::new(magic.clone()).chain(input);
    Ok(match magic[..] {
        [0x1f, 0x8b, ..] => {
            Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(CHUNK_BYTES, compressed)))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let compressed = io::BufReader::with_capacity(CHUNK_BYTES, compressed);
            let mut decoder = zstd::Decoder::with_buffer(compressed).map_err(|e| damaged(&e))?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(|e| damaged(&e))?;
            Box::new(ZstdInput(decoder))
        }
        [b'B', b'Z', b'h', ..] | [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            return Err(Error::Archive {
                what: what.into(),
                why: "compressed with bzip2 or xz; decompress it and give the archive on standard input: \
                      `xz -dc FILE | lanefs import --tar IMAGE -`"
                    .into(),
            });
        }
        _ => Box::new(compressed),
    })
}

/// Decompresses zstd, and tells what to do where a frame asks for too much memory.
struct ZstdInput<R: io::BufRead>(zstd::Decoder<'static, R>);

impl<R: io::BufRead> Read for ZstdInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            // The library's error has words only.
            if !error.to_string().contains("too much memory") {
                return error;
            }
            io::Error::other(format!(
                "its zstd window is larger than {} MiB; decompress it and give the archive on standard input: \
                 `zstd -dc --long=31 FILE | lanefs import --tar IMAGE -`",
                1_u64 << (ZSTD_WINDOW_LOG_MAX - 20)
            ))
        })
    }
}

/// A reader whose bytes come from another thread, which reads and decompresses ahead.
pub(crate) struct ReadAhead<'e> {
    chunks: Receiver<io::Result<Vec<u8>>>,
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
            Ok(input) => {
                let _ = opened.send(Ok(()));
                send_chunks(input, &sender);
            }
            Err(error) => drop(opened.send(Err(error))),
        });
        loop {
            match compression.recv_timeout(POLL_INTERVAL) {
                Ok(opened) => break opened?,
                Err(RecvTimeoutError::Timeout) if should_stop() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(Some(ReadAhead { chunks, current: Vec::new(), offset: 0, should_stop }))
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
    pub(crate) fn new(compression: Compression, output: W) -> io::Result<Self> {
        let output = io::BufWriter::with_capacity(CHUNK_BYTES, output);
        Ok(match compression {
            Compression::None => CompressedOutput::Plain(output),
            Compression::Gzip => {
                let level = flate2::Compression::default();
                CompressedOutput::Gzip(flate2::write::GzEncoder::new(output, level))
            }
            Compression::Zstd => {
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
    use super::*;

    fn read(input: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let input = ReadAhead::start("x", Box::new(io::Cursor::new(input)), &|| false);
        input.map_err(io::Error::other)?.ok_or(io::ErrorKind::TimedOut)?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn compressed(compression: Compression, data: &[u8]) -> Vec<u8> {
        let mut output = CompressedOutput::new(compression, Vec::new()).unwrap();
        output.write_all(data).unwrap();
        output.finish().unwrap()
    }

    #[test]
    fn the_content_tells_the_compression() {
        let long = b"lane ".repeat(1 << 20);
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            assert_eq!(read(compressed(compression, &long)).unwrap(), long, "{compression:?}");
        }
        let (one, two) = (compressed(Compression::Zstd, b"one "), compressed(Compression::Zstd, b"two"));
        assert_eq!(read([one, two].concat()).unwrap(), b"one two", "frames may follow each other");
        assert!(read(b"BZh91AY".to_vec()).unwrap_err().to_string().contains("bzip2"));
        assert_eq!(read(Vec::new()).unwrap(), b"");
    }

    #[test]
    fn damaged_zstd_ends_with_an_error() {
        // Noise, so that the frame has many bytes; a linear congruence is enough.
        let noise: Vec<u8> = (0..20_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let whole = compressed(Compression::Zstd, &noise);
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
        assert_eq!(read(header(ZSTD_WINDOW_LOG_MAX as u8)).unwrap(), b"");
        for log in [ZSTD_WINDOW_LOG_MAX as u8 + 1, 31, 41] {
            let text = read(header(log)).unwrap_err().to_string();
            assert!(text.contains("128 MiB") && text.contains("--long=31"), "{text}");
        }
    }

    #[test]
    fn suffixes_name_archives_and_their_compression() {
        assert!(is_archive_name(b"a.TAR") && is_archive_name(b"a.tar.zst") && !is_archive_name(b"tar"));
        for (name, compression) in [
            (&b"a.tgz"[..], Compression::Gzip),
            (b"a.TAR.GZ", Compression::Gzip),
            (b"a.tar.zst", Compression::Zstd),
            (b"a.tzst", Compression::Zstd),
            (b"a.tar", Compression::None),
        ] {
            assert_eq!(Compression::of_name(name), Ok(compression));
            for refused in [&b"x.tar.xz"[..], b"x.TXZ", b"x.tar.bz2", b"x.zip", b"x.tar.lz4"] {
                assert!(Compression::of_name(refused).is_err());
            }
        }
    }
}
