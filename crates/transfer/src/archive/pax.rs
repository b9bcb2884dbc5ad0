//! Records of POSIX pax headers: `length key=value\n`, any byte in a value.

use lanefs::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most bytes of global records that are kept; each counts some more than it has.
const MAX_GLOBAL_BYTES: usize = 1 << 20;
/// Bytes that a record takes besides its key and value, about.
const RECORD_BYTES: usize = 64;

/// Records in their order. Of several with the same key the last one counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    own: Vec<(Vec<u8>, Vec<u8>)>,
    /// The records of all members, before those of this one.
    global: Arc<BTreeMap<Vec<u8>, Vec<u8>>>,
}

/// The records of all members that follow. A later one takes the place of one with the same key.
#[derive(Debug, Default)]
pub(crate) struct GlobalRecords {
    records: Arc<BTreeMap<Vec<u8>, Vec<u8>>>,
    bytes: usize,
}

impl GlobalRecords {
    /// Adds the records of a global header; `None` where they are too many to keep.
    pub(crate) fn add(&mut self, records: Records) -> Option<()> {
        let all = Arc::make_mut(&mut self.records);
        for (key, value) in records.own {
            let key_bytes = key.len() + RECORD_BYTES;
            self.bytes += key_bytes + value.len();
            if let Some(old) = all.insert(key, value) {
                self.bytes -= key_bytes + old.len();
            }
            if self.bytes > MAX_GLOBAL_BYTES {
                // Where the archive is read on, none of them counts.
                *self = GlobalRecords::default();
                return None;
            }
        }
        Some(())
    }
}

impl Records {
    /// Parses a header's content; `None` where it is damaged.
    pub(crate) fn parse(mut data: &[u8]) -> Option<Self> {
        let mut records = Vec::new();
        while !data.is_empty() && data[0] != 0 {
            let space = data.iter().position(|byte| *byte == b' ')?;
            let len: usize = std::str::from_utf8(&data[..space]).ok()?.parse().ok()?;
            let record = data.get(space + 1..len)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|byte| *byte == b'=')?;
            records.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
            data = &data[len..];
        }
        Some(Records { own: records, global: Arc::default() })
    }

    /// The records of a member, with those of all members before them.
    pub(crate) fn with_global(self, global: &GlobalRecords) -> Self {
        Records { global: global.records.clone(), ..self }
    }

    /// True without any record.
    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.global.is_empty()
    }

    /// All records, those of all members first.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Vec<u8>, &Vec<u8>)> {
        self.global.iter().chain(self.own.iter().map(|(key, value)| (key, value)))
    }

    /// Returns the value of the last record with this key; an empty value removes the key.
    pub(crate) fn get(&self, key: &str) -> Option<&[u8]> {
        let own = self.own.iter().rev().find(|(k, _)| k == key.as_bytes()).map(|(_, value)| value);
        let found = own.or_else(|| self.global.get(key.as_bytes()));
        found.map(|value| &value[..]).filter(|value| !value.is_empty())
    }

    /// Returns the value of a record as a number.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        std::str::from_utf8(self.get(key)?).ok()?.parse().ok()
    }

    /// Returns the value of a record as a time: seconds with any number of decimals, possibly negative.
    pub(crate) fn time(&self, key: &str) -> Option<Time> {
        let text = std::str::from_utf8(self.get(key)?).ok()?;
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        // `parse` would accept a second sign.
        if !seconds.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let seconds: i64 = seconds.parse().ok()?;
        let nanoseconds: i64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
        let total = seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
        Some(Time(if negative { -total } else { total }))
    }

    /// Appends a record.
    pub(crate) fn push(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.own.push((key.into(), value.into()));
    }

    /// Appends a time.
    pub(crate) fn push_time(&mut self, key: &str, time: Time) {
        let (sign, time) = if time.0 < 0 { ("-", time.0.unsigned_abs()) } else { ("", time.0 as u64) };
        self.push(key, format!("{sign}{}.{:09}", time / 1_000_000_000, time % 1_000_000_000));
    }

    /// Encodes the member's own records as a header's content.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut data = Vec::new();
        for (key, value) in &self.own {
            // The length counts its own digits.
            let rest = key.len() + value.len() + 3;
            let mut len = rest + 1;
            while rest + len.to_string().len() != len {
                len = rest + len.to_string().len();
            }
            data.extend_from_slice(format!("{len} ").as_bytes());
            data.extend_from_slice(key);
            data.push(b'=');
            data.extend_from_slice(value);
            data.push(b'\n');
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_whatever_their_bytes() {
        let mut records = Records::default();
        for len in [0, 1, 3, 4, 85, 90, 91, 92, 990, 991, 9_990] {
            records.push(format!("key{len}"), vec![b'\n'; len]);
        }
        records.push("SCHILY.xattr.user.a=b", [0_u8, 255, 61]);
        let back = Records::parse(&records.encode()).unwrap();
        assert_eq!(back.get("key9990").unwrap().len(), 9_990);
        // A '=' in a key looks like the one that ends the key: a limit of the format.
        assert_eq!(back.get("SCHILY.xattr.user.a").unwrap(), b"b=\x00\xff=");
        assert_eq!(back.own.len(), records.own.len());
        for damaged in
            [&b"5 a=b\n6"[..], b"99 a=b\n", b"x a=b\n", b"6 ab_\n", b"18446744073709551615 a=b\n", b"0 a=\n"]
        {
            assert!(Records::parse(damaged).is_none());
        }
    }

    #[test]
    fn global_records_are_replaced_shared_and_bounded() {
        let records = |key: String, value: &[u8]| {
            let mut records = Records::default();
            records.push(key, value);
            records
        };
        let mut global = GlobalRecords::default();
        for round in 0..1000 {
            let value = vec![b'0' + (round % 10) as u8; 100_000];
            assert!(global.add(records("comment".into(), &value)).is_some());
        }
        let member = records("path".into(), b"a").with_global(&global);
        assert!(Arc::ptr_eq(&member.global, &global.records));
        assert_eq!((member.get("comment").unwrap()[0], member.get("path")), (b'9', Some(&b"a"[..])));
        assert_eq!((member.all().count(), member.is_empty()), (2, false));
        // An own value counts, and an empty one removes that of all members.
        assert_eq!(records("comment".into(), b"").with_global(&global).get("comment"), None);
        drop(member);
        let added = (0..100_000).take_while(|number| global.add(records(number.to_string(), b"")).is_some());
        assert!(added.count() < MAX_GLOBAL_BYTES / RECORD_BYTES);
        assert!(global.add(records("large".into(), &vec![0; MAX_GLOBAL_BYTES])).is_none());
    }

    #[test]
    fn times_keep_their_nanoseconds() {
        for time in [0, 1, -1, 1_700_000_000_123_456_789, -5_000_000_001] {
            let mut records = Records::default();
            records.push_time("mtime", Time(time));
            assert_eq!(records.time("mtime"), Some(Time(time)), "{time}");
        }
        let mut records = Records::default();
        records.push("mtime", "12.5");
        assert_eq!(records.time("mtime"), Some(Time(12_500_000_000)));
        for bad in ["", "x", "1.x", "--1", "9999999999999999999999"] {
            records.push("mtime", bad);
            assert_eq!(records.time("mtime"), None);
        }
    }
}
