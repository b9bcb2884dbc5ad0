//! Paths as names under directories: what `PathSet.under` makes.

use crate::arrow::{self, ArrowNumbers, Imported};
use crate::text::{Text, push};
use lanefs::{NamesUnder, PathSet};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use self_cell::self_cell;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The memory of names under directories.
struct NamesMemory {
    directories: Text,
    numbers: DirectoryNumbers,
    names: Text,
}

/// The number of the directory of each name.
enum DirectoryNumbers {
    Own(Vec<u32>),
    Arrow(ArrowNumbers),
}

self_cell!(
    struct NamesCell {
        owner: NamesMemory,
        #[covariant]
        dependent: NamesUnder,
    }
);

/// Names under directories.
pub(crate) struct Names {
    cell: NamesCell,
    /// The whole paths, for calls that need them.
    whole: OnceLock<PathSet>,
}

impl Names {
    /// Takes one directory, a directory for each name, or a dictionary array of Arrow with the directories of
    /// the names, which is not copied; and names as [`Text`].
    ///
    /// # Errors
    /// `ValueError` where there is not one directory for each name; as [`Text::of`].
    pub(crate) fn of(directories: &Bound<'_, PyAny>, names: &Bound<'_, PyAny>) -> PyResult<Self> {
        let names = Text::of(names, "names")?;
        let count = names.view().len();
        let (directories, numbers) = match one_directory(directories)? {
            Some(directory) => (directory, DirectoryNumbers::Own(vec![0; count])),
            None => match arrow::import(directories, "directories")? {
                Some(Imported::Dictionary(dictionary)) => {
                    (Text::Arrow(dictionary.texts), DirectoryNumbers::Arrow(dictionary.numbers))
                }
                Some(Imported::Text(paths)) => each_once(&Text::Arrow(paths)),
                Some(Imported::Copied(paths)) => each_once(&paths.into()),
                None => each_once(&Text::of(directories, "directories")?),
            },
        };
        let memory = NamesMemory { directories, numbers, names };
        let cell = NamesCell::try_new(memory, |memory| {
            let (directories, names) = (memory.directories.view(), memory.names.view());
            match &memory.numbers {
                DirectoryNumbers::Own(numbers) => NamesUnder::new(directories, numbers, names),
                DirectoryNumbers::Arrow(numbers) => {
                    NamesUnder::from_indices32(directories, numbers.view(), names)
                }
            }
        });
        let cell = cell.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Names { cell, whole: OnceLock::new() })
    }

    /// The names and directories.
    pub(crate) fn view(&self) -> NamesUnder<'_> {
        *self.cell.borrow_dependent()
    }

    /// The whole paths, which the first call makes.
    pub(crate) fn whole(&self) -> &PathSet {
        self.whole.get_or_init(|| self.view().to_paths())
    }
}

/// A directory alone: str, bytes or os.PathLike.
fn one_directory(directories: &Bound<'_, PyAny>) -> PyResult<Option<Text>> {
    let is_one = directories.is_instance_of::<PyString>()
        || directories.is_instance_of::<PyBytes>()
        || directories.hasattr("__fspath__")?;
    if !is_one {
        return Ok(None);
    }
    let mut set = PathSet::new();
    push(&mut set, directories, || "directories".into())?;
    Ok(Some(set.into()))
}

/// The directories without repetitions, and the number of each.
fn each_once(directories: &Text) -> (Text, DirectoryNumbers) {
    let (mut set, mut numbers) = (PathSet::new(), Vec::with_capacity(directories.view().len()));
    let mut known: HashMap<&[u8], u32> = HashMap::new();
    for directory in directories.view().iter() {
        let next = known.len() as u32;
        numbers.push(*known.entry(directory).or_insert_with(|| {
            set.push(directory);
            next
        }));
    }
    (set.into(), DirectoryNumbers::Own(numbers))
}
