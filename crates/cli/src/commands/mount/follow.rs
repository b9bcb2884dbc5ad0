//! Following the tag of a publication: a thread that moves the mount to each new version.

use crate::session::image::Image;
use crate::session::mount_options::MountOptions;
use crate::session::publication::Reading;
use crate::terminal::failure::Failure;
use lanefs_fuse::{Mount, Mover};
use lanefs_publish::Reference;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two searches for versions that are no longer in use.
const END_UNUSED_EVERY: Duration = Duration::from_secs(30);

/// Refuses to follow what has no tag.
///
/// # Errors
/// The image is not a publication, or the URL names a version.
pub(super) fn check(options: &MountOptions, image: &Image) -> Result<(), Failure> {
    let why = match image {
        _ if options.follow.is_none() => return Ok(()),
        Image::Publication(location) => match location.reference() {
            Reference::Tag(_) => return Ok(()),
            Reference::Version(_) => "it names a version, which never changes",
        },
        Image::Memory(_) | Image::Path(_) => "it is not a publication",
    };
    Err(Failure::usage(image.name(), why, "--follow needs the URL of a tag, such as s3://bucket/data#latest"))
}

/// Starts the thread. It ends with the process.
///
/// # Errors
/// The host's.
pub(super) fn start(mount: &mut Mount, reading: Arc<Reading>, every: Duration) -> Result<(), Failure> {
    let mut follower = Follower { mover: mount.mover(), reading, told: None, ended_at: Instant::now() };
    let follow = move || {
        loop {
            std::thread::sleep(every);
            follower.ask();
        }
    };
    let started = std::thread::Builder::new().name("lanefs-follow".to_owned()).spawn(follow);
    started.map(drop).map_err(|error| Failure::host(Path::new("starting a thread"), &error))
}

struct Follower {
    mover: Mover,
    /// The version that the mount serves.
    reading: Arc<Reading>,
    /// The failure that was last told: a store that is away for a night is one message.
    told: Option<String>,
    /// Time of the last search for versions that are no longer in use.
    ended_at: Instant,
}

impl Follower {
    /// Asks for a newer version, and moves to it. The mount stays on its version where that fails.
    fn ask(&mut self) {
        let moved = self.move_on();
        if self.ended_at.elapsed() >= END_UNUSED_EVERY {
            self.mover.end_unused();
            self.ended_at = Instant::now();
        }
        let why = match moved {
            Ok(moved) => {
                if moved {
                    log::info!("moved to version {}", self.reading.version());
                }
                self.told = None;
                return;
            }
            Err(why) => why,
        };
        if self.told.as_ref() != Some(&why) {
            log::error!("no newer version: {why}");
            self.told = Some(why);
        }
    }

    fn move_on(&mut self) -> Result<bool, String> {
        let text = |failure: Failure| failure.text().unwrap_or("interrupted").to_owned();
        let Some((volume, reading)) = self.reading.newer().map_err(text)? else { return Ok(false) };
        self.mover.move_to(volume).map_err(|error| error.to_string())?;
        self.reading = Arc::new(reading);
        Ok(true)
    }
}
