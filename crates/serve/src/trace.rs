//! The trace of a service: the paths of the files that its client reads, in the order of their first reading.
//!
//! A client looks names up, or lists them, before it reads, and keeps them. So the trace remembers the names
//! that the service gave, and finds the path of a file by them.

use crate::versions::NodeId;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};

/// Names that are remembered at most, and files of which it is known that the trace has them.
const MAX_NAMES: usize = 1 << 18;
const MAX_FILES: usize = 1 << 22;
/// Names above one another at most.
const MAX_DEPTH: usize = 2048;
/// Most bytes of a path: `lanefs warm` takes no longer ones.
const MAX_PATH_BYTES: usize = 4096;

/// Writes the paths to a file, one a line. A path with a line feed in it is left out, and so is a file whose
/// name was forgotten, because the client has looked up far more names than it has read.
pub struct Trace(Mutex<TraceState>);

struct TraceState {
    file: File,
    names: HashMap<NodeId, GivenName>,
    read: HashSet<NodeId>,
    /// The first failure, which ends the trace.
    failure: Option<io::Error>,
}

struct GivenName {
    dir: NodeId,
    name: Box<[u8]>,
    is_directory: bool,
}

impl Trace {
    /// Begins a trace at the end of a file.
    pub fn new(file: File) -> Self {
        Trace(Mutex::new(TraceState { file, names: HashMap::new(), read: HashSet::new(), failure: None }))
    }

    /// Notes a name that the client learns.
    pub(crate) fn note_name(&self, dir: NodeId, name: &[u8], node: NodeId, is_directory: bool) {
        let mut state = self.0.lock();
        if state.read.contains(&node) {
            return;
        }
        if state.names.len() >= MAX_NAMES {
            // Files that are read are read soon. The names of directories are needed for others.
            state.names.retain(|_, name| name.is_directory);
            // So that each further name does not look at all of them again.
            if state.names.len() > MAX_NAMES / 2 {
                state.names.clear();
            }
        }
        if state.names.len() < MAX_NAMES {
            state.names.insert(node, GivenName { dir, name: name.into(), is_directory });
        }
    }

    /// Notes that the client reads a file.
    pub(crate) fn note_read(&self, node: NodeId) {
        let mut state = self.0.lock();
        if state.failure.is_some() || state.read.len() >= MAX_FILES || !state.read.insert(node) {
            return;
        }
        let path = state.path(node);
        state.names.remove(&node);
        let is_line = |path: &Vec<u8>| !path.contains(&b'\n') && path.len() <= MAX_PATH_BYTES;
        let Some(mut line) = path.filter(is_line) else { return };
        line.push(b'\n');
        // One call for a line: only a full disk leaves a part of one.
        state.failure = state.file.write_all(&line).err();
        if let Some(error) = &state.failure {
            log::error!("the trace of files that are read ends here: {error}");
        }
    }
}

impl TraceState {
    fn path(&self, node: NodeId) -> Option<Vec<u8>> {
        let (mut names, mut at) = (Vec::new(), node);
        while at != NodeId::ROOT {
            let GivenName { dir, name, .. } = self.names.get(&at).filter(|_| names.len() < MAX_DEPTH)?;
            names.push(name);
            at = *dir;
        }
        Some(names.iter().rev().flat_map(|name| [&b"/"[..], name].concat()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    fn trace() -> (Trace, File) {
        let file = tempfile::tempfile().expect("a file");
        (Trace::new(file.try_clone().expect("a file")), file)
    }

    fn lines(mut file: File) -> String {
        let mut text = String::new();
        file.rewind().expect("the beginning");
        file.read_to_string(&mut text).expect("the trace");
        text
    }

    #[test]
    fn files_are_named_once_in_the_order_of_their_first_reading() {
        let (trace, file) = trace();
        let (dir, sub) = (NodeId(10), NodeId(11));
        trace.note_name(NodeId::ROOT, b"d", dir, true);
        trace.note_name(dir, b"e", sub, true);
        for (number, (dir, name)) in [(dir, "a"), (sub, "b"), (NodeId::ROOT, "c")].into_iter().enumerate() {
            trace.note_name(dir, name.as_bytes(), NodeId(20 + number as u64), false);
        }
        trace.note_name(dir, b"two\nlines", NodeId(30), false);
        for node in [22, 21, 22, 30, 99, 20] {
            trace.note_read(NodeId(node));
        }
        assert_eq!(lines(file), "/c\n/d/e/b\n/d/a\n");
        assert!(trace.0.lock().failure.is_none());
    }

    #[test]
    fn memory_is_bounded_and_directories_are_remembered_longest() {
        let (trace, file) = trace();
        trace.note_name(NodeId::ROOT, b"d", NodeId(2), true);
        for number in 0..2 * MAX_NAMES as u64 {
            trace.note_name(NodeId(2), b"file", NodeId(100 + number), false);
        }
        assert!(trace.0.lock().names.len() <= MAX_NAMES);
        trace.note_read(NodeId(100));
        trace.note_read(NodeId(99 + 2 * MAX_NAMES as u64));
        assert_eq!(lines(file), "/d/file\n", "the first one was forgotten");
    }

    #[test]
    fn names_that_lead_in_a_circle_are_no_path() {
        let (trace, file) = trace();
        trace.note_name(NodeId(2), b"a", NodeId(3), true);
        trace.note_name(NodeId(3), b"b", NodeId(2), true);
        trace.note_read(NodeId(2));
        assert_eq!(lines(file), "");
    }
}
