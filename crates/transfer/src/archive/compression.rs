//! Compressions of archives, by name and by content.

/// Compression of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
    Xz,
    Bzip2,
    Lz4,
    /// One that is neither read nor written here.
    Foreign(&'static str),
}

/// Compression in which an archive is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Plain,
    Gzip,
    Zstd,
}

/// Suffixes after `.tar` or alone, in place of `.tar` with a suffix, with their compression.
const SUFFIXES: [(&[u8], &[u8], Compression); 11] = [
    (b".gz", b".tgz", Compression::Gzip),
    (b".zst", b".tzst", Compression::Zstd),
    (b".xz", b".txz", Compression::Xz),
    (b".bz2", b".tbz2", Compression::Bzip2),
    (b".bz", b".tbz", Compression::Bzip2),
    (b".lz4", b".tlz4", Compression::Lz4),
    (b".lz", b".tlz", Compression::Foreign("lzip")),
    (b".lzma", b".tlzma", Compression::Foreign("xz")),
    (b".br", b".tbr", Compression::Foreign("brotli")),
    (b".lzo", b".tzo", Compression::Foreign("lzop")),
    (b".z", b".taz", Compression::Foreign("uncompress")),
];

/// Bytes that tell the compression.
pub(crate) const MAGIC_BYTES: usize = 7;

/// True for a name with the suffix of a tar archive: `.tar`, the same with the suffix of a compression
/// (`.tar.gz`, `.tar.xz`, ...), or a short form (`.tgz`, `.txz`, ...). Not every such archive can be read or
/// written here, but none is meant as a plain file or directory.
pub fn is_archive_name(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let is_archive = |(long, short, _): &(&[u8], &[u8], _)| {
        name.ends_with(short) || name.strip_suffix(*long).is_some_and(|rest| rest.ends_with(b".tar"))
    };
    name.ends_with(b".tar") || SUFFIXES.iter().any(is_archive)
}

impl Written {
    /// The compression in which an archive of this name is written; advice for one that is not written here.
    pub(crate) fn of_name(name: &[u8]) -> Result<Self, &'static str> {
        let name = name.to_ascii_lowercase();
        let ends_in = |ends: &[&[u8]]| ends.iter().any(|end| name.ends_with(end));
        match SUFFIXES.iter().find(|(long, short, _)| ends_in(&[long, short])) {
            Some((.., Compression::Gzip)) => Ok(Written::Gzip),
            Some((.., Compression::Zstd)) => Ok(Written::Zstd),
            Some(_) => Err("this compression is not written here; pipe the archive to its program, as in \
                            `lanefs export IMAGE PATH - | xz > FILE`"),
            None if ends_in(&[b".zip", b".7z", b".rar"]) => {
                Err("only tar archives are written; name the file .tar, .tar.gz or .tar.zst")
            }
            None => Ok(Written::Plain),
        }
    }
}

impl Compression {
    /// The compression of data that begin with these bytes. A plain archive begins with a name, so only bytes
    /// tell a compression that hardly a name has.
    pub(crate) fn of_content(begin: &[u8]) -> Self {
        match begin {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', ..] => Compression::Bzip2,
            // Without content.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, ..] => Compression::Bzip2,
            [0x04, 0x22, 0x4d, 0x18, ..] => Compression::Lz4,
            [b'L', b'Z', b'I', b'P', 1, ..] => Compression::Foreign("lzip"),
            [0x89, b'L', b'Z', b'O', ..] => Compression::Foreign("lzop"),
            [0x1f, 0x9d, ..] => Compression::Foreign("uncompress"),
            _ => Compression::None,
        }
    }

    /// Name in messages: the program that decompresses it.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Compression::None => "cat",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Xz => "xz",
            Compression::Bzip2 => "bzip2",
            Compression::Lz4 => "lz4",
            Compression::Foreign(program) => program,
        }
    }

    /// Advice to have another program decompress an archive. `more` are its further options.
    pub(crate) fn pipe(self, more: &str) -> String {
        let program = self.program();
        format!(
            "decompress it and give the archive on standard input: \
             `{program} -dc{more} FILE | lanefs import IMAGE -`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_plain_archive_are_no_compression() {
        for name in [&b"BZhang/x"[..], b"LZIP-1.0/", b"]\0\0\0\0\0", b"7zXZ/a", b""] {
            assert_eq!(Compression::of_content(name), Compression::None);
        }
    }

    #[test]
    fn suffixes_name_archives_and_their_compression() {
        for name in ["a.TAR", "a.tar.zst", "a.tgz", "a.tar.xz", "a.txz", "a.tar.bz2", "a.tbz2", "a.tar.lz4"] {
            assert!(is_archive_name(name.as_bytes()), "{name}");
        }
        for name in ["a.tar.lz", "a.tar.lzma", "a.tar.Z", "a.tar.lzo", "a.TAR.XZ", "a.tbz"] {
            assert!(is_archive_name(name.as_bytes()), "{name}");
        }
        for name in ["tar", "a.xz", "a.gz", "a.tar.txt", "a.z", "a.zip"] {
            assert!(!is_archive_name(name.as_bytes()), "{name}");
        }
        for (name, compression) in [
            (&b"a.tgz"[..], Written::Gzip),
            (b"a.TAR.GZ", Written::Gzip),
            (b"a.tar.zst", Written::Zstd),
            (b"a.tzst", Written::Zstd),
            (b"a.tar", Written::Plain),
        ] {
            assert_eq!(Written::of_name(name), Ok(compression));
        }
        for refused in [&b"x.tar.xz"[..], b"x.TXZ", b"x.tar.bz2", b"x.zip", b"x.tar.lz4", b"x.tar.Z"] {
            assert!(Written::of_name(refused).is_err());
        }
    }
}
