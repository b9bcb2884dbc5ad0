//! Answers about many paths, as arrays of numpy whose memory Rust filled.

use lanefs::ColumnsMut;
use numpy::IntoPyArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ops::Range;

macro_rules! columns {
    ($($field:ident $name:literal $type:ty;)*) => {
        /// The columns of a call.
        #[derive(Default)]
        pub(crate) struct Columns {
            $($field: Option<Vec<$type>>,)*
        }

        impl Columns {
            /// Makes columns for this many paths.
            ///
            /// # Errors
            /// `ValueError` for a name that no column has.
            pub(crate) fn new(names: &[String], paths: usize) -> PyResult<Self> {
                let mut columns = Columns::default();
                for name in names {
                    match name.as_str() {
                        $($name => columns.$field = Some(vec![0; paths]),)*
                        other => {
                            let known = [$($name),*].join(", ");
                            let text = format!("columns has '{other}', and there are: {known}");
                            return Err(PyValueError::new_err(text));
                        }
                    }
                }
                Ok(columns)
            }

            /// Lends some of the rows to a batch.
            pub(crate) fn rows(&mut self, rows: Range<usize>) -> ColumnsMut<'_> {
                ColumnsMut {
                    exists: None,
                    $($field: self.$field.as_mut().map(|column| &mut column[rows.clone()]),)*
                }
            }

            /// Gives the memory of the columns to arrays.
            pub(crate) fn into_arrays(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
                let arrays = PyDict::new(py);
                $(if let Some(column) = self.$field {
                    arrays.set_item($name, column.into_pyarray(py))?;
                })*
                Ok(arrays)
            }
        }
    };
}

columns! {
    code "code" u8;
    ino "ino" u64;
    kind "kind" u8;
    mode "mode" u16;
    links "nlink" u32;
    uid "uid" u32;
    gid "gid" u32;
    size "size" u64;
    blocks "blocks" u64;
    rdev "rdev" u64;
    mtime "mtime_ns" i64;
    ctime "ctime_ns" i64;
    atime "atime_ns" i64;
    btime "btime_ns" i64;
    generation "generation" u32;
}
