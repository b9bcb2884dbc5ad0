//! Trees of the command line: a directory of the host, a volume, a publication, an archive.

use super::transfer;
use super::unpacked_tree::UnpackedTree;
use crate::session::expansion;
use crate::session::image::Image;
use crate::session::mounted;
use crate::session::publication::LocationParser;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::interrupt;
use crate::text::bytes;
use crate::text::escape::escape;
use clap::builder::TypedValueParser;
use lanefs::{Access, FileSystem, Volume};
use lanefs_fuse::RemoteVolume;
use lanefs_publish::Location;
use lanefs_transfer::{Error, HostTop, Problem, Side, is_archive_name};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A tree of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeArg {
    /// A directory of the host.
    Host(PathBuf),
    /// A directory of a volume.
    Volume(Image, Vec<u8>),
    /// A tar archive; `-` is standard input.
    Archive(PathBuf),
}

/// Parses a tree. A name that exists on the host is taken as it is, whatever it contains.
#[derive(Clone)]
pub struct TreeParser;

impl TypedValueParser for TreeParser {
    type Value = TreeArg;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<TreeArg, clap::Error> {
        let path = Path::new(value);
        let is_url = Location::is_url(bytes::of(value));
        if !is_url && path.is_dir() {
            return Ok(TreeArg::Host(path.to_owned()));
        }
        if value == "-" || !is_url && is_archive_name(bytes::of(value)) && path.is_file() {
            return Ok(TreeArg::Archive(path.to_owned()));
        }
        let (image, inside) = match split(bytes::of(value)) {
            Some((image, inside)) if is_url || !path.exists() => {
                (bytes::to_path(image).into_os_string(), inside.to_vec())
            }
            _ => (value.to_owned(), b"/".to_vec()),
        };
        let image = match is_url {
            true => LocationParser.parse_ref(command, arg, &image).map(Image::Publication)?,
            false => Image::Path(PathBuf::from(image)),
        };
        Ok(TreeArg::Volume(image, inside))
    }
}

/// Splits `IMAGE:/PATH`; `None` without a path. The `://` of a URL is none.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let ends = |at: &usize| text[*at..].starts_with(b":/") && !text[*at..].starts_with(b"://");
    let at = (1..text.len()).rev().find(ends)?;
    Some((&text[..at], &text[at + 1..]))
}

/// A tree that is open.
pub enum OpenTree<'t> {
    /// A directory of the host.
    Host(HostTop),
    /// A volume of this process.
    Here(Box<Volume>, &'t [u8]),
    /// In the process that serves a mount of it.
    There(Box<RemoteVolume>, &'t [u8]),
    /// An archive that was unpacked.
    Archive(Box<UnpackedTree>),
}

impl TreeArg {
    /// True for a directory of this volume.
    pub fn is_of(&self, image: &Image) -> bool {
        match self {
            TreeArg::Volume(Image::Path(path), _) => path.metadata().is_ok_and(|file| image.is_file(&file)),
            TreeArg::Volume(..) | TreeArg::Host(_) | TreeArg::Archive(_) => false,
        }
    }

    /// True for an archive.
    pub fn is_archive(&self) -> bool {
        matches!(self, TreeArg::Archive(_))
    }

    /// Opens the tree: a volume that is mounted in the process that serves it. `doing` begins the message of
    /// an error of a directory.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&self, doing: &str) -> Result<OpenTree<'_>, Failure> {
        let (image, path) = match self {
            TreeArg::Host(path) => {
                let top = HostTop::open(path, doing).map_err(|error| transfer::failure(&error))?;
                return Ok(OpenTree::Host(top));
            }
            TreeArg::Archive(path) => return UnpackedTree::new(path).map(Box::new).map(OpenTree::Archive),
            TreeArg::Volume(image, path) => (image, &path[..]),
        };
        match image.open(Access::Read) {
            Ok(volume) => {
                image.warn_of_damage(&volume);
                volume.bound_expansion(expansion::DEFAULT);
                find_directory(&volume, image, path, doing)?;
                Ok(OpenTree::Here(Box::new(volume), path))
            }
            Err(failure) => {
                let advice = "give a directory, a volume or a URL (`lanefs import` takes files and archives)";
                let failure = failure.advising_in_place_of_mkfs(advice);
                let mount = mounted::in_place_of(image, failure)?;
                let volume = RemoteVolume::open(&mount, interrupt::raised).map_err(mounted::talk_failure)?;
                find_directory(&volume, image, path, doing)?;
                Ok(OpenTree::There(Box::new(volume), path))
            }
        }
    }
}

/// Finds the directory of a volume, so that an error names the image: the command has another one.
fn find_directory(volume: &dyn FileSystem, image: &Image, path: &[u8], doing: &str) -> Outcome {
    volume.resolve(path).map(drop).map_err(|source| {
        let (path, image) = (lanefs_transfer::shown(path), escape(&image.name()));
        transfer::failure(&Error::Volume { what: format!("{doing} '{path}' of {image}"), source })
    })
}

impl OpenTree<'_> {
    /// Returns the directory, of the host.
    pub fn top(&self) -> Option<&HostTop> {
        match self {
            OpenTree::Host(top) => Some(top),
            OpenTree::Here(..) | OpenTree::There(..) | OpenTree::Archive(_) => None,
        }
    }

    /// Returns the tree for a comparison or a sync.
    pub fn side(&self) -> Side<'_> {
        match self {
            OpenTree::Host(top) => Side::Open(top),
            OpenTree::Here(volume, path) => Side::Volume(&**volume as &dyn FileSystem, path),
            OpenTree::There(volume, path) => Side::Volume(&**volume as &dyn FileSystem, path),
            OpenTree::Archive(tree) => tree.side(),
        }
    }

    /// Takes the problems of an archive.
    pub fn problems(&mut self) -> Vec<Problem> {
        match self {
            OpenTree::Archive(tree) => tree.problems(),
            _ => Vec::new(),
        }
    }

    /// Takes the notes of an archive.
    pub fn notes(&mut self) -> Vec<String> {
        match self {
            OpenTree::Archive(tree) => tree.notes(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_volume_follows_the_last_colon_before_a_slash() {
        assert_eq!(split(b"v.lane"), None);
        assert_eq!(split(b"v.lane:/a/b"), Some((&b"v.lane"[..], &b"/a/b"[..])));
        assert_eq!(split(b"a:/b:/c"), Some((&b"a:/b"[..], &b"/c"[..])));
        assert_eq!(split(b"file:///srv/v"), None);
        assert_eq!(split(b"s3://b/p#tag:/d"), Some((&b"s3://b/p#tag"[..], &b"/d"[..])));
        assert_eq!(split(b":/a"), None);
    }
}
