//! Bytes that name their writer.
//!
//! Each eight bytes of a file name the operation that wrote them and their offset in the file. So a foreign
//! byte after a crash is noticed wherever it comes from, and a report can name its writer.

/// Stamp of the free space of a prepared volume.
pub(super) const POISON: u32 = 0xff_ffff;
/// Stamp of the file that only takes space.
pub(super) const BALLAST: u32 = 0xff_fffe;
/// Stamps of files of the prepared tree: this and less.
pub(super) const PREPARED: u32 = 0xff_fff0;
/// First byte of each eight.
const MARK: u8 = 0xa7;

fn word(stamp: u32, index: u64) -> [u8; 8] {
    let (s, i) = (stamp.to_le_bytes(), (index as u32).to_le_bytes());
    [MARK, s[0], s[1], s[2], i[0], i[1], i[2], i[3]]
}

/// `len` bytes from byte `offset` of a file on, written by operation `stamp`.
pub(super) fn fill(stamp: u32, offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64).map(|at| word(stamp, at / 8)[(at % 8) as usize]).collect()
}

/// Describes in words the `bytes` at byte `offset` of a file.
pub(super) fn explain(bytes: &[u8], offset: u64) -> String {
    let start = (offset.next_multiple_of(8) - offset) as usize;
    let Some(eight) = bytes.get(start..start + 8) else { return format!("{bytes:02x?}") };
    if bytes.iter().all(|byte| *byte == 0) {
        return "zeros".to_owned();
    }
    if eight[0] != MARK {
        return format!("{eight:02x?}...");
    }
    let stamp = u32::from_le_bytes([eight[1], eight[2], eight[3], 0]);
    let whose = match stamp {
        POISON => "free space's".to_owned(),
        BALLAST => "the ballast's".to_owned(),
        stamp if stamp > PREPARED - 64 => format!("prepared file {}'s", PREPARED - stamp),
        stamp => format!("operation {stamp}'s"),
    };
    let written_for = u64::from(u32::from_le_bytes([eight[4], eight[5], eight[6], eight[7]])) * 8;
    format!("{whose} bytes for offset {written_for} (here: {})", offset + start as u64)
}
