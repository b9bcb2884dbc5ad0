//! The service under many schedules: every lookup gets the answer to its own path.

use super::planted::PlantedBug;
use super::{LookupService, ServiceOptions};
use crate::batches::engine::{BatchReport, Engine};
use crate::vocabulary::columns::Rows;
use crate::vocabulary::error::Result;
use crate::vocabulary::path_set::Paths;
use crate::vocabulary::types::{Ino, ResolveOptions};
use lanefs_format::FileKind;
use lanefs_sync::Explorer;
use shuttle::{future, thread};
use std::sync::Arc;

const SCHEDULES: usize = 2000;
/// Lookups of each thread.
const LOOKUPS: u8 = 3;

/// The inode of a path is its first byte.
struct FirstByte;

impl Engine for FirstByte {
    fn resolve_rows(&self, _: &ResolveOptions, paths: Paths<'_>, rows: &mut dyn Rows) -> Result<BatchReport> {
        for (row, path) in paths.iter().enumerate() {
            rows.found(row, Ino(path[0].into()), FileKind::File, None);
        }
        Ok(BatchReport::default())
    }
}

fn service(servers: usize) -> (Arc<LookupService>, Vec<thread::JoinHandle<()>>) {
    let service = Arc::new(LookupService::new(ServiceOptions { enough: 2, ..ServiceOptions::default() }));
    let serving = (0..servers).map(|_| {
        let service = service.clone();
        thread::spawn(move || service.serve(&FirstByte))
    });
    let serving = serving.collect();
    (service, serving)
}

fn end(service: &LookupService, serving: Vec<thread::JoinHandle<()>>) {
    service.close();
    serving.into_iter().for_each(|thread| thread.join().expect("a server that ends"));
    assert!(service.lookup([1]).wait().is_err(), "a closed service takes a path");
}

/// Threads that wait for their answers, beside two servers.
fn threads() {
    let (service, serving) = service(2);
    let asking = [10u8, 20].map(|first| {
        let service = service.clone();
        thread::spawn(move || {
            let lookups: Vec<_> =
                (first..first + LOOKUPS).map(|byte| (byte, service.lookup([byte]))).collect();
            for (byte, lookup) in lookups {
                assert_eq!(lookup.wait().expect("an answer").ino, Some(Ino(byte.into())));
            }
        })
    });
    asking.into_iter().for_each(|thread| thread.join().expect("all answers"));
    end(&service, serving);
}

/// Tasks that await their answers.
fn tasks() {
    let (service, serving) = service(1);
    let asking = [10u8, 20].map(|first| {
        let service = service.clone();
        future::spawn(async move {
            for byte in first..first + LOOKUPS {
                assert_eq!(service.lookup([byte]).await.expect("an answer").ino, Some(Ino(byte.into())));
            }
        })
    });
    asking.into_iter().for_each(|task| future::block_on(task).expect("all answers"));
    end(&service, serving);
}

/// A service that is closed beside lookups answers each, or says that it was closed.
fn closed_beside_lookups() {
    let (service, serving) = service(1);
    let other = service.clone();
    let asking = thread::spawn(move || {
        for byte in 0..LOOKUPS {
            if let Ok(found) = other.lookup([byte]).wait() {
                assert_eq!(found.ino, Some(Ino(byte.into())));
            }
        }
    });
    end(&service, serving);
    asking.join().expect("an end of all lookups");
}

#[test]
fn threads_get_the_answers_to_their_paths() {
    Explorer::new(1).explore(SCHEDULES, threads);
}

#[test]
fn tasks_get_the_answers_to_their_paths() {
    Explorer::new(2).explore(SCHEDULES, tasks);
}

#[test]
fn a_service_that_closes_leaves_no_lookup_waiting() {
    Explorer::new(3).explore(SCHEDULES, closed_beside_lookups);
}

#[test]
fn canary_servers_that_are_not_woken_are_found() {
    Explorer::new(4).expect_failure(PlantedBug::UnwokenServer, SCHEDULES, threads);
    Explorer::new(5).expect_failure(PlantedBug::SilentClose, SCHEDULES, threads);
}

#[test]
fn canary_servers_that_misread_the_end_of_a_wait_are_found() {
    Explorer::new(8).expect_failure(PlantedBug::LostWakeUp, SCHEDULES, threads);
    Explorer::new(9).expect_failure(PlantedBug::TakenBatch, SCHEDULES, threads);
}

#[test]
fn canary_lookups_that_are_not_woken_are_found() {
    Explorer::new(6).expect_failure(PlantedBug::UnwokenThread, SCHEDULES, threads);
    Explorer::new(7).expect_failure(PlantedBug::UnwokenTask, SCHEDULES, tasks);
}
