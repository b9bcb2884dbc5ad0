//! Standard streams of a command that the server executes, and the few files of the host that it reads. They
//! are the client's: the server asks the client to read and write them.

use crate::command::encode::{Value, put_list, take_list};
use std::ffi::OsString;
use std::io::Result;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Bytes that one message of a stream carries at most: a socket takes a message of each stream at once.
pub(crate) const MAX_PIECE_BYTES: usize = 64 << 10;

/// A stream of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
    /// Standard input.
    Input,
    /// The file of the host that the command reads, if its arguments name one.
    File,
    /// The host's list of users.
    Users,
    /// The host's list of groups.
    Groups,
}

impl Stream {
    /// All streams, in the order of their numbers.
    pub(crate) const ALL: [Stream; 6] =
        [Stream::Output, Stream::Errors, Stream::Input, Stream::File, Stream::Users, Stream::Groups];

    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_number(number: u8) -> Option<Stream> {
        Stream::ALL.get(usize::from(number)).copied()
    }
}

/// Terminals among the client's standard streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminals {
    /// Standard output is a terminal.
    pub output: bool,
    /// Standard error is a terminal.
    pub errors: bool,
    /// Colours are welcome on them.
    pub colors: bool,
    /// Width of the terminal in columns, if it is known.
    pub columns: Option<u16>,
}

/// The streams of a client, for any thread of its command.
pub trait ClientStreams: Send + Sync {
    /// Reads a part of `buffer` from a stream; returns its length, 0 at the end. Waits for the client until
    /// `is_over` returns true.
    ///
    /// # Errors
    /// The client's host's; `ConnectionAborted` once the client has ended or cancelled the command, or
    /// `is_over` returned true.
    fn read(&self, stream: Stream, buffer: &mut [u8], is_over: &dyn Fn() -> bool) -> Result<usize>;

    /// Writes a part of `bytes`; returns its length.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn write(&self, stream: Stream, bytes: &[u8]) -> Result<usize>;

    /// True once the client has ended or cancelled the command, or the mount is to end.
    fn is_cancelled(&self) -> bool;

    /// The terminals among the streams.
    fn terminals(&self) -> Terminals;
}

/// A command line for the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) arguments: Vec<OsString>,
    pub(crate) terminals: Terminals,
}

impl CommandLine {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        (self.terminals.output, self.terminals.errors).put(&mut to);
        self.terminals.colors.put(&mut to);
        self.terminals.columns.put(&mut to);
        let arguments: Vec<&[u8]> = self.arguments.iter().map(|word| word.as_bytes()).collect();
        put_list(&arguments, &mut to);
        to
    }

    pub(crate) fn decode(mut from: &[u8]) -> Option<CommandLine> {
        let from = &mut from;
        let (output, errors) = Value::take(from)?;
        let terminals = Terminals { output, errors, colors: Value::take(from)?, columns: Value::take(from)? };
        let arguments = take_list::<Vec<u8>>(from)?.into_iter().map(OsString::from_vec).collect();
        from.is_empty().then_some(CommandLine { arguments, terminals })
    }
}

/// Work that the server asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ask<'a> {
    pub(crate) stream: Stream,
    /// The answer has the same number.
    pub(crate) number: u32,
    /// Bytes to write; for a stream that is read, the largest number of bytes, as 4 bytes.
    pub(crate) content: &'a [u8],
}

impl<'a> Ask<'a> {
    pub(crate) fn header(stream: Stream, number: u32) -> Vec<u8> {
        let mut to = vec![stream.number()];
        number.put(&mut to);
        to
    }

    pub(crate) fn decode(mut content: &'a [u8]) -> Option<Ask<'a>> {
        let stream = Stream::from_number(u8::take(&mut content)?)?;
        Some(Ask { stream, number: Value::take(&mut content)?, content })
    }
}

/// The client's answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) stream: Stream,
    pub(crate) number: u32,
    /// Error number of the client's host, or 0.
    pub(crate) errno: u32,
    /// Bytes that were read.
    pub(crate) content: Vec<u8>,
}

impl Done {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Ask::header(self.stream, self.number);
        self.errno.put(&mut to);
        to.extend_from_slice(&self.content);
        to
    }

    pub(crate) fn decode(mut content: &[u8]) -> Option<Done> {
        let from = &mut content;
        let stream = Stream::from_number(u8::take(from)?)?;
        Some(Done { stream, number: Value::take(from)?, errno: Value::take(from)?, content: from.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back() {
        let line = CommandLine {
            arguments: ["find", "", "a b", "x\n"].map(OsString::from).to_vec(),
            terminals: Terminals { output: true, errors: false, colors: true, columns: Some(80) },
        };
        assert_eq!(CommandLine::decode(&line.encode()), Some(line));
        assert_eq!(CommandLine::decode(b"\x02\0\0"), None);
        for (number, stream) in Stream::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(stream.number()), number);
            assert_eq!(Stream::from_number(stream.number()), Some(stream));
        }
        assert_eq!(Stream::from_number(6), None);
        let done = Done { stream: Stream::Input, number: 7, errno: 32, content: b"text".to_vec() };
        assert_eq!(Done::decode(&done.encode()), Some(done));
        let header = Ask::header(Stream::File, 1 << 30);
        let ask = Ask { stream: Stream::File, number: 1 << 30, content: b"" };
        assert_eq!(Ask::decode(&header), Some(ask));
        assert_eq!((Ask::decode(b"\x09\0\0\0\0"), Done::decode(b"\0\0")), (None, None));
    }
}
