//! The interface for tests and benchmarks (feature `_testing`): the kernels' own results, the contents of
//! the device's memory, random batches of changes.

use crate::error::Result;
use crate::inputs::filter::Filter;
use crate::inputs::needles::Needles;
use crate::inputs::path_bundles::PathBundles;
use crate::lookups::mirrored::Mirrored;
use crate::searches::ranked::RankedPaths;
use crate::searches::scan::TextScan;
use crate::searches::text_hash::{TextHash, woven_portions};
use crate::searches::woven::{weave, woven_bytes};
use crate::shared::column_layout::AnswerRow;
use crate::shared::limits::FUEL;
use crate::shared::query::{LookupQuery, PathResult};
use crate::shared::structures::{self, RankedPath};
use crate::shared::{exported, layout};
use crate::twin::headers::blake3::Value;
use crate::twin::headers::woven::WovenText;
use crate::twin::host::Snapshot;
use crate::twin::kernels::best::best;
use crate::twin::kernels::find::{LeafSearch, Unit};
use crate::twin::kernels::hash_join::hash_join;
use crate::twin::kernels::hash_text::hash_text;
use crate::twin::kernels::leaves::MapBlock;
use crate::twin::kernels::scan::scan;
use crate::twin::kernels::score::score;
use crate::twin::kernels::tally::tally;
use lanefs::format::INODE_CORE;
use lanefs::{ColumnSet, NamesUnder, ResolveOptions};

pub use crate::probe::random_batches::{ExistingRegion, Maker, regions};
pub use crate::shared::column_layout::ColumnLayout;
pub use crate::shared::structures::{FillRequest, LearnRequest, PackedAnswers};
pub use crate::twin::kernels::walk::Requests;

/// Returns the GLSL files that are generated, by name.
pub fn generated_glsl() -> [(&'static str, String); 2] {
    [("layout.glsl", layout::glsl()), ("structures.glsl", structures::glsl())]
}

/// Returns the generated part of `include/lanefs_device.h`.
pub fn device_constants() -> String {
    exported::device_constants()
}

impl Mirrored<'_> {
    /// Resolves paths by the kernels alone. Returns the results, and the work that lookups left to later
    /// kernels (of the last dispatch, where there are several).
    ///
    /// # Errors
    /// An error of the device.
    pub fn kernel_lookup<P: lanefs::AsPath>(
        &self,
        query: &LookupQuery,
        paths: &[P],
    ) -> Result<(Vec<PathResult>, Requests)> {
        self.lookup_directly(query, paths)
    }

    /// Looks up names by the kernels alone, each in the directory with its number. Returns what
    /// [`kernel_lookup`](Self::kernel_lookup) does.
    ///
    /// # Errors
    /// An error of the device.
    pub fn kernel_names(
        &self,
        query: &LookupQuery,
        names: NamesUnder<'_>,
        directories: &[u64],
    ) -> Result<(Vec<PathResult>, Requests)> {
        self.names_directly(query, names, directories)
    }

    /// Resolves paths by the kernels alone, for a host that asks only whether they exist. Returns the
    /// results on the device, and the bits that come to the host.
    ///
    /// # Errors
    /// An error of the device.
    pub fn kernel_pack<P: lanefs::AsPath>(
        &self,
        query: &LookupQuery,
        paths: &[P],
    ) -> Result<(Vec<PathResult>, Vec<PackedAnswers>)> {
        self.pack_directly(query, paths)
    }

    /// Resolves paths by the kernels alone, for a host that wants these columns. Returns the results on the
    /// device, and the rows that come to the host.
    ///
    /// # Errors
    /// An error of the device.
    pub fn kernel_columns<P: lanefs::AsPath>(
        &self,
        query: &LookupQuery,
        wanted: ColumnSet,
        paths: &[P],
    ) -> Result<(Vec<PathResult>, Vec<AnswerRow>)> {
        self.columns_directly(query, wanted, paths)
    }

    /// Returns the settings of the kernels for these options.
    pub fn query_of(&self, options: &ResolveOptions) -> LookupQuery {
        self.query(options)
    }

    /// Returns the records that the kernel writes of these leaf blocks, in any order of blocks; without a
    /// list of all that the mirror has. A dispatch has few blocks, and little room at first.
    ///
    /// # Errors
    /// An error of the device.
    pub fn records_of(
        &self,
        search: &LeafSearch<'_>,
        leaves: Option<&[u64]>,
    ) -> Result<(Vec<Unit>, Vec<u64>)> {
        self.with_mirror(|mirror| {
            let leaves = leaves.map_or_else(|| mirror.leaves.iter().copied().collect(), <[u64]>::to_vec);
            Ok((self.records_in(mirror, search, &leaves, (5, 8))?, leaves))
        })
    }

    /// Returns the kernels' results for inodes, and for blocks of file maps.
    ///
    /// # Errors
    /// An error of the device.
    #[expect(clippy::type_complexity, reason = "two lists")]
    pub fn cores_and_leaves(
        &self,
        inos: &[u64],
        blocks: &[MapBlock],
    ) -> Result<(Vec<[u8; INODE_CORE]>, Vec<Option<u64>>)> {
        self.with_mirror(|mirror| Ok((self.cores_of(mirror, inos)?, self.leaves_at(mirror, blocks)?)))
    }

    /// Returns the settings of a search.
    pub fn search_of<'f>(&self, filter: &'f Filter, directories: bool) -> LeafSearch<'f> {
        self.search(filter, directories)
    }

    /// Copies the directory cache and the directory-path table as they are now.
    ///
    /// # Errors
    /// An error of the device.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.with_mirror(|mirror| {
            let (versions, copies) = mirror.snapshot();
            let cache = self.cache().snapshot(self.device())?;
            let directories = mirror.directories.snapshot(self.device(), self.cache().last_claim())?;
            Ok(Snapshot { cache, directories, versions, copies })
        })
    }
}

impl TextScan {
    /// Returns texts as they lie on the device.
    pub fn woven(texts: &[&[u8]]) -> Vec<u8> {
        let mut memory = vec![0; woven_bytes(texts)];
        weave(texts, &mut memory);
        memory
    }

    /// Returns the kernel's results for woven texts: a bit for each word of each strip.
    ///
    /// # Errors
    /// An error of the device.
    pub fn kernel_scan(&self, woven: &[u8]) -> Result<Vec<u32>> {
        self.scan_directly(woven)
    }

    /// Returns the twin's.
    pub fn twin_scan(&self, text: &WovenText<'_>) -> Vec<u32> {
        scan(self.program(), text, FUEL)
    }
}

impl TextHash {
    /// Returns the chaining values that the kernels leave for texts, and those of the twins: of each portion,
    /// after the first `levels` levels of joins. Also returns the bytes that the twins loaded.
    ///
    /// # Errors
    /// An error of the device.
    pub fn values(&self, texts: &[&[u8]], levels: usize) -> Result<([Vec<Value>; 2], u64)> {
        let (woven, mut lists) = woven_portions(texts);
        lists.levels.truncate(levels);
        let text = WovenText::new(&woven);
        let mut by_twin = hash_text(&text, &lists.portions, FUEL);
        lists.levels.iter().for_each(|level| hash_join(&text, &mut by_twin, level));
        Ok(([self.hash_directly(&woven, &lists)?, by_twin], text.loaded()))
    }
}

/// Scores of paths, the number of paths of each score, and the paths with at least some score by number.
pub type Ranks = (Vec<u32>, Vec<u32>, Vec<(u32, u32)>);

impl RankedPaths {
    /// Returns the kernels' results for some terms.
    ///
    /// # Errors
    /// An error of the device.
    pub fn kernel_ranks(&self, needles: &Needles, least: u32) -> Result<Ranks> {
        let (scores, counts, listed) = self.rank_directly(needles, least)?;
        Ok((scores, counts, pairs(&listed)))
    }
}

/// Returns the results of the kernels' twins for some paths.
pub fn twin_ranks<P: AsRef<[u8]>>(needles: &Needles, paths: &[P], least: u32, fuel: u32) -> Ranks {
    let mut bundles = PathBundles::default();
    paths.iter().for_each(|path| bundles.push(path.as_ref()));
    let scores = score(needles.program(), &bundles, fuel);
    let (counts, listed) = (tally(&scores), pairs(&best(&scores, least)));
    (scores, counts, listed)
}

fn pairs(listed: &[RankedPath]) -> Vec<(u32, u32)> {
    listed.iter().map(|path| (path.number, path.score)).collect()
}
