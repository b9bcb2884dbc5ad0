//! `lanefs remote verify`.

use crate::session::publication::{self, LocationParser};
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::with_progress;
use crate::terminal::{console, exit};
use crate::text::count::counted;
use crate::text::escape::escape;
use crate::text::json;
use crate::text::size::human;
use clap::Args;
use lanefs_publish::{Location, Publication, Verified};
use std::io::Write;

/// Read all of a version from the store, and name what is damaged or missing
///
/// Verifies pages and pieces by their hashes, the content of pieces by all references to them, and the
/// footers of the packs. The local cache is not used.
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// The store, and a tag or a version
    #[arg(value_name = "URL", value_parser = LocationParser)]
    at: Location,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Verify {
    /// Verifies the version.
    pub(super) fn execute(&self) -> Outcome {
        let publication = super::open(&self.at)?;
        let verified = with_progress("verifying", |update| publication.verify(update));
        let verified = verified.map_err(|error| publication::failure(&error))?;
        self.print(&publication, &verified)?;
        match verified.found {
            0 => Ok(()),
            found => {
                let found = counted(found, "object, or a part of one, is", "objects, or parts of them, are");
                let what = format!("{found} damaged or missing");
                let advice = "repair the store with `lanefs publish --check` of the volume, or put the objects back \
                              from a copy";
                Err(Failure::new(exit::IMAGE, self.at.to_string(), &what, advice))
            }
        }
    }

    fn print(&self, publication: &Publication, verified: &Verified) -> Outcome {
        let (version, is_bound) = (publication.version().to_string(), publication.is_bound());
        let mut out = console::output();
        let findings: Vec<String> = verified.findings.iter().map(ToString::to_string).collect();
        let sound = &verified.sound;
        if self.json {
            let object = serde_json::json!({
                "version": version,
                "bound": is_bound,
                "pages": sound.pages,
                "pieces": sound.pieces,
                "stored_bytes": sound.stored_bytes,
                "packs": sound.packs,
                "found": verified.found,
                "findings": findings,
            });
            writeln!(out, "{}", json::text(&object))?;
            return Ok(out.flush()?);
        }
        for finding in &findings {
            writeln!(out, "{}", escape(finding.as_bytes()))?;
        }
        if verified.found > findings.len() as u64 {
            writeln!(out, "... and {} more", verified.found - findings.len() as u64)?;
        }
        let pages = counted(sound.pages, "page", "pages");
        let pieces = counted(sound.pieces, "piece", "pieces");
        let (bytes, packs) = (human(sound.stored_bytes), counted(sound.packs, "pack", "packs"));
        writeln!(out, "{version}: {pages} and {pieces} are sound, {bytes}B in {packs}")?;
        if !is_bound {
            writeln!(out, "{version}: {}", super::NOT_BOUND)?;
        }
        Ok(out.flush()?)
    }
}
