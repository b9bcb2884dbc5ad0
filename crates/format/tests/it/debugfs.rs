//! The hash against an outside oracle: `debugfs` of e2fsprogs. Its command takes characters as signed, LaneFS
//! as unsigned, so the names are ASCII, where both agree.

use lanefs_format::{HashSeed, half_md4};
use std::process::Command;

/// Names of every length, with bytes that debugfs' command line takes as they are.
fn names() -> Vec<String> {
    let mut names = vec!["a".to_string(), "lost+found".into(), "README.md".into()];
    names.extend(
        (1..=255).map(|len| (0..len).map(|i| char::from(b'a' + ((i * 7 + len) % 26) as u8)).collect()),
    );
    names
}

#[test]
fn half_md4_equals_debugfs_dx_hash() {
    let seed = "01234567-89ab-cdef-0123-456789abcdef";
    let bytes: Vec<u8> = (0..16)
        .map(|i| u8::from_str_radix(&seed.replace('-', "")[2 * i..2 * i + 2], 16).expect("hex"))
        .collect();
    let seed_words = HashSeed::from_bytes(bytes.try_into().expect("16 bytes"));
    for (flag, words) in [(None, HashSeed::MD4), (Some(seed), seed_words)] {
        let script: String = names()
            .iter()
            .map(|n| match flag {
                None => format!("dx_hash -h half_md4 {n}\n"),
                Some(s) => format!("dx_hash -h half_md4 -s {s} {n}\n"),
            })
            .collect();
        let file =
            std::env::temp_dir().join(format!("lanefs-dx-hash-{}-{}", std::process::id(), flag.is_some()));
        std::fs::write(&file, script).expect("script");
        let out = Command::new("debugfs")
            .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
            .arg("-f")
            .arg(&file)
            .output()
            .expect("debugfs of e2fsprogs is needed by this test; `make setup` installs it");
        let _ = std::fs::remove_file(&file);
        let text = String::from_utf8_lossy(&out.stdout);
        let got: Vec<u32> = text
            .lines()
            .filter_map(|l| l.split(" is 0x").nth(1))
            .map(|l| u32::from_str_radix(l.split(' ').next().unwrap_or(""), 16).expect("a hash"))
            .collect();
        let expected: Vec<u32> = names().iter().map(|n| half_md4(words, n.as_bytes()) & !1).collect();
        assert_eq!(got, expected, "{text}");
    }
}
