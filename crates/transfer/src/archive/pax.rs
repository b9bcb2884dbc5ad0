//! Records of POSIX pax headers: `length key=value\n`, any byte in a value.

use lanefs::Time;

/// Records in their order. Of several with the same key the last one counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records(pub(crate) Vec<(Vec<u8>, Vec<u8>)>);

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
        Some(Records(records))
    }

    /// Returns the value of the last record with this key; an empty value removes the key.
    pub(crate) fn get(&self, key: &str) -> Option<&[u8]> {
        let found = self.0.iter().rev().find(|(k, _)| k == key.as_bytes());
        found.map(|(_, value)| &value[..]).filter(|value| !value.is_empty())
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
        self.0.push((key.into(), value.into()));
    }

    /// Appends a time.
    pub(crate) fn push_time(&mut self, key: &str, time: Time) {
        let (sign, time) = if time.0 < 0 { ("-", time.0.unsigned_abs()) } else { ("", time.0 as u64) };
        self.push(key, format!("{sign}{}.{:09}", time / 1_000_000_000, time % 1_000_000_000));
    }

    /// Encodes the records as a header's content.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut data = Vec::new();
        for (key, value) in &self.0 {
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
        assert_eq!(back.0.len(), records.0.len());
        for damaged in
            [&b"5 a=b\n6"[..], b"99 a=b\n", b"x a=b\n", b"6 ab_\n", b"18446744073709551615 a=b\n", b"0 a=\n"]
        {
            assert!(Records::parse(damaged).is_none());
        }
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
