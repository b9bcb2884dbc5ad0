//! Decompression. Compressed data consist of frames, one after another, each of which is decoded alone.
//!
//! So all formats have the same rules: a frame that ends too early is an error, whatever its decoder thinks
//! of that; padding by zeros and skippable frames (`pzstd` writes such) are passed over; and bytes that begin
//! no frame are an error, which a reader who needs nothing more can tell from damage ([`is_remainder`]).

use super::compression::{Compression, MAGIC_BYTES};
use super::input::Input;
use std::io::{self, BufRead, Read};

/// Most memory for the window of a frame, as the power of two: an archive may demand 128 MiB and
/// no more. `zstd` itself needs `--long=28` and up to write or read more; `xz -9` has 64 MiB. The windows of
/// the other formats are smaller in any case.
pub(crate) const WINDOW_LOG_MAX: u32 = 27;

/// Decoder of one frame.
trait Frame: Read + Send {
    /// Returns the input, at the end of the frame.
    fn into_input(self: Box<Self>) -> Input;
}

macro_rules! frame {
    ($decoder:ty, $into_input:ident) => {
        impl Frame for $decoder {
            fn into_input(self: Box<Self>) -> Input {
                self.$into_input()
            }
        }
    };
}

frame!(flate2::bufread::GzDecoder<Input>, into_inner);
frame!(zstd::Decoder<'static, Input>, finish);
frame!(lzma_rust2::XzReader<Input>, into_inner);
frame!(bzip2::bufread::BzDecoder<Input>, into_inner);
frame!(lz4_flex::frame::FrameDecoder<Input>, into_inner);

/// Opens a frame; `None` for a format without a decoder.
fn open(compression: Compression, input: Input) -> io::Result<Option<Box<dyn Frame>>> {
    Ok(Some(match compression {
        Compression::Gzip => Box::new(flate2::bufread::GzDecoder::new(input)),
        Compression::Zstd => {
            let mut decoder = zstd::Decoder::with_buffer(input)?.single_frame();
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
        Compression::Xz => {
            let limit_kib = lzma_rust2::lzma2_get_memory_usage(1 << WINDOW_LOG_MAX);
            Box::new(lzma_rust2::XzReader::new_mem_limit(input, false, limit_kib))
        }
        Compression::Bzip2 => Box::new(bzip2::bufread::BzDecoder::new(input)),
        Compression::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(input)),
        Compression::None | Compression::Foreign(_) => return Ok(None),
    }))
}

/// Reason why bytes after a frame cannot be read: they begin no other one.
#[derive(Debug, thiserror::Error)]
#[error("{0}: bytes follow that are not data of this kind")]
struct Remainder(&'static str);

/// True where all data were read, and other bytes follow.
pub(crate) fn is_remainder(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Remainder>())
}

/// A reader of all frames of an input.
pub(crate) struct Frames {
    compression: Compression,
    /// `None` after the end, and after an error.
    frame: Option<Box<dyn Frame>>,
}

impl Frames {
    /// Reads frames of this compression; `None` for one that cannot be read.
    pub(crate) fn new(compression: Compression, mut input: Input) -> io::Result<Option<Self>> {
        input.within_frame(true);
        let frame = open(compression, input)?;
        Ok(frame.is_some().then_some(Frames { compression, frame }))
    }

    /// Opens the next frame; false where there is none.
    fn next(&mut self, mut input: Input) -> io::Result<bool> {
        input.within_frame(false);
        pass_over(&mut input, true)?;
        let begin = input.peek(MAGIC_BYTES)?;
        if begin.is_empty() {
            return Ok(false);
        }
        if Compression::of_content(begin) != self.compression {
            return Err(io::Error::other(Remainder(self.compression.program())));
        }
        input.within_frame(true);
        self.frame = open(self.compression, input)?;
        Ok(true)
    }

    /// Names the format in an error, and tells what to do where a frame asks for too much memory.
    fn explained(&self, error: io::Error) -> io::Error {
        let name = self.compression.program();
        // The library of zstd has words only.
        let is_memory =
            error.kind() == io::ErrorKind::OutOfMemory || error.to_string().contains("too much memory");
        if !is_memory {
            return io::Error::new(error.kind(), format!("{name}: {error}"));
        }
        let more = if self.compression == Compression::Zstd { " --long=31" } else { "" };
        let (most, pipe) = (1_u64 << (WINDOW_LOG_MAX - 20), self.compression.pipe(more));
        io::Error::other(format!("its {name} window is larger than {most} MiB; {pipe}"))
    }
}

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(mut frame) = self.frame.take() {
            match frame.read(buffer) {
                Ok(0) if !buffer.is_empty() => {
                    if !self.next(frame.into_input())? {
                        break;
                    }
                }
                Ok(count) => {
                    self.frame = Some(frame);
                    return Ok(count);
                }
                Err(error) => return Err(self.explained(error)),
            }
        }
        Ok(0)
    }
}

/// Passes over skippable frames, which zstd and lz4 have in common, and over zeros where `zeros` is true.
pub(crate) fn pass_over(input: &mut Input, zeros: bool) -> io::Result<()> {
    loop {
        match *input.peek(8)? {
            [0, ..] if zeros => input.consume(1),
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d] => {
                let len = u64::from(u32::from_le_bytes([a, b, c, d])) + 8;
                if io::copy(&mut input.by_ref().take(len), &mut io::sink())? < len {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            _ => return Ok(()),
        }
    }
}
