//! Names that another user changes between any two steps of a copy into the volume.

use super::location::Location;
use super::reader::Reader;
use super::source::CopySource;
use crate::common::walk::Visit;
use crate::session::context::Context;
use crate::session::image::Image;
use lanefs::{CreateOptions, FileKind, Volume};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;

/// More steps than a walk of the tree has.
const MANY_STEPS: usize = 100;

/// A directory of the other user with files and directories, and names beside it to exchange with them: links
/// to a file and to a directory of root's, and a pipe.
fn make_tree(top: &Path) {
    for dir in ["roots", "theirs/d/e", "mine"] {
        fs::create_dir_all(top.join(dir)).expect("a directory");
    }
    for name in ["f", "e"] {
        fs::write(top.join("roots").join(name), "of root").expect("a file");
    }
    for name in ["theirs/f", "theirs/d/f", "theirs/d/e/f"] {
        fs::write(top.join(name), "theirs").expect("a file");
    }
    symlink(top.join("roots"), top.join("mine/directory")).expect("a link");
    symlink(top.join("roots/f"), top.join("mine/file")).expect("a link");
    mknodat(CWD, top.join("mine/pipe"), FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
}

/// Walks through the tree and exchanges `theirs` with `mine` after so many steps. Returns the number of steps
/// and all that was read.
fn contents_with_swap(top: &Path, theirs: &str, mine: &str, after: usize) -> (usize, Vec<String>) {
    let volume = Volume::create_memory(&CreateOptions { size: 8 << 20, ..CreateOptions::default() })
        .expect("a volume");
    let image = Image::Memory(0);
    let context = Context::new(&volume, &image);
    let start = Location::parse(top.join("theirs").as_os_str());
    let mut source = CopySource::open(&context, &start, false).expect("it is there");
    let (mut steps, mut contents) = (0, Vec::new());
    while let Some(step) = source.next(&context) {
        if steps == after {
            let (theirs, mine) = (top.join("theirs").join(theirs), top.join("mine").join(mine));
            renameat_with(CWD, theirs, CWD, mine, RenameFlags::EXCHANGE).expect("exchanged");
        }
        steps += 1;
        // The step of a name that has gone is an error, and the walk goes on.
        let Ok(step) = step else { continue };
        if (step.visit, step.meta.kind) != (Visit::Enter, FileKind::File) {
            continue;
        }
        if let Ok(Reader::Host { mut file, .. }) = step.reader(&context) {
            assert!(file.metadata().expect("open").is_file(), "a pipe was opened as a file");
            let mut content = String::new();
            file.read_to_string(&mut content).expect("text");
            contents.push(content);
        }
        assert!(steps < MANY_STEPS, "the walk does not end");
    }
    (steps, contents)
}

#[test]
fn no_exchange_between_two_steps_leads_a_copy_elsewhere() {
    let exchanges = [
        ("d", "directory"),
        ("d/e", "directory"),
        ("f", "file"),
        ("d/f", "file"),
        ("f", "pipe"),
        ("d/e/f", "pipe"),
    ];
    for (theirs, mine) in exchanges {
        for after in 0.. {
            let temp = tempfile::tempdir().expect("a directory");
            make_tree(temp.path());
            // A pipe with a writer would not hold up a copy that opens it, and be taken for a file.
            let _writer = fs::File::options().read(true).write(true).open(temp.path().join("mine/pipe"));
            let (steps, contents) = contents_with_swap(temp.path(), theirs, mine, after);
            let is_theirs = contents.iter().all(|content| content == "theirs");
            assert!(is_theirs, "{theirs} became {mine} after step {after}: {contents:?}");
            if after >= steps {
                assert_eq!(contents.len(), 3, "nothing was exchanged");
                break;
            }
        }
    }
}
