//! Options of `lanefs mount`, as `mount(8)` and `/etc/fstab` write them: those of the mount itself, and those
//! of the program that serves it.

use lanefs_fuse::{Error, Options, Result};

/// Seconds between two questions for a newer version, where none are given.
pub const FOLLOW_SECONDS: u32 = 30;
/// Most seconds between two questions: a week.
const MAX_FOLLOW_SECONDS: u32 = 7 * 86_400;

/// Options of a mount and of its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Those of the mount.
    pub mount: Options,
    /// True to change the options of a mount that exists, instead of mounting.
    pub remount: bool,
    /// Destination of messages, as given: a file, or `syslog`.
    pub log: Option<String>,
    /// Size of the block cache, as given.
    pub cache: Option<String>,
    /// Seconds after which the mount of a publication asks for a newer version of its tag; `None`: never.
    pub follow: Option<u32>,
    /// Directory of the local cache of publications, as given.
    pub cache_dir: Option<String>,
    /// Size of that cache, as given.
    pub cache_size: Option<String>,
    /// True for no such cache.
    pub no_cache: bool,
    /// Server of the store of a publication, as given.
    pub endpoint: Option<String>,
    /// File for the paths of the files that are read, as given.
    pub record: Option<String>,
}

impl MountOptions {
    /// Applies a list in the form of `-o`: `ro,noatime,threads=8`. Of options that contradict each other the
    /// last one counts.
    ///
    /// # Errors
    /// [`Error::Option`] names the option that is unknown or impossible, and the possible ones.
    pub fn apply(&mut self, list: &str) -> Result<()> {
        list.split(',').filter(|option| !option.is_empty()).try_for_each(|option| self.apply_one(option))
    }

    fn apply_one(&mut self, option: &str) -> Result<()> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        match (name, value) {
            ("remount", None) => self.remount = true,
            ("log", Some(log)) => self.log = Some(log.to_owned()),
            ("cache", Some(size)) => self.cache = Some(size.to_owned()),
            ("follow", seconds) => self.follow = Some(seconds.map_or(Ok(FOLLOW_SECONDS), follow_seconds)?),
            ("cache-dir", Some(dir)) => self.cache_dir = Some(dir.to_owned()),
            ("cache-size", Some(size)) => self.cache_size = Some(size.to_owned()),
            ("no-cache", None) => self.no_cache = true,
            ("endpoint", Some(url)) => self.endpoint = Some(url.to_owned()),
            ("record", Some(file)) => self.record = Some(file.to_owned()),
            _ if self.mount.apply_known(option)? => {}
            _ => return Err(unknown(option)),
        }
        Ok(())
    }

    /// Applies options to those of a mount that exists. The others have no effect on it.
    ///
    /// # Errors
    /// Those of `apply`.
    pub fn change(mount: &mut Options, apply: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let mut all = MountOptions { mount: mount.clone(), ..MountOptions::default() };
        apply(&mut all)?;
        *mount = all.mount;
        Ok(())
    }

    /// Returns the options as a list, which [`apply`](Self::apply) accepts.
    pub fn list(&self) -> String {
        let mut list = vec![self.mount.list()];
        list.extend(self.remount.then(|| "remount".to_owned()));
        list.extend(self.log.iter().map(|log| format!("log={log}")));
        list.extend(self.cache.iter().map(|size| format!("cache={size}")));
        list.extend(self.follow.map(|seconds| format!("follow={seconds}")));
        list.extend(self.cache_dir.iter().map(|dir| format!("cache-dir={dir}")));
        list.extend(self.cache_size.iter().map(|size| format!("cache-size={size}")));
        list.extend(self.no_cache.then(|| "no-cache".to_owned()));
        list.extend(self.endpoint.iter().map(|url| format!("endpoint={url}")));
        list.extend(self.record.iter().map(|file| format!("record={file}")));
        list.join(",")
    }
}

/// Parses the seconds between two questions for a newer version.
fn follow_seconds(number: &str) -> Result<u32> {
    let number = number.parse().ok().filter(|number| (1..=MAX_FOLLOW_SECONDS).contains(number));
    number.ok_or_else(|| Error::Option(format!("follow: give seconds from 1 to {MAX_FOLLOW_SECONDS}")))
}

/// Builds the error for an option that is unknown or not supported.
fn unknown(option: &str) -> Error {
    Error::Option(match option.split('=').next().unwrap_or_default() {
        "sync" | "dirsync" => format!("{option}: not supported; use fsync for data that must be durable"),
        _ => format!(
            "{option}: no such option; there are {}, remount, log=FILE, cache=SIZE, follow=SECONDS, \
             cache-dir=DIR, cache-size=SIZE, no-cache, endpoint=URL, record=FILE, and those for mount(8) alone",
            Options::NAMES
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(list: &str) -> MountOptions {
        let mut options = MountOptions::default();
        options.apply(list).unwrap();
        options
    }

    #[test]
    fn options_of_the_server_are_understood_beside_those_of_the_mount() {
        let options = parsed("ro,noatime,nodev,threads=3,log=syslog,cache=1G");
        assert!(options.mount.read_only && !options.mount.devices);
        assert_eq!((options.mount.threads, options.log.as_deref()), (Some(3), Some("syslog")));
        assert_eq!(options.cache.as_deref(), Some("1G"));
        assert_eq!(parsed("follow").follow, Some(FOLLOW_SECONDS));
        let table = parsed("remount,rw,relatime,user_id=0,group_id=0,default_permissions,max_read=1048576");
        assert_eq!(table, MountOptions { remount: true, ..MountOptions::default() });
    }

    #[test]
    fn a_list_can_be_written_and_read_again() {
        for list in [
            "",
            "remount,ro,strictatime",
            "noatime,nodiratime,nodev,threads=7,log=/var/log/x,cache=64M,allow_other,noexec,nosuid",
            "ro,follow=5,cache-dir=/var/cache/l,cache-size=1G,no-cache,endpoint=http://localhost:9000,record=/tmp/t",
        ] {
            assert_eq!(parsed(&parsed(list).list()), parsed(list));
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        for list in ["rw,frobnicate", "threads=0", "sync", "remount=1", "follow=0"] {
            let error = MountOptions::default().apply(list).unwrap_err();
            assert!(error.is_usage(), "{list}");
            let said = list.split([',', '=']).any(|word| error.to_string().starts_with(word));
            assert!(said, "{error}");
        }
    }
}
