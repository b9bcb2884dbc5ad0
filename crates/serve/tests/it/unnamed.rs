//! Files without a name, as `open(2)` makes them with `O_TMPFILE`.

use crate::client::{Client, ROOT};
use lanefs_serve::{Errno, Groups, NewMode, NodeId, Requester};

#[test]
fn a_file_without_a_name_is_its_makers_and_gets_one_or_goes() {
    let client = Client::new(64 << 20);
    let user = Requester { uid: 1000, gid: 100, groups: Groups::Listed(&[]) };
    let mode = NewMode { mode: 0o100_666, umask: 0o022 };
    let made = client.0.create_unnamed(&user, NodeId::ROOT, mode).expect("made");
    let kept = client.node(made.node);
    let of = |attr: &lanefs::Attr| (attr.uid, attr.gid, attr.perm, attr.links);
    assert_eq!(of(&made.attr), (1000, 100, 0o644, 0));
    client.0.write(&user, kept.id, 0, b"text", false).expect("written");
    let linked = client.0.link(kept.id, NodeId::ROOT, b"f").expect("linked");
    drop((kept, client.node(linked.node)));
    let (node, found) = client.lookup(NodeId::ROOT, b"f").expect("found");
    assert_eq!((of(&found.attr), found.attr.size), ((1000, 100, 0o644, 1), 4));
    drop(node);

    let free = |client: &Client| client.0.statfs().expect("counts").free_inodes;
    let before = free(&client);
    let other = client.0.create_unnamed(&ROOT, NodeId::ROOT, mode).expect("made");
    drop(client.node(other.node));
    assert_eq!(free(&client), before, "it goes with the last reference");
    let (file, _) = client.lookup(NodeId::ROOT, b"f").expect("found");
    assert_eq!(
        client.0.create_unnamed(&ROOT, file.id, mode).err().map(Errno::code),
        Some(20),
        "no directory"
    );
    drop(file);
    client.end();
}
