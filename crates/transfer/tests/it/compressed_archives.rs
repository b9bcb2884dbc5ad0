//! Archives that other programs compress.

use crate::archives::file;
use crate::common::*;
use lanefs_transfer::*;
use std::io::Write;
use std::process::{Command, Stdio};

/// Compresses by a program; `None` where it is not there.
fn compressed(program: &str, arguments: &[&str], data: &[u8]) -> Option<Vec<u8>> {
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = spawned else {
        eprintln!("SKIPPED: no program {program}");
        return None;
    };
    let (mut input, data) = (child.stdin.take().unwrap(), data.to_vec());
    let writer = std::thread::spawn(move || input.write_all(&data).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{program}");
    Some(output.stdout)
}

/// Every format that is read, by the program that writes it.
const FORMATS: [(&str, &[&str]); 8] = [
    ("gzip", &["-c"]),
    ("zstd", &["-qc", "--check"]),
    ("pzstd", &["-qc", "-p", "2"]),
    ("xz", &["-c"]),
    ("xz", &["-c", "-9", "--check=sha256", "--block-size=100KiB"]),
    ("bzip2", &["-c"]),
    ("lz4", &["-qc", "-B4", "-BX"]),
    ("lz4", &["-qc", "-BD", "--content-size"]),
];

fn import(bytes: &[u8]) -> Report {
    let volume = volume(16);
    let source = ArchiveSource::StandardInput(Box::new(std::io::Cursor::new(bytes.to_vec())));
    match import_archive(&volume, source, b"/", &ImportOptions::default(), control()) {
        Ok(report) => {
            assert_sound(&volume);
            if report.stopped.is_none() {
                assert_eq!(volume.read_file("/one").unwrap(), noise(300_000));
            }
            report
        }
        Err(error) => Report { stopped: Some(error), ..Report::default() },
    }
}

#[test]
fn archives_of_every_compression_are_read() {
    let archive = [file(b"one", &noise(300_000)), file(b"two", b"2"), vec![0; 10_240]].concat();
    for (program, arguments) in FORMATS {
        let Some(packed) = compressed(program, arguments, &archive) else { continue };
        let report = import(&packed);
        assert_clean(&report);
        assert_eq!(report.counts.files, 2, "{program} {arguments:?}");

        // In two parts, each compressed alone, with padding after them, and with other bytes after that.
        let (begin, end) = archive.split_at(200_000);
        let parts = [begin, end].map(|part| compressed(program, arguments, part).unwrap()).concat();
        for after in [&b""[..], &[0; 512], b"\0\0\0\0other bytes"] {
            assert_clean(&import(&[&parts[..], after].concat()));
        }
        let other = [&compressed(program, arguments, begin).unwrap()[..], b"other bytes"].concat();
        let text = import(&other).stopped.unwrap().to_string();
        assert!(text.contains("bytes follow that are not data of this kind"), "{program}: {text}");
    }
}

#[test]
fn compressed_archives_that_are_cut_or_damaged_are_errors() {
    let archive = [file(b"one", &noise(300_000)), vec![0; 10_240]].concat();
    for (program, arguments) in FORMATS {
        let Some(packed) = compressed(program, arguments, &archive) else { continue };
        // The last bytes are checksums, which no member needs.
        let ends = [1, 2, 3, 4, 5, 8, 12, 13, 20, 28].map(|count| packed.len() - count);
        let cuts = (1..packed.len()).step_by(30_001).chain(ends);
        for len in cuts {
            let report = import(&packed[..len]);
            assert!(report.stopped.is_some(), "{program} {arguments:?}: cut to {len} of {}", packed.len());
        }
        for at in (packed.len() / 10..packed.len()).step_by(packed.len() / 10) {
            let mut bent = packed.clone();
            bent[at] ^= 0x10;
            assert!(import(&bent).stopped.is_some(), "{program} {arguments:?}: byte {at}");
        }
    }
}

#[test]
fn a_cut_between_two_blocks_of_lz4_is_an_error() {
    // A frame without its end mark: its decoder takes the end of the input for that of the frame.
    let archive = [file(b"one", &noise(300_000)), vec![0; 10_240]].concat();
    let Some(packed) = compressed("lz4", &["-qc", "--no-frame-crc"], &archive) else { return };
    let text = import(&packed[..packed.len() - 4]).stopped.unwrap().to_string();
    assert!(text.contains("lz4: the data end too early"), "{text}");
}

#[test]
fn a_dictionary_beyond_the_limit_is_refused_with_advice() {
    let archive = [file(b"one", &noise(300_000)), vec![0; 10_240]].concat();
    let with = |dictionary: &str| compressed("xz", &["-c", &format!("--lzma2=dict={dictionary}")], &archive);
    let (Some(largest), Some(larger)) = (with("128MiB"), with("192MiB")) else { return };
    assert_clean(&import(&largest));
    let text = import(&larger).stopped.unwrap().to_string();
    assert!(text.contains("larger than 128 MiB") && text.contains("`xz -dc FILE | lanefs"), "{text}");
}

#[test]
fn what_is_not_read_is_refused_with_advice() {
    for (bytes, program) in
        [(&b"LZIP\x01"[..], "lzip"), (b"\x89LZO\0\r\n", "lzop"), (b"\x1f\x9d", "uncompress")]
    {
        let text = import(&[bytes, &[b'x'; 600]].concat()).stopped.unwrap().to_string();
        assert!(text.contains(&format!("`{program} -dc FILE | lanefs import IMAGE -`")), "{text}");
    }
}
