//! `lanefs remote ls`.

use crate::session::publication::{self, StoreParser};
use crate::terminal::console;
use crate::terminal::failure::Outcome;
use crate::text::{json, time};
use clap::Args;
use lanefs::Time;
use lanefs_publish::{Hash, Location, tags, versions};
use std::collections::{BTreeMap, HashSet};
use std::io::Write;

/// List the tags and the versions of a store
///
/// One line for each version: when its root was written last, by the store's clock in UTC; its 64 digits; its
/// tags. The newest comes first. A version that a tag names and that is missing is marked, and so is a
/// damaged tag.
#[derive(Debug, Args)]
pub(super) struct ListVersions {
    /// The store
    #[arg(value_name = "URL", value_parser = StoreParser)]
    at: Location,
    /// Print one JSON object per line: version, written, tags; for a damaged tag, damaged tells the reason
    #[arg(long)]
    json: bool,
}

impl ListVersions {
    /// Lists the store.
    pub(super) fn execute(&self) -> Outcome {
        let store = publication::store(&self.at, false)?;
        let failed = |error| publication::failure(&error);
        let mut names: BTreeMap<Hash, Vec<String>> = BTreeMap::new();
        let mut damaged = Vec::new();
        for (name, tag) in tags(&store).map_err(failed)? {
            match tag {
                Ok(tag) => names.entry(tag.version).or_default().push(name),
                Err(error) => damaged.push((name, error)),
            }
        }
        let versions = versions(&store).map_err(failed)?;
        let there: HashSet<Hash> = versions.iter().map(|info| info.version).collect();
        let mut out = console::output();
        for info in &versions {
            let tags = names.get(&info.version).cloned().unwrap_or_default();
            self.print(&mut out, &info.version, Some(info.written), &tags)?;
        }
        for (version, tags) in names.iter().filter(|(version, _)| !there.contains(version)) {
            self.print(&mut out, version, None, tags)?;
        }
        for (name, error) in &damaged {
            if self.json {
                let (tags, why) = ([name], error.to_string());
                let object =
                    serde_json::json!({ "version": null, "written": null, "tags": tags, "damaged": why });
                writeln!(out, "{}", json::text(&object))?;
            } else {
                writeln!(out, "{:16}  {:64}  {name}", "damaged", "-")?;
            }
        }
        Ok(out.flush()?)
    }

    fn print(&self, out: &mut dyn Write, version: &Hash, written: Option<i64>, tags: &[String]) -> Outcome {
        if self.json {
            let version = version.to_string();
            let object = serde_json::json!({ "version": version, "written": written, "tags": tags });
            return Ok(writeln!(out, "{}", json::text(&object))?);
        }
        let when = written.map_or("missing".into(), |seconds| time::short(Time::from_parts(seconds, 0)));
        let line = format!("{when:16}  {version}  {}", tags.join(" "));
        Ok(writeln!(out, "{}", line.trim_end())?)
    }
}
