//! The snapshot of a mounted volume, as a client reads it: its calls, their execution in the server, and the
//! client's end.
//!
//! A command that publishes runs in the client, with the client's rights on the host and the network. The
//! server gives it the bytes of a snapshot, as a device. So the client needs no right on the image, and the
//! server neither opens a file nor connects to anything for it. A snapshot belongs to a connection, and ends
//! with it.

use crate::command::calls::MAX_DATA_BYTES;
use crate::command::client::{Interrupted, MountedVolume};
use crate::command::encode::Value;
use crate::command::remote::{ask, decoded};
use crate::command::wire::{self, Purpose};
use crate::error::{Error, Result};
use lanefs::escape::escape_path;
use lanefs::{Device, IoBufMut, UsedBlocks, Volume, VolumeSnapshot};
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;

/// Takes the snapshot, with so much memory; the answer is its size in bytes.
const TAKE: u8 = 1;
/// Reads bytes.
const READ: u8 = 2;
/// Releases blocks of a window.
const RELEASE: u8 = 3;
/// The reason why the snapshot was given up, or nothing.
const GIVEN_UP: u8 = 4;

/// The server's end: the snapshot of a connection.
#[derive(Default)]
pub(crate) struct ServedSnapshot {
    snapshot: Option<(VolumeSnapshot, Box<dyn Device>)>,
}

impl ServedSnapshot {
    /// Executes a call on the snapshot, or the call that takes it. Returns the answer; `None` for bytes that
    /// are not a call.
    pub(crate) fn execute(&mut self, volume: &Volume, call: &[u8]) -> Option<Vec<u8>> {
        let (number, mut from) = call.split_first()?;
        let mut answer = vec![0];
        let done = match (*number, &self.snapshot) {
            (TAKE, None) => {
                let memory = u64::take(&mut from)?;
                volume.snapshot(memory).map(|snapshot| {
                    let device = snapshot.device();
                    device.len().put(&mut answer);
                    self.snapshot = Some((snapshot, device));
                })
            }
            (READ, Some((_, device))) => {
                let (at, len) = (u64::take(&mut from)?, usize::take(&mut from)?);
                answer.resize(1 + len.min(MAX_DATA_BYTES), 0);
                let read = device.read_slice(at, answer.get_mut(1..)?);
                let what = || format!("reading the snapshot at byte {at}");
                read.map_err(|source| lanefs::Error::Io { what: what(), source })
            }
            (RELEASE, Some((snapshot, device))) => {
                let (position, used) = (u64::take(&mut from)?, u64::take(&mut from)?);
                // A window begins at a multiple of its size.
                let is_window =
                    position < device.len() && position.is_multiple_of(64 * lanefs::format::BLOCK);
                if !is_window {
                    return None;
                }
                snapshot.release(&UsedBlocks { position, used, is_metadata: false });
                Ok(())
            }
            (GIVEN_UP, Some((snapshot, _))) => {
                snapshot.given_up().unwrap_or_default().into_bytes().put(&mut answer);
                Ok(())
            }
            _ => return None,
        };
        if !from.is_empty() {
            return None;
        }
        if let Err(error) = done {
            answer = vec![1];
            error.put(&mut answer);
        }
        Some(answer)
    }
}

/// A snapshot of a volume that the server of a mount has open, as a device. Clones are the same snapshot,
/// which ends with the last of them.
#[derive(Clone)]
pub struct RemoteSnapshot(Arc<Connection>);

struct Connection {
    mount: MountedVolume,
    /// `None` once the connection has failed.
    socket: Mutex<Option<OwnedFd>>,
    /// Size in bytes.
    len: u64,
    interrupted: Interrupted,
}

impl RemoteSnapshot {
    /// Takes a snapshot of the volume of a mount, with all changes so far. The server keeps up to `memory`
    /// bytes of blocks that change before they are [released](Self::release). Once `interrupted` returns true,
    /// calls wait for the server for some seconds only.
    ///
    /// # Errors
    /// Another user's mount; the mount does not reply, or ends; those of [`Volume::snapshot`].
    pub fn take(mount: &MountedVolume, memory: u64, interrupted: Interrupted) -> Result<RemoteSnapshot> {
        let mount = mount.clone();
        let socket = mount.connect(Purpose::Snapshot, &[], interrupted)?;
        let mut call = vec![TAKE];
        memory.put(&mut call);
        let answer = ask(&socket, &call, interrupted).map_err(|error| mount.failed(&error))?;
        let len = answer.and_then(|answer| decoded(&answer)).map_err(Error::from)?;
        let socket = Mutex::new(Some(socket));
        Ok(RemoteSnapshot(Arc::new(Connection { mount, socket, len, interrupted })))
    }

    /// Releases blocks that are not read any more: changes of them cost the server no memory from now on.
    pub fn release(&self, blocks: &UsedBlocks) {
        // Where the connection has failed the snapshot is gone, which the next read reports.
        let _ = self.call(RELEASE, |to| {
            blocks.position.put(to);
            blocks.used.put(to);
        });
    }

    /// Returns the reason why reads fail, once the snapshot has been given up.
    pub fn given_up(&self) -> Option<String> {
        let answer = self.call(GIVEN_UP, |_| {}).ok()?;
        let why: Vec<u8> = decoded(&answer).ok()?;
        (!why.is_empty()).then(|| String::from_utf8_lossy(&why).into_owned())
    }

    /// Makes a call and returns the bytes of its answer.
    fn call(&self, number: u8, put: impl FnOnce(&mut Vec<u8>)) -> lanefs::Result<Vec<u8>> {
        let mut call = vec![number];
        put(&mut call);
        let failed = |source| lanefs::Error::Io {
            what: format!("the volume mounted at {}", escape_path(&self.0.mount.dir)),
            source,
        };
        let mut socket = self.0.socket.lock();
        let Some(connected) = socket.as_ref() else { return Err(failed(io::ErrorKind::NotConnected.into())) };
        ask(connected, &call, self.0.interrupted).unwrap_or_else(|error| {
            *socket = None;
            Err(failed(error))
        })
    }
}

impl Device for RemoteSnapshot {
    fn len(&self) -> u64 {
        self.0.len
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn engine(&self) -> String {
        format!("a snapshot of the volume mounted at {}", escape_path(&self.0.mount.dir))
    }

    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let len = (buffer.len() - done).min(MAX_DATA_BYTES);
            let answer = self.call(READ, |to| {
                at.saturating_add(done as u64).put(to);
                len.put(to);
            });
            let bytes = answer.map_err(io::Error::other)?;
            if bytes.len() != len {
                return Err(wire::invalid());
            }
            buffer.part(done..done + len).copy_from(&bytes);
            done += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::{CreateOptions, MemoryDevice};

    fn volume() -> Volume {
        let device = MemoryDevice::new(vec![0; 32 << 20]);
        let options = CreateOptions { size: 32 << 20, ..CreateOptions::default() };
        Volume::create_device(Box::new(device), &options).expect("a volume")
    }

    fn call(number: u8, arguments: &[u64]) -> Vec<u8> {
        let mut call = vec![number];
        arguments.iter().for_each(|argument| argument.put(&mut call));
        call
    }

    #[test]
    fn a_client_reads_the_snapshot_and_not_the_volume() {
        let volume = volume();
        volume.write_file("/f", [7; 9000]).expect("a file");
        let mut served = ServedSnapshot::default();
        let taken = served.execute(&volume, &call(TAKE, &[1 << 20])).expect("an answer");
        assert_eq!(taken, [&[0][..], &(32_u64 << 20).to_le_bytes()].concat());
        volume.write_file("/f", [8; 9000]).expect("a file");
        drop(volume.snapshot(0).expect("everything in place"));
        let image: Vec<u8> = (0..8)
            .flat_map(|part| {
                let read = call(READ, &[part << 22, 1 << 30]);
                let answer = served.execute(&volume, &read).expect("an answer");
                assert_eq!((answer[0], answer.len()), (0, 1 + MAX_DATA_BYTES));
                answer[1..].to_vec()
            })
            .collect();
        let there = Volume::from_bytes(image).expect("a volume");
        assert_eq!(there.read_file("/f").expect("read"), [7; 9000]);
        assert_eq!(served.execute(&volume, &call(GIVEN_UP, &[])), Some(vec![0; 5]));
        assert_eq!(served.execute(&volume, &call(RELEASE, &[0, u64::MAX])), Some(vec![0]));
        let behind = served.execute(&volume, &call(READ, &[32 << 20, 1])).expect("an answer");
        assert_eq!(behind[0], 1, "an error");
    }

    #[test]
    fn no_call_harms_the_server_whatever_its_bytes() {
        let volume = volume();
        let mut served = ServedSnapshot::default();
        for (number, arguments) in [(READ, &[0, 1][..]), (RELEASE, &[0, 1]), (GIVEN_UP, &[]), (9, &[])] {
            assert_eq!(served.execute(&volume, &call(number, arguments)), None, "nothing is taken yet");
        }
        assert_eq!(served.execute(&volume, &[]), None);
        served.execute(&volume, &call(TAKE, &[0])).expect("an answer");
        let words = [0, 1, 4096, 64 * 4096, (32 << 20) - 1, 1 << 63, u64::MAX];
        let mut refused = 0;
        for number in 0..8 {
            for length in 0..4 {
                for word in words {
                    let answer = served.execute(&volume, &call(number, &vec![word; length]));
                    refused += usize::from(answer.is_none());
                }
            }
        }
        assert!(refused > 100, "{refused}");
        assert!(volume.check(false, &|_, _| {}).expect("a check").findings.is_empty());
    }
}
