//! Texts of paths or names, as an argument of a call.

use crate::arrow::{self, ArrowPaths, Imported};
use lanefs::{PathSet, Paths};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::sync::Arc;

/// Texts in one piece.
pub(crate) enum Text {
    Own(Arc<PathSet>),
    Arrow(ArrowPaths),
}

impl Text {
    /// Takes an iterable of str, bytes or os.PathLike, a numpy array of text, or an Arrow array of text. What
    /// has offsets in Arrow's memory is not copied. `what` names the argument.
    ///
    /// # Errors
    /// `TypeError` for other objects; those of [`arrow::import`] and of the iterable.
    pub(crate) fn of(texts: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        if texts.is_instance_of::<PyString>() || texts.is_instance_of::<PyBytes>() {
            return Err(PyTypeError::new_err(format!("{what} is one path; give a list of them")));
        }
        match arrow::import(texts, what)? {
            Some(Imported::Text(paths)) => return Ok(Text::Arrow(paths)),
            Some(Imported::Dictionary(dictionary)) => return dictionary.expand(what).map(Text::from),
            Some(Imported::Copied(paths)) => return Ok(paths.into()),
            None => {}
        }
        // Text of a numpy array becomes str or bytes in one call.
        let list = match texts.hasattr("__array_interface__")? {
            true => texts.call_method0("tolist")?,
            false => texts.clone(),
        };
        let items = list.try_iter().map_err(|_| {
            let kind = texts.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
            PyTypeError::new_err(format!(
                "{what} is {kind}; give a list of paths, an array of text or a PathSet"
            ))
        })?;
        let mut set = PathSet::new();
        for (index, item) in items.enumerate() {
            push(&mut set, &item?, || format!("{what}[{index}]"))?;
        }
        Ok(set.into())
    }

    /// The texts.
    pub(crate) fn view(&self) -> Paths<'_> {
        match self {
            Text::Own(set) => set.view(),
            Text::Arrow(paths) => paths.view(),
        }
    }
}

impl From<PathSet> for Text {
    fn from(set: PathSet) -> Self {
        Text::Own(Arc::new(set))
    }
}

/// Appends an object, which `what` names, to a set.
///
/// # Errors
/// `TypeError` for an object that is not a path.
pub(crate) fn push(set: &mut PathSet, item: &Bound<'_, PyAny>, what: impl Fn() -> String) -> PyResult<()> {
    if let Ok(text) = item.cast::<PyString>() {
        match text.to_str() {
            Ok(text) => set.push(text),
            // Surrogates stand for bytes that are not UTF-8.
            Err(_) => set.push(
                item.py().import("os")?.call_method1("fsencode", (text,))?.cast::<PyBytes>()?.as_bytes(),
            ),
        }
    } else if let Ok(bytes) = item.cast::<PyBytes>() {
        set.push(bytes.as_bytes());
    } else {
        let encoded = item.py().import("os")?.call_method1("fsencode", (item,)).map_err(|_| {
            let kind = item.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
            PyTypeError::new_err(format!("{} is {kind}; a path is str, bytes or os.PathLike", what()))
        })?;
        set.push(encoded.cast::<PyBytes>()?.as_bytes());
    }
    Ok(())
}
