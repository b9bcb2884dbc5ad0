//! `lanefs remote tag`.

use crate::session::publication::{self, LocationParser};
use crate::terminal::console;
use crate::terminal::failure::{Failure, Outcome};
use clap::Args;
use lanefs::Time;
use lanefs_publish::{Location, Reference, delete_tag, set_tag};
use std::io::Write;

/// Give a version a second name, or delete a tag
///
/// Makes the tag NAME name the version of URL, which then stays when others are pruned.
#[derive(Debug, Args)]
pub(super) struct SetTag {
    /// The store, and a tag or a version
    #[arg(value_name = "URL", value_parser = LocationParser)]
    at: Location,
    /// The tag to make
    #[arg(value_name = "NAME", required_unless_present = "delete", conflicts_with = "delete")]
    name: Option<String>,
    /// Replace a tag that names another version
    #[arg(short, long, conflicts_with = "delete")]
    force: bool,
    /// Delete the tag of URL, also a damaged one; its version stays until it is pruned
    #[arg(long)]
    delete: bool,
}

impl SetTag {
    /// Makes or deletes the tag.
    pub(super) fn execute(&self) -> Outcome {
        match &self.name {
            Some(name) => self.set(name),
            None => self.delete(),
        }
    }

    fn set(&self, name: &str) -> Outcome {
        let name = match Reference::parse(name).map_err(|error| publication::failure(&error))? {
            Reference::Tag(name) => name,
            Reference::Version(_) => {
                return Err(Failure::usage(name, "is a version", "give a tag another name"));
            }
        };
        let store = publication::store(&self.at, true)?;
        let before = set_tag(&store, &name, self.at.reference(), Time::now().0, self.force)
            .map_err(|error| publication::failure(&error))?;
        if let Some(before) = before {
            writeln!(console::output(), "{name} named {before} before")?;
        }
        Ok(())
    }

    fn delete(&self) -> Outcome {
        let Reference::Tag(name) = self.at.reference() else {
            let advice = "name a tag after #; versions are removed by `lanefs remote prune`";
            return Err(Failure::usage(self.at.to_string(), "is a version", advice));
        };
        let store = publication::store(&self.at, true)?;
        let before = delete_tag(&store, name).map_err(|error| publication::failure(&error))?;
        match before {
            Some(before) => writeln!(console::output(), "{name} named {before} before")?,
            None => writeln!(console::output(), "{name} was damaged")?,
        }
        Ok(())
    }
}
