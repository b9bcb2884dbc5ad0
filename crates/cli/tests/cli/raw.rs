//! The protocol between a client and the server of a mount, written here once more, so that tests can break
//! its rules.

use std::io::{Read, Result, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;

/// Version of the messages.
pub(crate) const VERSION: u32 = 9;

pub(crate) const REQUEST: u8 = 2;
pub(crate) const ASK: u8 = 3;
pub(crate) const DONE: u8 = 4;
pub(crate) const EXIT: u8 = 6;
pub(crate) const CALL: u8 = 7;
pub(crate) const ANSWER: u8 = 8;
pub(crate) const EXECUTE: u8 = 2;
pub(crate) const CALLS: u8 = 3;

/// The address that a mount tells its owner: the socket's name, and the secrets of server and client.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) text: String,
}

impl Told {
    pub(crate) fn of(mount: &Path) -> Told {
        let mut value = [0; 256];
        let len = rustix::fs::getxattr(mount, "system.lanefs.commands", &mut value).expect("an address");
        Told { text: String::from_utf8(value[..len].to_vec()).expect("text") }
    }

    fn word(&self, number: usize) -> &str {
        self.text.split(' ').nth(number).expect("a word")
    }

    fn secret(&self, number: usize) -> Vec<u8> {
        let digits = self.word(number).as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16);
        digits.chunks(2).map(|pair| byte(pair).expect("a byte")).collect()
    }

    pub(crate) fn socket(&self) -> SocketAddr {
        SocketAddr::from_abstract_name(format!("lanefs-{}", self.word(1))).expect("a name")
    }

    /// Connects and receives the server's hello.
    pub(crate) fn connect(&self) -> UnixStream {
        let mut stream = UnixStream::connect_addr(&self.socket()).expect("a connection");
        let (kind, content) = receive(&mut stream).expect("a frame").expect("a hello");
        assert_eq!(kind, 1);
        assert_eq!(content[12..28], self.secret(2)[..], "the server's secret");
        stream
    }

    /// The first frame of a client.
    pub(crate) fn request(&self, purpose: u8, content: &[u8]) -> Vec<u8> {
        self.request_of_version(VERSION, purpose, content)
    }

    pub(crate) fn request_of_version(&self, version: u32, purpose: u8, content: &[u8]) -> Vec<u8> {
        let mut request = b"lanefs-c".to_vec();
        request.extend_from_slice(&version.to_le_bytes());
        request.extend_from_slice(&self.secret(3));
        request.push(purpose);
        request.extend_from_slice(content);
        frame(REQUEST, &request)
    }

    /// Executes a command line in the server, with empty input. Returns the exit code and all that the
    /// command wrote; `None` where the server closes the connection.
    pub(crate) fn execute(&self, words: &[&str]) -> Option<(u8, String)> {
        let mut stream = self.connect();
        stream.write_all(&self.request(EXECUTE, &command_line(words))).expect("sent");
        let mut wrote = Vec::new();
        while let Some((kind, content)) = receive(&mut stream).ok()? {
            match kind {
                ASK => {
                    if content[0] < 2 {
                        wrote.extend_from_slice(&content[5..]);
                    }
                    // The same stream and number, no error, and no bytes.
                    let done = [&content[..5], &[0; 4]].concat();
                    let _ = stream.write_all(&frame(DONE, &done));
                }
                EXIT => return Some((content[0], String::from_utf8_lossy(&wrote).into_owned())),
                other => panic!("a frame of kind {other}"),
            }
        }
        None
    }
}

/// The content of a request to execute a command line without a terminal.
pub(crate) fn command_line(words: &[&str]) -> Vec<u8> {
    let mut content = vec![0; 4];
    content.extend_from_slice(&(words.len() as u32).to_le_bytes());
    for word in words {
        content.extend_from_slice(&(word.len() as u32).to_le_bytes());
        content.extend_from_slice(word.as_bytes());
    }
    content
}

pub(crate) fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = (content.len() as u32).to_le_bytes().to_vec();
    bytes.push(kind);
    bytes.extend_from_slice(content);
    bytes
}

/// Receives a frame: kind and content; `None` at the end.
pub(crate) fn receive(stream: &mut UnixStream) -> Result<Option<(u8, Vec<u8>)>> {
    let mut header = [0; 5];
    match stream.read(&mut header[..1])? {
        0 => return Ok(None),
        _ => stream.read_exact(&mut header[1..])?,
    }
    let [a, b, c, d, kind] = header;
    let mut content = vec![0; u32::from_le_bytes([a, b, c, d]) as usize];
    stream.read_exact(&mut content)?;
    Ok(Some((kind, content)))
}
