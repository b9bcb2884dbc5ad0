//! Receipts of shards: one line of JSON each, which `publish` writes and `join` reads.

use super::image::Image;
use super::new_file::NewFile;
use crate::terminal::failure::Failure;
use crate::terminal::input::Input;
use crate::text::{bytes, json};
use lanefs_publish::{Hash, Receipt};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Most bytes of a file with receipts.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Returns a receipt as a line, without the line feed.
pub fn line(receipt: &Receipt) -> String {
    json::text(&serde_json::json!({
        "prefix": String::from_utf8_lossy(&receipt.prefix),
        "version": receipt.version.to_string(),
        "uuid": uuid::Uuid::from_bytes(receipt.uuid).to_string(),
        "files": receipt.files,
        "bytes": receipt.bytes,
    }))
}

/// Writes a receipt of `image` to a file, which is there as a whole or as it was. Tasks that run at the same
/// time may write another version each.
///
/// # Errors
/// The host's; the file is the image.
pub fn write(path: &Path, receipt: &Receipt, image: &Image) -> Result<(), Failure> {
    let new = NewFile::create(path, image)?;
    let mut file = new.writer()?;
    let written = file.write_all(format!("{}\n", line(receipt)).as_bytes());
    written.and_then(|()| new.sync()).map_err(|error| new.failure(&error))?;
    new.finish()
}

/// Reads the receipts of a file, `-` for standard input: one a line, and empty lines.
///
/// # Errors
/// The host's; a line that is not a receipt, which is named; a file without a receipt.
pub fn read(path: &Path) -> Result<Vec<Receipt>, Failure> {
    let mut text = Vec::new();
    let read = match path == Path::new("-") {
        true => Input::default().take(MAX_FILE_BYTES + 1).read_to_end(&mut text),
        false => File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)),
    };
    read.map_err(|error| Failure::host(path, &error))?;
    let name = bytes::of_path(path);
    let bad = |place: Vec<u8>, why: &str| {
        let advice = "give files that `lanefs publish --prefix` wrote";
        Failure::usage(place, why, advice)
    };
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(bad(name.to_vec(), "is too large for a file with receipts"));
    }
    let mut receipts = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let place = || [name, format!(":{}", number + 1).as_bytes()].concat();
        receipts.push(parse(line).ok_or_else(|| bad(place(), "is not a receipt of a shard"))?);
    }
    if receipts.is_empty() {
        return Err(bad(name.to_vec(), "has no receipt"));
    }
    Ok(receipts)
}

/// Parses a line. Its words are not trusted: a join checks them.
fn parse(line: &[u8]) -> Option<Receipt> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    let text = |key: &str| value.get(key)?.as_str();
    let number = |key: &str| value.get(key)?.as_u64();
    Some(Receipt {
        prefix: text("prefix")?.as_bytes().to_vec(),
        version: Hash::parse(text("version")?)?,
        uuid: uuid::Uuid::parse_str(text("uuid")?).ok()?.into_bytes(),
        files: number("files")?,
        bytes: number("bytes")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_survive_their_line_and_other_lines_are_refused() {
        let receipt =
            Receipt { prefix: "/é\n".into(), version: Hash::of(b"v"), uuid: [7; 16], files: 3, bytes: 4096 };
        let line = line(&receipt);
        assert!(!line.contains('\n'));
        assert_eq!(parse(line.as_bytes()), Some(receipt));
        for bad in ["", "{}", "[1]", "null", &line[1..], &line.replacen("\"files\":3", "\"files\":-3", 1)] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
