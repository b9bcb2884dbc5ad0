//! Packs on their way to the store.

use super::Placed;
use super::base::Base;
use crate::error::{Error, Result};
use crate::format::hash::Hash;
use crate::format::layout::pack_end;
use crate::format::pack::{Pack, PackBuilder};
use crate::format::packs::{PackNumber, PackRef};
use crate::format::page::Piece;
use crate::objects::Objects;
use lanefs_sync::lock::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

/// Bytes of a request that reads a pack.
const READ_BYTES: usize = 4 << 20;
/// Packs that are written at the same time.
const WRITERS: usize = 4;

/// Stands for the pack of a piece that is not complete.
pub(super) const INCOMPLETE: PackRef =
    PackRef { name: Hash([0; 32]), bytes: 0, footer: pack_end::SIZE as u32 };

/// Bytes of the packs of a publication.
#[derive(Clone, Copy, Default)]
pub(super) struct Sent {
    /// Bytes that were written, or would be.
    pub(super) written: u64,
    /// Bytes of packs that the store had.
    pub(super) found: u64,
}

/// A pack that is being filled, and its number.
pub(super) struct OpenPack {
    pub(super) number: PackNumber,
    pub(super) builder: PackBuilder,
}

/// Completes packs and writes them, several at the same time.
pub(super) struct Uploader<'s, 'b> {
    objects: &'b Objects,
    base: &'b Base,
    /// The packs that were begun; `None` for those that were not sent, or are empty.
    names: Vec<Option<PackRef>>,
    sent: Sent,
    /// `None` for a dry run.
    writers: Option<Writers<'s>>,
}

struct Writers<'s> {
    packs: SyncSender<Pack>,
    handles: Vec<ScopedJoinHandle<'s, ()>>,
    failure: Arc<Mutex<Option<Error>>>,
}

impl<'s, 'b> Uploader<'s, 'b> {
    /// Makes an uploader, which writes nothing in a dry run.
    pub(super) fn new(scope: &'s Scope<'s, '_>, objects: &'s Objects, base: &'b Base, is_dry: bool) -> Self
    where
        's: 'b,
    {
        let writers = (!is_dry).then(|| Writers::start(scope, objects));
        Uploader { objects, base, names: Vec::new(), sent: Sent::default(), writers }
    }

    /// Begins a pack.
    pub(super) fn begin(&mut self) -> OpenPack {
        self.names.push(None);
        OpenPack { number: self.names.len() - 1, builder: PackBuilder::new(self.base.uuid) }
    }

    /// Sends a pack, and begins another one in its place.
    pub(super) fn renew(&mut self, pack: &mut OpenPack) -> Result<()> {
        let next = self.begin();
        self.send(std::mem::replace(pack, next))
    }

    /// Completes a pack and writes it. An empty one is dropped.
    pub(super) fn send(&mut self, pack: OpenPack) -> Result<()> {
        let OpenPack { number, builder } = pack;
        if builder.len() == 0 {
            return Ok(());
        }
        let pack = builder.finish();
        if let Some(name) = self.names.get_mut(number) {
            *name = Some(pack.name);
        }
        if self.is_there(&pack) {
            self.sent.found += pack.name.bytes;
            return Ok(());
        }
        self.sent.written += pack.name.bytes;
        match &self.writers {
            Some(writers) => writers.send(pack),
            None => Ok(()),
        }
    }

    /// True where the store has the pack. A name proves nothing of the bytes: one that the version of the tag
    /// does not name is read.
    fn is_there(&self, pack: &Pack) -> bool {
        let name = &pack.name;
        if self.base.listed.get(&name.name) != Some(&name.bytes) {
            return false;
        }
        let is_same = |(number, part): (usize, &[u8])| {
            let at = (number * READ_BYTES) as u64;
            self.objects.read_pack(name, at, part.len() as u64).is_ok_and(|bytes| bytes == part)
        };
        self.base.trusts(&name.name) || pack.bytes.chunks(READ_BYTES).enumerate().all(is_same)
    }

    /// The pack with this number.
    pub(super) fn pack(&self, number: PackNumber) -> Result<PackRef> {
        self.names.get(number).copied().flatten().ok_or(Error::Interrupted)
    }

    /// Names the packs of new pieces, all of which were sent.
    pub(super) fn resolve(&self, placed: &[Placed]) -> Result<Vec<Piece>> {
        let resolve = |placed: &Placed| {
            let mut piece = placed.piece;
            if let Some(number) = placed.pack {
                piece.stored.pack = self.pack(number)?;
            }
            Ok(piece)
        };
        placed.iter().map(resolve).collect()
    }

    /// Waits until all packs are written.
    pub(super) fn finish(self) -> Result<Sent> {
        if let Some(writers) = self.writers {
            writers.finish()?;
        }
        Ok(self.sent)
    }
}

impl<'s> Writers<'s> {
    fn start(scope: &'s Scope<'s, '_>, objects: &'s Objects) -> Self {
        let (packs, received) = sync_channel::<Pack>(1);
        let received = Arc::new(Mutex::new(received));
        let failure = Arc::new(Mutex::new(None));
        let start = |_| {
            let (received, failure) = (Arc::clone(&received), Arc::clone(&failure));
            scope.spawn(move || write_all(objects, &received, &failure))
        };
        let handles = (0..WRITERS).map(start).collect();
        Writers { packs, handles, failure }
    }

    fn send(&self, pack: Pack) -> Result<()> {
        if let Some(error) = self.failure.lock().clone() {
            return Err(error);
        }
        self.packs.send(pack).map_err(|_| Error::Interrupted)
    }

    fn finish(self) -> Result<()> {
        drop(self.packs);
        for handle in self.handles {
            handle.join().map_err(|_| Error::Interrupted)?;
        }
        self.failure.lock().take().map_or(Ok(()), Err)
    }
}

/// Writes packs until there are no more. After a failure the others are dropped.
fn write_all(objects: &Objects, received: &Mutex<Receiver<Pack>>, failure: &Mutex<Option<Error>>) {
    loop {
        let next = received.lock().recv();
        let Ok(pack) = next else { return };
        if failure.lock().is_some() {
            continue;
        }
        let object = pack.name.object();
        if let Err(error) = objects.store.write(&object, pack.bytes) {
            failure.lock().get_or_insert(objects.failed(&object, error));
        }
    }
}
