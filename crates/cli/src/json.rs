//! Names and attributes as JSON, for every command that offers it.

use crate::{mode, time};
use lanefs::{Attr, FileKind};
use serde_json::{Map, Value};

/// Adds a name to a JSON object: the exact text under `key` if it is UTF-8; otherwise the nearest text there,
/// and the exact bytes in hexadecimal under `key_hex`.
pub fn add_name(object: &mut Map<String, Value>, key: &str, name: &[u8]) {
    match std::str::from_utf8(name) {
        Ok(text) => {
            object.insert(key.to_string(), text.into());
        }
        Err(_) => {
            object.insert(key.to_string(), String::from_utf8_lossy(name).into());
            let hex: String = name.iter().map(|b| format!("{b:02x}")).collect();
            object.insert(format!("{key}_hex"), hex.into());
        }
    }
}

/// Adds the attributes of an inode to a JSON object.
pub fn add_attributes(object: &mut Map<String, Value>, attr: &Attr) {
    let mut put = |key: &str, value: Value| object.insert(key.to_string(), value);
    put("inode", attr.ino.0.into());
    put("type", attr.kind.word().into());
    put("mode", format!("{:04o}", attr.perm).into());
    put("links", attr.links.into());
    put("uid", attr.uid.into());
    put("gid", attr.gid.into());
    put("size", attr.size.into());
    put("blocks", attr.blocks.into());
    if matches!(attr.kind, FileKind::CharDevice | FileKind::BlockDevice) {
        let (major, minor) = mode::device_numbers(attr.rdev);
        put("device", vec![major, minor].into());
    }
    put("mtime", time::decimal(attr.mtime).into());
    put("ctime", time::decimal(attr.ctime).into());
    put("atime", time::decimal(attr.atime).into());
    put("btime", time::decimal(attr.btime).into());
    put("generation", attr.generation.into());
}
