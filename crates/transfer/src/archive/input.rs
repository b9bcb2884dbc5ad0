//! Bytes of an archive as the host has them, with a look ahead.

use std::io::{self, BufRead, Read};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 18;

/// Input with a buffer, into which the caller can look ahead.
pub(crate) struct Input {
    inner: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    start: usize,
    end: usize,
    /// Within a frame the end of the input is an error: see [`Input::within_frame`].
    within_frame: bool,
}

impl Input {
    pub(crate) fn new(inner: Box<dyn Read + Send>) -> Self {
        Input { inner, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, within_frame: false }
    }

    /// Sets whether the end of the input is an error. Not every decoder notices that its data end too early.
    pub(crate) fn within_frame(&mut self, within: bool) {
        self.within_frame = within;
    }

    /// Returns the next `count` bytes, or all that are left, without reading them.
    pub(crate) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        while self.end - self.start < count {
            if self.start + count > self.buffer.len() {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(more) => self.end += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        let end = self.end.min(self.start + count);
        Ok(&self.buffer[self.start..end])
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.peek(1)?.is_empty() && self.within_frame {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the data end too early"));
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a byte a read.
    struct Slow(Vec<u8>);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(self.0.len()).min(1);
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            Ok(count)
        }
    }

    #[test]
    fn a_look_ahead_reads_nothing() {
        let mut input = Input::new(Box::new(Slow(b"abcdefg".to_vec())));
        assert_eq!(input.peek(3).unwrap(), b"abc");
        let mut two = [0; 2];
        input.read_exact(&mut two).unwrap();
        assert_eq!((&two, input.peek(9).unwrap()), (b"ab", &b"cdefg"[..]));
        input.within_frame(true);
        let mut rest = Vec::new();
        assert!(input.read_to_end(&mut rest).unwrap_err().to_string().contains("too early"));
        assert_eq!(rest, b"cdefg");
    }
}
