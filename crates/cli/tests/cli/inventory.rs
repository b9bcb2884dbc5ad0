//! `lanefs inventory`.

use crate::common::{Ran, TestVolume, ended, program, run, text, until};
use crate::mount::Mounted;
use lanefs::{Access, Caller, SetAttr, Time, Volume};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

/// The rows of a file by their paths.
fn rows(file: &Path) -> BTreeMap<String, Row> {
    let reader = SerializedFileReader::new(File::open(file).expect("a file")).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row"));
    let rows: Vec<(String, Row)> = rows.map(|row| (string(&row, "path"), row)).collect();
    let (count, map) = (rows.len(), rows.into_iter().collect::<BTreeMap<_, _>>());
    assert_eq!(map.len(), count, "a path comes once");
    map
}

fn field<'r>(row: &'r Row, name: &str) -> &'r Field {
    row.get_column_iter().find(|(column, _)| *column == name).expect(name).1
}

/// A field as text; `-` for a null.
fn string(row: &Row, name: &str) -> String {
    match field(row, name) {
        Field::Str(text) => text.clone(),
        Field::Null => "-".to_string(),
        other => other.to_string(),
    }
}

fn number(row: &Row, name: &str) -> i64 {
    match field(row, name) {
        Field::ULong(number) => *number as i64,
        Field::Long(number) => *number,
        Field::UInt(number) => (*number).into(),
        Field::UShort(number) => (*number).into(),
        other => panic!("{name} is {other:?}"),
    }
}

/// A volume with a tree of several kinds of files.
fn prepare() -> TestVolume {
    let v = TestVolume::new();
    let volume = Volume::open(&v.image, Access::Write).expect("a volume");
    volume.create_dir("/d").expect("made");
    volume.create_dir("/d/deep").expect("made");
    volume.write_file("/d/a", b"content").expect("made");
    volume.write_file("/d/deep/b", b"content").expect("made");
    volume.write_file(b"/d/\xff", b"").expect("made");
    volume.hard_link("/d/a", "/second").expect("made");
    let root = volume.root();
    volume.symlink_at(&Caller::OWNER, root, b"link", b"d").expect("made");
    let set =
        SetAttr { uid: Some(4_000_000_000), perm: Some(0o4711), mtime: Some(Time(-5)), ..SetAttr::default() };
    volume.set_attributes("/d/a", &set).expect("set");
    volume.close().expect("closed");
    v
}

fn inventory(v: &TestVolume, args: &[&str]) -> (BTreeMap<String, Row>, Ran) {
    let out = v.host("v.parquet");
    let ran = run(&[&["inventory", text(&v.image), "-o", text(&out)], args].concat()).ends(0);
    (rows(&out), ran)
}

#[test]
fn an_inventory_has_a_row_for_each_name() {
    let v = prepare();
    let (found, ran) = inventory(&v, &[]);
    assert_eq!((ran.out(), &*ran.err), ("", ""));
    let paths: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(paths, ["/", "/d", "/d/a", "/d/deep", "/d/deep/b", "/d/\u{fffd}", "/link", "/second"]);
    let kinds: Vec<String> = found.values().map(|row| string(row, "type")).collect();
    assert_eq!(kinds, ["dir", "dir", "file", "dir", "file", "file", "symlink", "file"]);
    let a = &found["/d/a"];
    assert_eq!((&*string(a, "parent"), &*string(a, "name"), &*string(a, "path_hex")), ("/d", "a", "-"));
    assert_eq!((number(a, "size"), number(a, "links"), number(a, "mode")), (7, 2, 0o4711));
    assert_eq!((number(a, "uid"), &*string(a, "owner")), (4_000_000_000, "4000000000"));
    assert_eq!(number(a, "inode"), number(&found["/second"], "inode"));
    let volume = Volume::open(&v.image, Access::Read).expect("a volume");
    let attr = volume.resolve("/d/a").expect("there");
    assert_eq!(number(a, "allocated"), attr.blocks as i64 * 4096);
    for (name, time) in
        [("mtime", attr.mtime), ("ctime", attr.ctime), ("atime", attr.atime), ("btime", attr.btime)]
    {
        assert_eq!(number(a, name), time.0, "{name}");
    }
    assert_eq!(string(&found["/d/\u{fffd}"], "path_hex"), "2f642fff");
    let root = &found["/"];
    assert_eq!((&*string(root, "parent"), &*string(root, "name")), ("-", ""));
    assert!(root.get_column_iter().all(|(name, _)| name != "digest"));
}

#[test]
fn hashes_globs_and_a_start_are_options() {
    let v = prepare();
    let hash = lanefs_search::CpuHash::of(b"content");
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let by_device: &[&str] = &["--digest", "--engine", "gpu"];
    for args in [&["--digest"][..], &["--digest", "--threads", "1"], by_device] {
        let (found, _) = inventory(&v, args);
        for path in ["/d/a", "/d/deep/b", "/second"] {
            assert_eq!(string(&found[path], "digest"), hash, "{path}");
        }
        assert_eq!((&*string(&found["/"], "digest"), &*string(&found["/link"], "digest")), ("-", "-"));
    }
    let paths = |args: &[&str]| inventory(&v, args).0.into_keys().collect::<Vec<String>>();
    assert_eq!(paths(&["d/deep"]), ["/d/deep", "/d/deep/b"]);
    assert_eq!(paths(&["/second"]), ["/second"]);
    assert_eq!(paths(&["-g", "!deep", "-g", "!\u{fffd}*", "-g", "!second"])[..3], ["/", "/d", "/d/a"]);
    run(&["inventory", text(&v.image), "/none", "-o", "-"]).ends(1).says("/none");
    run(&["inventory", text(&v.image), "-o", "-", "-g", "a["]).ends(2).says("--glob");
    run(&["inventory", text(&v.image), "-o", text(&v.image)]).ends(2).says("the image itself");
}

#[test]
fn a_large_inventory_is_written_in_groups_and_reads_as_one() {
    let v = TestVolume::sized("256M");
    let volume = Volume::open(&v.image, Access::Write).expect("a volume");
    let made = 140_000;
    let paths: Vec<String> = (0..made).map(|n| format!("/{:03}/{n}", n % 100)).collect();
    let paths: lanefs::PathSet = paths.iter().collect();
    let options = lanefs::WriteMany { make_directories: Some(0o755), ..lanefs::WriteMany::default() };
    let codes = volume.write_many(&options, &paths, b"", &vec![0; made + 1]).expect("made");
    assert!(codes.iter().all(|code| code.number() == 0));
    volume.close().expect("closed");
    let (found, _) = inventory(&v, &[]);
    assert_eq!(found.len(), made + 100 + 1);
    let reader =
        SerializedFileReader::new(File::open(v.host("v.parquet")).expect("a file")).expect("Parquet");
    assert_eq!(reader.metadata().num_row_groups(), 2);
    stopped(&v);
}

/// Stops a command as soon as it has begun its file, if it runs for so long, and finds all of it or nothing.
fn stopped(v: &TestVolume) {
    let dir = v.host("dir");
    fs::create_dir(&dir).expect("a directory");
    let out = dir.join("x.parquet");
    let mut command = program();
    command.args(["inventory", text(&v.image), "--digest", "-o", text(&out)]).stderr(Stdio::null());
    let mut child = command.spawn().expect("started");
    let names = || fs::read_dir(&dir).expect("a directory").count();
    until("the file is made", || names() > 0 || child.try_wait().expect("a child").is_some());
    // It may have ended meanwhile.
    let _ = kill_process(Pid::from_child(&child), Signal::INT);
    let code = ended(&mut child);
    assert!(matches!(code, Some(0 | 130)), "{code:?}");
    assert_eq!((out.exists(), names()), if code == Some(0) { (true, 1) } else { (false, 0) });
}

#[test]
fn standard_output_and_a_mount_give_the_same_rows() {
    let m = Mounted::prepare();
    let image = text(&m.v.image);
    run(&["mkdir", image, "/d"]).ends(0);
    let same = |ran: Ran| {
        fs::write(m.v.host("out"), ran.ends(0).bytes).expect("written");
        rows(&m.v.host("out")).into_keys().collect::<Vec<String>>()
    };
    let expected = same(run(&["inventory", image, "-o", "-"]));
    assert!(expected.contains(&"/d".to_string()));
    m.mount(&[]).ends(0);
    assert_eq!(same(run(&["inventory", image, "-o", "-"])), expected);
    let file = m.v.host("beside.parquet");
    run(&["inventory", image, "-o", text(&file), "--digest"]).ends(0);
    assert!(rows(&file).into_keys().eq(expected));
    m.umount().ends(0);
}
