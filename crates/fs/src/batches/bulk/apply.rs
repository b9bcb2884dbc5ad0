//! A planned batch, executed as one transaction.

use super::change::{Applied, Change};
use super::engine::{DirEngine, Frozen, LookupRequest, Rebuilt};
use super::plan::{self, BatchPlan, Binding, Object};
use crate::attempt::edit::Edit;
use crate::files::data;
use crate::files::inode::{self, Inode, NewInode, add_links};
use crate::mounted::shared::Shared;
use crate::names::dir::{self, Batch, Dentry, EntryChange};
use crate::names::namespace;
use crate::running::retry::Attempts;
use crate::running::volume::Volume;
use crate::vocabulary::error::{Error, Outcome, Result};
use crate::vocabulary::notice::Changed;
use crate::vocabulary::types::Ino;
use lanefs_format::dir::{index, leaf};
use lanefs_format::{BLOCK, BlockKind, Code, Field, FileKind, inode as f};
use lanefs_store::Fault;

/// Most changes of one transaction.
const MOST_CHANGES: usize = 1 << 16;

/// Changes that are tried together after a change that batches cannot contain came early; the number doubles
/// after each success.
const FEW_CHANGES: usize = 64;

/// Changes for each block that may change: a new file changes a sixth of a block, scattered changes up to
/// ten.
const FOR_A_BLOCK: u64 = 2;

/// The division of a batch between the engine and the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Changes made together, with an engine.
    pub together: u64,
    /// Changes made one by one.
    pub one_by_one: u64,
}

/// The result of an attempt.
struct BatchOutcome {
    /// Answers to the changes that it made, from the first on.
    answers: Vec<Applied>,
    /// Names whose inode changed, and inodes that changed, where a listener wants them.
    names: Vec<(Ino, Vec<u8>)>,
    inodes: Vec<Ino>,
}

/// # Changes by path, many at a time with an engine
impl Volume {
    /// Applies changes as [`apply`](Self::apply), with the same answers, but many at a time: one transaction
    /// for some ten thousand, in which an engine finds the names and computes the new directories. After a
    /// crash all of a transaction is there, or nothing. No other thread changes the volume meanwhile. Changes
    /// that batches cannot contain (symbolic links, `..`, an exchange), those that the engine cannot decide,
    /// and those that fail for want of space are made one by one.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn apply_with(
        &self,
        engine: &mut dyn DirEngine,
        base: Ino,
        changes: &[Change<'_>],
    ) -> Result<(Vec<Applied>, Shares)> {
        let (mut answers, mut shares) = (Vec::with_capacity(changes.len()), Shares::default());
        let room = self.shared.state.store.room_for_changes().saturating_mul(FOR_A_BLOCK);
        let mut plan = BatchPlan::default();
        let mut most = room.clamp(FEW_CHANGES as u64, MOST_CHANGES as u64) as usize;
        while let rest @ [first, ..] = &changes[answers.len()..] {
            if !plan::is_plain(first) {
                answers.push(self.apply_one(base, first)?);
                shares.one_by_one += 1;
                continue;
            }
            let plain = rest.iter().take(most).take_while(|change| plan::is_plain(change)).count();
            match self.shared.apply_together(engine, &mut plan, base, &rest[..plain], self.has_listener()) {
                // A transaction that exceeds the journal would not be atomic.
                Ok(None) if plain > FEW_CHANGES => most = (plain / 2).max(FEW_CHANGES),
                Ok(Some(done)) => {
                    most =
                        if done.answers.len() < plain { FEW_CHANGES } else { (most * 2).min(MOST_CHANGES) };
                    self.notify_all(&done);
                    shares.together += done.answers.len() as u64;
                    answers.extend(&done.answers);
                    if let Some(next) = rest.get(done.answers.len()).filter(|_| done.answers.len() < plain) {
                        answers.push(self.apply_one(base, next)?);
                        shares.one_by_one += 1;
                    }
                }
                Ok(None) | Err(Error::Code(_) | Error::Damaged { .. }) => {
                    answers.extend(self.apply(base, &rest[..plain])?);
                    shares.one_by_one += plain as u64;
                }
                Err(error) => return Err(error),
            }
        }
        Ok((answers, shares))
    }

    fn notify_all(&self, done: &BatchOutcome) {
        for (dir, name) in &done.names {
            self.notify(&[Changed::Name { dir: *dir, name }]);
        }
        done.inodes.iter().for_each(|ino| self.notify(&[Changed::Inode(*ino)]));
    }
}

impl Shared {
    /// Returns `None` where the changes are too many for one commit; then nothing has happened.
    fn apply_together<'c>(
        &self,
        engine: &mut dyn DirEngine,
        plan: &mut BatchPlan<'c>,
        base: Ino,
        changes: &[Change<'c>],
        has_listener: bool,
    ) -> Result<Option<BatchOutcome>> {
        if self.state.store.should_commit() && !self.state.store.is_memory() {
            self.commit()?;
        }
        let (mut attempts, mut is_too_large) = (Attempts::default(), false);
        loop {
            self.begin_changes()?;
            let mut closed = self.state.gate.close_to_change(&self.state.store);
            if !self.accepts_changes() {
                continue;
            }
            let outcome = self.change_exclusive(&mut closed, &mut |edit| {
                let done = together(edit, engine, plan, base.0, changes, has_listener)?;
                is_too_large = self.state.store.room_for_changes() == 0;
                if is_too_large { Err(unable(())) } else { Ok(done) }
            });
            drop(closed);
            if std::mem::take(&mut is_too_large) {
                // Rolled-back blocks still count as changed.
                self.commit()?;
                return Ok(None);
            }
            match outcome {
                Ok(done) => {
                    if !self.state.store.is_memory() {
                        self.wake_committer()?;
                    }
                    return Ok(Some(done));
                }
                Err(Fault::Code(code)) => return Err(code.into()),
                Err(fault) => self.after(fault, &mut attempts)?,
            }
        }
    }
}

/// Changes that an engine cannot decide, or answers wrongly, are made one by one.
fn unable<T>(_: T) -> Fault {
    Code::NotResident.into()
}

fn together<'c>(
    edit: &mut Edit<'_>,
    engine: &mut dyn DirEngine,
    plan: &mut BatchPlan<'c>,
    base: u64,
    changes: &[Change<'c>],
    has_listener: bool,
) -> Outcome<BatchOutcome> {
    let state = edit.core.state;
    engine.begin(&Frozen { store: &state.store, moves: state.directories.moves.all() }).map_err(unable)?;
    plan.begin(edit.core, state.root(), base)?;
    plan.load(edit.core, engine, changes)?;
    let made = plan.go_through(edit.core, changes)?;
    let inos = make_inodes(edit, plan)?;
    hash_new_names(plan, engine)?;
    change_directories(edit, engine, plan, &inos)?;
    for object in &plan.objects {
        settle(edit, &inos, object)?;
    }
    let answer = |(code, object): &(Code, Option<u32>)| Applied {
        code: *code,
        ino: object.map(|object| Ino(inos[object as usize])),
    };
    let mut done = BatchOutcome {
        answers: plan.answers.iter().map(answer).collect(),
        names: Vec::new(),
        inodes: Vec::new(),
    };
    debug_assert_eq!(done.answers.len(), made);
    if has_listener {
        let changed = plan.bindings.iter().filter(|binding| binding.before != binding.now);
        done.names =
            changed.map(|binding| (Ino(inos[binding.dir as usize]), binding.name.to_vec())).collect();
        let touched =
            plan.objects.iter().filter(|one| one.is_stamped || one.lost > 0 || one.is_moved || one.is_gone);
        done.inodes = touched.filter(|one| one.ino != 0).map(|one| Ino(one.ino)).collect();
    }
    Ok(done)
}

/// Creates the inodes of new objects. Returns the inode number of each object.
fn make_inodes(edit: &mut Edit<'_>, plan: &BatchPlan<'_>) -> Outcome<Vec<u64>> {
    let mut inos: Vec<u64> = plan.objects.iter().map(|object| object.ino).collect();
    // The last parent, and the flags that it passes on.
    let mut inherits = (0, 0);
    for (number, object) in plan.objects.iter().enumerate() {
        if object.ino != 0 || object.is_gone {
            continue;
        }
        let parent = inos[object.parent as usize];
        if inherits.0 != parent {
            // A parent that is made later was moved there: nothing is inherited from it.
            let flags =
                if parent == 0 { 0 } else { Inode::load(edit.core, parent)?.inherited(FileKind::File) };
            inherits = (parent, flags);
        }
        let is_inline = inode::fits_inline(edit.core, object.data);
        let is_plain = matches!(object.kind, FileKind::File | FileKind::Directory);
        let new = NewInode {
            kind: object.kind,
            perm: object.perm,
            uid: 0,
            gid: object.gid,
            rdev: 0,
            parent: if object.kind == FileKind::Directory { parent } else { 0 },
            flags: if is_plain { inherits.1 } else { 0 },
            content: if is_inline { object.data } else { b"" },
        };
        let node = inode::make(edit, &new)?;
        inos[number] = node.ino;
        if !is_inline {
            data::write_new(edit, node, object.data)?;
        }
    }
    debug_assert!(
        plan.objects.iter().zip(&inos).all(|(object, ino)| object.is_gone || *ino != 0),
        "an object without an inode"
    );
    // A directory may have been moved into one that was created after it.
    for (number, object) in plan.objects.iter().enumerate() {
        if object.ino == 0 && !object.is_gone && object.kind == FileKind::Directory {
            let node = Inode::directory(edit.core, inos[number])?;
            edit.tx.put(node.view, f::PARENT_OR_DEVICE, inos[object.parent as usize]);
        }
    }
    Ok(inos)
}

/// The hashes of names in directories that are new.
fn hash_new_names(plan: &mut BatchPlan<'_>, engine: &mut dyn DirEngine) -> Outcome<()> {
    let BatchPlan { objects, bindings, .. } = plan;
    let mut new: Vec<_> = bindings
        .iter_mut()
        .filter(|binding| binding.now.is_some() && objects[binding.dir as usize].ino == 0)
        .collect();
    let names: Vec<_> = new.iter().map(|binding| LookupRequest { dir: 0, name: binding.name }).collect();
    if names.is_empty() {
        return Ok(());
    }
    let seen = engine.seek(&names).map_err(unable)?;
    if seen.len() != names.len() {
        return Err(unable(()));
    }
    for (binding, seen) in new.iter_mut().zip(seen) {
        binding.seen.hash = seen.hash;
    }
    Ok(())
}

/// The bindings that change, by directory and hash.
fn changed_in_order<'s, 'c>(bindings: &'s [Binding<'c>]) -> Vec<&'s Binding<'c>> {
    let key = |binding: &Binding<'_>| u64::from(binding.dir) << 32 | u64::from(binding.seen.hash);
    let changed = (0..).zip(bindings).filter(|(_, binding)| binding.before != binding.now);
    // Keys with numbers are sorted in fewer steps than the bindings.
    let mut order: Vec<(u64, u32)> = changed.map(|(number, binding)| (key(binding), number)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, number)| &bindings[number as usize]).collect()
}

/// Makes all names lead to their new inodes.
fn change_directories(
    edit: &mut Edit<'_>,
    engine: &mut dyn DirEngine,
    plan: &BatchPlan<'_>,
    inos: &[u64],
) -> Outcome<()> {
    let bindings = changed_in_order(&plan.bindings);
    let named = |object: u32| (inos[object as usize], plan.objects[object as usize].kind);
    let is_directory = |object: Option<u32>| {
        object.is_some_and(|object| plan.objects[object as usize].kind == FileKind::Directory)
    };
    let (mut batch, mut pending) = (Batch::default(), Vec::new());
    for of_one in bindings.chunk_by(|a, b| a.dir == b.dir) {
        let Some(dir) = of_one.first().map(|binding| binding.dir) else { continue };
        let node = Inode::directory(edit.core, inos[dir as usize])?;
        let mut wanted = Vec::with_capacity(of_one.len());
        let mut links = 0;
        for binding in of_one {
            links += i32::from(is_directory(binding.now)) - i32::from(is_directory(binding.before));
            match (binding.seen.entry, binding.now) {
                (Some((at, ..)), Some(now)) => {
                    let (ino, kind) = named(now);
                    dir::replace(edit, Dentry::at(edit.core, at)?, ino, kind);
                }
                (_, now) => {
                    wanted.push(EntryChange {
                        name: binding.name,
                        seen: binding.seen,
                        names: now.map(named),
                    });
                }
            }
        }
        if links != 0 {
            add_links(edit, node, links)?;
        }
        dir::prepare(edit, node, &wanted, &mut batch, &mut pending)?;
    }
    let mut rebuilt =
        if batch.tasks.is_empty() { Rebuilt::default() } else { engine.rebuild(&batch).map_err(unable)? };
    write_words(edit, &batch, &mut rebuilt.words)?;
    for work in &pending {
        let node = Inode::directory(edit.core, work.dir)?;
        dir::finish(edit, node, work, &batch, &rebuilt.heads)?;
    }
    Ok(())
}

/// Writes the words that an engine computed, where these tasks allow them: links of entries, slots of index
/// blocks, the index in inodes.
fn write_words(edit: &mut Edit<'_>, batch: &Batch, words: &mut [(u64, u64)]) -> Outcome<()> {
    let mut inodes: Vec<u64> = batch.tasks.iter().map(|task| task.inode).collect();
    let mut indexes: Vec<u64> = batch.heads.iter().map(|head| head.index).filter(|at| *at != 0).collect();
    inodes.sort_unstable();
    indexes.sort_unstable();
    words.sort_unstable_by_key(|(at, _)| *at);
    // Each block is found, and judged, once.
    for words in words.chunk_by(|(a, _), (b, _)| a / BLOCK == b / BLOCK) {
        let Some(block) = words.first().map(|(at, _)| at & !(BLOCK - 1)) else { continue };
        if words.iter().any(|(at, _)| !at.is_multiple_of(8)) {
            return Err(unable(()));
        }
        if inodes[inodes.partition_point(|at| *at < block)..].first().is_some_and(|at| *at < block + BLOCK) {
            write_inodes(edit, &inodes, words)?;
            continue;
        }
        let (view, least) = if indexes.binary_search(&block).is_ok() {
            (edit.store().block(block, BlockKind::Index)?, index::SLOTS.offset)
        } else {
            let view = edit.store().block(block, BlockKind::Leaf)?;
            let inode = view.get(leaf::OWNER).checked_mul(edit.store().inode_size().bytes());
            if inode.is_none_or(|inode| inodes.binary_search(&inode).is_err()) {
                return Err(unable(()));
            }
            (view, leaf::SIZE)
        };
        for (at, value) in words {
            let offset = (at % BLOCK) as usize;
            if offset < least {
                return Err(unable(()));
            }
            edit.tx.put(view, Field::at(offset), *value);
        }
    }
    Ok(())
}

/// Writes words of the indexes in these inodes, which are in ascending order.
fn write_inodes(edit: &mut Edit<'_>, inodes: &[u64], words: &[(u64, u64)]) -> Outcome<()> {
    let size = edit.store().inode_size();
    for words in words.chunk_by(|(a, _), (b, _)| a / size.bytes() == b / size.bytes()) {
        let Some(inode) = words.first().map(|(at, _)| at - at % size.bytes()) else { continue };
        if inodes.binary_search(&inode).is_err() {
            return Err(unable(()));
        }
        let node = Inode::directory(edit.core, inode / size.bytes())?;
        for (at, value) in words {
            let offset = (at - inode) as usize;
            if offset < size.small_tags() {
                return Err(unable(()));
            }
            edit.tx.put(node.view, Field::at(offset), *value);
        }
    }
    Ok(())
}

/// Updates the inode of an object that existed before, after all of its names were changed.
fn settle(edit: &mut Edit<'_>, inos: &[u64], object: &Object<'_>) -> Outcome<()> {
    if object.ino == 0 {
        return Ok(());
    }
    if object.is_gone {
        return namespace::drop_name(edit, Inode::load(edit.core, object.ino)?);
    }
    for _ in 0..object.lost {
        namespace::drop_name(edit, Inode::load(edit.core, object.ino)?)?;
    }
    if object.lost > 0 || !object.is_moved && !object.is_stamped {
        return Ok(());
    }
    let node = Inode::load(edit.core, object.ino)?;
    if object.is_moved {
        edit.tx.put(node.view, f::CTIME, edit.now.0);
    }
    if object.parent != object.old_parent {
        edit.tx.put(node.view, f::PARENT_OR_DEVICE, inos[object.parent as usize]);
    }
    if object.is_stamped {
        edit.stamp(node.view);
    }
    Ok(())
}
