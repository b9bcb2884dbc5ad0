//! Access control lists.

use crate::posix::support::{Mounted, as_keeper, as_user};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const ACCESS_LIST: &str = "system.posix_acl_access";
const DEFAULT_LIST: &str = "system.posix_acl_default";

/// An access control list as setfacl(1) writes it, with permissions of the owner, of user 1001, of the group,
/// of the mask and of others.
fn list([owner, user, group, mask, others]: [u8; 5]) -> [u8; 44] {
    [
        2, 0, 0, 0, //
        1, 0, owner, 0, 0xff, 0xff, 0xff, 0xff, //
        2, 0, user, 0, 0xe9, 3, 0, 0, //
        4, 0, group, 0, 0xff, 0xff, 0xff, 0xff, //
        16, 0, mask, 0, 0xff, 0xff, 0xff, 0xff, //
        32, 0, others, 0, 0xff, 0xff, 0xff, 0xff,
    ]
}

fn get_list(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 5000];
    rustix::fs::getxattr(path, name, &mut value[..]).map(|len| value[..len].to_vec())
}

#[test]
fn access_control_lists_decide_and_follow_the_mode() {
    let m = Mounted::new();
    let (dir, file) = (m.path("d"), m.path("d/f"));
    fs::create_dir(&dir).unwrap();
    fs::write(&file, b"text").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let set =
        |path: &Path, name: &str, list: &[u8]| rustix::fs::setxattr(path, name, list, XattrFlags::empty());
    let read = |uid| as_user(uid, uid, &[], || fs::read(&file).map_err(|error| error.raw_os_error()));
    let (denied, text) = (Err(Some(Errno::ACCESS.raw_os_error())), Ok(b"text".to_vec()));
    chmod(&dir, 0o700);
    chmod(&file, 0o644);
    assert_eq!(read(1001), denied);
    set(&dir, ACCESS_LIST, &list([7, 5, 5, 7, 0])).unwrap();
    assert_eq!((mode(&dir), read(1001), read(1002)), (0o770, text.clone(), denied.clone()));
    set(&file, ACCESS_LIST, &list([6, 0, 4, 4, 4])).unwrap();
    assert_eq!((mode(&file), read(1001)), (0o644, denied.clone()));
    set(&file, ACCESS_LIST, &list([6, 7, 4, 4, 0])).unwrap();
    assert_eq!((mode(&file), read(1001)), (0o640, text.clone()));
    assert_eq!(get_list(&file, ACCESS_LIST).unwrap(), list([6, 7, 4, 4, 0]));
    assert_eq!(rustix::fs::listxattr_query(&file), Ok(ACCESS_LIST.len() + 1));
    // The mask follows chmod.
    chmod(&file, 0o620);
    assert_eq!(get_list(&file, ACCESS_LIST).unwrap(), list([6, 7, 4, 2, 0]));
    assert_eq!(read(1001), denied);
    chmod(&file, 0o640);
    assert_eq!(read(1001), text);
    // Only the owner sets lists, and a stranger to the group loses the set-group-id bit.
    std::os::unix::fs::chown(&file, Some(1001), Some(77)).unwrap();
    chmod(&file, 0o2640);
    let by =
        |uid, groups: &[u32]| as_user(uid, uid, groups, || set(&file, ACCESS_LIST, &list([6, 7, 4, 4, 0])));
    assert_eq!(by(1002, &[]), Err(Errno::ACCESS), "the directory denies search");
    assert_eq!((by(1001, &[77]), mode(&file)), (Ok(()), 0o2640));
    assert_eq!((by(1001, &[]), mode(&file)), (Ok(()), 0o640));
    chmod(&dir, 0o777);
    set(&dir, ACCESS_LIST, &list([7, 7, 7, 7, 7])).unwrap();
    assert_eq!(by(1002, &[]), Err(Errno::PERM));
    // As ext4 refuses them.
    assert_eq!(set(&file, DEFAULT_LIST, &list([6, 7, 4, 4, 0])), Err(Errno::ACCESS));
    assert_eq!(set(&file, ACCESS_LIST, &list([6, 8, 4, 4, 0])), Err(Errno::INVAL));
    // A list that says no more than the mode is none.
    let minimal =
        [&list([6, 0, 4, 0, 0])[..12], &list([6, 0, 4, 0, 0])[20..28], &list([0; 5])[36..]].concat();
    set(&file, ACCESS_LIST, &minimal).unwrap();
    assert_eq!((mode(&file), get_list(&file, ACCESS_LIST)), (0o640, Err(Errno::NODATA)));
    rustix::fs::removexattr(&dir, ACCESS_LIST).unwrap();
    assert_eq!((mode(&dir), get_list(&dir, ACCESS_LIST)), (0o777, Err(Errno::NODATA)));
    m.end();
}

#[test]
fn default_lists_are_inherited_in_place_of_the_umask() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    let run = |script: &str| {
        let shell = std::process::Command::new("sh").args(["-c", script]).current_dir(m.dir.path()).status();
        assert!(shell.unwrap().success(), "{script}");
    };
    let make = "umask 077; mkdir $D/a; mkfifo $D/p; : > $D/f; ln -s f $D/l";
    let modes = || ["d/a", "d/p", "d/f"].map(|name| fs::metadata(m.path(name)).unwrap().mode() & 0o7777);
    run(&make.replace("$D", "d"));
    assert_eq!(modes(), [0o700, 0o600, 0o600], "without a list the umask counts");
    run("rm -r d/*");
    let all = list([7, 7, 5, 7, 1]);
    rustix::fs::setxattr(m.path("d"), DEFAULT_LIST, &all, XattrFlags::empty()).unwrap();
    run(&make.replace("$D", "d"));
    assert_eq!(modes(), [0o771, 0o660, 0o660]);
    assert_eq!(get_list(&m.path("d/a"), DEFAULT_LIST).unwrap(), all);
    assert_eq!(get_list(&m.path("d/a"), ACCESS_LIST).unwrap(), all);
    for name in ["d/f", "d/p"] {
        assert_eq!(get_list(&m.path(name), ACCESS_LIST).unwrap(), list([6, 7, 5, 6, 0]), "{name}");
    }
    // A named user makes files there, which belong to that user.
    rustix::fs::setxattr(m.path("d"), ACCESS_LIST, &list([7, 7, 0, 7, 0]), XattrFlags::empty()).unwrap();
    let made = as_user(1001, 1003, &[], || fs::write(m.path("d/mine"), b"text"));
    made.unwrap();
    let mine = fs::metadata(m.path("d/mine")).unwrap();
    assert_eq!((mine.uid(), mine.gid(), mine.mode() & 0o777), (1001, 1003, 0o660));
    assert!(as_user(1002, 1003, &[], || fs::write(m.path("d/not"), b"text")).is_err());
    m.end();
}

/// The kernel says so in the request: the server knows no capabilities.
#[test]
fn a_capability_keeps_the_set_group_id_bit_of_a_file_that_gets_a_list() {
    let m = Mounted::new();
    let file = m.path("f");
    for uid in [0, 1001] {
        for keeps in [false, true] {
            fs::write(&file, b"text").unwrap();
            std::os::unix::fs::chown(&file, Some(uid), Some(77)).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o2640)).unwrap();
            let list = list([6, 7, 4, 4, 0]);
            as_keeper(uid, keeps, || {
                rustix::fs::setxattr(&file, ACCESS_LIST, &list, XattrFlags::empty()).unwrap();
            });
            let wanted = if keeps { 0o2640 } else { 0o640 };
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, wanted, "{uid} {keeps}");
        }
    }
    m.end();
}
