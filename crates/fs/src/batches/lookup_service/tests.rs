//! The service on a volume, and with engines that fail.

use super::{LookupService, ServiceOptions};
use crate::batches::engine::{BatchReport, Engine};
use crate::running::volume::Volume;
use crate::vocabulary::columns::Rows;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::options::CreateOptions;
use crate::vocabulary::path_set::Paths;
use crate::vocabulary::types::{Caller, ResolveOptions};
use lanefs_format::Code;
use lanefs_sync::lock::Mutex;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const FILES: usize = 1000;

/// Long enough for any test to end before.
const FOR_EVER: Duration = Duration::MAX;

fn volume() -> Volume {
    let volume = Volume::create_memory(&CreateOptions { size: 16 << 20, ..CreateOptions::default() });
    let volume = volume.expect("a volume");
    for number in (0..FILES).step_by(2) {
        let made = volume.create_file(&Caller::OWNER, volume.root(), &path(number).as_bytes()[1..], 0o644);
        made.expect("a file");
    }
    volume
}

fn path(number: usize) -> String {
    format!("/file {number}")
}

/// Sizes of the batches that came.
struct Recorder<'v>(&'v Volume, Mutex<Vec<usize>>);

impl Engine for Recorder<'_> {
    fn resolve_rows(
        &self,
        options: &ResolveOptions,
        paths: Paths<'_>,
        rows: &mut dyn Rows,
    ) -> Result<BatchReport> {
        self.1.lock().push(paths.len());
        Engine::resolve_rows(self.0, options, paths, rows)
    }
}

#[test]
fn many_threads_get_the_volumes_answers() {
    let volume = volume();
    let resolve = ResolveOptions { attributes: true, ..ResolveOptions::default() };
    let expected =
        volume.resolve_batch(&resolve, &(0..FILES).map(path).collect::<Vec<_>>()).expect("answers");
    let service = LookupService::new(ServiceOptions { resolve, enough: 64, ..ServiceOptions::default() });
    std::thread::scope(|scope| {
        let servers = [0; 2].map(|_| scope.spawn(|| service.serve(&volume)));
        let asking = [0, 1, 2, 3].map(|part| {
            let (service, expected) = (&service, &expected);
            scope.spawn(move || {
                let lookups: Vec<_> =
                    (part..FILES).step_by(4).map(|number| (number, service.lookup(path(number)))).collect();
                for (number, lookup) in lookups {
                    assert_eq!(lookup.wait().expect("an answer"), expected[number]);
                }
            })
        });
        asking.into_iter().for_each(|thread| thread.join().expect("all answers"));
        service.close();
        servers.into_iter().for_each(|thread| thread.join().expect("a server that ends"));
    });
}

#[test]
fn a_batch_goes_when_it_has_enough_paths_and_not_before() {
    let volume = volume();
    let recorder = Recorder(&volume, Mutex::default());
    let service =
        LookupService::new(ServiceOptions { enough: 8, patience: FOR_EVER, ..ServiceOptions::default() });
    std::thread::scope(|scope| {
        let lookups: Vec<_> = (0..7).map(|number| service.lookup(path(number))).collect();
        let server = scope.spawn(|| service.serve(&recorder));
        assert!(lookups.iter().all(|lookup| !lookup.is_done()));
        let last = service.lookup("/absent");
        assert_eq!(last.wait().expect("an answer").code, Code::NotFound);
        for (number, lookup) in lookups.into_iter().enumerate() {
            assert_eq!(lookup.wait().expect("an answer").ino.is_some(), number % 2 == 0);
        }
        let left = service.lookup("/file 0");
        service.close();
        assert!(left.wait().expect("the last answer").ino.is_some());
        server.join().expect("a server that ends");
    });
    assert_eq!(*recorder.1.lock(), [8, 1]);
}

#[test]
fn a_batch_goes_when_its_first_path_has_waited_long_enough() {
    let volume = volume();
    for patience in [Duration::ZERO, Duration::from_micros(100)] {
        let service =
            LookupService::new(ServiceOptions { enough: 1 << 20, patience, ..ServiceOptions::default() });
        std::thread::scope(|scope| {
            scope.spawn(|| service.serve(&volume));
            assert!(service.lookup("/file 2").wait().expect("an answer").ino.is_some());
            service.close();
        });
    }
}

/// Fails for batches, and for one path.
struct Failing;

impl Engine for Failing {
    fn resolve_rows(&self, _: &ResolveOptions, paths: Paths<'_>, rows: &mut dyn Rows) -> Result<BatchReport> {
        if paths.iter().any(|path| path == b"/panic") {
            panic!("planted");
        }
        if paths.iter().any(|path| path == b"/bad") {
            return Err(Error::Damaged { at: 7, why: "planted".into() });
        }
        (0..paths.len()).for_each(|row| rows.failed(row, Code::NotFound));
        Ok(BatchReport::default())
    }
}

#[test]
fn one_bad_path_costs_no_other_its_answer() {
    let service = LookupService::new(ServiceOptions::default());
    let [good, bad, other] = ["/good", "/bad", "/other"].map(|path| service.lookup(path));
    std::thread::scope(|scope| {
        scope.spawn(|| service.serve(&Failing));
        assert_eq!(good.wait().expect("an answer").code, Code::NotFound);
        assert!(matches!(bad.wait(), Err(Error::Damaged { at: 7, .. })));
        assert_eq!(other.wait().expect("an answer").code, Code::NotFound);
        service.close();
    });
}

/// A device that does not answer, from a path on or for all; counts the calls.
struct DeadDevice {
    first: &'static [u8],
    calls: AtomicUsize,
}

impl Engine for DeadDevice {
    fn resolve_rows(&self, _: &ResolveOptions, paths: Paths<'_>, rows: &mut dyn Rows) -> Result<BatchReport> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if paths.iter().any(|path| path == self.first) && paths.len() == 1 || self.first.is_empty() {
            return Err(Error::Io { what: "reading".into(), source: io::Error::from_raw_os_error(110) });
        }
        Failing.resolve_rows(&ResolveOptions::default(), paths, rows)
    }
}

#[test]
fn a_device_that_fails_is_not_asked_for_each_path_of_the_batch() {
    // The batch fails; or the bad path fails it, and the device dies when the service asks for each path.
    for (first, calls) in [("", 1), ("/2", 1 + 3)] {
        let engine = DeadDevice { first: first.as_bytes(), calls: AtomicUsize::new(0) };
        let service = LookupService::new(ServiceOptions::default());
        let lookups: Vec<_> =
            ["/0", "/bad", "/2", "/3", "/4", "/5"].iter().map(|path| service.lookup(path)).collect();
        let errors: Vec<_> = std::thread::scope(|scope| {
            scope.spawn(|| service.serve(&engine));
            let errors = lookups.into_iter().map(|lookup| lookup.wait().err()).collect();
            service.close();
            errors
        });
        assert_eq!(engine.calls.load(Ordering::Relaxed), calls, "{first}");
        for (number, error) in errors.iter().enumerate() {
            match (error, first) {
                (None, "/2") => assert_eq!(number, 0),
                (Some(Error::Damaged { at: 7, .. }), "/2") => assert_eq!(number, 1),
                (Some(error @ Error::Io { .. }), _) => {
                    assert_eq!(error.errno(), 110, "{first}: path {number}");
                    assert!(error.to_string().starts_with("reading: "), "{error}");
                    assert!(first.is_empty() || number >= 2);
                }
                (other, _) => panic!("{first}: path {number}: {other:?}"),
            }
        }
    }
}

#[test]
fn no_lookup_waits_for_a_server_that_panicked_or_a_service_that_is_gone() {
    let service = LookupService::new(ServiceOptions::default());
    let lookup = service.lookup("/panic");
    assert!(catch_unwind(AssertUnwindSafe(|| service.serve(&Failing))).is_err());
    assert!(lookup.wait().is_err());
    assert!(service.lookup("/good").wait().is_err());

    let service = LookupService::new(ServiceOptions::default());
    let lookup = service.lookup("/good");
    drop(service);
    assert!(lookup.wait().is_err_and(|error| error.to_string().contains("closed")));

    let service = LookupService::new(ServiceOptions::default());
    let lookup = service.lookup("/good");
    service.close();
    assert!(lookup.wait().is_err());
}
