//! Options of a mount, as `mount(8)` and `/etc/fstab` write them.

use crate::error::{Error, Result};
use lanefs::AccessTimes;
use std::path::PathBuf;

/// Way of requests from the kernel to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The device `/dev/fuse`.
    #[default]
    Device,
    /// Rings (FUSE over io_uring), a queue for each processor.
    Uring,
}

impl Transport {
    /// All ways, with their names.
    const NAMES: [(&str, Transport); 2] = [("dev", Transport::Device), ("uring", Transport::Uring)];
}

/// Options of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// True to refuse all changes.
    pub read_only: bool,
    /// Rule by which reading changes times of access.
    pub access_times: AccessTimes,
    /// True where that rule holds for directories, too; otherwise their times of access stay.
    pub directory_access_times: bool,
    /// True to let other users use the mount, as far as permissions allow. Mounts of root always do.
    pub allow_other: bool,
    /// True to execute no commands of clients on the volume: it is reached through the kernel only.
    pub no_commands: bool,
    /// True to let device files act as devices.
    pub devices: bool,
    /// True to honour set-id bits.
    pub set_id: bool,
    /// True to let programs be executed.
    pub execute: bool,
    /// Number of threads that serve the kernel, from 1 to 256; `None` for the default.
    pub threads: Option<usize>,
    /// Way of requests from the kernel.
    pub transport: Transport,
    /// Source that the table of mounts shows: the image.
    pub source: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            read_only: false,
            access_times: AccessTimes::Relative,
            directory_access_times: true,
            allow_other: false,
            no_commands: false,
            devices: true,
            set_id: true,
            execute: true,
            threads: None,
            transport: Transport::Device,
            source: PathBuf::from("lanefs"),
        }
    }
}

/// Options for `mount(8)`, systemd and the boot process, which a file system ignores.
const IGNORED: [&str; 20] = [
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "_netdev",
    "nofail",
    "async",
    "norelatime",
    "acl",
    "default_permissions",
    "loud",
    "silent",
    // Times are written with the next commit, at the latest after seconds, whatever is asked for.
    "lazytime",
    "nolazytime",
    "nomand",
    "seclabel",
];

/// Options with a value that a file system ignores. mount(8) repeats those of the kernel's table when it
/// mounts again.
const IGNORED_WITH_VALUE: [&str; 9] =
    ["user", "comment", "helper", "uhelper", "user_id", "group_id", "rootmode", "max_read", "blksize"];

/// Largest accepted number of threads.
const MAX_THREADS: usize = 256;

impl Options {
    /// The options, for messages.
    pub const NAMES: &str = "ro, rw, noatime, nodiratime, relatime, strictatime, allow_other, nocommands, nodev, \
                             nosuid, noexec, threads=N, transport=dev|uring";

    /// Applies a list in the form of `-o`: `ro,noatime,threads=8`. Of options that contradict each other the
    /// last one counts.
    ///
    /// # Errors
    /// [`Error::Option`] names the option that is unknown or impossible, and the possible ones.
    pub fn apply(&mut self, list: &str) -> Result<()> {
        let mut options = list.split(',').filter(|option| !option.is_empty());
        options.try_for_each(|option| match self.apply_known(option)? {
            true => Ok(()),
            false => Err(unknown(option)),
        })
    }

    /// Applies one option; false where there is none of that name here. A program may have more.
    ///
    /// # Errors
    /// [`Error::Option`] for a value that is impossible.
    pub fn apply_known(&mut self, option: &str) -> Result<bool> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        match (name, value) {
            ("ro", None) => self.read_only = true,
            ("rw", None) => self.read_only = false,
            ("noatime", None) => self.access_times = AccessTimes::Never,
            ("relatime" | "atime" | "nostrictatime", None) => self.access_times = AccessTimes::Relative,
            ("strictatime", None) => self.access_times = AccessTimes::Always,
            ("diratime", None) => self.directory_access_times = true,
            ("nodiratime", None) => self.directory_access_times = false,
            ("allow_other", None) => self.allow_other = true,
            ("nocommands", None) => self.no_commands = true,
            ("commands", None) => self.no_commands = false,
            ("dev", None) => self.devices = true,
            ("nodev", None) => self.devices = false,
            ("suid", None) => self.set_id = true,
            ("nosuid", None) => self.set_id = false,
            ("exec", None) => self.execute = true,
            ("noexec", None) => self.execute = false,
            ("threads", Some(number)) => self.threads = Some(threads(number)?),
            ("transport", Some(name)) => self.transport = transport(name)?,
            (name, None) if IGNORED.contains(&name) => {}
            (name, Some(_)) if IGNORED_WITH_VALUE.contains(&name) => {}
            (name, _) if name.starts_with("x-") || name.starts_with("X-") => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the options as a list, which [`apply`](Self::apply) accepts.
    pub fn list(&self) -> String {
        let mut list = vec![if self.read_only { "ro" } else { "rw" }.to_owned()];
        let mut add = |wanted: bool, text: &str| {
            if wanted {
                list.push(text.to_owned());
            }
        };
        add(self.access_times == AccessTimes::Never, "noatime");
        add(self.access_times == AccessTimes::Always, "strictatime");
        add(!self.directory_access_times, "nodiratime");
        add(self.allow_other, "allow_other");
        add(self.no_commands, "nocommands");
        add(!self.devices, "nodev");
        add(!self.set_id, "nosuid");
        add(!self.execute, "noexec");
        list.extend(self.threads.map(|number| format!("threads={number}")));
        let named = Transport::NAMES.iter().find(|(_, way)| *way == self.transport);
        let named = named.filter(|(_, way)| *way != Transport::default());
        list.extend(named.map(|(name, _)| format!("transport={name}")));
        list.join(",")
    }

    /// Returns the number of threads that serve the kernel.
    ///
    /// # Errors
    /// [`Error::Option`] for none, and for more than a mount can have.
    pub(crate) fn thread_count(&self) -> Result<usize> {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(|| Ok(processors().clamp(2, 32)), checked_threads)
    }
}

/// Parses the way of requests.
fn transport(name: &str) -> Result<Transport> {
    let named = Transport::NAMES.iter().find(|(known, _)| *known == name);
    named.map(|(_, way)| *way).ok_or_else(|| Error::Option("transport: give dev or uring".to_owned()))
}

/// Parses a number of threads.
fn threads(number: &str) -> Result<usize> {
    checked_threads(number.parse().unwrap_or(0))
}

fn checked_threads(number: usize) -> Result<usize> {
    let number = Some(number).filter(|number| (1..=MAX_THREADS).contains(number));
    number.ok_or_else(|| Error::Option(format!("threads: give a number from 1 to {MAX_THREADS}")))
}

/// Builds the error for an option that is unknown.
fn unknown(option: &str) -> Error {
    Error::Option(format!(
        "{option}: no such option; there are {}, and those for mount(8) alone",
        Options::NAMES
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(list: &str) -> Options {
        let mut options = Options::default();
        options.apply(list).unwrap();
        options
    }

    #[test]
    fn options_of_fstab_are_understood() {
        assert_eq!(parsed(""), Options::default());
        assert_eq!(
            parsed("defaults,nofail,_netdev,x-systemd.automount,user=me,,relatime"),
            Options::default()
        );
        let options = parsed("ro,noatime,nodev,nosuid,noexec,allow_other,threads=3");
        assert!(options.read_only && options.allow_other && options.access_times == AccessTimes::Never);
        assert!(!options.devices && !options.set_id && !options.execute);
        assert_eq!(options.threads, Some(3));
        assert!(!parsed("ro,rw").read_only, "the last one counts");
        assert!(parsed("nocommands").no_commands && !parsed("nocommands,commands").no_commands);
        assert!(parsed("nodev,dev,nosuid,suid,noexec,exec,nodiratime,diratime") == Options::default());
        assert_eq!(parsed("noatime,strictatime,lazytime").access_times, AccessTimes::Always);
        let table = parsed("rw,relatime,user_id=0,group_id=0,default_permissions,max_read=1048576");
        assert_eq!(table, Options::default());
    }

    #[test]
    fn a_list_can_be_written_and_read_again() {
        for list in [
            "",
            "ro",
            "ro,strictatime",
            "noatime,nodiratime,nodev,threads=7,allow_other,noexec,nosuid",
            "nocommands,noexec",
            "transport=uring",
            "transport=dev",
        ] {
            assert_eq!(parsed(&parsed(list).list()), parsed(list));
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        for list in
            ["rw,frobnicate", "threads=0", "threads=many", "sync", "remount", "ro=1", "noacl", "transport=x"]
        {
            let error = Options::default().apply(list).unwrap_err();
            assert!(error.is_usage(), "{list}");
            let said = list.split([',', '=']).any(|word| error.to_string().starts_with(word));
            assert!(said, "{error}");
        }
    }
}
