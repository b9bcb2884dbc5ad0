//! Probes: each kernel works on a small volume whose answers are known before a device is used.

pub(crate) mod random_batches;

pub(crate) mod changes;
pub(crate) mod directories;
pub(crate) mod hashes;
mod known;
pub(crate) mod paths;
pub(crate) mod ranks;
pub(crate) mod texts;

use crate::error::Result;
use crate::kernels::context::DeviceContext;
use crate::kernels::{KERNELS, names_probed_by};
use known::{KnownPaths, SEED};
use lanefs::{CreateOptions, InodeSize, Volume};
use std::time::{Duration, Instant};

/// A probe: its path in the list of kernels, and the function.
type Probe = (&'static str, fn(&DeviceContext, &Volume, &KnownPaths) -> Result<()>);

/// Collects the probe of each kernel.
macro_rules! define_probes {
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
        const PROBES: &[Probe] = &[$((concat!(stringify!($probe_in), "::", stringify!($probe)), $probe_in::$probe),)+];
    };
}

with_kernels!(define_probes);
with_kernels!(check_kernels);

/// Kernels that a probe found right, and the time that it took.
#[derive(Clone, Debug)]
pub struct Probed {
    /// Names of the kernels.
    pub kernels: String,
    /// Time of the probe.
    pub took: Duration,
}

/// Probes every kernel; kernels that share a probe are probed once.
pub(crate) fn all(context: &DeviceContext) -> Result<Vec<Probed>> {
    let mut probes = PROBES.to_vec();
    probes.dedup_by_key(|(path, _)| *path);
    run(context, &probes)
}

/// Executes the probe of one kernel.
pub(crate) fn of(context: &DeviceContext, kernel: &str) -> Result<Vec<Probed>> {
    let is_its = |(path, _): &&Probe| KERNELS.iter().any(|one| one.name == kernel && one.probe == *path);
    let probe = PROBES.iter().find(is_its);
    debug_assert!(probe.is_some(), "no kernel is called {kernel}");
    run(context, probe.map(std::slice::from_ref).unwrap_or_default())
}

fn run(context: &DeviceContext, probes: &[Probe]) -> Result<Vec<Probed>> {
    let name = |(path, _): &Probe| Probed { kernels: names_probed_by(path), took: Duration::ZERO };
    let mut probed: Vec<Probed> = probes.iter().map(name).collect();
    let _probed = context.device.probed();
    for size in [InodeSize::B128, InodeSize::B256] {
        let options =
            CreateOptions { size: 16 << 20, inode_size: size, seed: Some(SEED), ..CreateOptions::default() };
        let volume = Volume::create_memory(&options)?;
        let known = KnownPaths::new(&volume)?;
        for ((_, probe), probed) in probes.iter().zip(&mut probed) {
            let begin = Instant::now();
            probe(context, &volume, &known)?;
            probed.took += begin.elapsed();
        }
    }
    Ok(probed)
}
