//! Imports have the same result with every engine.

use crate::common::TestVolume;
use std::fs;
use std::path::Path;

/// Small and large files, links of both kinds, empty directories, deep ones.
fn tree(at: &Path) {
    for dir in 0..12 {
        let below = at.join(format!("dir-{dir}")).join("a/b/c".get(..dir % 6).unwrap_or(""));
        fs::create_dir_all(&below).unwrap();
        for file in 0..60 {
            fs::write(below.join(format!("file-{file}")), vec![b'a' + dir as u8; file * file]).unwrap();
        }
    }
    fs::write(at.join("large"), vec![7; 300_000]).unwrap();
    fs::hard_link(at.join("large"), at.join("dir-1/other name")).unwrap();
    std::os::unix::fs::symlink("dir-1/file-3", at.join("link")).unwrap();
    fs::create_dir(at.join("empty")).unwrap();
}

/// Content of a volume: names with types, modes, owners, sizes and times; and the bytes of all files.
fn content(v: &TestVolume) -> (Vec<String>, Vec<u8>) {
    let found = v.run("find", "--engine cpu /in").ends(0).out().to_owned();
    let args = ["--engine", "cpu", "--stat", "--quiet", "--no-follow", "--paths", "-"];
    let ran = v.run_with("lookup", &args, found.as_bytes()).ends(0);
    let mut files = Vec::new();
    let mut lines = Vec::new();
    for line in ran.out().lines() {
        // All columns but the inode number, and the size of directories, which engines may choose.
        let mut columns: Vec<&str> = line.split('\t').collect();
        columns.remove(1);
        match columns[1] {
            "dir" => drop(columns.remove(2)),
            "file" => files.push(columns[columns.len() - 1]),
            _ => {}
        }
        columns.reverse();
        lines.push(columns.join("\t"));
    }
    files.sort_unstable();
    lines.sort();
    let content = v.run_with("cat", &files, b"").ends(0).bytes;
    v.clean();
    (lines, content)
}

#[test]
fn every_engine_imports_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let source = temp.path().join("source");
    tree(&source);
    let source_text = source.to_str().unwrap().to_owned();
    let imported = |more: &[&str]| {
        let v = TestVolume::new();
        // Names that exist already, as files and as a directory.
        v.run("mkdir", "-p /in/dir-0 /in/dir-6/file-9").ends(0);
        v.run_with("write", &["/in/dir-0/file-5"], b"was there").ends(0);
        v.run("touch", "-d 2001-02-03T04:05:06 /in/dir-0/file-5 /in/dir-6/file-9").ends(0);
        let args = [&[source_text.as_str(), "/in", "--json"], more].concat();
        let ran = v.run_with("import", &args, b"").ends(1);
        let mut told: Vec<String> =
            ran.err.lines().filter(|line| !line.contains(" in ")).map(Into::into).collect();
        told.sort();
        let mut counts: serde_json::Value = serde_json::from_str(ran.out()).unwrap();
        for other in ["elapsed_s", "problems"] {
            counts.as_object_mut().unwrap().remove(other);
        }
        (content(&v), told, counts)
    };
    for more in [&[][..], &["--overwrite"]] {
        let by = |engine: &'static str| imported(&[&["--engine", engine], more].concat());
        let by_cpu = by("cpu");
        assert!(by_cpu.2["files"].as_u64().unwrap() > 700, "{}", by_cpu.2);
        // `make setup` gives every machine a device.
        for engine in ["gpu", "auto"] {
            let ((lines, bytes), told, counts) = by(engine);
            assert_eq!(lines.len(), by_cpu.0.0.len(), "{engine} {more:?}");
            let other = lines.iter().zip(&by_cpu.0.0).find(|(line, by_cpu)| line != by_cpu);
            assert_eq!(other, None, "{engine} {more:?}");
            assert!(bytes == by_cpu.0.1, "{engine} {more:?}: contents differ");
            assert_eq!((told, counts), (by_cpu.1.clone(), by_cpu.2.clone()), "{engine} {more:?}");
        }
    }
}

#[test]
fn an_engine_that_is_not_there_imports_nothing() {
    let v = TestVolume::new();
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("file"), "content").unwrap();
    let source = temp.path().to_str().unwrap();
    v.run_with("import", &[source, "/", "--engine", "gpu", "--device", "no such device"], b"").ends(4);
    v.run_with("import", &[source, "/", "--engine", "abacus"], b"").ends(2);
    v.run("ls", "/file").ends(1);
}

#[test]
fn a_file_that_is_kept_is_not_done_and_the_option_is_named() {
    let v = TestVolume::new();
    let source = v.host("file");
    fs::write(&source, "content").unwrap();
    let import = || v.run("import", &format!("{} /", source.display()));
    import().ends(0);
    import().ends(1).says("exists already in the volume (--overwrite replaces it)").says("; 1 not done");
    v.run("export", &format!("/file {}", source.display()))
        .ends(1)
        .says("on the host (--overwrite replaces it)");
}
