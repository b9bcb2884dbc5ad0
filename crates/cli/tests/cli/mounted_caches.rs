//! Changes by a command are visible through the mount at once, in spite of the kernel's caches; and vice
//! versa.

use crate::common::{run, run_with, text};
use crate::mount::Mounted;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};

fn on(m: &Mounted, command: &str, args: &str) {
    let args: Vec<&str> = [command, text(&m.v.image)].into_iter().chain(args.split_whitespace()).collect();
    run(&args).ends(0);
}

fn put(m: &Mounted, path: &str, data: &[u8]) {
    run_with(&["write", text(&m.v.image), path], data).ends(0);
}

fn listed(m: &Mounted, dir: &str) -> Vec<String> {
    let names =
        fs::read_dir(m.path(dir)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn names_that_come_and_go_are_seen() {
    let m = Mounted::new();
    for _ in 0..2 {
        // The kernel now caches that the name is missing.
        assert_eq!(fs::metadata(m.path("f")).unwrap_err().kind(), ErrorKind::NotFound);
    }
    put(&m, "/f", b"one");
    assert_eq!(fs::read(m.path("f")).unwrap(), b"one");
    on(&m, "rm", "/f");
    assert_eq!(fs::metadata(m.path("f")).unwrap_err().kind(), ErrorKind::NotFound);
    // A directory with cached entries below it.
    fs::create_dir_all(m.path("a/b/c")).unwrap();
    fs::write(m.path("a/b/c/f"), "f").unwrap();
    on(&m, "mv", "/a/b /moved");
    assert!(!m.path("a/b").exists() && !m.path("a/b/c/f").exists());
    assert_eq!(fs::read(m.path("moved/c/f")).unwrap(), b"f");
    on(&m, "rm", "-r /moved");
    assert!(!m.path("moved").exists() && !m.path("moved/c/f").exists());
    // The other direction: changes through the mount.
    fs::create_dir(m.path("moved")).unwrap();
    assert_eq!(run(&["ls", text(&m.dir), "/moved"]).ends(0).out(), "");
    fs::rename(m.path("moved"), m.path("back")).unwrap();
    run(&["ls", text(&m.dir), "/moved"]).ends(1);
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn content_sizes_and_modes_that_change_are_seen() {
    let m = Mounted::new();
    fs::write(m.path("f"), vec![b'a'; 100_000]).unwrap();
    let open = File::open(m.path("f")).unwrap();
    let mut cached = vec![0; 100_000];
    open.read_exact_at(&mut cached, 0).unwrap();
    let before = fs::metadata(m.path("f")).unwrap();
    put(&m, "/f", &vec![b'b'; 60_000]);
    let after = fs::metadata(m.path("f")).unwrap();
    assert_eq!((after.ino(), after.size()), (before.ino(), 60_000));
    assert!((after.mtime(), after.mtime_nsec()) > (before.mtime(), before.mtime_nsec()));
    assert!(fs::read(m.path("f")).unwrap() == vec![b'b'; 60_000]);
    // Through the open file.
    assert_eq!(open.metadata().unwrap().size(), 60_000);
    assert_eq!(open.read_at(&mut cached, 0).unwrap(), 60_000);
    assert!(cached[..60_000].iter().all(|byte| *byte == b'b'));
    on(&m, "truncate", "/f --size 10");
    assert_eq!((open.metadata().unwrap().size(), fs::read(m.path("f")).unwrap()), (10, vec![b'b'; 10]));
    on(&m, "chmod", "640 /f");
    on(&m, "chown", "7:8 /f");
    let now = fs::metadata(m.path("f")).unwrap();
    assert_eq!((now.permissions().mode() & 0o7777, now.uid(), now.gid()), (0o640, 7, 8));
    // The other direction: a command reads data written through the mount.
    let write = File::options().write(true).open(m.path("f")).unwrap();
    write.write_all_at(b"mount", 0).unwrap();
    assert_eq!(run(&["cat", text(&m.v.image), "/f"]).ends(0).bytes, b"mountbbbbb");
    fs::set_permissions(m.path("f"), fs::Permissions::from_mode(0o604)).unwrap();
    assert!(run(&["ls", "-l", text(&m.v.image), "/f"]).ends(0).out().contains("rw----r--"));
    drop((open, write));
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn replaced_files_links_and_what_is_still_open() {
    let m = Mounted::new();
    fs::write(m.path("old"), "old").unwrap();
    fs::write(m.path("new"), "new").unwrap();
    fs::hard_link(m.path("old"), m.path("other")).unwrap();
    let open = File::options().read(true).write(true).open(m.path("old")).unwrap();
    assert_eq!(fs::metadata(m.path("other")).unwrap().nlink(), 2);
    // A rename replaces it.
    on(&m, "mv", "/new /old");
    assert_eq!(fs::read(m.path("old")).unwrap(), b"new");
    assert!(!m.path("new").exists());
    assert_eq!((fs::metadata(m.path("other")).unwrap().nlink(), open.metadata().unwrap().nlink()), (1, 1));
    on(&m, "ln", "/other /third");
    assert_eq!(fs::metadata(m.path("other")).unwrap().nlink(), 2);
    on(&m, "rm", "/other /third");
    // The file has no name, and is still open.
    assert_eq!(open.metadata().unwrap().nlink(), 0);
    open.write_all_at(b"kept", 3).unwrap();
    let mut data = [0; 7];
    open.read_exact_at(&mut data, 0).unwrap();
    assert_eq!(&data, b"oldkept");
    drop(open);
    // Symbolic links.
    symlink("old", m.path("link")).unwrap();
    assert_eq!(fs::read_link(m.path("link")).unwrap().to_str(), Some("old"));
    assert_eq!(fs::read(m.path("link")).unwrap(), b"new");
    on(&m, "rm", "/link");
    on(&m, "ln", "-s elsewhere /link");
    assert_eq!(fs::read_link(m.path("link")).unwrap().to_str(), Some("elsewhere"));
    // The name becomes a directory.
    on(&m, "rm", "/old");
    on(&m, "mkdir", "/old");
    assert!(m.path("old").is_dir());
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn listings_that_the_kernel_keeps_are_renewed() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    for number in 0..50 {
        fs::write(m.path(&format!("d/f{number:02}")), "").unwrap();
    }
    for _ in 0..3 {
        assert_eq!(listed(&m, "d").len(), 50);
    }
    let links = fs::metadata(m.path("d")).unwrap().nlink();
    put(&m, "/d/g", b"");
    assert_eq!(listed(&m, "d").len(), 51);
    on(&m, "rm", "/d/f00 /d/f01");
    assert_eq!(listed(&m, "d")[0], "f02");
    on(&m, "mv", "/d/g /d/a");
    assert_eq!((listed(&m, "d").len(), listed(&m, "d")[0].as_str()), (49, "a"));
    on(&m, "mkdir", "/d/sub");
    assert_eq!(fs::metadata(m.path("d")).unwrap().nlink(), links + 1);
    assert!(listed(&m, "d").contains(&"sub".to_string()));
    // An import of many files into a cached directory.
    let from = m.v.host("from");
    fs::create_dir(&from).unwrap();
    (0..2000).for_each(|number| fs::write(from.join(format!("i{number}")), "i").unwrap());
    assert_eq!(listed(&m, "d/sub").len(), 0);
    assert!(!m.path("d/sub/i7").exists());
    run(&["import", text(&m.v.image), text(&from), "/d/sub"]).ends(0);
    assert_eq!(listed(&m, "d/sub").len(), 2000);
    assert_eq!(fs::read(m.path("d/sub/i7")).unwrap(), b"i");
    m.umount().ends(0);
    m.is_clean();
}

#[test]
fn a_mapped_file_shows_what_a_command_wrote() {
    let m = Mounted::new();
    fs::write(m.path("f"), vec![b'a'; 8192]).unwrap();
    // Safe Rust has no mappings, so another process maps the file. It waits for a line between two reads.
    let script = "import mmap,sys\nf=open(sys.argv[1],'rb')\nm=mmap.mmap(f.fileno(),0,mmap.MAP_SHARED,mmap.PROT_READ)\n\
                  print(chr(m[5000]),flush=True)\nsys.stdin.readline()\nprint(chr(m[5000]),flush=True)";
    let child = std::process::Command::new("python3")
        .args(["-c", script, text(&m.path("f"))])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("no python3: mappings are not tried");
        m.umount().ends(0);
        return;
    };
    use std::io::{BufRead, BufReader, Write};
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    put(&m, "/f", &vec![b'b'; 8192]);
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "a\nb\n");
    assert!(child.wait().unwrap().success());
    m.umount().ends(0);
    m.is_clean();
}
