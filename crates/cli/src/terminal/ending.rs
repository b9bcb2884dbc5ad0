//! Waits for servers that end: umount(8) returns before the server of the mount has closed the volume.

use super::console;
use crate::text::bytes;
use crate::text::escape::escape;
use lanefs::ErrorKind;
use lanefs_fuse::ending::{self, ImageState};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait: more than a server takes that writes its last commit. Nobody waits for ever for a process
/// that only looks like such a server.
const LONGEST: Duration = Duration::from_secs(60);
/// Time after which a command says for whom it waits.
const SILENCE: Duration = Duration::from_secs(1);
/// Pause between two looks at the image.
const PAUSE: Duration = Duration::from_millis(10);
/// Tries to open an image that nobody has open any more: the kernel releases the last of it a little later.
const LAST_TRIES: u32 = 10;

/// A wait for the servers of an image.
struct Wait<'i> {
    image: &'i Path,
    begin: Instant,
    has_said: bool,
    last_tries: u32,
}

impl<'i> Wait<'i> {
    fn new(image: &'i Path) -> Self {
        Wait { image, begin: Instant::now(), has_said: false, last_tries: LAST_TRIES }
    }

    /// Waits a little; false where the image will not become free by itself, or not in time.
    fn goes_on(&mut self, state: ImageState) -> bool {
        match state {
            ImageState::InUse => return false,
            ImageState::Ending if self.begin.elapsed() >= LONGEST => return false,
            ImageState::Ending => self.say(),
            ImageState::Free if self.last_tries == 0 => return false,
            ImageState::Free => self.last_tries -= 1,
        }
        std::thread::sleep(PAUSE);
        true
    }

    fn say(&mut self) {
        if !self.has_said && self.begin.elapsed() >= SILENCE {
            self.has_said = true;
            let name = escape(bytes::of_path(self.image));
            let most = LONGEST.as_secs();
            console::say(&format!(
                "{name}: unmounted; waiting for its server to close the volume (at most {most} seconds)"
            ));
        }
    }
}

/// Opens an image. While only servers that end have it open, waits for them, and says so where that takes
/// long. Until a volume is open a signal ends the process at once.
///
/// # Errors
/// Those of `open`; that the image is in use comes at once, unless only such servers have it open.
pub(crate) fn open<T>(image: &Path, open: impl Fn() -> lanefs::Result<T>) -> lanefs::Result<T> {
    let mut wait = Wait::new(image);
    loop {
        match open() {
            Err(error) if error.kind() == ErrorKind::InUse && wait.goes_on(ending::state(image)) => {}
            // It may have become free meanwhile, and another process may have taken it.
            done => return done,
        }
    }
}

/// Waits for servers of an image that end, without opening it. False where they have not ended in time.
pub(crate) fn await_end(image: &Path) -> bool {
    let mut wait = Wait::new(image);
    loop {
        match ending::state(image) {
            state @ ImageState::Ending if !wait.goes_on(state) => return false,
            ImageState::Ending => {}
            ImageState::Free | ImageState::InUse => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_ends() {
        let mut wait = Wait::new(Path::new("image"));
        assert!(!wait.goes_on(ImageState::InUse));
        assert!((0..LAST_TRIES).all(|_| wait.goes_on(ImageState::Free)));
        assert!(!wait.goes_on(ImageState::Free) && wait.goes_on(ImageState::Ending));
        wait.begin -= LONGEST;
        assert!(!wait.goes_on(ImageState::Ending));
    }
}
