//! Engines that answer lookups: the device, the CPU engine, ext4.

use crate::error::{Error, Result, check};
use crate::measure::stop::Stop;
use crate::measure::values::LANEFS;
use crate::session::Systems;
use crate::systems::lane::Lane;
use crate::systems::peers::Host;
use crate::systems::system::{Expect, Named, System};
use crate::systems::workload::{Strings, chain_path};
use lanefs::{EngineExt, Ino, PathSet, Resolution, ResolveOptions};
use lanefs_gpu::Mirrored;
use std::ffi::CStr;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// One of these.
pub(super) enum LookupEngine<'s, 'v> {
    Gpu(&'s Mirrored<'v>),
    Cpu(&'s Lane),
    Ext4(&'s Host),
}

impl Named for LookupEngine<'_, '_> {
    fn name(&self) -> &str {
        match self {
            LookupEngine::Gpu(_) => LANEFS,
            LookupEngine::Cpu(_) => "cpu",
            LookupEngine::Ext4(host) => host.name(),
        }
    }
}

/// Lists all, the device first.
pub(super) fn lookup_engines<'s, 'v>(
    systems: &'s Systems,
    mirrored: &'s Mirrored<'v>,
) -> Vec<LookupEngine<'s, 'v>> {
    let hosts = systems.hosts.iter().map(LookupEngine::Ext4);
    [LookupEngine::Gpu(mirrored), LookupEngine::Cpu(&systems.lane)].into_iter().chain(hosts).collect()
}

/// Adapter that asks the device as [`Lane`] asks the CPU engine.
pub(super) fn options(lane: &Lane, directory: Option<&CStr>) -> Result<ResolveOptions> {
    let find = |name: &CStr| -> Result<Ino> {
        let found = lane.volume().lookup(lane.caller(), lane.volume().root(), name.to_bytes());
        Ok(found.map_err(Error::volume("a directory"))?.0)
    };
    let base = directory.map(find).transpose()?;
    Ok(ResolveOptions { base, follow: false, attributes: true, caller: lane.caller().clone() })
}

/// Checks that the device itself found every path.
pub(super) fn check_found(answers: &[Resolution], by_device: u64, expected: usize) -> Result<()> {
    let sum = answers.iter().filter_map(|answer| answer.attr).map(|attr| attr.ino.0.wrapping_add(attr.size));
    black_box(sum.fold(0u64, u64::wrapping_add));
    let found = answers.iter().filter(|answer| answer.attr.is_some()).count() as u64;
    check("the device", "lookups", found, expected)?;
    check("the device", "lookups without the host", by_device, expected)
}

impl LookupEngine<'_, '_> {
    /// Reads the attributes of every path, relative to `directory`, by one thread; returns the time of all.
    /// `lane` has the same names.
    pub(super) fn resolve(
        &self,
        lane: &Lane,
        directory: Option<&CStr>,
        requests: &Strings,
        stop: &Stop,
    ) -> Result<Duration> {
        match self {
            LookupEngine::Gpu(mirrored) => {
                let options = options(lane, directory)?;
                let paths: Vec<&[u8]> = requests.iter().map(CStr::to_bytes).collect();
                ask(mirrored, &options, &paths)
            }
            LookupEngine::Cpu(lane) => lane.resolve(directory, requests, 1, Expect::Found, stop),
            LookupEngine::Ext4(host) => host.resolve(directory, requests, 1, Expect::Found, stop),
        }
    }

    /// Looks up the deepest directory of a chain `times` times.
    pub(super) fn resolve_chain(
        &self,
        lane: &Lane,
        directory: &CStr,
        depth: usize,
        times: usize,
        stop: &Stop,
    ) -> Result<Duration> {
        match self {
            LookupEngine::Gpu(mirrored) => {
                let options = options(lane, Some(directory))?;
                let path = chain_path(depth);
                ask(mirrored, &options, &vec![path.as_slice(); times])
            }
            LookupEngine::Cpu(lane) => lane.resolve_chain(directory, depth, times, stop),
            LookupEngine::Ext4(host) => host.resolve_chain(directory, depth, times, stop),
        }
    }

    /// Looks up one path a call.
    pub(super) fn resolve_singly(&self, lane: &Lane, requests: &Strings, stop: &Stop) -> Result<Duration> {
        match self {
            LookupEngine::Gpu(mirrored) => {
                let options = options(lane, None)?;
                let paths: PathSet = requests.iter().map(CStr::to_bytes).collect();
                let mut answers = Vec::with_capacity(paths.len());
                let mut by_device = 0;
                let start = Instant::now();
                for i in 0..paths.len() {
                    let path = paths.view().slice(i..i + 1);
                    let (answer, report) =
                        mirrored.submit(&options, path).wait().map_err(Error::volume("a lookup"))?;
                    answers.extend(answer);
                    by_device += report.by_device;
                }
                let elapsed = start.elapsed();
                stop.check()?;
                check_found(&answers, by_device, paths.len())?;
                Ok(elapsed)
            }
            LookupEngine::Cpu(lane) => lane.resolve_singly(requests, stop),
            LookupEngine::Ext4(host) => host.resolve(None, requests, 1, Expect::Found, stop),
        }
    }
}

/// Asks the device for all paths in one call.
fn ask(mirrored: &Mirrored<'_>, options: &ResolveOptions, paths: &[&[u8]]) -> Result<Duration> {
    let start = Instant::now();
    let (answers, report) = mirrored.resolve_batch(options, paths).map_err(Error::volume("lookups"))?;
    let elapsed = start.elapsed();
    check_found(&answers, report.by_device, paths.len())?;
    Ok(elapsed)
}
