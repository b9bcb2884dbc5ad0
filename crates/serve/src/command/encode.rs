//! Encoding of the values in calls and answers. Numbers are little-endian; bytes follow their length.

use lanefs::bulk::{Applied, Change};
use lanefs::{
    Attr, Code, Description, DirEntry, FileKind, Ino, MkdirAll, RenameMode, Resolution, Seek, SetAttr, Time,
    XattrMode,
};

/// A value that messages carry. Decoding takes it from the front of `from`; `None` for bytes that are none.
pub(crate) trait Value<'a>: Sized {
    fn put(&self, to: &mut Vec<u8>);
    fn take(from: &mut &'a [u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl<'a> Value<'a> for $type {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &'a [u8]) -> Option<Self> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$type>::from_le_bytes(*bytes))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i64);

/// Declares how a type is written as another one and read back.
macro_rules! as_other {
    ($($type:ty as $other:ty: |$value:ident| $put:expr, |$taken:ident| $take:expr;)*) => {$(
        impl<'a> Value<'a> for $type {
            fn put(&self, to: &mut Vec<u8>) {
                let $value = self;
                let other: $other = $put;
                other.put(to);
            }

            fn take(from: &mut &'a [u8]) -> Option<Self> {
                let $taken = <$other>::take(from)?;
                $take
            }
        }
    )*};
}

as_other! {
    usize as u64: |value| *value as u64, |taken| usize::try_from(taken).ok();
    bool as u8: |value| u8::from(*value), |taken| (taken < 2).then_some(taken == 1);
    Ino as u64: |value| value.0, |taken| Some(Ino(taken));
    Time as i64: |value| value.0, |taken| Some(Time(taken));
    FileKind as u8: |value| *value as u8, |taken| FileKind::from_number(taken);
    Code as u8: |value| value.number(), |taken| Code::from_number(taken);
    RenameMode as u8:
        |value| *value as u8,
        |taken| RenameMode::ALL.get(usize::from(taken)).copied();
    XattrMode as u8:
        |value| *value as u8,
        |taken| [XattrMode::Set, XattrMode::Create, XattrMode::Replace].get(usize::from(taken)).copied();
    Seek as u8: |value| *value as u8, |taken| [Seek::Data, Seek::Hole].get(usize::from(taken)).copied();
}

impl Value<'_> for () {
    fn put(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut &[u8]) -> Option<Self> {
        Some(())
    }
}

impl<'a> Value<'a> for &'a [u8] {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u32).put(to);
        to.extend_from_slice(self);
    }

    fn take(from: &mut &'a [u8]) -> Option<Self> {
        let len = u32::take(from)? as usize;
        let (bytes, rest) = from.split_at_checked(len)?;
        *from = rest;
        Some(bytes)
    }
}

impl Value<'_> for Vec<u8> {
    fn put(&self, to: &mut Vec<u8>) {
        self.as_slice().put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        <&[u8]>::take(from).map(<[u8]>::to_vec)
    }
}

impl Value<'_> for String {
    fn put(&self, to: &mut Vec<u8>) {
        self.as_bytes().put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        <&[u8]>::take(from).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

impl<'a, T: Value<'a>> Value<'a> for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn take(from: &mut &'a [u8]) -> Option<Self> {
        if bool::take(from)? { T::take(from).map(Some) } else { Some(None) }
    }
}

impl<'a, A: Value<'a>, B: Value<'a>> Value<'a> for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn take(from: &mut &'a [u8]) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

/// Writes the elements of a list after their number.
pub(crate) fn put_list<'a, T: Value<'a>>(list: &[T], to: &mut Vec<u8>) {
    (list.len() as u32).put(to);
    list.iter().for_each(|value| value.put(to));
}

/// Reads a list. Every element is at least one byte, so a false number ends with the bytes.
pub(crate) fn take_list<'a, T: Value<'a>>(from: &mut &'a [u8]) -> Option<Vec<T>> {
    let mut list = Vec::new();
    for _ in 0..u32::take(from)? {
        list.push(T::take(from)?);
    }
    Some(list)
}

macro_rules! lists {
    ($($type:ty),*) => {$(
        impl Value<'_> for Vec<$type> {
            fn put(&self, to: &mut Vec<u8>) {
                put_list(self, to);
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                take_list(from)
            }
        }
    )*};
}

lists!(Vec<u8>, DirEntry, Applied, Option<Description>);

/// Declares a structure by its fields, in the order of the message.
macro_rules! structures {
    ($($type:ident { $($field:ident),* })*) => {$(
        impl Value<'_> for $type {
            fn put(&self, to: &mut Vec<u8>) {
                $(self.$field.put(to);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some($type { $($field: Value::take(from)?),* })
            }
        }
    )*};
}

structures! {
    Attr {
        ino, kind, perm, links, uid, gid, size, blocks, rdev, mtime, ctime, atime, btime, generation
    }
    Description { attr, has_xattrs }
    SetAttr { perm, uid, gid, size, atime, mtime }
    DirEntry { ino, kind, cookie, name }
    MkdirAll { base, perm, perm_above, follow }
    Resolution { code, ino, kind, attr }
    Applied { code, ino }
}

impl<'a> Value<'a> for Change<'a> {
    fn put(&self, to: &mut Vec<u8>) {
        match *self {
            Change::Create { path, perm, data } => {
                1_u8.put(to);
                path.put(to);
                perm.put(to);
                data.put(to);
            }
            Change::Mkdir { path, perm } => {
                2_u8.put(to);
                path.put(to);
                perm.put(to);
            }
            Change::MkdirAll { path, perm } => {
                3_u8.put(to);
                path.put(to);
                perm.put(to);
            }
            Change::Unlink { path } => {
                4_u8.put(to);
                path.put(to);
            }
            Change::Rmdir { path } => {
                5_u8.put(to);
                path.put(to);
            }
            Change::Rename { from, to: new, mode } => {
                6_u8.put(to);
                from.put(to);
                new.put(to);
                mode.put(to);
            }
        }
    }

    fn take(from: &mut &'a [u8]) -> Option<Self> {
        let number = u8::take(from)?;
        let path = <&[u8]>::take(from)?;
        Some(match number {
            1 => Change::Create { path, perm: Value::take(from)?, data: Value::take(from)? },
            2 => Change::Mkdir { path, perm: Value::take(from)? },
            3 => Change::MkdirAll { path, perm: Value::take(from)? },
            4 => Change::Unlink { path },
            5 => Change::Rmdir { path },
            6 => Change::Rename { from: path, to: Value::take(from)?, mode: Value::take(from)? },
            _ => return None,
        })
    }
}

impl Value<'_> for lanefs::Error {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            lanefs::Error::Code(code) => (1_u8, *code).put(to),
            lanefs::Error::At { code, what } => {
                (2_u8, *code).put(to);
                what.put(to);
            }
            lanefs::Error::Damaged { at, why } => {
                (3_u8, *at).put(to);
                why.put(to);
            }
            lanefs::Error::Image { kind, what, why } => {
                (4_u8, *kind as u8).put(to);
                what.put(to);
                why.put(to);
            }
            lanefs::Error::Io { what, source } => {
                5_u8.put(to);
                what.put(to);
                source.raw_os_error().map(|errno| errno as u32).put(to);
            }
            lanefs::Error::WrongData { at, what } => {
                (6_u8, *at).put(to);
                what.put(to);
            }
            lanefs::Error::Expansion { factor } => (7_u8, *factor).put(to),
            lanefs::Error::WriteFailed { what, source } => {
                8_u8.put(to);
                what.put(to);
                source.raw_os_error().map(|errno| errno as u32).put(to);
            }
            // An error that this protocol does not know keeps its code and its text.
            other => {
                (2_u8, other.code()).put(to);
                other.to_string().put(to);
            }
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::take(from)? {
            1 => lanefs::Error::Code(Value::take(from)?),
            2 => lanefs::Error::At { code: Value::take(from)?, what: Value::take(from)? },
            3 => lanefs::Error::Damaged { at: Value::take(from)?, why: Value::take(from)? },
            4 => {
                let kind = lanefs::ErrorKind::from_number(u8::take(from)?)?;
                lanefs::Error::Image { kind, what: Value::take(from)?, why: Value::take(from)? }
            }
            number @ (5 | 8) => {
                let what = Value::take(from)?;
                let errno: Option<u32> = Value::take(from)?;
                let source = errno.map_or_else(
                    || std::io::ErrorKind::Other.into(),
                    |errno| std::io::Error::from_raw_os_error(errno as i32),
                );
                match number {
                    5 => lanefs::Error::Io { what, source },
                    _ => lanefs::Error::WriteFailed { what, source },
                }
            }
            6 => lanefs::Error::WrongData { at: Value::take(from)?, what: Value::take(from)? },
            7 => lanefs::Error::Expansion { factor: Value::take(from)? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn comes_back<T: for<'a> Value<'a> + PartialEq + std::fmt::Debug>(value: T) {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        let mut rest = &bytes[..];
        assert_eq!(T::take(&mut rest), Some(value));
        assert!(rest.is_empty());
        // Every part of the bytes alone is not a value.
        for len in 0..bytes.len() {
            assert_eq!(T::take(&mut &bytes[..len]), None, "{len} of {} bytes", bytes.len());
        }
    }

    #[test]
    fn values_come_back_and_parts_of_them_are_none() {
        let attr = Attr {
            ino: Ino(1 << 40),
            kind: FileKind::Socket,
            perm: 0o7777,
            links: 3,
            uid: u32::MAX,
            gid: 0,
            size: u64::MAX,
            blocks: 7,
            rdev: 1 << 33,
            mtime: Time(-1),
            ctime: Time(i64::MIN),
            atime: Time(i64::MAX),
            btime: Time(0),
            generation: 9,
        };
        comes_back(attr);
        comes_back(vec![None, Some(Description { attr, has_xattrs: true })]);
        comes_back(SetAttr { size: Some(5), atime: Some(Time(-3)), ..SetAttr::default() });
        comes_back(Resolution { code: Code::Success, ino: Some(Ino(2)), kind: None, attr: Some(attr) });
        comes_back(Some((Ino(1), FileKind::Directory)));
        comes_back(vec![DirEntry { ino: Ino(3), kind: FileKind::File, cookie: 8, name: b"n\n".to_vec() }]);
        comes_back(vec![
            Applied { code: Code::Exists, ino: None },
            Applied { code: Code::Success, ino: Some(Ino(4)) },
        ]);
        comes_back(vec![b"a".to_vec(), Vec::new()]);
        for mode in RenameMode::ALL {
            comes_back(mode);
        }
        for mode in [XattrMode::Set, XattrMode::Create, XattrMode::Replace] {
            comes_back(mode);
        }
        comes_back(Seek::Data);
        comes_back(Seek::Hole);
    }

    #[test]
    fn changes_and_errors_come_back() {
        let changes = [
            Change::Create { path: b"a", perm: 0o600, data: b"text" },
            Change::Mkdir { path: b"d", perm: 0o700 },
            Change::MkdirAll { path: b"d/e", perm: 1 },
            Change::Unlink { path: b"" },
            Change::Rmdir { path: b"x" },
            Change::Rename { from: b"a", to: b"b", mode: RenameMode::Exchange },
        ];
        let mut bytes = Vec::new();
        put_list(&changes, &mut bytes);
        assert_eq!(take_list::<Change<'_>>(&mut &bytes[..]).as_deref(), Some(&changes[..]));
        assert_eq!(take_list::<Change<'_>>(&mut &bytes[..bytes.len() - 1]), None);
        assert_eq!(take_list::<Change<'_>>(&mut &u32::MAX.to_le_bytes()[..]), None);

        for error in [
            lanefs::Error::Code(Code::NoSpace),
            lanefs::Error::At { code: Code::Exists, what: "a".into() },
            lanefs::Error::Damaged { at: 9, why: "b".into() },
            lanefs::Error::Image { kind: lanefs::ErrorKind::InUse, what: "c".into(), why: "d".into() },
            lanefs::Error::Io { what: "e".into(), source: std::io::Error::from_raw_os_error(5) },
            lanefs::Error::WriteFailed { what: "f".into(), source: std::io::Error::from_raw_os_error(28) },
            lanefs::Error::Expansion { factor: 100 },
        ] {
            let mut bytes = Vec::new();
            error.put(&mut bytes);
            let back = lanefs::Error::take(&mut &bytes[..]).expect("an error");
            assert_eq!(
                (back.to_string(), back.code(), back.errno()),
                (error.to_string(), error.code(), error.errno())
            );
        }
    }
}
