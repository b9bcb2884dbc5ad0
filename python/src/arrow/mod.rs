//! Memory of Apache Arrow, by its C data interface
//! (<https://arrow.apache.org/docs/format/CDataInterface.html>).
//!
//! | module | |
//! |---|---|
//! | `interface` | the structures of the interface, and values that release them |
//! | `import` | paths in memory of other libraries |
//! | `export` | columns for other libraries |

mod export;
mod import;
mod interface;

pub(crate) use export::{ArrowBuffer, ArrowColumn, ArrowColumns};
pub(crate) use import::{ArrowNumbers, ArrowPaths, Imported, import};
