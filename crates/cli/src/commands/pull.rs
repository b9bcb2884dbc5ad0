//! `lanefs pull`.

use crate::session::publication::{self, LocationParser};
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::with_progress;
use crate::terminal::{console, exit};
use crate::text::escape::escape;
use crate::text::size::human;
use crate::text::{bytes, json, mode};
use clap::Args;
use lanefs::expansion::DEFAULT_FACTOR;
use lanefs::format::BLOCK;
use lanefs_publish::{Error, Location, PullOptions, PullReport};
use std::io::Write;
use std::path::PathBuf;

/// Bring a publication to this machine, as an image
///
/// Writes the version at URL into the new file IMAGE, which is an ordinary volume from then on, for writing
/// too: the same volume, with the same UUID. Blocks are verified before they are written. While it works the
/// file is IMAGE.part; after Ctrl-C, or a failure, the same command continues where it stopped. Pieces that
/// the local cache has are not fetched. A part of a volume is brought by `lanefs export URL PATH DIR`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs pull s3://bucket/photos photos.lane
  lanefs pull https://example.org/photos#2026-11 photos.lane
  lanefs export s3://bucket/photos /2026 ./2026")]
pub struct Pull {
    /// The store, and a tag or a version
    #[arg(value_name = "URL", value_parser = LocationParser)]
    from: Location,
    /// The image: a file that does not exist
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Stop where the blocks that are written take more than FACTOR times the bytes that were fetched for
    /// them, and more than 1G: a small store may describe a large volume [0: no limit]
    #[arg(long, value_name = "FACTOR", default_value_t = DEFAULT_FACTOR)]
    max_expansion: u32,
    /// Permissions of the image: octal, as in chmod(1) [default: 666 without those that the umask takes]
    #[arg(long, value_parser = mode::parse_file_mode)]
    mode: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Pull {
    /// Pulls the version.
    ///
    /// # Errors
    /// The image exists; the store's; the host's.
    pub fn execute(&self) -> Outcome {
        let options = PullOptions { max_expansion: self.max_expansion, mode: self.mode };
        let publication = publication::open_once(&self.from)?;
        let pulled = with_progress("pulling", |update| publication.pull_with(&self.image, &options, update));
        let report = pulled.map_err(|error| self.failure(&error))?;
        self.print(&publication.version().to_string(), &report)
    }

    fn failure(&self, error: &Error) -> Failure {
        match error {
            Error::Interrupted => {
                console::say("interrupted; pulling again continues from here");
                Failure::Interrupted
            }
            Error::Host { .. } => Failure::Message { exit: exit::HOST, text: error.to_string(), ends: true },
            error => publication::failure(error),
        }
    }

    fn print(&self, version: &str, report: &PullReport) -> Outcome {
        let mut out = console::output();
        let PullReport { blocks, found } = report;
        let name = bytes::of_path(&self.image);
        if self.json {
            let mut object = serde_json::Map::new();
            object.insert("url".into(), self.from.to_string().into());
            object.insert("version".into(), version.into());
            json::add_name(&mut object, "image", name);
            object.insert("written_bytes".into(), (blocks * BLOCK).into());
            object.insert("found_bytes".into(), (found * BLOCK).into());
            writeln!(out, "{}", json::text(&object))?;
            return Ok(out.flush()?);
        }
        writeln!(out, "{}: version {version}, {}B written", escape(name), human(blocks * BLOCK))?;
        if *found > 0 {
            writeln!(out, "{}B of a pull that was cut off were there", human(found * BLOCK))?;
        }
        Ok(out.flush()?)
    }
}
