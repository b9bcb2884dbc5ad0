//! Commands on files and directories of a volume, on good and bad input.

use crate::common::{TestVolume, text};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};

/// A volume with /dir/{a,b,.hidden,sub/c}, a link to a and two names of one file.
fn filled() -> TestVolume {
    let v = TestVolume::new();
    v.run("mkdir", "-p /dir/sub").ends(0);
    for (path, content) in
        [("/dir/a", "alpha\n"), ("/dir/b", "beta\n"), ("/dir/.hidden", ""), ("/dir/sub/c", "gamma\n")]
    {
        v.run_with("write", &[path], content.as_bytes()).ends(0);
    }
    v.run("ln", "-s a /dir/link").ends(0);
    v.run("ln", "/dir/a /dir/twin").ends(0);
    v
}

#[test]
fn ls_lists() {
    let v = filled();
    assert_eq!(v.run("ls", "").ends(0).out(), "dir\n");
    assert_eq!(v.run("ls", "/dir").ends(0).out(), "a\nb\nlink\nsub\ntwin\n");
    assert_eq!(v.run("ls", "-A dir").ends(0).out(), ".hidden\na\nb\nlink\nsub\ntwin\n");
    assert_eq!(v.run("ls", "-a1 dir").ends(0).out(), ".\n..\n.hidden\na\nb\nlink\nsub\ntwin\n");
    assert_eq!(v.run("ls", "-d /dir").ends(0).out(), "/dir\n");
    assert_eq!(v.run("ls", "/dir/b /dir/sub").ends(0).out(), "/dir/b\n\n/dir/sub:\nc\n");
    assert_eq!(v.run("ls", "-R /dir").ends(0).out(), "/dir:\na\nb\nlink\nsub\ntwin\n\n/dir/sub:\nc\n");
    // The order matters: a change of owner drops the set-id bits.
    v.run("chown", "12345:54321 /dir/b").ends(0);
    v.run("chmod", "4751 /dir/b").ends(0);
    v.run("touch", "-d 2026-05-01T09:30 /dir/b").ends(0);
    let long = v.run("ls", "-ln /dir").ends(0);
    let b =
        long.out().lines().find(|line| line.ends_with(" b")).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(b, ["-rwsr-x--x", "1", "12345", "54321", "5", "2026-05-01", "09:30", "b"]);
    assert!(long.out().starts_with("total "));
    assert!(long.out().contains(" link -> a\n"));
    assert!(
        long.out().lines().any(|l| l.starts_with("-rw-r--r-- 2 ") && l.ends_with(" a")),
        "{}",
        long.out()
    );
    let json = v.run("ls", "--json /dir").ends(0);
    let lines: Vec<serde_json::Value> =
        json.out().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[1]["path"], "/dir/b");
    assert_eq!(lines[1]["mode"], "4751");
    assert_eq!(lines[1]["mtime"], "1777627800.000000000");
    assert_eq!(lines[2]["target"], "a");
    // A bad name is reported; the others are listed.
    let mixed = v.run("ls", "/none /dir/sub").ends(1).says("lanefs: /none: not found; ");
    assert_eq!(mixed.out(), "/dir/sub:\nc\n");
}

#[test]
fn stat_shows_everything() {
    let v = filled();
    let stat = v.run("stat", "/dir/link /nix /dir").ends(1).says("/nix");
    assert!(stat.out().contains("/dir/link -> a") && stat.out().contains("drwxr-xr-x"));
    let json: serde_json::Value =
        serde_json::from_str(v.run("stat", "-L --json /dir/link").ends(0).out()).unwrap();
    assert_eq!(
        (json["type"].as_str(), json["size"].as_u64(), json["links"].as_u64()),
        (Some("file"), Some(6), Some(2))
    );
    assert_eq!(json["extents"].as_array().map(Vec::len), Some(0), "in the inode");
    v.run_with("write", &["/blocks"], &[7; 10_000]).ends(0);
    let stat = v.run("stat", "/blocks").ends(0);
    assert!(stat.out().contains("extent  from 0, 12288 bytes at 0x"), "{}", stat.out());
    let json: serde_json::Value =
        serde_json::from_str(v.run("stat", "--json /blocks").ends(0).out()).unwrap();
    assert_eq!(json["extents"][0]["bytes"].as_u64(), Some(12_288));
    let ino = json["inode"].as_u64().or(json["ino"].as_u64()).unwrap();
    v.run("inspect", &format!("inode:{ino}")).ends(0).says("");
}

#[test]
fn cat_and_write() {
    let v = filled();
    assert_eq!(v.run("cat", "/dir/a /dir/none /dir/b").ends(1).says("/dir/none").out(), "alpha\nbeta\n");
    v.run("cat", "/dir").ends(1).says("is a directory");
    v.run("cat", "/dir/a/x").ends(1).says("not a directory");
    let long: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    v.run_with("write", &["/long"], &long).ends(0);
    assert!(v.run("cat", "/long").ends(0).bytes == long);
    v.run_with("write", &["--append", "/long"], b"end").ends(0);
    assert_eq!(v.run("cat", "/long").bytes.len(), long.len() + 3);
    v.run_with("write", &["/long"], b"short").ends(0);
    assert_eq!(v.run("cat", "/long").ends(0).bytes, b"short");
    v.run_with("write", &["/dir"], b"x").ends(1).says("is a directory");
    v.run_with("write", &["/no/where"], b"x").ends(1).says("not found");
    v.run_with("write", &["/new/"], b"x").ends(1);
    v.clean();
}

#[test]
fn tree_draws() {
    let v = filled();
    let expected =
        "/dir\n├── a\n├── b\n├── link -> a\n├── sub\n│   └── c\n└── twin\n\n1 directory, 5 files\n";
    assert_eq!(v.run("tree", "/dir").ends(0).out(), expected);
    assert_eq!(v.run("tree", "-d -L 1 /").ends(0).out(), "/\n└── dir\n\n1 directory\n");
    assert_eq!(v.run("tree", "--json -a /dir").ends(0).out().lines().count(), 8);
    v.run("tree", "/none").ends(1);
}

#[test]
fn find_finds() {
    let v = filled();
    let sorted = |args: &str| {
        let ran = v.run("find", args).ends(0);
        let mut lines: Vec<String> = ran.out().lines().map(str::to_string).collect();
        lines.sort();
        lines.join(" ")
    };
    assert_eq!(sorted("/dir --type d"), "/dir /dir/sub");
    assert_eq!(sorted("/dir --name *c"), "/dir/sub/c");
    assert_eq!(sorted("/dir --iname *C"), "/dir/sub/c");
    assert_eq!(sorted("/dir --path */sub/*"), "/dir/sub/c");
    assert_eq!(sorted("/dir --type l,d --mindepth 1"), "/dir/link /dir/sub");
    assert_eq!(sorted("/dir --maxdepth 1 --type f --size -6"), "/dir/.hidden /dir/b");
    assert_eq!(sorted("/dir --size +5 --type f"), "/dir/a /dir/sub/c /dir/twin");
    assert_eq!(sorted("/dir --empty"), "/dir/.hidden");
    assert_eq!(sorted("/dir --mtime +1"), "");
    v.run("touch", "-d 2001-01-01 /dir/b").ends(0);
    assert_eq!(sorted("/dir --mtime +1"), "/dir/b");
    assert!(!sorted("/dir --newer /dir/b").contains("/dir/b"));
    assert_eq!(v.run("find", "/dir/sub -0").ends(0).bytes, b"/dir/sub\0/dir/sub/c\0");
    assert_eq!(v.run("find", "/dir/sub/c --json").ends(0).out().lines().count(), 1);
    v.run("find", "/none /dir").ends(1).says("/none");
    v.run("find", "--name [ /dir").ends(2);
    v.run("find", "--size lots").ends(2);
    v.run("find", "--newer /none").ends(1);
}

#[test]
fn du_sums_up() {
    let v = TestVolume::new();
    v.run("mkdir", "-p /d/e").ends(0);
    v.run_with("write", &["/d/e/f"], &[1; 100_000]).ends(0);
    v.run_with("write", &["/d/g"], &[1; 50_000]).ends(0);
    v.run("ln", "/d/g /d/h").ends(0);
    v.run("truncate", "-s 0 /empty").ends(0);
    let sum = |args: &str| -> Vec<(u64, String)> {
        let ran = v.run("du", args).ends(0);
        let lines = ran.out().lines().map(|line| {
            let (number, path) = line.split_once('\t').unwrap();
            (number.parse().unwrap(), path.to_string())
        });
        lines.collect()
    };
    let all = sum("/d");
    assert_eq!(all.iter().map(|(_, p)| p.as_str()).collect::<Vec<_>>(), ["/d/e", "/d"]);
    assert!(all[0].0 >= 98 && all[1].0 >= all[0].0 + 48 && all[1].0 < all[0].0 + 2 * 48, "{all:?}");
    assert_eq!(sum("-s /d"), [all[1].clone()]);
    assert_eq!(sum("-d 0 -c /d"), [all[1].clone(), (all[1].0, "total".to_string())]);
    assert_eq!(sum("-a /d/g").len(), 1);
    assert_eq!(sum("-b /d/g")[0].0, 50_000);
    assert!(v.run("du", "-sh /d").ends(0).out().contains('K'));
    assert!(v.run("du", "--json -s /d").ends(0).out().contains("\"bytes\""));
    v.run("du", "/none").ends(1);
}

#[test]
fn mkdir_and_rmdir() {
    let v = TestVolume::new();
    v.run("mkdir", "/a /none/b /c").ends(1).says("/none/b");
    v.run("mkdir", "/a").ends(1).says("exists already");
    v.run("mkdir", "/").ends(1).says("exists already");
    v.run("mkdir", "-p /a /a/b/c/ /x//y/./z").ends(0);
    v.run("mkdir", "-p -m 700 /m/n").ends(0);
    assert!(v.run("ls", "-l /m").ends(0).out().contains("drwx------"));
    v.run("mkdir", "-m rwx /q").ends(2);
    v.run_with("write", &["/file"], b"").ends(0);
    v.run("mkdir", "-p /file/x").ends(1).says("not a directory");
    v.run("mkdir", "/file/x").ends(1).says("not a directory");
    let long = "n".repeat(256);
    v.run("mkdir", &format!("/{long}")).ends(1).says("name too long");
    v.run("mkdir", &format!("-p /{long}")).ends(1).says("name too long");
    v.run("mkdir", &format!("/{}", &long[1..])).ends(0);
    v.run("rmdir", "/a/b /c /file /none")
        .ends(1)
        .says("/a/b: directory not empty")
        .says("/file: not a directory");
    v.run("rmdir", "/a/b/c /a/b /a").ends(0);
    v.run("rmdir", "/").ends(1);
    v.run("mkdir", "").ends(2);
    v.clean();
}

#[test]
fn find_deletes_all_that_it_finds() {
    let v = TestVolume::new();
    let mut script = String::from("mkdir -p /logs/old /logs/kept\ntouch /logs/kept/x.txt /logs/y.txt\n");
    // More names than one command line has room for.
    let name = "n".repeat(200);
    for batch in 0..100 {
        let names: Vec<String> = (0..100).map(|n| format!("/logs/old/{name}{batch}-{n}.log")).collect();
        script += &format!("touch {}\n", names.join(" "));
    }
    v.run_with("shell", &[] as &[&str], script.as_bytes()).ends(0);
    v.run("find", "/logs --name *.log --delete --json").ends(2);
    assert_eq!(v.run("find", "/logs --name *.log --delete").ends(0).out(), "");
    assert_eq!(v.run("find", "/ --type f").ends(0).out(), "/logs/kept/x.txt\n/logs/y.txt\n");
    v.run("find", "/logs --type d --delete").ends(1).says("/logs/kept: directory not empty");
    assert_eq!(v.run("ls", "/logs").ends(0).out(), "kept\ny.txt\n");
    // The root directory is not an entry.
    v.run("find", "/ --delete").ends(0);
    assert_eq!(v.run("find", "").ends(0).out().lines().count(), 1);
    v.clean();
}

#[test]
fn rm_removes() {
    let v = filled();
    v.run("rm", "/dir/a /none /dir/b").ends(1).says("/none: not found");
    assert_eq!(v.run("cat", "/dir/twin").ends(0).out(), "alpha\n");
    v.run("rm", "/dir").ends(1).says("use -r");
    v.run("find", "--maxdepth x").ends(2).says("it is not a whole number");
    v.run("rm", "-f /none").ends(0);
    v.run("rm", "-r /").ends(1).says("/: the root directory cannot be removed; name its entries");
    v.run("rm", "-r /dir/..").ends(1);
    v.run("rm", "-r /dir").ends(0);
    assert_eq!(v.run("ls", "-A").ends(0).out(), "");
    // Wide and deep.
    let script: String = (0..3000).map(|n| format!("mkdir -p /w/d{n}\ntouch /w/f{n} /w/d{n}/x\n")).collect();
    v.run_with("shell", &[] as &[&str], script.as_bytes()).ends(0);
    v.run("mkdir", &format!("-p /w{}", "/n".repeat(1000))).ends(0);
    v.run("rm", "-r /w").ends(0);
    assert_eq!(v.run("find", "/").ends(0).out(), "/\n");
    v.clean();
}

#[test]
fn mv_moves() {
    let v = filled();
    v.run("mv", "/dir/b /dir/c").ends(0);
    assert_eq!(v.run("cat", "/dir/c").ends(0).out(), "beta\n");
    v.run("mv", "-n /dir/c /dir/a").ends(1).says("exists already");
    v.run("mv", "--exchange /dir/c /dir/a").ends(0);
    assert_eq!(v.run("cat", "/dir/c").ends(0).out(), "alpha\n");
    v.run("mv", "--exchange /dir/c /none").ends(1);
    v.run("mv", "/dir/c /none /dir/a /dir/sub").ends(1).says("/none");
    assert_eq!(v.run("ls", "/dir/sub").ends(0).out(), "a\nc\n");
    v.run("mv", "/dir/link /dir/twin /nowhere").ends(1).says("not a directory");
    v.run("mv", "/dir /dir/sub").ends(1).says("cannot move into itself");
    v.run("mv", "/dir/twin /dir/sub/a/x").ends(1);
    v.run("mv", "/dir/twin").ends(2);
    v.run("mkdir", "/empty").ends(0);
    v.run("mv", "-T /dir/sub /empty").ends(0);
    assert_eq!(v.run("ls", "/empty").ends(0).out(), "a\nc\n");
    v.run("mv", "-T /dir /empty").ends(1).says("/empty: directory not empty");
    v.clean();
}

#[test]
fn ln_links() {
    let v = filled();
    v.run("ln", "/dir/b /dir/sub").ends(0);
    assert_eq!(v.run("cat", "/dir/sub/b").ends(0).out(), "beta\n");
    v.run("ln", "/dir /other").ends(1).says("is a directory");
    v.run("ln", "/dir/b /dir/a").ends(1).says("exists already");
    v.run("ln", "-f /dir/b /dir/a").ends(0);
    v.run("ln", "-f /dir/b /dir/b").ends(0);
    assert_eq!(v.run("cat", "/dir/a").ends(0).out(), "beta\n");
    v.run("ln", "-s ../nowhere /dir/dangling").ends(0);
    v.run("cat", "/dir/dangling").ends(1).says("not found");
    v.run_with("write", &["/dir/dangling"], b"x").ends(1).says("without a target");
    v.run("ln", "-s loop /loop").ends(0);
    v.run("cat", "/loop").ends(1).says("symbolic links");
    v.run("ln", "/none /x").ends(1);
    v.clean();
}

#[test]
fn attributes_change() {
    let v = filled();
    v.run("chmod", "-R u=rwX,go= /dir").ends(0);
    assert!(v.run("ls", "-l /dir").out().lines().any(|l| l.starts_with("drwx------") && l.ends_with(" sub")));
    v.run("chmod", "-x /dir/a /none").ends(1).says("/none");
    v.run("chmod", "999 /dir/a").ends(2);
    v.run("chown", "-R 7:8 /dir").ends(0);
    assert!(v.run("ls", "-ln /dir/sub/c").ends(0).out().contains(" 7 8 "));
    v.run("chown", "no-such-user-anywhere /dir").ends(2);
    v.run("touch", "-c /dir/new").ends(0);
    v.run("ls", "/dir/new").ends(1);
    v.run("touch", "/dir/new /none/x").ends(1).says("/none/x");
    v.run("touch", "-m -d @5.5 /dir/new").ends(0);
    assert!(v.run("stat", "--json /dir/new").out().contains("\"mtime\":\"5.500000000\""));
    v.run("touch", "-d soon /dir/new").ends(2);
    v.run("truncate", "-s 1M /dir/a").ends(0);
    assert_eq!(v.run("cat", "/dir/a").ends(0).bytes.len(), 1 << 20);
    v.run("truncate", "-s 2 /dir/a").ends(0);
    assert_eq!(v.run("cat", "/dir/a").ends(0).out(), "al");
    v.run("truncate", "-s 2 /dir").ends(1).says("is a directory");
    v.run("truncate", "-s 200P /dir/a").ends(1).says("too large");
    v.clean();
}

#[test]
fn extended_attributes() {
    let v = filled();
    v.run("xattr", "set user.b 2 /dir/a /none").ends(1).says("/none");
    v.run_with("xattr", &["set", "user.a", "-", "/dir/a"], b"x\ty\xff").ends(0);
    assert_eq!(v.run("xattr", "get user.a /dir/a").ends(0).bytes, b"x\ty\xff");
    assert_eq!(v.run("xattr", "list /dir/a").ends(0).out(), "user.a\nuser.b\n");
    assert_eq!(v.run("xattr", "list --values /dir/a").ends(0).out(), "user.a\tx\\x09y\\xff\nuser.b\t2\n");
    v.run("xattr", "set --create user.a 1 /dir/a").ends(1).says("exists already");
    v.run("xattr", "set --replace user.c 1 /dir/a").ends(1);
    v.run("xattr", "rm user.b /dir/a").ends(0);
    v.run("xattr", "rm user.b /dir/a").ends(1).says("no such attribute");
    v.run("xattr", "get user.b /dir/a").ends(1);
    v.clean();
}

#[test]
fn an_attribute_whose_name_linux_lacks_is_refused_and_an_old_one_stays() {
    let v = filled();
    for name in ["foo", "user", "user.", "trusted.", "security.", "system.nfs4_acl", ""] {
        v.run_with("xattr", &["set", name, "1", "/dir/a"], b"")
            .ends(1)
            .says("Linux has no attributes of this name");
    }
    let long = format!("user.{}", "x".repeat(256));
    v.run("xattr", &format!("set {long} 1 /dir/a"))
        .ends(1)
        .says("the name is too long; use at most 255 bytes");
    assert_eq!(v.run("xattr", "list /dir/a").ends(0).out(), "");
    v.run("xattr", "set system.posix_acl_access junk /dir/a")
        .ends(1)
        .says("the value is not an access control list");
    // The library takes any name, as the command of older versions did.
    let volume = lanefs::Volume::open(&v.image, lanefs::Access::Write).unwrap();
    let ino = volume.resolve("/dir/a").unwrap().ino;
    volume.setxattr(&lanefs::Caller::OWNER, ino, b"foo", b"bar", lanefs::XattrMode::Set).unwrap();
    volume.close().unwrap();
    assert_eq!(v.run("xattr", "get foo /dir/a").ends(0).out(), "bar");
    v.run("xattr", "rm foo /dir/a").ends(0);
    assert_eq!(v.run("xattr", "list /dir/a").ends(0).out(), "");
}

#[test]
fn cp_goes_in_out_and_within() {
    let v = TestVolume::new();
    let src = v.host("src");
    std::fs::create_dir_all(src.join("sub")).unwrap();
    let odd = OsStr::from_bytes(b"odd\n\t\\\xff");
    std::fs::write(src.join(odd), "odd").unwrap();
    std::fs::write(src.join("sub/exe"), "#!").unwrap();
    std::fs::set_permissions(src.join("sub/exe"), std::fs::Permissions::from_mode(0o750)).unwrap();
    std::fs::write(src.join("suid"), "").unwrap();
    std::fs::set_permissions(src.join("suid"), std::fs::Permissions::from_mode(0o4755)).unwrap();
    std::os::unix::fs::symlink("sub/exe", src.join("link")).unwrap();
    let sparse = std::fs::File::create(src.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", 8 << 20).unwrap();
    sparse.set_len(24 << 20).unwrap();
    drop(sparse);
    rustix::fs::mknodat(rustix::fs::CWD, src.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let src_text = text(&src).to_string();
    v.run("cp", &format!("{src_text} :/")).ends(1).says("use -r");
    v.run("cp", &format!("-rp {src_text} :/")).ends(0);
    assert!(v.run("ls", "-l /src/link").ends(0).out().contains(" /src/link -> sub/exe\n"));
    assert!(v.run("ls", "-l /src/suid").ends(0).out().starts_with("-rwsr-xr-x "));
    // 24 MiB of holes take almost no space.
    assert!(v.run("du", "-s /src").ends(0).out().split('\t').next().unwrap().parse::<u64>().unwrap() < 200);
    v.run("cp", "-r :/src :/again").ends(0);
    v.run("cp", "-r :/src :/src/sub").ends(1).says("into itself");
    v.run("cp", ":/src/sub/exe :/src/sub/exe").ends(1).says("same file");
    let back = v.host("back");
    v.run("cp", &format!("-rp :/again {}", text(&back))).ends(0);
    assert_eq!(std::fs::read(back.join(odd)).unwrap(), b"odd");
    assert_eq!(std::fs::read_link(back.join("link")).unwrap().to_str(), Some("sub/exe"));
    assert!(std::fs::symlink_metadata(back.join("pipe")).unwrap().file_type().is_fifo());
    assert_eq!(std::fs::metadata(back.join("sub/exe")).unwrap().mode() & 0o7777, 0o750);
    assert!(std::fs::read(back.join("sparse")).unwrap() == std::fs::read(src.join("sparse")).unwrap());
    let blocks = std::fs::metadata(back.join("sparse")).unwrap().blocks();
    assert!(blocks < 1024, "the holes became {blocks} blocks");
    v.run("cp", &format!("-rp :/src/. {}", text(&v.host("times")))).ends(0);
    for name in ["sub/exe", "sub"] {
        let time = |dir: &std::path::Path| std::fs::metadata(dir.join(name)).unwrap().mtime_nsec();
        assert_eq!(time(&v.host("times")), time(&src), "{name}");
    }
    v.clean();
}

#[test]
fn cp_reports_and_goes_on() {
    let v = TestVolume::new();
    let host = v.host("h");
    std::fs::create_dir(&host).unwrap();
    std::fs::write(host.join("good"), "good").unwrap();
    let good = text(&host.join("good")).to_string();
    v.run("cp", "/etc/hosts /tmp").ends(2).says("colon");
    v.run("mkdir", "/d").ends(0);
    // Reading this file fails for everyone, root included.
    v.run("cp", &format!("/proc/self/mem /no/such/file {good} :/d"))
        .ends(4)
        .says("/proc/self/mem")
        .says("/no/such/file");
    assert_eq!(v.run("ls", "/d").ends(0).out(), "good\n");
    v.run("cp", &format!("{good} {good} :/none")).ends(1).says(":/none: not a directory");
    // An existing file is replaced, or with -n left unchanged.
    std::fs::write(host.join("new"), "new").unwrap();
    let new = text(&host.join("new")).to_string();
    v.run("cp", &format!("-n {new} :/d/good")).ends(0);
    assert_eq!(v.run("cat", "/d/good").out(), "good");
    v.run("cp", &format!("{new} :/d/good")).ends(0);
    assert_eq!(v.run("cat", "/d/good").out(), "new");
    // A file has the name of a directory, and vice versa.
    v.run("mkdir", "-p /t/good").ends(0);
    v.run("cp", &format!("-r :/t/good {good}")).ends(1).says("is not a directory");
    v.run("cp", &format!("{good} :/t")).ends(1).says("is a directory");
    // A link of the volume must not lead a copy out of its target.
    let outside = v.host("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::create_dir(v.host("target")).unwrap();
    std::os::unix::fs::symlink(&outside, v.host("target/x")).unwrap();
    v.run("mkdir", "-p /evil/x").ends(0);
    v.run_with("write", &["/evil/x/file"], b"x").ends(0);
    v.run("cp", &format!("-r :/evil/. {}", text(&v.host("target")))).ends(1).says("is not a directory");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    // The image itself is neither read nor written.
    v.run("mkdir", "/host").ends(0);
    v.run("cp", &format!("-r {} :/host", text(v.dir.path()))).ends(1).says("left out");
    assert!(v.run("find", "/host --name new").ends(0).out().ends_with("/h/new\n"));
    v.run("cp", &format!(":/d/good {}", text(&v.image))).ends(1).says("choose another target");
    v.run("cp", "/proc/version :/version").ends(0);
    assert!(!v.run("cat", "/version").ends(0).bytes.is_empty());
    v.clean();
}

#[test]
fn a_full_volume_says_so_and_stays_clean() {
    let v = TestVolume::sized("16M");
    v.run_with("write", &["/kept"], b"kept").ends(0);
    let big = vec![7u8; 40 << 20];
    v.run_with("write", &["/big"], &big).ends(1).says("/big: no space left").says("lanefs grow");
    assert_eq!(v.run("ls", "").ends(0).out(), "kept\n");
    let host = v.host("big");
    std::fs::write(&host, &big).unwrap();
    v.run("cp", &format!("{} :/big", text(&host))).ends(1).says("no space left");
    assert_eq!(v.run("ls", "").ends(0).out(), "kept\n");
    v.clean();
    v.run("grow", "64M").ends(0);
    v.run("cp", &format!("{} :/big", text(&host))).ends(0);
    assert!(v.run("cat", "/big").ends(0).bytes == big);
    v.clean();
}

#[test]
fn any_bytes_in_names_survive() {
    let v = TestVolume::new();
    let names: [&[u8]; 5] = [b"a\nb", b"tab\there", b"back\\slash", b"\xff\xfe", "ü 漢".as_bytes()];
    for name in names {
        let path = [b"/", name].concat();
        v.run_with("write", &[OsStr::from_bytes(&path)], name).ends(0);
        assert_eq!(v.run_with("cat", &[OsStr::from_bytes(&path)], b"").ends(0).bytes, name);
    }
    let mut sorted: Vec<&[u8]> = names.to_vec();
    sorted.sort();
    assert_eq!(v.run("ls", "").ends(0).bytes, [sorted.join(&b'\n'), b"\n".to_vec()].concat());
    let escaped = v.run("ls", "-b").ends(0);
    assert_eq!(escaped.out(), "a\\x0ab\nback\\\\slash\ntab\\x09here\nü 漢\n\\xff\\xfe\n");
    let json: Vec<serde_json::Value> =
        v.run("ls", "--json").ends(0).out().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(json[0]["name"], "a\nb");
    assert_eq!(json[4]["name_hex"], "fffe");
    let none = v.run_with("cat", &[OsStr::from_bytes(b"/x\n\xff")], b"").ends(1);
    assert!(none.err.starts_with("lanefs: /x\\x0a\\xff: not found"), "{}", none.err);
    v.clean();
}

#[test]
fn removing_goes_on_after_reopening() {
    let v = TestVolume::new();
    let mut script = String::from("mkdir /a /b\n");
    for dir in ["a", "b"] {
        for start in (0..2000).step_by(100) {
            let names: Vec<String> = (start..start + 100).map(|n| format!("/{dir}/f{n}")).collect();
            script += &format!("touch {}\n", names.join(" "));
        }
    }
    v.run_with("shell", &[] as &[&str], script.as_bytes()).ends(0);
    v.run("rm", "-r /a").ends(0);
    v.run("rm", "-r /b").ends(0);
    assert_eq!(v.run("find", "/").ends(0).out(), "/\n");
    v.clean();
}
