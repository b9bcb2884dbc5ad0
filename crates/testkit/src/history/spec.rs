//! The sequential file system that defines correct replies: as small as can be, because the search copies it
//! at every step. A test compares it with the model.

use super::call::{Call, Facts, NEW_PERM, Name, Reply};
use super::{Event, Runs};
use lanefs::{Code, FileKind, RenameMode};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SpecBody {
    Directory { entries: BTreeMap<Name, u64>, parent: u64 },
    File { links: u32, content: Runs },
    Whiteout { links: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SpecNode {
    perm: u16,
    body: SpecBody,
}

/// The first number of a whiteout that no reply has shown yet. No target has so many inodes.
const PLACEHOLDERS: u64 = 1 << 63;

/// The content of one directory and all below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpecState {
    nodes: BTreeMap<u64, SpecNode>,
}

type SpecResult<T> = Result<T, Code>;

impl SpecState {
    /// An empty directory with this inode number. Directories above it are not modelled.
    pub fn new(base: u64) -> Self {
        SpecState { nodes: BTreeMap::from([(base, directory(base))]) }
    }

    /// Carries the call out; returns each state after it that gives the answer that the event has.
    ///
    /// The target chooses the number of a whiteout, and the reply to the rename does not have it. So a
    /// whiteout has a placeholder until a reply shows its number. A call that names a number that nothing
    /// here has may mean any of them; then several states may explain its reply.
    pub fn outcomes(&self, event: &Event) -> Vec<SpecState> {
        let mut states = vec![self.clone()];
        for ino in event.call.inodes().into_iter().flatten() {
            states = states.iter().flat_map(|state| state.readings(ino)).collect();
        }
        states.retain_mut(|state| state.explains(event));
        states
    }

    /// The state as it is, and with each whiteout whose number may be `ino`.
    fn readings(&self, ino: u64) -> Vec<SpecState> {
        let is_known = self.nodes.contains_key(&ino);
        let unknown = self.nodes.range(PLACEHOLDERS..).filter(|_| !is_known);
        let bound = unknown.map(|(placeholder, _)| {
            let mut state = self.clone();
            state.bind(*placeholder, ino);
            state
        });
        std::iter::once(self.clone()).chain(bound).collect()
    }

    /// Carries the call out. True where it gives the answer that the event has.
    fn explains(&mut self, event: &Event) -> bool {
        // A new inode may have any number that is not in use; the target chose one.
        let chosen = if let Reply::Attributes(facts) = &event.reply { facts.ino } else { 0 };
        let reply = self.apply(&event.call, chosen);
        self.with_numbers(reply, &event.reply) == event.reply
    }

    /// Replaces the placeholders of a reply by the numbers that the event's reply shows for them.
    fn with_numbers(&mut self, reply: Reply, shown: &Reply) -> Reply {
        match (reply, shown) {
            (Reply::Found(own, kind), Reply::Found(ino, _)) => Reply::Found(self.shown(own, *ino), kind),
            (Reply::Attributes(facts), Reply::Attributes(shown)) => {
                Reply::Attributes(Facts { ino: self.shown(facts.ino, shown.ino), ..facts })
            }
            (Reply::Names(mut names), Reply::Names(shown)) => {
                for (name, shown) in names.iter_mut().zip(shown) {
                    name.1 = self.shown(name.1, shown.1);
                }
                Reply::Names(names)
            }
            (reply, _) => reply,
        }
    }

    /// Returns the number of an inode that a reply shows as `ino`: that one where its number was unknown and
    /// may be it.
    fn shown(&mut self, own: u64, ino: u64) -> u64 {
        if own < PLACEHOLDERS || self.nodes.contains_key(&ino) {
            return own;
        }
        self.bind(own, ino);
        ino
    }

    /// Gives a whiteout its number.
    fn bind(&mut self, placeholder: u64, ino: u64) {
        if let Some(node) = self.nodes.remove(&placeholder) {
            self.nodes.insert(ino, node);
        }
        for node in self.nodes.values_mut() {
            if let SpecBody::Directory { entries, .. } = &mut node.body {
                entries.values_mut().filter(|child| **child == placeholder).for_each(|child| *child = ino);
            }
        }
    }

    fn apply(&mut self, call: &Call, chosen: u64) -> Reply {
        let done = match *call {
            Call::Lookup { dir, name } => {
                self.find(dir, name).and_then(|ino| Ok(Reply::Found(ino, self.kind(ino)?)))
            }
            Call::Getattr { ino } => self.facts(ino),
            Call::Create { dir, name } => {
                let body = SpecBody::File { links: 1, content: Runs::default() };
                self.make(dir, name, chosen, SpecNode { perm: NEW_PERM, body })
            }
            Call::CreateWhole { dir, name, fill, len, perm } => {
                let mut content = Runs::default();
                content.write(fill, len);
                self.make(dir, name, chosen, SpecNode { perm, body: SpecBody::File { links: 1, content } })
            }
            Call::Mkdir { dir, name } => self.make(dir, name, chosen, directory(dir)),
            Call::Link { ino, dir, name } => self.link(ino, dir, name),
            Call::Unlink { dir, name } => self.unlink(dir, name),
            Call::Rmdir { dir, name } => self.rmdir(dir, name),
            Call::Rename { dir, name, to, new, mode } => self.rename((dir, name), (to, new), mode),
            Call::List { dir } => self.list(dir),
            Call::Write { ino, fill, len } => {
                self.content(ino).map(|content| content.write(fill, len)).map(|()| Reply::Done)
            }
            Call::Read { ino } => self.content(ino).map(|content| Reply::Content(content.clone())),
            Call::Resize { ino, size } => {
                self.content(ino).map(|content| content.resize(size)).and_then(|()| self.facts(ino))
            }
            Call::Chmod { ino, perm } => {
                self.node_mut(ino).map(|node| node.perm = perm).and_then(|()| self.facts(ino))
            }
            Call::Sync => Ok(Reply::Done),
        };
        done.unwrap_or_else(Reply::Failed)
    }

    fn node(&self, ino: u64) -> SpecResult<&SpecNode> {
        self.nodes.get(&ino).ok_or(Code::StaleInode)
    }

    fn node_mut(&mut self, ino: u64) -> SpecResult<&mut SpecNode> {
        self.nodes.get_mut(&ino).ok_or(Code::StaleInode)
    }

    fn entries(&self, dir: u64) -> SpecResult<&BTreeMap<Name, u64>> {
        match &self.node(dir)?.body {
            SpecBody::Directory { entries, .. } => Ok(entries),
            SpecBody::File { .. } | SpecBody::Whiteout { .. } => Err(Code::NotDirectory),
        }
    }

    /// Entries of an inode that is known to be a directory.
    fn entries_mut(&mut self, dir: u64) -> SpecResult<&mut BTreeMap<Name, u64>> {
        match &mut self.node_mut(dir)?.body {
            SpecBody::Directory { entries, .. } => Ok(entries),
            SpecBody::File { .. } | SpecBody::Whiteout { .. } => Err(Code::NotDirectory),
        }
    }

    fn content(&mut self, ino: u64) -> SpecResult<&mut Runs> {
        match &mut self.node_mut(ino)?.body {
            SpecBody::File { content, .. } => Ok(content),
            SpecBody::Directory { .. } => Err(Code::IsDirectory),
            SpecBody::Whiteout { .. } => Err(Code::Invalid),
        }
    }

    fn find(&self, dir: u64, name: Name) -> SpecResult<u64> {
        self.entries(dir)?.get(name).copied().ok_or(Code::NotFound)
    }

    fn kind(&self, ino: u64) -> SpecResult<FileKind> {
        Ok(match self.node(ino)?.body {
            SpecBody::Directory { .. } => FileKind::Directory,
            SpecBody::File { .. } => FileKind::File,
            SpecBody::Whiteout { .. } => FileKind::CharDevice,
        })
    }

    fn is_directory(&self, ino: u64) -> bool {
        self.kind(ino) == Ok(FileKind::Directory)
    }

    fn facts(&self, ino: u64) -> SpecResult<Reply> {
        let node = self.node(ino)?;
        let (links, size) = match &node.body {
            SpecBody::File { links, content } => (*links, u64::from(content.len())),
            SpecBody::Whiteout { links } => (*links, 0),
            SpecBody::Directory { entries, .. } => {
                (2 + entries.values().filter(|child| self.is_directory(**child)).count() as u32, 0)
            }
        };
        Ok(Reply::Attributes(Facts { ino, kind: self.kind(ino)?, perm: node.perm, links, size }))
    }

    fn make(&mut self, dir: u64, name: Name, chosen: u64, node: SpecNode) -> SpecResult<Reply> {
        if self.entries(dir)?.contains_key(name) {
            return Err(Code::Exists);
        }
        if self.nodes.contains_key(&chosen) {
            return Ok(Reply::Broken(format!("inode {chosen} is in use already")));
        }
        self.nodes.insert(chosen, node);
        self.entries_mut(dir)?.insert(name, chosen);
        self.facts(chosen)
    }

    fn link(&mut self, ino: u64, dir: u64, name: Name) -> SpecResult<Reply> {
        self.node(ino)?;
        if self.entries(dir)?.contains_key(name) {
            return Err(Code::Exists);
        }
        match &mut self.node_mut(ino)?.body {
            SpecBody::Directory { .. } => return Err(Code::NotPermitted),
            SpecBody::File { links, .. } | SpecBody::Whiteout { links } => *links += 1,
        }
        self.entries_mut(dir)?.insert(name, ino);
        self.facts(ino)
    }

    /// Subtracts one link of a file or whiteout; an empty directory has one.
    fn drop_link(&mut self, ino: u64) -> SpecResult<()> {
        let body = &mut self.node_mut(ino)?.body;
        if let SpecBody::File { links, .. } | SpecBody::Whiteout { links } = body {
            *links -= 1;
            if *links > 0 {
                return Ok(());
            }
        }
        self.nodes.remove(&ino);
        Ok(())
    }

    fn unlink(&mut self, dir: u64, name: Name) -> SpecResult<Reply> {
        let ino = self.find(dir, name)?;
        if self.is_directory(ino) {
            return Err(Code::IsDirectory);
        }
        self.entries_mut(dir)?.remove(name);
        self.drop_link(ino)?;
        Ok(Reply::Done)
    }

    fn rmdir(&mut self, dir: u64, name: Name) -> SpecResult<Reply> {
        let ino = self.find(dir, name)?;
        if !self.entries(ino)?.is_empty() {
            return Err(Code::NotEmpty);
        }
        self.entries_mut(dir)?.remove(name);
        self.nodes.remove(&ino);
        Ok(Reply::Done)
    }

    /// Returns true where `ino` is `below`, or an ancestor of it.
    fn is_above(&self, ino: u64, below: u64) -> bool {
        let mut at = below;
        loop {
            if at == ino {
                return true;
            }
            match self.nodes.get(&at).map(|node| &node.body) {
                Some(SpecBody::Directory { parent, .. }) if *parent != at => at = *parent,
                _ => return false,
            }
        }
    }

    fn rename(
        &mut self,
        (dir, name): (u64, Name),
        (to, new): (u64, Name),
        mode: RenameMode,
    ) -> SpecResult<Reply> {
        self.entries(dir)?;
        self.entries(to)?;
        let source = self.find(dir, name)?;
        let target = self.entries(to)?.get(new).copied();
        match (mode, target) {
            (_, Some(_)) if mode.needs_free_name() => return Err(Code::Exists),
            (RenameMode::Exchange, None) => return Err(Code::NotFound),
            _ => {}
        }
        if self.is_above(source, to) {
            return Err(Code::Invalid);
        }
        let exchange = mode == RenameMode::Exchange;
        if let Some(target) = target {
            if self.is_above(target, dir) {
                return Err(if exchange { Code::Invalid } else { Code::NotEmpty });
            }
            if target == source {
                return Ok(Reply::Done);
            }
            if !exchange {
                match (self.is_directory(source), self.is_directory(target)) {
                    (true, false) => return Err(Code::NotDirectory),
                    (false, true) => return Err(Code::IsDirectory),
                    (true, true) if !self.entries(target)?.is_empty() => return Err(Code::NotEmpty),
                    _ => {}
                }
            }
        }
        self.entries_mut(dir)?.remove(name);
        self.add_name(source, to, new)?;
        match target {
            Some(target) if exchange => self.add_name(target, dir, name)?,
            Some(target) => self.drop_link(target)?,
            None => {}
        }
        if mode.leaves_whiteout() {
            self.leave_whiteout(dir, name)?;
        }
        Ok(Reply::Done)
    }

    /// Adds a whiteout with the first free placeholder.
    fn leave_whiteout(&mut self, dir: u64, name: Name) -> SpecResult<()> {
        let number = (PLACEHOLDERS..).find(|number| !self.nodes.contains_key(number));
        let number = number.ok_or(Code::NoSpace)?;
        self.nodes.insert(number, SpecNode { perm: 0, body: SpecBody::Whiteout { links: 1 } });
        self.entries_mut(dir)?.insert(name, number);
        Ok(())
    }

    /// Adds a name for an inode that may come from another directory.
    fn add_name(&mut self, ino: u64, dir: u64, name: Name) -> SpecResult<()> {
        self.entries_mut(dir)?.insert(name, ino);
        if let SpecBody::Directory { parent, .. } = &mut self.node_mut(ino)?.body {
            *parent = dir;
        }
        Ok(())
    }

    fn list(&self, dir: u64) -> SpecResult<Reply> {
        let mut names = Vec::new();
        for (name, ino) in self.entries(dir)? {
            names.push(((*name).to_owned(), *ino, self.kind(*ino)?));
        }
        Ok(Reply::Names(names))
    }
}

fn directory(parent: u64) -> SpecNode {
    SpecNode { perm: NEW_PERM, body: SpecBody::Directory { entries: BTreeMap::new(), parent } }
}
