//! The use of each difference: nothing for a comparison alone, a change of the volume for a sync.

use super::difference::Aspects;
use super::node::{Name, Node};
use super::tree::{Buffers, Tree};
use crate::on_host::hostdir::FileId;
use std::ffi::CStr;

/// A name of the tree that is followed, with its file.
pub(super) struct Found<'f, A: Tree> {
    pub(super) dir: &'f A::Dir,
    pub(super) name: &'f CStr,
    pub(super) node: &'f Node,
    /// The file where it is open already.
    pub(super) file: Option<&'f A::File>,
    /// Its path for messages.
    pub(super) path: &'f dyn Fn() -> Vec<u8>,
}

/// The holder of a name in the tree that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum There {
    /// Nothing.
    Nothing,
    /// A file that is not a directory.
    File,
    /// An empty directory.
    EmptyDirectory,
}

/// A file of the tree that follows that gets another name.
pub(super) struct Renaming<'r, B: Tree> {
    pub(super) from: (&'r B::Dir, &'r Name),
    /// `None` as for [`Effect::put`].
    pub(super) to: Option<&'r B::Dir>,
    /// The new name, which nothing has.
    pub(super) name: &'r [u8],
    /// Its path for messages.
    pub(super) path: &'r dyn Fn() -> Vec<u8>,
}

/// Removes names that were to be removed later; false where there are none. For a tree that is full.
pub(super) type MakeRoom<'r> = &'r dyn Fn(&mut Buffers) -> bool;

/// A file that was made.
pub(super) struct Made<D> {
    /// `None` where nothing was made, because the trees are only compared.
    pub(super) id: Option<FileId>,
    /// Of a directory.
    pub(super) dir: Option<D>,
}

/// A directory whose content is complete.
pub(super) struct Complete<'f, A: Tree, B: Tree> {
    pub(super) a: (&'f A::Dir, &'f Node),
    pub(super) b: (&'f B::Dir, Option<&'f Node>),
    /// The attributes that differ.
    pub(super) aspects: Aspects,
    /// True where names in it were changed, and with them its time.
    pub(super) is_touched: bool,
    /// Its path for messages.
    pub(super) path: &'f dyn Fn() -> Vec<u8>,
}

/// The use of differences. A call that fails reports that, and returns `None` or false.
pub(super) trait Effect<A: Tree, B: Tree>: Sync {
    /// False where the differences change nothing.
    const CHANGES: bool;

    /// Makes a file, complete but for the content of a directory, in the place of what is there.
    fn put(
        &self,
        buffers: &mut Buffers,
        found: &Found<'_, A>,
        to: Option<&B::Dir>,
        there: There,
        make_room: MakeRoom<'_>,
    ) -> Option<Made<B::Dir>>;

    /// Gives a file its new name.
    fn rename(&self, buffers: &mut Buffers, renaming: &Renaming<'_, B>, make_room: MakeRoom<'_>) -> bool;

    /// Makes the name one more of the file `first`.
    fn link(&self, found: &Found<'_, A>, to: Option<&B::Dir>, first: Option<FileId>, there: There) -> bool;

    /// Sets the attributes in which `old`, a file in `to`, differs.
    fn set(
        &self,
        buffers: &mut Buffers,
        found: &Found<'_, A>,
        to: &B::Dir,
        old: &Node,
        aspects: Aspects,
    ) -> bool;

    /// Removes a name: of a file, or of a directory that is empty.
    fn remove(&self, from: &B::Dir, name: &Name, path: &dyn Fn() -> Vec<u8>) -> bool;

    /// Completes a directory.
    fn complete(&self, buffers: &mut Buffers, dir: &Complete<'_, A, B>) -> bool;

    /// Called between two names.
    fn between(&self);
}

/// The trees are only compared.
pub(super) struct NoEffect;

impl<A: Tree, B: Tree> Effect<A, B> for NoEffect {
    const CHANGES: bool = false;

    fn put(
        &self,
        _: &mut Buffers,
        _: &Found<'_, A>,
        _: Option<&B::Dir>,
        _: There,
        _: MakeRoom<'_>,
    ) -> Option<Made<B::Dir>> {
        Some(Made { id: None, dir: None })
    }

    fn rename(&self, _: &mut Buffers, _: &Renaming<'_, B>, _: MakeRoom<'_>) -> bool {
        true
    }

    fn link(&self, _: &Found<'_, A>, _: Option<&B::Dir>, _: Option<FileId>, _: There) -> bool {
        true
    }

    fn set(&self, _: &mut Buffers, _: &Found<'_, A>, _: &B::Dir, _: &Node, _: Aspects) -> bool {
        true
    }

    fn remove(&self, _: &B::Dir, _: &Name, _: &dyn Fn() -> Vec<u8>) -> bool {
        true
    }

    fn complete(&self, _: &mut Buffers, _: &Complete<'_, A, B>) -> bool {
        true
    }

    fn between(&self) {}
}
