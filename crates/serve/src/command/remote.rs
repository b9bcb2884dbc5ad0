//! A volume that the server of a mount has open, as its clients see it.

use crate::command::calls::{
    APPLY, DESCRIBE, MAX_DATA_BYTES, MAX_ENTRIES, READ, READDIR, ROOT, SYNC, WRITE, calls,
};
use crate::command::client::{Interrupted, MountedVolume, patient};
use crate::command::encode::{Value, put_list};
use crate::command::wire::{self, FrameKind, Patience, Purpose};
use crate::error::{Error, Result};
use lanefs::bulk::{Applied, Change};
use lanefs::escape::escape_path;
use lanefs::{
    Attr, Description, DirEntry, FileKind, FileSystem, Ino, MkdirAll, RenameMode, Resolution, Seek, SetAttr,
    XattrMode,
};
use parking_lot::{Condvar, Mutex};
use rustix::fd::OwnedFd;
use std::io;

/// Connections of one client at most. The server has a limit for all clients.
const MAX_CONNECTIONS: usize = 4;
/// Bytes of changes from which on [`RemoteVolume::apply`] sends them.
const CHANGES_BYTES: usize = 1 << 20;

/// A volume that the server of a mount has open. Threads share it: each call has a connection for itself.
pub struct RemoteVolume {
    mount: MountedVolume,
    root: Ino,
    /// Size of the volume in bytes. A mounted volume does not grow.
    size: u64,
    /// Version of the mount that all connections use. The mount may move to another one meanwhile.
    version: u8,
    connections: Mutex<Connections>,
    returned: Condvar,
    interrupted: Interrupted,
}

#[derive(Default)]
struct Connections {
    idle: Vec<OwnedFd>,
    /// All connections, those in use too.
    open: usize,
}

impl RemoteVolume {
    /// Opens the volume of a mount. Calls wait for the server as long as it lives; once `interrupted` returns
    /// true, for some seconds more.
    ///
    /// # Errors
    /// Another user's mount; the mount does not reply, or ends.
    pub fn open(mount: &MountedVolume, interrupted: Interrupted) -> Result<RemoteVolume> {
        let mount = mount.clone();
        let socket = mount.connect(Purpose::Calls, &[], interrupted)?;
        let ((root, size), version) = ask(&socket, &[ROOT], interrupted)
            .map_err(|error| mount.failed(&error))?
            .and_then(|answer| decoded(&answer))
            .map_err(Error::from)?;
        let connections = Mutex::new(Connections { idle: vec![socket], open: 1 });
        Ok(RemoteVolume { mount, root, size, version, connections, returned: Condvar::new(), interrupted })
    }

    /// The error of calls after the connection has failed.
    fn failed(&self, source: io::Error) -> lanefs::Error {
        let what = format!("the volume mounted at {}", escape_path(&self.mount.dir));
        lanefs::Error::Io { what, source }
    }

    /// Takes a connection; opens one where all are in use.
    fn take(&self) -> lanefs::Result<OwnedFd> {
        let mut connections = self.connections.lock();
        loop {
            if let Some(socket) = connections.idle.pop() {
                return Ok(socket);
            }
            if connections.open < MAX_CONNECTIONS {
                connections.open += 1;
                break;
            }
            self.returned.wait(&mut connections);
        }
        drop(connections);
        // The server has some seconds for this, as for a call that an interruption finds on its way: what the
        // caller has begun is completed, and it stops by itself.
        self.mount.connect(Purpose::Calls, &[self.version], || false).map_err(|error| {
            self.give_back(None);
            self.failed(io::Error::other(error.to_string()))
        })
    }

    /// Gives a connection back; `None` for one that has failed.
    fn give_back(&self, socket: Option<OwnedFd>) {
        let mut connections = self.connections.lock();
        match socket {
            Some(socket) => connections.idle.push(socket),
            None => connections.open = connections.open.saturating_sub(1),
        }
        drop(connections);
        self.returned.notify_one();
    }

    /// Makes a call and returns the bytes of its answer.
    fn call(&self, number: u8, put: impl FnOnce(&mut Vec<u8>)) -> lanefs::Result<Vec<u8>> {
        let mut call = vec![number];
        put(&mut call);
        let socket = self.take()?;
        match ask(&socket, &call, self.interrupted) {
            Ok(answer) => {
                self.give_back(Some(socket));
                answer
            }
            Err(error) => {
                drop(socket);
                self.give_back(None);
                Err(self.failed(error))
            }
        }
    }

    fn send_changes(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<Vec<Applied>> {
        let answer = self.call(APPLY, |to| {
            base.put(to);
            put_list(changes, to);
        })?;
        let answers: Vec<Applied> = decoded(&answer)?;
        if answers.len() == changes.len() { Ok(answers) } else { Err(self.failed(wire::invalid())) }
    }
}

/// Sends a call and receives its answer: bytes, or the volume's error.
pub(crate) fn ask(
    socket: &OwnedFd,
    call: &[u8],
    interrupted: Interrupted,
) -> io::Result<lanefs::Result<Vec<u8>>> {
    let is_over = patient(interrupted);
    let patience = Patience { is_over: &is_over, deadline: None };
    wire::send(socket, FrameKind::Call, &[call], &patience)?;
    let frame = wire::receive(socket, &patience)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut content = frame.content;
    match (frame.kind, content.first()) {
        (FrameKind::Answer, Some(0)) => {
            content.remove(0);
            Ok(Ok(content))
        }
        (FrameKind::Answer, Some(_)) => {
            let mut rest = content.get(1..).unwrap_or_default();
            Ok(Err(lanefs::Error::take(&mut rest).ok_or_else(wire::invalid)?))
        }
        _ => Err(wire::invalid()),
    }
}

/// Decodes an answer, all of it.
pub(crate) fn decoded<T: for<'a> Value<'a>>(answer: &[u8]) -> lanefs::Result<T> {
    let mut rest = answer;
    let value = T::take(&mut rest).filter(|_| rest.is_empty());
    value.ok_or_else(|| lanefs::Error::Io {
        what: "the answer of the mount's server".to_owned(),
        source: wire::invalid(),
    })
}

/// The calls that are one message each.
macro_rules! methods {
    ($($number:literal $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($argument: $type),*) -> lanefs::Result<$answer> {
            let answer = self.call($number, |to| { $($argument.put(to);)* })?;
            decoded(&answer)
        }
    )*};
}

impl FileSystem for RemoteVolume {
    calls!(methods);

    fn root(&self) -> Ino {
        self.root
    }

    fn size(&self) -> lanefs::Result<u64> {
        Ok(self.size)
    }

    fn create_file(&self, dir: Ino, name: &[u8], perm: u16) -> lanefs::Result<Attr> {
        self.mknod(dir, name, FileKind::File, perm, 0)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> lanefs::Result<usize> {
        let mut done = 0;
        for part in buffer.chunks_mut(MAX_DATA_BYTES) {
            let answer = self.call(READ, |to| {
                ino.put(to);
                offset.saturating_add(done as u64).put(to);
                part.len().put(to);
            })?;
            let read = part.get_mut(..answer.len()).ok_or_else(|| self.failed(wire::invalid()))?;
            read.copy_from_slice(&answer);
            done += answer.len();
            if answer.len() < part.len() {
                break;
            }
        }
        Ok(done)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> lanefs::Result<usize> {
        let mut done = 0;
        for part in data.chunks(MAX_DATA_BYTES) {
            self.call(WRITE, |to| {
                ino.put(to);
                offset.saturating_add(done as u64).put(to);
                to.extend_from_slice(part);
            })?;
            done += part.len();
        }
        Ok(done)
    }

    fn readdir(&self, dir: Ino, cookie: u64, max: usize) -> lanefs::Result<Vec<DirEntry>> {
        let answer = self.call(READDIR, |to| {
            dir.put(to);
            cookie.put(to);
            max.put(to);
        })?;
        decoded(&answer)
    }

    fn describe_inodes(&self, inos: &[Ino]) -> lanefs::Result<Vec<Option<Description>>> {
        let mut answers = Vec::with_capacity(inos.len());
        for part in inos.chunks(MAX_ENTRIES) {
            let answer = self.call(DESCRIBE, |to| put_list(part, to))?;
            let described: Vec<Option<Description>> = decoded(&answer)?;
            if described.len() != part.len() {
                return Err(self.failed(wire::invalid()));
            }
            answers.extend(described);
        }
        Ok(answers)
    }

    fn apply(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<Vec<Applied>> {
        let mut answers = Vec::with_capacity(changes.len());
        let mut rest = changes;
        while !rest.is_empty() {
            let (mut count, mut bytes) = (0, 0);
            while bytes < CHANGES_BYTES && count < rest.len() {
                bytes += rest.get(count).map_or(0, bytes_of);
                count += 1;
            }
            let (now, later) = rest.split_at(count);
            answers.extend(self.send_changes(base, now)?);
            rest = later;
        }
        Ok(answers)
    }

    fn sync(&self) -> lanefs::Result<()> {
        decoded(&self.call(SYNC, |_| {})?)
    }
}

/// Bytes of a change in a message, about.
fn bytes_of(change: &Change<'_>) -> usize {
    16 + match *change {
        Change::Create { path, data, .. } => path.len() + data.len(),
        Change::Mkdir { path, .. } | Change::MkdirAll { path, .. } => path.len(),
        Change::Unlink { path } | Change::Rmdir { path } => path.len(),
        Change::Rename { from, to, .. } => from.len() + to.len(),
    }
}
