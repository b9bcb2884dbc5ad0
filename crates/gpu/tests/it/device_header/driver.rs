//! The program that answers by `include/lanefs_device.h`, under AddressSanitizer and
//! UndefinedBehaviorSanitizer, and its requests and answers.

#![allow(dead_code, unreachable_pub, reason = "a module of two programs, each of which uses some of it")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Requests to the program.
#[derive(Default)]
pub struct Requests(Vec<u8>);

impl Requests {
    fn push(&mut self, operation: u8, numbers: [u64; 3], text: &[u8]) {
        self.0.push(operation);
        numbers.iter().for_each(|number| self.0.extend(number.to_le_bytes()));
        self.0.extend(text);
    }

    /// A lookup from a directory on.
    pub fn lookup(&mut self, directory: u64, path: &[u8], follow: bool) {
        self.push(b'L', [directory, u64::from(!follow), path.len() as u64], path);
    }

    /// The attributes of an inode.
    pub fn stat(&mut self, ino: u64) {
        self.push(b'S', [ino, 0, 0], b"");
    }

    /// All extents of a file.
    pub fn extents(&mut self, ino: u64) {
        self.push(b'E', [ino, 0, 0], b"");
    }

    /// All entries of a directory after a cookie.
    pub fn list(&mut self, ino: u64, cookie: u64) {
        self.push(b'D', [ino, cookie, 0], b"");
    }

    /// Some bytes of a file.
    pub fn read(&mut self, ino: u64, offset: u64, len: u64) {
        self.push(b'R', [ino, offset, len], &vec![0xee; len as usize]);
    }
}

/// Answers of the program.
pub struct Answers {
    bytes: Vec<u8>,
    at: usize,
}

impl Answers {
    pub fn of(bytes: Vec<u8>) -> Answers {
        Answers { bytes, at: 0 }
    }

    pub fn number(&mut self) -> u64 {
        let bytes = self.bytes[self.at..self.at + 8].try_into().expect("eight bytes");
        self.at += 8;
        u64::from_le_bytes(bytes)
    }

    pub fn numbers<const N: usize>(&mut self) -> [u64; N] {
        std::array::from_fn(|_| self.number())
    }

    pub fn text(&mut self) -> Vec<u8> {
        let len = self.number() as usize;
        self.at += len;
        self.bytes[self.at - len..self.at].to_vec()
    }

    pub fn is_over(&self) -> bool {
        self.at == self.bytes.len()
    }
}

/// The compiled program, and the place for its files.
pub struct Driver {
    folder: TempDir,
    program: PathBuf,
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/device_header")
}

/// Returns the text of the header.
pub fn header() -> String {
    std::fs::read_to_string(header_path()).expect("the header")
}

pub fn header_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/lanefs_device.h")
}

impl Driver {
    /// The program with the header as it is, compiled once.
    pub fn shared() -> &'static Driver {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        let options = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        DRIVER.get_or_init(|| Driver::with(&header(), &options))
    }

    /// The program with another header, compiled with these options.
    pub fn with(header: &str, options: &[&str]) -> Driver {
        let folder = tempfile::tempdir().expect("a directory for temporary files");
        std::fs::write(folder.path().join("lanefs_device.h"), header).expect("written");
        let program = folder.path().join("driver");
        let done = Command::new("c++")
            .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread"])
            .args(options)
            .arg("-I")
            .arg(folder.path())
            .arg(here().join("driver.cpp"))
            .arg("-o")
            .arg(&program)
            .output()
            .expect("c++ is needed (Debian: apt install g++; make setup does it)");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Driver { folder, program }
    }

    /// Answers requests by a mirror, and a device file table that reads change.
    pub fn output(&self, mirror: &[u8], files: Option<&mut Vec<u8>>, lanes: u32, asked: &Requests) -> Output {
        let place = tempfile::tempdir_in(self.folder.path()).expect("a directory");
        let [at_mirror, at_files, at_requests] =
            ["mirror", "files", "requests"].map(|name| place.path().join(name));
        std::fs::write(&at_mirror, mirror).expect("written");
        std::fs::write(&at_requests, &asked.0).expect("written");
        let mut command = Command::new(&self.program);
        command.arg(&at_mirror);
        match &files {
            Some(bytes) => {
                std::fs::write(&at_files, bytes).expect("written");
                command.arg(&at_files);
            }
            None => drop(command.arg("-")),
        }
        let requests = File::open(&at_requests).expect("requests");
        let done = command.arg(lanes.to_string()).stdin(requests).stderr(Stdio::piped()).output();
        if let Some(bytes) = files {
            *bytes = std::fs::read(&at_files).expect("read");
        }
        done.expect("the driver runs")
    }

    /// The same, where all is well.
    pub fn ask(&self, mirror: &[u8], files: Option<&mut Vec<u8>>, asked: &Requests) -> Answers {
        let done = self.output(mirror, files, 1, asked);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Answers::of(done.stdout)
    }

    /// The answers of a group with so many members, which all have the same.
    pub fn ask_group(
        &self,
        mirror: &[u8],
        files: Option<&mut Vec<u8>>,
        lanes: u32,
        asked: &Requests,
    ) -> Vec<Answers> {
        let done = self.output(mirror, files, lanes, asked);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let mut all = Answers::of(done.stdout);
        let each = (0..lanes).map(|_| Answers::of(all.text())).collect();
        assert!(all.is_over());
        each
    }
}
