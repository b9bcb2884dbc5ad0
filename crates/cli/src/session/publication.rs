//! Publications as images: the options for stores, opening for reading, failures.

use super::mount_options::MountOptions;
use crate::terminal::failure::Failure;
use crate::terminal::{console, exit, interrupt};
use crate::text::escape::escape;
use crate::text::{bytes, size};
use clap::Args;
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use lanefs::{Access, OpenOptions, Volume};
use lanefs_publish::{
    Cache, Counts, DEFAULT_CACHE, Error, Location, MIN_CACHE, Publication, ReadOptions, Reference, Shard,
    Store, StoreError, default_cache,
};
use lanefs_stores::{Redirects, StoreOptions};
use parking_lot::{Mutex, RwLock};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Options for publications, which every command takes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Publications")]
pub struct StoreArgs {
    /// Directory of the local cache [default: $XDG_CACHE_HOME/lanefs or ~/.cache/lanefs]
    #[arg(long, global = true, hide_short_help = true, value_name = "DIR", conflicts_with = "no_cache")]
    cache_dir: Option<PathBuf>,
    /// Size of the local cache [default: 10G]
    #[arg(long, global = true, hide_short_help = true, value_name = "SIZE", value_parser = cache_size)]
    cache_size: Option<u64>,
    /// Keep nothing in a local cache, and use nothing of it
    #[arg(long, global = true, hide_short_help = true)]
    no_cache: bool,
    /// Server of a store that speaks the protocol of S3, GCS or Azure, such as http://localhost:9000
    #[arg(long, global = true, hide_short_help = true, value_name = "URL")]
    endpoint: Option<String>,
    /// Follow redirects of a web server to other servers
    #[arg(long, global = true, hide_short_help = true)]
    allow_redirects: bool,
    /// Shards of a join that are open at the same time [default: 64]
    #[arg(long, global = true, hide_short_help = true, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    open_shards: Option<u16>,
}

fn cache_size(text: &str) -> Result<u64, String> {
    let bytes = size::parse_size(text)?;
    match bytes >= MIN_CACHE {
        true => Ok(bytes),
        false => Err(format!("give at least {}", size::human(MIN_CACHE))),
    }
}

static OPTIONS: RwLock<StoreArgs> = RwLock::new(StoreArgs {
    cache_dir: None,
    cache_size: None,
    no_cache: false,
    endpoint: None,
    allow_redirects: false,
    open_shards: None,
});

impl StoreArgs {
    /// Sets the options of this process.
    pub fn set(self) {
        *OPTIONS.write() = self;
    }

    /// The options of this process.
    fn get() -> StoreArgs {
        OPTIONS.read().clone()
    }

    /// Adds options of a mount to those of this process. Options of the command line stay.
    ///
    /// # Errors
    /// The size of the cache is none, or too small.
    pub fn add_of_mount(options: &MountOptions) -> Result<(), Failure> {
        let parse = |text: &String| cache_size(text).map_err(|why| Failure::usage("cache-size", &why, ""));
        let size = options.cache_size.as_ref().map(parse).transpose()?;
        let mut all = OPTIONS.write();
        all.no_cache |= options.no_cache && all.cache_dir.is_none();
        all.cache_dir = all.cache_dir.take().or_else(|| options.cache_dir.clone().map(PathBuf::from));
        all.cache_size = all.cache_size.or(size);
        all.endpoint = all.endpoint.take().or_else(|| options.endpoint.clone());
        Ok(())
    }

    /// The directory of the local cache; `None` where there is none.
    fn directory(&self) -> Option<PathBuf> {
        if self.no_cache {
            return None;
        }
        self.cache_dir.clone().or_else(|| default_cache().ok())
    }

    /// Opens the local cache; `None` where there is none. One that was not asked for by name need not work.
    fn cache(&self) -> Result<Option<Arc<Cache>>, Failure> {
        if self.no_cache {
            return Ok(None);
        }
        let bytes = self.cache_size.unwrap_or(DEFAULT_CACHE);
        if let Some(path) = &self.cache_dir {
            let cache = Cache::open(path, bytes).map_err(|error| Failure::host(path, &error))?;
            return Ok(Some(Arc::new(cache)));
        }
        match default_cache().and_then(|path| Cache::open(&path, bytes)) {
            Ok(cache) => Ok(Some(Arc::new(cache))),
            Err(error) => {
                let advice = "choose a directory by --cache-dir, or use --no-cache";
                console::say(&format!("no local cache: {}; {advice}", lanefs::host_text(&error)));
                Ok(None)
            }
        }
    }
}

/// The directory of this user's local cache; `None` where the command line wants none, or there is none.
pub fn cache_directory() -> Option<PathBuf> {
    StoreArgs::get().directory()
}

/// The options of this process as arguments for another one.
pub fn arguments() -> Vec<OsString> {
    let StoreArgs { cache_dir, cache_size, no_cache, endpoint, allow_redirects, open_shards } =
        StoreArgs::get();
    let mut arguments = Vec::new();
    let mut add = |name: &str, value: &OsStr| {
        arguments.push([OsStr::new(name), value].into_iter().collect());
    };
    cache_dir.iter().for_each(|path| add("--cache-dir=", path.as_os_str()));
    endpoint.iter().for_each(|url| add("--endpoint=", url.as_ref()));
    cache_size.iter().for_each(|bytes| add("--cache-size=", bytes.to_string().as_ref()));
    open_shards.iter().for_each(|count| add("--open-shards=", count.to_string().as_ref()));
    if no_cache {
        add("--no-cache", OsStr::new(""));
    }
    if allow_redirects {
        add("--allow-redirects", OsStr::new(""));
    }
    arguments
}

/// Destination of messages on reads that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// Standard error of this thread.
    User,
    /// The log of this process.
    Log,
}

/// Bytes of pieces in memory for a version that is read once.
const ONCE_MEMORY_BYTES: u64 = 4 << 20;

/// Messages on one outage: the first few objects are enough.
const MESSAGES: usize = 5;
/// Messages on damage of one process, each on another place.
const DAMAGE_MESSAGES: usize = 100;

/// Reads of a store that failed.
#[derive(Default)]
struct Failures {
    count: AtomicU64,
    outage: Mutex<Outage>,
}

/// Failures without a request in between that the store answered.
#[derive(Default)]
struct Outage {
    requests: u64,
    told: Vec<String>,
    /// Messages on damage, which a store has after its next answer, too.
    damage: Vec<String>,
}

impl Failures {
    fn note(&self, error: &Error, counts: Counts, tell: Tell) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let text = escape(error.to_string().as_bytes());
        let mut outage = self.outage.lock();
        if outage.requests != counts.requests {
            (outage.requests, outage.told) = (counts.requests, Vec::new());
        }
        let is_damage = matches!(error, Error::Damaged { .. });
        let told = if is_damage { &mut outage.damage } else { &mut outage.told };
        let most = if is_damage { DAMAGE_MESSAGES } else { MESSAGES };
        if told.len() < most && !told.contains(&text) {
            match tell {
                Tell::User => console::say(&text),
                Tell::Log => log::error!("{text}"),
            }
            told.push(text);
        }
    }
}

/// A publication that is open for reading.
pub struct Reading {
    publication: Publication,
    location: Location,
    options: OpenOptions,
    failures: Arc<Failures>,
}

/// Counts of the requests to a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Those that were answered, and pieces of the cache.
    pub counts: Counts,
    /// Reads that failed.
    pub failures: u64,
    /// True where the last read failed.
    pub fails: bool,
}

impl Reading {
    /// Opens the volume of the version.
    fn volume(&self) -> Result<Volume, Failure> {
        let volume = self.publication.volume(self.options.clone()).map_err(|error| match &error {
            Error::Volume(error) => Failure::volume(self.location.to_string(), error),
            error => failure(error),
        })?;
        volume.interrupt_waits_by(interrupt::raised);
        Ok(volume)
    }

    /// Opens the version that the tag names now; `None` where it is this one, or where the location names a
    /// version and no tag. Both have the same counts.
    ///
    /// # Errors
    /// As [`open`].
    pub fn newer(&self) -> Result<Option<(Volume, Reading)>, Failure> {
        let Reference::Tag(tag) = self.location.reference() else { return Ok(None) };
        let Some(publication) = self.publication.newer(tag).map_err(|error| failure(&error))? else {
            return Ok(None);
        };
        let (location, options) = (self.location.clone(), self.options.clone());
        let newer = Reading { publication, location, options, failures: Arc::clone(&self.failures) };
        Ok(Some((newer.volume()?, newer)))
    }

    /// Returns the version, in hexadecimal digits.
    pub fn version(&self) -> String {
        self.publication.version().to_string()
    }

    /// Returns the shards of a join; none of one volume.
    pub fn shards(&self) -> &[Shard] {
        self.publication.shards().unwrap_or_default()
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> StoreCounts {
        let counts = self.publication.counts();
        let failures = self.failures.count.load(Ordering::Relaxed);
        let fails = failures > 0 && self.failures.outage.lock().requests == counts.requests;
        StoreCounts { counts, failures, fails }
    }
}

/// Opens the store of a location.
///
/// # Errors
/// There is no such store, or this user may not use it.
pub fn store(location: &Location, writes: bool) -> Result<Arc<dyn Store>, Failure> {
    let StoreArgs { endpoint, allow_redirects, .. } = StoreArgs::get();
    let redirects = if allow_redirects { Redirects::Anywhere } else { Redirects::SameServer };
    let options = StoreOptions { writes, endpoint, redirects, ..StoreOptions::from_process() };
    lanefs_stores::open_location(location, &options).map_err(|error| failure(&error))
}

/// Shards of a join that are open at the same time.
fn open_shards() -> usize {
    StoreArgs::get().open_shards.map_or(ReadOptions::OPEN_SHARDS, usize::from)
}

/// Opens a publication for reading.
///
/// # Errors
/// The store's; a damaged publication; a cache that cannot be used.
pub fn open(
    location: &Location,
    options: OpenOptions,
    tell: Tell,
) -> Result<(Volume, Arc<Reading>), Failure> {
    let failures = Arc::new(Failures::default());
    let noted = Arc::clone(&failures);
    let read = ReadOptions {
        cache: StoreArgs::get().cache()?,
        open_shards: open_shards(),
        on_failure: Some(Arc::new(move |error, counts| noted.note(error, counts, tell))),
        ..ReadOptions::default()
    };
    let publication = Publication::open(store(location, false)?, location.reference(), &read);
    let publication = publication.map_err(|error| failure(&error))?;
    let options = OpenOptions { access: Access::Read, ..options };
    let reading = Reading { publication, location: location.clone(), options, failures };
    Ok((reading.volume()?, Arc::new(reading)))
}

/// Opens a version that is read once, piece by piece: nothing of it goes to the local cache.
///
/// # Errors
/// As [`open`].
pub fn open_once(location: &Location) -> Result<Publication, Failure> {
    let read = ReadOptions {
        cache: StoreArgs::get().cache()?,
        fills_cache: false,
        memory: ONCE_MEMORY_BYTES,
        ..ReadOptions::default()
    };
    Publication::open(store(location, false)?, location.reference(), &read).map_err(|error| failure(&error))
}

/// Opens a version whose pieces go to the local cache, and hardly stay in memory.
///
/// # Errors
/// As [`open`]; there is no cache.
pub fn open_to_warm(location: &Location) -> Result<Publication, Failure> {
    let advice = "choose a directory by --cache-dir";
    let missing = || Failure::usage(location.to_string(), "there is no local cache to fill", advice);
    let failures = Failures::default();
    let read = ReadOptions {
        cache: Some(StoreArgs::get().cache()?.ok_or_else(missing)?),
        memory: ONCE_MEMORY_BYTES,
        reads_ahead: false,
        open_shards: open_shards(),
        on_failure: Some(Arc::new(move |error, counts| failures.note(error, counts, Tell::User))),
        ..ReadOptions::default()
    };
    Publication::open(store(location, false)?, location.reference(), &read).map_err(|error| failure(&error))
}

/// Converts a failure of a publication, whose message names the URL and the object.
pub fn failure(error: &Error) -> Failure {
    let (exit, advice) = match error {
        Error::Interrupted => return Failure::Interrupted,
        Error::Volume(error) => return Failure::volume("volume", error),
        Error::Url(_) => (exit::USAGE, ""),
        Error::Store { object, source, .. } => (exit::HOST, advice(object, source)),
        Error::Damaged { .. } => {
            (exit::IMAGE, "put the object back from a copy, or publish to another store")
        }
        Error::Codec { .. } => (exit::IMAGE, "use a newer program"),
        Error::NotClosed(_) => (exit::IMAGE, ""),
        Error::Expansion { .. } => (exit::IMAGE, "--max-expansion raises it"),
        Error::BrokenTag { .. } => (exit::IMAGE, "`lanefs remote tag --delete` deletes one"),
        Error::ShortGrace(_) => (exit::USAGE, ""),
        Error::NoTag(_) => (exit::HOST, ""),
        Error::Shard { .. } | Error::IsJoin(_) | Error::NotAJoin(_) | Error::NoImage(_) => (exit::IMAGE, ""),
        Error::OtherVolume { .. }
        | Error::TagMoved(_)
        | Error::TagExists(_)
        | Error::Condemned(_)
        | Error::PruneRuns(_) => (exit::IMAGE, ""),
        _ => (exit::HOST, ""),
    };
    let text = match advice {
        "" => error.to_string(),
        advice => format!("{error}; {advice}"),
    };
    Failure::Message { exit, text: escape(text.as_bytes()), ends: true }
}

fn advice(object: &str, error: &StoreError) -> &'static str {
    let is_directory = object.starts_with("file:");
    match error {
        StoreError::NoStore(_) if is_directory => "check the URL, or make the directory",
        StoreError::NoStore(_) => "check the URL, the region and --endpoint, or make the bucket",
        StoreError::Denied(_) if is_directory => "check owner and mode, or run as a user who has access",
        StoreError::Denied(_) => "check the credentials in the environment, and the rights that they give",
        StoreError::Full(_) => "free some space there; publishing again continues where this one stopped",
        _ => "",
    }
}

/// The clap parser of the URL of a publication. Its errors do not repeat the text, which may have a secret.
#[derive(Clone)]
pub struct LocationParser;

impl TypedValueParser for LocationParser {
    type Value = Location;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Location, clap::Error> {
        let text = std::str::from_utf8(bytes::of(value)).unwrap_or_default();
        Location::parse(text).map_err(|error| {
            clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n")).with_cmd(command)
        })
    }
}

/// The URL to which a volume is published.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The store, and a tag.
    pub location: Location,
    /// False where the tag is the default one.
    pub names_tag: bool,
}

/// The clap parser of a [`Destination`].
#[derive(Clone)]
pub struct DestinationParser;

impl TypedValueParser for DestinationParser {
    type Value = Destination;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Destination, clap::Error> {
        let location = LocationParser.parse_ref(command, arg, value)?;
        Ok(Destination { location, names_tag: bytes::of(value).contains(&b'#') })
    }
}

/// The clap parser of the URL of a store as a whole: without a tag, which would change nothing.
#[derive(Clone)]
pub struct StoreParser;

impl TypedValueParser for StoreParser {
    type Value = Location;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Location, clap::Error> {
        let location = LocationParser.parse_ref(command, arg, value)?;
        if bytes::of(value).contains(&b'#') {
            let text = "URL: it has a tag or a version, and this command is about the whole store; leave out # \
                        and all after it, or write %23 for a # in a path\n";
            return Err(clap::Error::raw(ErrorKind::ValueValidation, text).with_cmd(command));
        }
        Ok(location)
    }
}
