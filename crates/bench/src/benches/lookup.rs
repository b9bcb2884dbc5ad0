//! `lanefs-bench lookup`: batches of paths on LaneFS beside ext4, tmpfs and a hash map in this process.
//!
//! One tree serves all rows. Each system resolves the same paths in the same order and its answers are
//! counted. The hash map of whole paths is the limit: it knows nothing of directories.

mod asked;
mod rows;
mod statx;

pub use rows::row_names;

use crate::error::Result;
use crate::measure::report::Row;
use crate::measure::values::{LANEFS, Values};
use crate::session::{CommonArgs, Session};
use crate::systems::peers::SpaceRequest;
use crate::systems::workload::{FILES_PER_DIRECTORY, Sizes, Tree};
use asked::{Asked, PathMap, Requests};
use rows::{Order, ROWS, Work};

/// Arguments of `lanefs-bench lookup`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LookupArgs {
    #[command(flatten)]
    /// Arguments of every benchmark.
    pub common: CommonArgs,
    /// Files of the tree [default: 1000000, with --quick 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub files: Option<u32>,
}

/// Runs the benchmark and reports; returns an exit code of [`crate::session`].
///
/// # Errors
/// [`crate::Error::Arguments`] and unreadable directories before anything is measured.
pub fn run_lookup(args: &LookupArgs) -> Result<u8> {
    let sizes = if args.common.quick { Sizes::QUICK } else { Sizes::FULL };
    let files = args.files.map_or(sizes.tree_files, |files| files as usize);
    let names = row_names();
    Session::start("lookup", &args.common, &names, files)?
        .finish(|bench| bench.part("lookup", &names, measure))
}

fn measure(bench: &mut Session<usize>) -> Result<()> {
    let tree = Tree::new(bench.settings);
    let systems = bench.systems(SpaceRequest::of(&tree))?;
    bench.make_tree(&tree, &systems)?;
    let all = |order| match order {
        Order::Shuffled => Requests::new(tree.requests()),
        Order::Sorted => Requests::new(tree.files.clone()),
        Order::Absent => Requests::new(tree.absent_requests()),
    };
    let map = PathMap::of(&tree.files);
    let mut asked = vec![Asked::Lane(&systems.lane)];
    asked.extend(systems.hosts.iter().map(Asked::Host));
    asked.extend(systems.hosts.iter().find(|host| host.about_ext4()).map(Asked::Statx));
    asked.push(Asked::Map(&map));
    for order in [Order::Shuffled, Order::Sorted, Order::Absent] {
        let works: Vec<&Work> =
            ROWS.iter().filter(|work| work.order == order && bench.selection.has(work.name)).collect();
        if works.is_empty() {
            continue;
        }
        let requests = all(order);
        let mut values = vec![Values::default(); works.len()];
        bench.in_turn("lookups", &asked.iter().collect::<Vec<_>>(), |system, run| {
            for (work, values) in works.iter().zip(&mut values) {
                let elapsed = system.resolve(work, &requests, &bench.stop)?;
                if let Some(elapsed) = elapsed.filter(|_| run > 0) {
                    values.add_each(system.named(), elapsed, requests.len());
                }
            }
            Ok(())
        })?;
        for (work, values) in works.iter().zip(&values) {
            let row = values.row(work.name, "ns/path").map(|row| described(row, work, &tree, &requests));
            bench.row(row);
        }
    }
    Ok(())
}

fn described(row: Row, work: &Work, tree: &Tree, requests: &Requests) -> Row {
    let columns: Vec<String> =
        work.columns.iter().map(|column| format!("{column:?}").to_lowercase()).collect();
    let ext4 = row.peers.get("ext4").map_or(0.0, |peer| peer.median);
    let mut row = row
        .param("files", tree.files.len())
        .param("directories", tree.directories.len())
        .param("files_per_directory", FILES_PER_DIRECTORY)
        .param("mean_path_bytes", (requests.mean_len() * 10.0).round() / 10.0)
        .param("threads", work.threads)
        .param("columns", columns.join(" "));
    if let Some(most) = work.most {
        let reached = row.lanefs.median <= most;
        row = row.goal(format!("{LANEFS} <= {most} ns"), reached);
    }
    if let Some(times) = work.times_ext4.filter(|_| ext4 > 0.0) {
        row = row.goal_ratio("ext4", times);
    }
    row
}
