//! Paths as bytes: components, parents, names and joining, without any knowledge of a volume.
//!
//! A path is a list of components that slashes separate. Consecutive slashes count as one, and slashes at the
//! end do not count; `.` and `..` are components like any other. An absolute path starts with a slash. All
//! functions borrow from their argument, and none allocates but [`join`].
//!
//! ```
//! use lanefs::path;
//!
//! assert!(path::components("/a//b/").eq([&b"a"[..], b"b"]));
//! assert_eq!(path::split_last("/a/b"), Some((&b"/a"[..], &b"b"[..])));
//! assert_eq!(path::join("/a", "b"), b"/a/b");
//! ```

use lanefs_format::MAX_NAME;

const SLASH: u8 = b'/';

/// The path for an error.
pub(crate) fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Splits a path after its first component: the component, and the rest with the slashes in front of it.
/// `None` for a path without components.
pub(crate) fn split_first(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = path.iter().position(|byte| *byte != SLASH)?;
    let path = &path[start..];
    let end = path.iter().position(|byte| *byte == SLASH).unwrap_or(path.len());
    Some((&path[..end], &path[end..]))
}

/// The components of a path, from left to right.
///
/// ```
/// assert!(lanefs::path::components("a/./b").eq([&b"a"[..], b".", b"b"]));
/// assert_eq!(lanefs::path::components("//").count(), 0);
/// ```
pub fn components<P: AsRef<[u8]> + ?Sized>(path: &P) -> impl Iterator<Item = &[u8]> + Clone {
    path.as_ref().split(|byte| *byte == SLASH).filter(|component| !component.is_empty())
}

/// Splits a path before its last component: the parent, and the component. The parent of a name directly
/// below the root is `/`, and that of a relative path of one component is empty. `None` for a path without
/// components.
///
/// ```
/// use lanefs::path::split_last;
///
/// assert_eq!(split_last("a/b/"), Some((&b"a"[..], &b"b"[..])));
/// assert_eq!(split_last("/a"), Some((&b"/"[..], &b"a"[..])));
/// assert_eq!(split_last("a"), Some((&b""[..], &b"a"[..])));
/// assert_eq!(split_last("/"), None);
/// ```
pub fn split_last<P: AsRef<[u8]> + ?Sized>(path: &P) -> Option<(&[u8], &[u8])> {
    let path = path.as_ref();
    let end = path.iter().rposition(|byte| *byte != SLASH)? + 1;
    let start = memchr::memrchr(SLASH, &path[..end]).map_or(0, |slash| slash + 1);
    // The slashes that end the parent are not part of it, unless it is the root.
    let parent = match path[..start].iter().rposition(|byte| *byte != SLASH) {
        Some(last) => &path[..=last],
        None => &path[..start.min(1)],
    };
    Some((parent, &path[start..end]))
}

/// The parent of a path, as [`split_last`] gives it.
///
/// ```
/// assert_eq!(lanefs::path::parent("/a/b"), Some(&b"/a"[..]));
/// ```
pub fn parent<P: AsRef<[u8]> + ?Sized>(path: &P) -> Option<&[u8]> {
    split_last(path).map(|(parent, _)| parent)
}

/// The last component of a path.
///
/// ```
/// assert_eq!(lanefs::path::file_name("/a/b/"), Some(&b"b"[..]));
/// ```
pub fn file_name<P: AsRef<[u8]> + ?Sized>(path: &P) -> Option<&[u8]> {
    split_last(path).map(|(_, name)| name)
}

/// Appends a name to the path of a directory. With an empty directory the result is the name.
///
/// ```
/// assert_eq!(lanefs::path::join("/", "a"), b"/a");
/// assert_eq!(lanefs::path::join("", "a"), b"a");
/// ```
pub fn join(dir: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Vec<u8> {
    let (dir, name) = (dir.as_ref(), name.as_ref());
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    push(&mut path, name);
    path
}

/// Appends a name to the path of a directory, in place.
pub(crate) fn push(path: &mut Vec<u8>, name: &[u8]) {
    if path.last().is_some_and(|last| *last != SLASH) {
        path.push(SLASH);
    }
    path.extend_from_slice(name);
}

/// True for a name that an entry of a directory can have: 1 to 255 bytes, no slash and no NUL byte, neither
/// `.` nor `..`. A damaged volume or a hostile archive may have others, which would lead their reader out of
/// the directory.
///
/// ```
/// assert!(lanefs::path::is_name("...") && !lanefs::path::is_name(".."));
/// ```
pub fn is_name<N: AsRef<[u8]> + ?Sized>(name: &N) -> bool {
    let name = name.as_ref();
    !matches!(name, b"" | b"." | b"..")
        && name.len() <= MAX_NAME
        && !name.iter().any(|byte| matches!(*byte, 0 | SLASH))
}

/// True for `/`, however many slashes it has.
///
/// ```
/// assert!(lanefs::path::is_root("//") && !lanefs::path::is_root(""));
/// ```
pub fn is_root<P: AsRef<[u8]> + ?Sized>(path: &P) -> bool {
    let path = path.as_ref();
    !path.is_empty() && path.iter().all(|byte| *byte == SLASH)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All paths of up to six bytes out of a slash, a dot and a letter.
    fn paths() -> impl Iterator<Item = Vec<u8>> {
        (0..=6u32).flat_map(|len| {
            (0..3usize.pow(len)).map(move |mut number| {
                let byte = |_| {
                    let byte = b"/.a"[number % 3];
                    number /= 3;
                    byte
                };
                (0..len).map(byte).collect()
            })
        })
    }

    #[test]
    fn a_parent_and_a_name_have_the_components_of_their_path() {
        for path in paths() {
            let all: Vec<_> = components(&path).collect();
            let Some((dir, name)) = split_last(&path) else {
                assert!(all.is_empty(), "{path:?}");
                continue;
            };
            let again: Vec<_> = components(dir).chain([name]).collect();
            assert_eq!(again, all, "{path:?}");
            assert_eq!(dir.first() == Some(&SLASH), path.first() == Some(&SLASH), "{path:?}");
            assert_eq!((parent(&path), file_name(&path)), (Some(dir), Some(name)));
            assert!(components(&join(dir, name)).eq(all), "{path:?}");
        }
    }

    #[test]
    fn names_that_would_leave_the_directory_are_none() {
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; MAX_NAME + 1]] {
            assert!(!is_name(bad), "{bad:?}");
        }
        for good in [&b"..."[..], b" ", b"\xff\n", &[b'x'; MAX_NAME]] {
            assert!(is_name(good), "{good:?}");
        }
    }

    #[test]
    fn a_parent_ends_in_a_slash_only_as_the_root() {
        for path in paths() {
            let Some(dir) = parent(&path) else { continue };
            assert!(dir == b"/" || dir.last() != Some(&SLASH), "{path:?} {dir:?}");
        }
    }

    #[test]
    fn taking_the_first_component_off_again_and_again_gives_all_of_them() {
        for path in paths() {
            let mut rest = &path[..];
            for component in components(&path) {
                let (name, more) = split_first(rest).expect("a component is left");
                assert_eq!(name, component, "{path:?}");
                rest = more;
            }
            assert_eq!(split_first(rest), None, "{path:?}");
        }
    }

    #[test]
    fn a_path_is_the_root_where_it_is_absolute_and_has_no_components() {
        for path in paths() {
            let expected = path.first() == Some(&SLASH) && components(&path).next().is_none();
            assert_eq!(is_root(&path), expected, "{path:?}");
        }
    }
}
