//! Every kernel, named once. All that concerns every kernel comes from this list: the pipelines, the
//! probes, the test that compiles the shaders, the table in docs/gpu.md.
//!
//! An entry has a name (also of `shaders/NAME.comp` and `shaders/NAME.spv`), its constant, the unit of work
//! of an invocation or a workgroup, its twin (a function below `twin::kernels`) and its probe (a function
//! below `probe`). An entry without one of them does not compile.

/// Passes every kernel to a macro.
macro_rules! with_kernels {
    ($then:ident) => {
        $then! {
            /// Resolves paths by the directory-path table and the directory cache.
            lookup LOOKUP { each: "invocation: a path", twin: lookup::lookup, probe: paths::lookup }
            /// Resolves the other paths, component by component.
            walk WALK { each: "invocation: a path", twin: walk::walk, probe: paths::walk }
            /// Puts the entries that lookups requested into the directory cache.
            fill FILL { each: "invocation: a fill request", twin: fill::fill, probe: paths::fill }
            /// Puts the paths of directories that were walked into the directory-path table.
            learn LEARN { each: "invocation: a learn request", twin: learn::learn, probe: paths::learn }
            /// Packs answers for a host that asks only whether paths exist.
            pack PACK { each: "invocation: 32 paths", twin: pack::pack, probe: paths::pack }
            /// Writes answers, with the attributes that the host wants, as columns.
            columns COLUMNS { each: "invocation: a path", twin: columns::columns, probe: paths::columns }
            /// Fills the directory cache with all entries.
            warm WARM { each: "invocation: a block of the volume", twin: warm::warm, probe: paths::warm }
            /// Finds entries by name, type, size and time.
            find FIND { each: "invocation: a leaf block", twin: find::find, probe: directories::find }
            /// Finds words of texts in which a line may match.
            scan SCAN { each: "invocation: a strip of text", twin: scan::scan, probe: texts::scan }
            /// Hashes portions of texts.
            hash_text HASH_TEXT { each: "invocation: 1,024 bytes of text", twin: hash_text::hash_text, probe: hashes::hash }
            /// Joins the hashes of portions to those of texts.
            hash_join HASH_JOIN { each: "invocation: two chaining values", twin: hash_join::hash_join, probe: hashes::hash }
            /// Finds the leaf blocks of directories.
            leaves LEAVES { each: "invocation: a block of a file map", twin: leaves::leaves, probe: directories::leaves }
            /// Reads the first bytes of inodes.
            stat STAT { each: "invocation: an inode", twin: stat::stat, probe: directories::stat }
            /// Finds names in directories, or the region where each would be.
            seek SEEK { each: "invocation: a name", twin: seek::seek, probe: changes::seek }
            /// Finds the entries that stay in hash regions that change, and links them again.
            gather GATHER { each: "workgroup: a task", twin: gather::gather, probe: changes::rebuild }
            /// Sorts the entries that stay and those that are added.
            merge MERGE { each: "invocation: an entry", twin: merge::merge, probe: changes::rebuild }
            /// Builds the indexes of hash regions.
            build BUILD { each: "workgroup: a new region", twin: build::build, probe: changes::rebuild }
            /// Scores paths for the letters of fuzzy terms.
            score SCORE { each: "invocation: a path", twin: score::score, probe: ranks::rank }
            /// Counts the paths of each score.
            tally TALLY { each: "invocation: 32 paths", twin: tally::tally, probe: ranks::rank }
            /// Lists the paths with at least some score.
            best BEST { each: "invocation: 32 paths", twin: best::best, probe: ranks::rank }
        }
    };
}

/// Checks that the twin and the probe of each kernel exist.
macro_rules! check_kernels {
    (
        $(
            $(#[doc = $summary:literal])+
            $name:ident $constant:ident {
                each: $each:literal,
                twin: $twin_in:ident::$twin:ident,
                probe: $probe_in:ident::$probe:ident
            }
        )+
    ) => {
        $(
            const _: () = {
                #[allow(unused_imports, reason = "the twin is only looked up")]
                use $crate::twin::kernels::$twin_in::$twin as _;
                #[allow(unused_imports, reason = "the probe is only looked up")]
                use $crate::probe::$probe_in::$probe as _;
            };
        )+
    };
}
