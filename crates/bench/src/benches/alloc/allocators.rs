//! The allocators, and the positions of their libraries.

use crate::error::{Error, Result};
use crate::measure::values::LANEFS;
use std::path::{Path, PathBuf};

/// The C library's own allocator, which needs no preloaded library.
const GLIBC: &str = "glibc";
/// Google's allocator, which comes from the distribution.
pub(super) const TCMALLOC: &str = "tcmalloc";
const TCMALLOC_FILE: &str = "libtcmalloc_minimal.so.4";
/// Variable that names the folder of the peers' libraries, if it is not beside the program's.
const PEERS_VARIABLE: &str = "LANEFS_PEERS";
pub(super) const MIMALLOC: &str = "mimalloc";
/// Peers that `peers/` of the repository builds.
const BUILT: [&str; 4] = [MIMALLOC, "jemalloc", "snmalloc", "rpmalloc"];
/// Number of all peers.
pub(super) const PEERS: usize = BUILT.len() + 2;

/// An allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allocator {
    pub(super) name: &'static str,
    /// Library to preload; `None`: none.
    pub(super) library: Option<PathBuf>,
}

/// Allocators that can be measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AvailableAllocators {
    /// Allocators, LaneFS's first.
    pub(super) allocators: Vec<Allocator>,
    /// Absent peers, each with the remedy.
    pub(super) notes: Vec<String>,
}

/// Folders in which libraries are searched.
pub(super) struct LibraryPaths {
    /// The program; LaneFS's library lies beside it.
    pub(super) program: PathBuf,
    /// Folder of the libraries of `peers/`.
    pub(super) peers: PathBuf,
    /// Folders of the distribution's libraries; each of their subdirectories as well.
    pub(super) system: Vec<PathBuf>,
}

impl LibraryPaths {
    /// Returns the folders for this program.
    pub(super) fn of(program: PathBuf) -> Self {
        let folder = program.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let peers = std::env::var_os(PEERS_VARIABLE).map(PathBuf::from);
        let peers = peers.unwrap_or_else(|| folder.join("../peers/release"));
        LibraryPaths {
            program,
            peers,
            system: ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(Into::into).into(),
        }
    }

    /// Finds all libraries.
    ///
    /// # Errors
    /// [`Error::Library`] without the library of LaneFS.
    pub(super) fn find(&self) -> Result<AvailableAllocators> {
        let mut found = AvailableAllocators::default();
        let own = self.program.with_file_name("liblanefs_alloc.so");
        if !own.is_file() {
            return Err(Error::Library(format!(
                "there is no {}; `cargo build --release -p lanefs-alloc-c` builds it, `make bench-alloc` that and all peers",
                own.display()
            )));
        }
        found.allocators.push(Allocator { name: LANEFS, library: Some(own) });
        found.allocators.push(Allocator { name: GLIBC, library: None });
        for name in BUILT {
            let library = self.peers.join(format!("libpeer_{name}.so"));
            found.add(
                name,
                Some(&library).filter(|library| library.is_file()),
                &format!("there is no {}; `make bench-alloc` builds it", library.display()),
            );
        }
        found.add(
            TCMALLOC,
            self.system_library(TCMALLOC_FILE).as_ref(),
            &format!("there is no {TCMALLOC_FILE}; on Debian: apt-get install libtcmalloc-minimal4"),
        );
        Ok(found)
    }

    fn system_library(&self, file: &str) -> Option<PathBuf> {
        let below = |folder: &PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = self.system.iter().flat_map(|folder| {
            [folder.clone()].into_iter().chain(below(folder).map(|entry| entry.path()).filter(|p| p.is_dir()))
        });
        folders.map(|folder| folder.join(file)).find(|path| path.is_file())
    }
}

impl AvailableAllocators {
    fn add(&mut self, name: &'static str, library: Option<&PathBuf>, absent: &str) {
        match library {
            Some(library) => self.allocators.push(Allocator { name, library: Some(library.clone()) }),
            None => self.notes.push(format!("{name} is left out: {absent}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn libraries_are_found_and_absent_ones_told() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        let paths = LibraryPaths {
            program: root.join("release/lanefs-bench"),
            peers: root.join("release/../peers/release"),
            system: vec![root.join("nowhere"), root.join("lib")],
        };
        for folder in ["release", "peers/release", "lib/some-linux-gnu"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let refused = paths.find().unwrap_err();
        assert!(refused.to_string().contains("cargo build --release -p lanefs-alloc-c"), "{refused}");
        assert_eq!(refused.exit_code(), crate::error::EXIT_ERROR);

        let own = root.join("release/liblanefs_alloc.so");
        fs::write(&own, "").unwrap();
        let found = paths.find().unwrap();
        let names = |found: &AvailableAllocators| {
            found.allocators.iter().map(|a| a.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&found), "lanefs glibc");
        assert_eq!(found.notes.len(), PEERS - 1);
        assert!(
            found.notes[0].contains("mimalloc is left out") && found.notes[0].contains("make bench-alloc")
        );
        assert!(found.notes[4].contains("libtcmalloc-minimal4"));
        assert_eq!(found.allocators[0].library, Some(own));

        fs::write(root.join("peers/release/libpeer_snmalloc.so"), "").unwrap();
        fs::write(root.join("lib/some-linux-gnu").join(TCMALLOC_FILE), "").unwrap();
        let found = paths.find().unwrap();
        assert_eq!(names(&found), "lanefs glibc snmalloc tcmalloc");
        assert_eq!(found.notes.len(), PEERS - 3);
    }
}
