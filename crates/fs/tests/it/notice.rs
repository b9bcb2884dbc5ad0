//! Listeners are notified of changes.

use lanefs::{Allocate, Caller, Changed, CreateOptions, FileKind, RenameMode, SetAttr, Volume, XattrMode};
use parking_lot::Mutex;
use std::sync::Arc;

#[test]
fn every_change_is_told_once_it_has_succeeded() {
    let volume = Volume::create_memory(&CreateOptions::default()).expect("a volume");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    let listen = move |_: &Volume, changed: Changed<'_>| {
        told.lock().push(match changed {
            Changed::Name { dir, name } => (dir, String::from_utf8_lossy(name).into_owned()),
            Changed::Inode(ino) => (ino, String::new()),
        });
    };
    assert!(volume.on_change(listen) && !volume.on_change(|_, _| ()));
    let (caller, root) = (&Caller::OWNER, volume.root());
    let name = |name: &str| (root, name.to_string());
    let inode = |ino| (ino, String::new());
    let take = || std::mem::take(&mut *heard.lock());

    let file = volume.create_file(caller, root, b"f", 0o644).expect("created").ino;
    assert_eq!(take(), [name("f"), inode(root)]);
    volume.mkdir(caller, root, b"d", 0o755).expect("made");
    assert_eq!(take(), [name("d"), inode(root)]);
    volume.mknod(caller, root, b"p", FileKind::Fifo, 0o644, 0).expect("made");
    assert_eq!(take(), [name("p"), inode(root)]);
    volume.symlink_at(caller, root, b"s", b"f").expect("made");
    assert_eq!(take(), [name("s"), inode(root)]);
    volume.link(caller, file, root, b"g").expect("linked");
    assert_eq!(take(), [name("g"), inode(root), inode(file)]);
    volume.write(caller, file, 0, b"text").expect("written");
    assert_eq!(take(), [inode(file)]);
    volume.fallocate(caller, file, Allocate::Extend, 0, 9000).expect("allocated");
    assert_eq!(take(), [inode(file)]);
    volume.setattr(caller, file, &SetAttr { perm: Some(0o600), ..SetAttr::default() }).expect("changed");
    assert_eq!(take(), [inode(file)]);
    volume.setxattr(caller, file, b"user.a", b"b", XattrMode::Set).expect("set");
    volume.removexattr(caller, file, b"user.a").expect("removed");
    assert_eq!(take(), [inode(file), inode(file)]);
    volume.rename_at(caller, root, b"g", root, b"h", RenameMode::Replace).expect("renamed");
    assert_eq!(take(), [name("g"), name("h"), inode(root), inode(root), inode(file)]);
    volume.rename_at(caller, root, b"h", root, b"w", RenameMode::Whiteout).expect("renamed");
    assert_eq!(take(), [name("h"), name("w"), inode(root), inode(root), inode(file)]);
    volume.rename_at(caller, root, b"w", root, b"h", RenameMode::Replace).expect("renamed");
    take();
    volume.create_file(caller, root, b"i", 0o644).expect("created");
    take();
    volume.rename_at(caller, root, b"i", root, b"h", RenameMode::Replace).expect("renamed");
    assert!(take().contains(&inode(file)), "what was replaced has one link less");
    volume.unlink(caller, root, b"f").expect("removed");
    assert_eq!(take(), [name("f"), inode(root), inode(file)]);
    volume.rmdir(caller, root, b"d").expect("removed");
    assert_eq!(take()[..2], [name("d"), inode(root)]);

    assert!(
        volume.unlink(caller, root, b"absent").is_err() && volume.mkdir(caller, root, b"h", 0o755).is_err()
    );
    assert!(take().is_empty(), "what failed has changed nothing");
}
