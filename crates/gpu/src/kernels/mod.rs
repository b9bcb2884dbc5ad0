//! The compiled kernels.

pub(crate) mod context;

use crate::shared::structures::PUSHED_BYTES;
use crate::vulkan::{Device, Kernel};
use std::borrow::Cow;
use std::sync::Arc;

/// A kernel, as docs and tests name it.
#[derive(Clone, Copy, Debug)]
pub struct KernelInfo {
    /// Name, also of its source `shaders/NAME.comp` and its code `shaders/NAME.spv`.
    pub name: &'static str,
    /// Summary in a sentence.
    pub summary: &'static str,
    /// Unit of work of an invocation or a workgroup.
    pub each: &'static str,
    /// Path of its twin below `twin`.
    pub twin: &'static str,
    /// Path of its probe below `probe`.
    pub probe: &'static str,
}

/// Defines the names, the table and the pipelines of the kernels.
macro_rules! define_kernels {
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
            $(#[doc = $summary])+
            pub(crate) const $constant: &str = stringify!($name);
        )+

        /// Every kernel.
        pub const KERNELS: &[KernelInfo] = &[
            $(
                KernelInfo {
                    name: $constant,
                    summary: concat!($($summary),+).trim_ascii_start(),
                    each: $each,
                    twin: concat!(stringify!($twin_in), "::", stringify!($twin)),
                    probe: concat!(stringify!($probe_in), "::", stringify!($probe)),
                },
            )+
        ];

        /// Every kernel on a device.
        pub(crate) struct Kernels {
            $($(#[doc = $summary])+ pub(crate) $name: Kernel,)+
        }

        impl Kernels {
            /// Names the code of each kernel. `replaced`: name and code of a kernel that a test has changed.
            pub(crate) fn new(
                device: &Arc<Device>,
                workgroup: u32,
                replaced: Option<(&str, &[u8])>,
            ) -> Kernels {
                let make = |name: &'static str, code: &'static [u8]| {
                    let other = replaced.filter(|(other, _)| *other == name);
                    let code = other.map_or(Cow::Borrowed(code), |(_, code)| Cow::Owned(code.to_vec()));
                    Kernel::new(device, code, PUSHED_BYTES, workgroup)
                };
                Kernels {
                    $(
                        $name: make(
                            $constant,
                            include_bytes!(concat!("../../shaders/", stringify!($name), ".spv")),
                        ),
                    )+
                }
            }

            /// Returns these kernels with other code of one of them. All others are shared, so that the
            /// driver compiles them once.
            #[cfg(any(test, feature = "_testing"))]
            pub(crate) fn with(&self, replaced: &str, code: &[u8]) -> Kernels {
                let one = |name: &str, kernel: &Kernel| {
                    if name == replaced { kernel.with(code) } else { kernel.clone() }
                };
                Kernels { $($name: one($constant, &self.$name),)+ }
            }

            /// Returns a CRC-32C of the code of all of them.
            pub(crate) fn checksum(&self) -> u32 {
                [$(self.$name.code()),+].into_iter().fold(0, crc32c::crc32c_append)
            }
        }
    };
}

with_kernels!(define_kernels);

/// Returns the names of the kernels that share a probe.
pub(crate) fn names_probed_by(probe: &str) -> String {
    let names: Vec<_> =
        KERNELS.iter().filter(|kernel| kernel.probe == probe).map(|kernel| kernel.name).collect();
    debug_assert!(!names.is_empty(), "no kernel has the probe {probe}");
    names.join(", ")
}
