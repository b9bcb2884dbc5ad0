//! Bytes of an archive from and to the host, packed or not.

use crate::error::{Error, Result};
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Bytes that are read ahead at once, and how many such pieces.
const PIECE: usize = 1 << 20;
const AHEAD: usize = 8;

/// True for a name that promises a tar archive: `.tar`, `.tar.gz`, `.tgz`, `.tar.zst`, `.tzst`.
pub fn is_archive_name(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    [&b".tar"[..], b".tar.gz", b".tgz", b".tar.zst", b".tzst"].iter().any(|end| name.ends_with(end))
}

/// How an archive's bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    /// By the name's end.
    pub(crate) fn of_name(name: &[u8]) -> Self {
        let name = name.to_ascii_lowercase();
        if name.ends_with(b".gz") || name.ends_with(b".tgz") {
            Packing::Gzip
        } else if name.ends_with(b".zst") || name.ends_with(b".tzst") {
            Packing::Zstd
        } else {
            Packing::Plain
        }
    }
}

/// Unpacks what its first bytes say is packed; names do not count.
pub(crate) fn unpacked(what: &str, mut input: Box<dyn Read + Send>) -> Result<Box<dyn Read + Send>> {
    let damaged =
        |error: &dyn std::fmt::Display| Error::Archive { what: what.into(), why: error.to_string() };
    let mut magic = Vec::new();
    input.by_ref().take(6).read_to_end(&mut magic).map_err(|e| damaged(&e))?;
    let packed = io::Cursor::new(magic.clone()).chain(input);
    Ok(match magic[..] {
        [0x1f, 0x8b, ..] => {
            Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(PIECE, packed)))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let packed = io::BufReader::with_capacity(PIECE, packed);
            Box::new(ruzstd::decoding::StreamingDecoder::new(packed).map_err(|e| damaged(&e))?)
        }
        [b'B', b'Z', b'h', ..] | [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            return Err(Error::Archive {
                what: what.into(),
                why: "packed with bzip2 or xz; unpack it and give the archive on standard input: \
                      `xz -dc FILE | lanefs import --tar IMAGE -`"
                    .into(),
            });
        }
        _ => Box::new(packed),
    })
}

/// A reader whose bytes come from another thread, which reads and unpacks ahead.
pub(crate) struct Ahead<'e> {
    pieces: Receiver<io::Result<Vec<u8>>>,
    current: Vec<u8>,
    at: usize,
    /// Asked now and then while waiting: true ends the wait with an error.
    ends: &'e dyn Fn() -> bool,
}

impl<'e> Ahead<'e> {
    /// Begins to read. The thread ends with its input or when this reader is dropped; where it waits for standard
    /// input it may outlive the transfer, and ends with the process.
    pub(crate) fn new(mut input: Box<dyn Read + Send>, ends: &'e dyn Fn() -> bool) -> Self {
        let (sender, pieces) = sync_channel(AHEAD);
        std::thread::spawn(move || {
            loop {
                let mut piece = Vec::with_capacity(PIECE);
                let read = input.by_ref().take(PIECE as u64).read_to_end(&mut piece);
                let last = read.as_ref().map_or(true, |count| *count < PIECE);
                // What was read before an error counts.
                if !piece.is_empty() && sender.send(Ok(piece)).is_err() {
                    return;
                }
                if let Err(error) = read {
                    let _ = sender.send(Err(error));
                }
                if last {
                    return;
                }
            }
        });
        Ahead { pieces, current: Vec::new(), at: 0, ends }
    }
}

impl Read for Ahead<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.current.len() {
            match self.pieces.recv_timeout(Duration::from_millis(100)) {
                Ok(piece) => {
                    self.current = piece?;
                    self.at = 0;
                }
                Err(RecvTimeoutError::Timeout) if (self.ends)() => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        let len = buffer.len().min(self.current.len() - self.at);
        buffer[..len].copy_from_slice(&self.current[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

/// A writer that packs.
pub(crate) enum Packed<W: Write> {
    Plain(io::BufWriter<W>),
    Gzip(flate2::write::GzEncoder<io::BufWriter<W>>),
}

impl<W: Write> Packed<W> {
    /// For a name's packing.
    pub(crate) fn new(packing: Packing, output: W) -> Result<Self> {
        let output = io::BufWriter::with_capacity(PIECE, output);
        match packing {
            Packing::Plain => Ok(Packed::Plain(output)),
            Packing::Gzip => {
                Ok(Packed::Gzip(flate2::write::GzEncoder::new(output, flate2::Compression::default())))
            }
            Packing::Zstd => Err(Error::Usage(
                "zstd archives are read but not written; use `lanefs export --tar - ... | zstd > FILE`, or a name \
                 that ends in .tar or .tar.gz"
                    .into(),
            )),
        }
    }

    /// Writes all that is still held and gives the output back.
    pub(crate) fn finish(self) -> io::Result<W> {
        let buffered = match self {
            Packed::Plain(output) => output,
            Packed::Gzip(output) => output.finish()?,
        };
        buffered.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Packed::Plain(output) => output.write(data),
            Packed::Gzip(output) => output.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Packed::Plain(output) => output.flush(),
            Packed::Gzip(output) => output.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(input: Vec<u8>) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let input = unpacked("x", Box::new(io::Cursor::new(input)))?;
        Ahead::new(input, &|| false).read_to_end(&mut out).unwrap();
        Ok(out)
    }

    #[test]
    fn packing_is_told_by_the_content() {
        let long = b"lane ".repeat(1 << 20);
        assert_eq!(text(long.clone()).unwrap(), long);
        let mut packed = Packed::new(Packing::Gzip, Vec::new()).unwrap();
        packed.write_all(&long).unwrap();
        assert_eq!(text(packed.finish().unwrap()).unwrap(), long);
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        assert_eq!(text(ruzstd::encoding::compress_to_vec(&long[..], level)).unwrap(), long);
        assert!(text(b"BZh91AY".to_vec()).unwrap_err().to_string().contains("bzip2"));
        assert_eq!(text(Vec::new()).unwrap(), b"");
    }

    #[test]
    fn names_promise_archives() {
        assert!(is_archive_name(b"a.TAR") && is_archive_name(b"a.tar.zst") && !is_archive_name(b"tar"));
        assert_eq!(Packing::of_name(b"a.tgz"), Packing::Gzip);
        assert!(Packed::new(Packing::Zstd, Vec::new()).is_err());
    }
}
