//! The bounds on the data that commands read: a small image may describe files of 128 PiB.
//!
//! There are two. The size of an image, and the bytes that were fetched for a publication, bound the data
//! that are read ([`Volume::bound_expansion`](lanefs::Volume::bound_expansion)). Commands that read a file
//! with the zeros of its holes leave out one that is far larger than the volume.

use crate::terminal::failure::{Failure, Outcome};
use crate::text::size::human;
use clap::Args;
use lanefs::expansion::DEFAULT_FACTOR;

/// The bound of commands without an option for it.
pub const DEFAULT: u64 = DEFAULT_FACTOR as u64;
/// Size in bytes up to which a file is read whatever the volume's size.
const LEAST_BYTES: u64 = 1 << 30;

/// The option of commands that read files with the zeros of their holes.
#[derive(Args, Clone, Copy, Debug)]
pub struct ExpansionArgs {
    /// Refuse files of more than FACTOR times the volume's size, and of more than 1G: a small image may
    /// describe files of 128P. Stop where all data are more than FACTOR times the size, of a publication the
    /// bytes that were fetched, and more than 1G [default: 100; 0 for no limit]
    #[arg(long, value_name = "FACTOR", default_value_t = DEFAULT, hide_default_value = true)]
    pub max_expansion: u64,
}

impl ExpansionArgs {
    /// Refuses a file of `size` bytes of a volume of `volume_bytes`.
    ///
    /// # Errors
    /// Names the path and gives `advice`.
    pub fn check(self, volume_bytes: u64, path: &[u8], size: u64, advice: &str) -> Outcome {
        let factor = self.max_expansion;
        let most = volume_bytes.saturating_mul(factor).max(LEAST_BYTES);
        if factor > 0 && size > most {
            let what = format!("has {}B, far more than the volume", human(size));
            return Err(Failure::partial(path, &what, advice));
        }
        Ok(())
    }
}
