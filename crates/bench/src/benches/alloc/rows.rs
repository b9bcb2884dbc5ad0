//! Names of the rows.

use super::sizes::{crew_threads, row_threads};
use super::workload::Workload;
use crate::benches::blocks;

/// Threads of the runs whose memory the `resident-*` rows show, if the workload has a row for each number.
const RESIDENT_THREADS: usize = 2;

/// Runs of a workload on a number of threads, and the rows that they give.
pub(super) struct Measurement {
    pub(super) workload: Workload,
    pub(super) threads: usize,
    pub(super) rate_row: String,
    pub(super) resident_row: Option<String>,
}

impl Measurement {
    pub(super) fn rows(&self) -> Vec<&String> {
        [&self.rate_row].into_iter().chain(&self.resident_row).collect()
    }
}

/// Lists all measurements on a machine with `cores` cores.
pub(super) fn measurements(cores: usize) -> Vec<Measurement> {
    let mut all = Vec::new();
    for workload in Workload::ALL {
        let name = workload.name();
        let resident = format!("resident-{name}");
        match workload {
            Workload::TinyHot | Workload::RandomMixed => {
                all.extend(row_threads(cores).into_iter().map(|threads| Measurement {
                    workload,
                    threads,
                    rate_row: format!("{name}-{threads}t"),
                    resident_row: Some(resident.clone()).filter(|_| threads == RESIDENT_THREADS),
                }));
            }
            _ => all.push(Measurement {
                workload,
                threads: crew_threads(cores),
                rate_row: name.into(),
                resident_row: Some(resident),
            }),
        }
    }
    all
}

/// Workloads whose instructions are counted.
pub(super) const COUNTED: [Workload; 2] = [Workload::TinyHot, Workload::RandomMixed];

pub(super) fn instructions_name(workload: Workload) -> String {
    format!("{}-instructions", workload.name())
}

/// Lists every row that needs the allocators' libraries.
pub(super) fn heap_names(cores: usize) -> Vec<String> {
    let mut names: Vec<String> = COUNTED.map(instructions_name).into();
    names.extend(measurements(cores).iter().flat_map(Measurement::rows).cloned());
    names
}

/// Lists every row of a run on `cores` cores, in the order measured.
pub fn row_names(cores: usize) -> Vec<String> {
    heap_names(cores).into_iter().chain(blocks::row_names(cores)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::documented::assert_documented;
    use std::collections::HashSet;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let names = row_names(2);
        assert_eq!(names.len(), 2 + 2 * 2 + 3 + 5 + 3);
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        for name in ["tiny-hot-1t", "tiny-hot-instructions", "larson", "resident-thread-churn"] {
            assert!(names.iter().any(|n| n == name), "{name}");
        }
        assert!(!names.contains(&"tiny-hot-16t".to_string()));
        assert!(row_names(16).contains(&"random-mixed-16t".to_string()));
    }

    #[test]
    fn the_documentation_names_every_row() {
        assert_documented(row_names(16));
    }
}
