//! `lanefs remote info`.

use crate::session::publication::{self, LocationParser};
use crate::terminal::console;
use crate::terminal::failure::Outcome;
use crate::terminal::progress::with_progress;
use crate::text::count::counted;
use crate::text::escape::escape;
use crate::text::json;
use crate::text::size::human;
use clap::Args;
use lanefs::expansion::DEFAULT_FACTOR;
use lanefs::format::BLOCK;
use lanefs_publish::{Location, Publication, Shard};
use std::io::Write;

/// Show the volume, the pieces and the packs of a version
///
/// Reads the manifest: 104 bytes for each piece. (`lanefs info URL` shows the volume itself.)
#[derive(Debug, Args)]
pub(super) struct VersionInfo {
    /// The store, and a tag or a version
    #[arg(value_name = "URL", value_parser = LocationParser)]
    at: Location,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl VersionInfo {
    /// Shows the version.
    pub(super) fn execute(&self) -> Outcome {
        let publication = super::open(&self.at)?;
        if let Some(shards) = publication.shards() {
            return self.print_join(&publication, shards);
        }
        let (version, facts) = (publication.version(), publication.facts());
        let inventory = with_progress("reading pages", |update| publication.inventory(update));
        let inventory = inventory.map_err(|error| publication::failure(&error))?;
        let uuid = super::uuid_text(facts.uuid);
        let expands = inventory.expands(DEFAULT_FACTOR);
        let mut out = console::output();
        if self.json {
            let object = serde_json::json!({
                "version": version.to_string(),
                "bound": publication.is_bound(),
                "expands": expands,
                "uuid": uuid,
                "bytes": facts.volume_bytes,
                "sequence": facts.sequence,
                "blocks": facts.blocks,
                "metadata_bytes": facts.metadata_bytes,
                "data_bytes": facts.data_bytes,
                "pages": inventory.pages,
                "pieces": inventory.pieces,
                "stored_bytes": inventory.stored_bytes,
                "packs": inventory.packs,
                "pack_bytes": inventory.pack_bytes,
            });
            writeln!(out, "{}", json::text(&object))?;
            return Ok(out.flush()?);
        }
        writeln!(out, "version   {version}")?;
        let used = counted(facts.blocks, "used block", "used blocks");
        writeln!(out, "volume    {uuid}, {}B, {}", human(facts.volume_bytes), used)?;
        let (metadata, data) = (human(facts.metadata_bytes), human(facts.data_bytes));
        writeln!(out, "stored    {metadata} of metadata, {data} of other data")?;
        let pages = counted(inventory.pages, "page", "pages");
        writeln!(out, "manifest  {pages}, {}", counted(inventory.pieces, "piece", "pieces"))?;
        let (packs, bytes) = (inventory.packs, human(inventory.pack_bytes));
        writeln!(out, "packs     {packs}, with {bytes} together with other versions")?;
        if !publication.is_bound() {
            writeln!(out, "{}", super::NOT_BOUND)?;
        }
        if expands {
            let (blocks, stored) =
                (human(inventory.blocks.saturating_mul(BLOCK)), human(inventory.stored_bytes));
            writeln!(
                out,
                "expands: {stored} in the store become {blocks}; `lanefs pull` needs a larger --max-expansion"
            )?;
        }
        Ok(out.flush()?)
    }

    /// Shows a join: its shards, each of which is a version.
    fn print_join(&self, publication: &Publication, shards: &[Shard]) -> Outcome {
        let (version, facts) = (publication.version(), publication.facts());
        let (uuid, mut out) = (super::uuid_text(facts.uuid), console::output());
        if self.json {
            let row = |shard: &Shard| {
                let mut row = serde_json::Map::new();
                json::add_name(&mut row, "prefix", &shard.prefix);
                row.insert("version".into(), shard.version.to_string().into());
                row.insert("uuid".into(), super::uuid_text(shard.uuid).into());
                row.insert("base".into(), shard.base.into());
                row.insert("bytes".into(), shard.volume_bytes.into());
                row.insert("blocks".into(), shard.blocks.into());
                row.insert("inodes".into(), shard.inodes.into());
                row
            };
            let object = serde_json::json!({
                "version": version.to_string(),
                "uuid": uuid,
                "bytes": facts.volume_bytes,
                "sequence": facts.sequence,
                "blocks": facts.blocks,
                "metadata_bytes": facts.metadata_bytes,
                "data_bytes": facts.data_bytes,
                "shards": shards.iter().skip(1).map(row).collect::<Vec<_>>(),
            });
            writeln!(out, "{}", json::text(&object))?;
            return Ok(out.flush()?);
        }
        writeln!(out, "version   {version}")?;
        let used = counted(facts.blocks, "used block", "used blocks");
        writeln!(out, "join      {uuid}, {}B, {}", human(facts.volume_bytes), used)?;
        let (metadata, data) = (human(facts.metadata_bytes), human(facts.data_bytes));
        writeln!(out, "stored    {metadata} of metadata, {data} of other data")?;
        writeln!(out, "shards    {}", shards.len().saturating_sub(1))?;
        for shard in shards.iter().skip(1) {
            writeln!(
                out,
                "{}  {:>8}  {}",
                shard.version,
                human(shard.blocks.saturating_mul(BLOCK)),
                escape(&shard.prefix)
            )?;
        }
        Ok(out.flush()?)
    }
}
