//! The compiled part of the Python package `lanefs`: the module `lanefs._lanefs`.
//!
//! It has the calls of a volume by path, with bytes for paths and numpy arrays for many answers. The classes
//! that users see are written in Python, in `python/lanefs`.
//!
//! | module | |
//! |---|---|
//! | `error` | errors of the library as `OSError` |
//! | `signals` | Ctrl-C between the pieces of a long call |
//! | `arrow` | memory of Arrow, in both directions |
//! | `text`, `names`, `path_set` | many paths: a list, a file, memory of Arrow, names under directories |
//! | `arrow_batch` | answers about many paths, as columns of Arrow |
//! | `columns` | the same, as arrays |
//! | `publication` | a volume on a store |
//! | `writers` | files that get a new content when they are closed |
//! | `engine` | an open volume and the engine that answers its batches |
//! | `per_process`, `image` | a value for each process; the images that a process has open, once each |
//! | `handle` | an open volume across `fork` |
//! | `batches` | batches in pieces |
//! | `lent`, `views` | arrays over memory of an object; files in place |
//! | `volume` | the class for Python: one call each |
//! | `attributes` | owners, extended attributes, hard links, copies, space |
//! | `device`, `device_memory` | the GPU engine of searches; files in the memory of a device |
//! | `kernel_memory` | a mirror and files for kernels of the user's |
//! | `dlpack` | memory of a device for other libraries |
//! | `search` | lines that match, files of the same content, fuzzy names |
//! | `file`, `epoch`, `transfer` | open files; the files of an epoch; import and export |
//! | `_lanefs` | the module that Python imports |

mod arrow;
mod arrow_batch;
mod attributes;
mod batches;
mod columns;
mod device;
mod device_memory;
mod dlpack;
mod engine;
mod epoch;
mod error;
mod file;
mod handle;
mod image;
mod kernel_memory;
mod lent;
mod names;
mod path_set;
mod per_process;
mod publication;
mod search;
mod signals;
mod text;
mod transfer;
mod views;
mod volume;
mod writers;

/// The module `lanefs._lanefs`.
#[pyo3::pymodule]
mod _lanefs {
    #[pymodule_export]
    use crate::arrow_batch::ArrowBatch;
    #[pymodule_export]
    use crate::attributes::{
        chown, copy_file, getxattr, hard_link, listxattr, removexattr, setxattr, statvfs, truncate,
    };
    #[pymodule_export]
    use crate::device_memory::DeviceMemory;
    #[pymodule_export]
    use crate::dlpack::dlpack;
    #[pymodule_export]
    use crate::epoch::{Epoch, shuffled};
    #[pymodule_export]
    use crate::file::OpenFile;
    #[pymodule_export]
    use crate::kernel_memory::{KernelFiles, KernelMirror, device_header};
    #[pymodule_export]
    use crate::path_set::PathSet;
    #[pymodule_export]
    use crate::search::{FuzzyNames, Grep, duplicates};
    #[pymodule_export]
    use crate::transfer::{export_host_tree, import_host_tree, sync_host_tree};
    #[pymodule_export]
    use crate::views::Views;
    #[pymodule_export]
    use crate::volume::Volume;

    use lanefs::Code;
    use numpy::{PyArray1, PyArrayMethods};
    use pyo3::prelude::*;

    /// Returns the number, the errno and the text of each result code.
    #[pyfunction]
    fn codes() -> Vec<(u8, i32, &'static str)> {
        Code::ALL.iter().map(|code| (code.number(), code.errno(), code.text())).collect()
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // numpy's functions are looked up once. Later, in a call, a Ctrl-C during this would be a panic.
        drop(PyArray1::<u8>::zeros(module.py(), 0, false).try_readwrite()?);
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
