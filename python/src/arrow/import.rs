//! Paths in memory of other libraries. Text with offsets, and numbers of texts, are used where they lie; text
//! of other layouts is copied.

use super::interface::{ArrowArray, ArrowSchema, ArrowStream, Owned, Structure};
use lanefs::{PathSet, Paths};
use pyo3::exceptions::{
    PyAttributeError, PyImportError, PyNotImplementedError, PyOSError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

/// Bytes of a string view, and of the longest text that lies in the view itself.
const VIEW_BYTES: usize = 16;
const INLINE_BYTES: usize = 12;

/// Paths of another library.
pub(crate) enum Imported {
    /// In place.
    Text(ArrowPaths),
    /// Texts, and for each path the number of one of them.
    Dictionary(ArrowDictionary),
    /// Of a layout without offsets, or in several pieces.
    Copied(PathSet),
}

/// Text and offsets that an Arrow array owns, checked.
pub(crate) struct ArrowPaths {
    /// A view of the array's memory, which lives as long as this value; never handed out for longer.
    paths: Paths<'static>,
    /// Released when the last view is dropped.
    _array: Arc<Owned<ArrowArray>>,
}

/// A dictionary array: texts, and their numbers.
pub(crate) struct ArrowDictionary {
    pub(crate) texts: ArrowPaths,
    pub(crate) numbers: ArrowNumbers,
}

/// The numbers of a dictionary array.
pub(crate) struct ArrowNumbers(Numbers);

enum Numbers {
    /// A view of the array's memory, which lives as long as the value beside it.
    InPlace(&'static [i32], #[expect(dead_code, reason = "it owns the memory")] Arc<Owned<ArrowArray>>),
    /// Of another width; a number that has no place in 32 bits is negative here.
    Copied(Vec<i32>),
}

impl ArrowPaths {
    /// The paths.
    pub(crate) fn view(&self) -> Paths<'_> {
        self.paths
    }
}

impl ArrowNumbers {
    /// The numbers.
    pub(crate) fn view(&self) -> &[i32] {
        match &self.0 {
            Numbers::InPlace(numbers, _) => numbers,
            Numbers::Copied(numbers) => numbers,
        }
    }
}

impl ArrowDictionary {
    /// Copies the text of each number. `what` names the array.
    ///
    /// # Errors
    /// `ValueError` for a number without a text.
    pub(crate) fn expand(&self, what: &str) -> PyResult<PathSet> {
        let texts = self.texts.view();
        let mut set = PathSet::with_capacity(self.numbers.view().len(), 0);
        for number in self.numbers.view() {
            let text = usize::try_from(*number).ok().and_then(|number| texts.get(number));
            let text = text.ok_or_else(|| {
                let count = texts.len();
                PyValueError::new_err(format!("{what} has the number {number} of {count} texts"))
            })?;
            set.push(text);
        }
        Ok(set)
    }
}

/// Takes the array that an object exports; `None` for an object that exports none. `what` names it.
///
/// # Errors
/// `TypeError` for an array of other values than text or bytes; `ValueError` for one with nulls, or with
/// memory that the interface does not allow; those of the object.
pub(crate) fn import(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Option<Imported>> {
    if object.hasattr("__arrow_c_array__")? {
        let (schema, array) = object
            .call_method0("__arrow_c_array__")?
            .extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>()?;
        let (schema, array) = (Owned::<ArrowSchema>::take(&schema)?, Owned::<ArrowArray>::take(&array)?);
        return of_array(&schema, array, what).map(Some);
    }
    if !object.hasattr("__arrow_c_stream__")? {
        return Ok(None);
    }
    let capsule = match object.call_method0("__arrow_c_stream__") {
        Ok(capsule) => capsule,
        // A series of objects has the method, and cannot export them. Then it is a sequence as any other.
        Err(error) if cannot_export(object.py(), &error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut stream = Owned::<ArrowStream>::take(&capsule.extract::<Bound<'_, PyCapsule>>()?)?;
    let (schema, mut arrays) = read_all(object.py(), &mut stream, what)?;
    if arrays.len() == 1
        && let Some(array) = arrays.pop()
    {
        return of_array(&schema, array, what).map(Some);
    }
    let mut set = PathSet::new();
    for array in arrays {
        match of_array(&schema, array, what)? {
            Imported::Text(paths) => set.extend(paths.view().iter()),
            Imported::Dictionary(dictionary) => set.extend(dictionary.expand(what)?.view().iter()),
            Imported::Copied(paths) => set.extend(paths.view().iter()),
        }
    }
    Ok(Some(Imported::Copied(set)))
}

/// True for an error that says that the values of an object are not exported. pandas has a `ValueError` for
/// objects that pyarrow does not know, and an `ImportError` without pyarrow.
fn cannot_export(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyNotImplementedError>(py)
        || error.is_instance_of::<PyAttributeError>(py)
        || error.is_instance_of::<PyImportError>(py)
}

/// Reads the type and the arrays of a stream, and no array of another type than that of paths.
fn read_all(
    py: Python<'_>,
    stream: &mut Owned<ArrowStream>,
    what: &str,
) -> PyResult<(Owned<ArrowSchema>, Vec<Owned<ArrowArray>>)> {
    let (Some(get_schema), Some(get_next), true) =
        (stream.0.get_schema, stream.0.get_next, stream.0.release.is_some())
    else {
        return Err(PyValueError::new_err("the Arrow stream has been released"));
    };
    let (mut schema, mut arrays) = (Owned(ArrowSchema::released()), Vec::new());
    // SAFETY: the stream is not released, and the function writes a structure, which is released here.
    let errno = unsafe { get_schema(&raw mut stream.0, &raw mut schema.0) };
    check(stream, errno)?;
    // SAFETY: a type with a dictionary has a pointer to the type of the texts.
    layout(unsafe { schema.0.dictionary.as_ref() }.unwrap_or(&schema.0), what)?;
    // The whole values, for a closure that captured their fields would not be `Send`.
    let next = |stream: &mut Owned<ArrowStream>, array: &mut Owned<ArrowArray>| {
        // SAFETY: as above. The interface wants one caller at a time, which the exclusive reference is, and
        // not the interpreter's lock; a producer that needs the lock takes it.
        unsafe { get_next(&raw mut stream.0, &raw mut array.0) }
    };
    loop {
        let mut array = Owned(ArrowArray::released());
        // The producer may wait for its disk, or for a thread that needs the interpreter.
        let errno = py.detach(|| next(stream, &mut array));
        check(stream, errno)?;
        if array.0.release.is_none() {
            return Ok((schema, arrays));
        }
        arrays.push(array);
    }
}

/// Checks the answer of a function of a stream.
fn check(stream: &mut Owned<ArrowStream>, errno: c_int) -> PyResult<()> {
    if errno == 0 {
        return Ok(());
    }
    let text = stream.0.get_last_error.map(|last| {
        // SAFETY: the function failed just now, and its text is a string until the next call, or null.
        unsafe {
            last(&raw mut stream.0).as_ref().map(|text| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    });
    Err(PyOSError::new_err((errno, text.flatten().unwrap_or_else(|| "the Arrow stream failed".into()))))
}

/// The layout of text, by the format of its type.
#[derive(Clone, Copy)]
enum Layout {
    Offsets32,
    Offsets64,
    Views,
}

/// # Errors
/// `TypeError` for a type of other values.
fn layout(schema: &ArrowSchema, what: &str) -> PyResult<Layout> {
    match format(schema) {
        b"u" | b"z" => Ok(Layout::Offsets32),
        b"U" | b"Z" => Ok(Layout::Offsets64),
        b"vu" | b"vz" => Ok(Layout::Views),
        other => {
            let format = String::from_utf8_lossy(other);
            Err(PyTypeError::new_err(format!(
                "{what} is an Arrow array of format '{format}'; cast it to string or large_string"
            )))
        }
    }
}

fn format(schema: &ArrowSchema) -> &[u8] {
    if schema.release.is_none() || schema.format.is_null() {
        return b"";
    }
    // SAFETY: the format of a schema that is not released is a string, which lives as long as the schema.
    unsafe { CStr::from_ptr(schema.format) }.to_bytes()
}

fn of_array(schema: &Owned<ArrowSchema>, array: Owned<ArrowArray>, what: &str) -> PyResult<Imported> {
    let array = Arc::new(array);
    let text = |schema: &ArrowSchema, one: &ArrowArray| {
        let (layout, memory) = (layout(schema, what)?, ArrayBuffers::of(one, what)?);
        // SAFETY: the array has the type of its schema, and lives as long as `array`, which each view keeps.
        unsafe {
            match layout {
                Layout::Offsets32 => memory.text::<i32>(Paths::from_offsets32).map(Ok),
                Layout::Offsets64 => memory.text::<i64>(Paths::from_offsets).map(Ok),
                Layout::Views => memory.views().map(Err),
            }
        }
    };
    // SAFETY: a type with a dictionary has a pointer to the type of the texts.
    let Some(texts) = (unsafe { schema.0.dictionary.as_ref() }) else {
        return Ok(match text(&schema.0, &array.0)? {
            Ok(paths) => Imported::Text(ArrowPaths { paths, _array: array }),
            Err(copied) => Imported::Copied(copied),
        });
    };
    // SAFETY: an array of such a type has a pointer to the array of the texts.
    let Some(dictionary) = (unsafe { array.0.dictionary.as_ref() }) else {
        return Err(PyValueError::new_err(format!("{what} is an Arrow array without its dictionary")));
    };
    let memory = ArrayBuffers::of(&array.0, what)?;
    // SAFETY: the format is that of the numbers.
    let numbers = ArrowNumbers(unsafe { memory.numbers(format(&schema.0), &array) }?);
    match text(texts, dictionary)? {
        Ok(paths) => {
            let texts = ArrowPaths { paths, _array: array };
            Ok(Imported::Dictionary(ArrowDictionary { texts, numbers }))
        }
        Err(texts) => {
            let all = numbers.view().iter().map(|number| {
                let text = usize::try_from(*number).ok().and_then(|number| texts.view().get(number));
                text.ok_or_else(|| PyValueError::new_err(format!("{what} has a number without a text")))
            });
            all.collect::<PyResult<PathSet>>().map(Imported::Copied)
        }
    }
}

/// The buffers of an array without nulls.
struct ArrayBuffers<'a> {
    /// None for an array without values, which may have none.
    buffers: Option<&'a [*const c_void]>,
    start: usize,
    count: usize,
    what: &'a str,
}

impl<'a> ArrayBuffers<'a> {
    /// # Errors
    /// `ValueError` for an array that the interface does not allow, or that has nulls.
    fn of(array: &'a ArrowArray, what: &'a str) -> PyResult<Self> {
        let mut memory = ArrayBuffers { buffers: None, start: 0, count: 0, what };
        if array.release.is_none() {
            return Err(memory.bad("that has been released"));
        }
        let numbers = [array.length, array.offset, array.n_buffers].map(usize::try_from);
        let [Ok(count), Ok(start), Ok(buffers)] = numbers else {
            return Err(memory.bad("of negative length"));
        };
        if count == 0 {
            return Ok(memory);
        }
        let Some(end) = start.checked_add(count) else { return Err(memory.bad("past all memory")) };
        if buffers < 2 || array.buffers.is_null() {
            return Err(memory.bad("without its buffers"));
        }
        // SAFETY: there are so many buffers.
        let buffers = unsafe { std::slice::from_raw_parts(array.buffers, buffers) };
        let bits = buffers[0].cast::<u8>();
        // SAFETY: the buffer has a bit for each value.
        let is_null = |at: usize| unsafe { *bits.add(at / 8) } >> (at % 8) & 1 == 0;
        if array.null_count != 0 && !bits.is_null() && (start..end).any(is_null) {
            return Err(memory.bad("with nulls; drop them first"));
        }
        memory = ArrayBuffers { buffers: Some(buffers), start, count, what };
        Ok(memory)
    }

    fn bad(&self, why: &str) -> PyErr {
        PyValueError::new_err(format!("{} is an Arrow array {why}", self.what))
    }

    /// Views `more` items of a buffer beyond those of the values.
    ///
    /// # Safety
    /// The buffer has so many items of this type. The view ends before the array is released.
    unsafe fn items<T: 'static>(&self, buffer: usize, more: usize) -> PyResult<&'static [T]> {
        let Some(buffers) = self.buffers else { return Ok(&[]) };
        let memory = buffers.get(buffer).copied().unwrap_or_default().cast::<T>();
        if memory.is_null() {
            return Err(self.bad("without offsets"));
        }
        if !memory.is_aligned() {
            return Err(self.bad("in memory that is not aligned"));
        }
        // SAFETY: the caller's promise; the pointer is aligned and not null.
        Ok(unsafe { std::slice::from_raw_parts(memory.add(self.start), self.count + more) })
    }

    /// Views text with offsets.
    ///
    /// # Safety
    /// The array has text with offsets of this type. The view ends before the array is released.
    unsafe fn text<T: Copy + Into<i64> + 'static>(
        &self,
        view: impl Fn(&'static [u8], &'static [T]) -> Result<Paths<'static>, lanefs::BadOffsets>,
    ) -> PyResult<Paths<'static>> {
        let failed = |error: lanefs::BadOffsets| PyValueError::new_err(error.to_string());
        let Some(buffers) = self.buffers else {
            return Paths::from_offsets32(&[], &[0]).map_err(failed);
        };
        // SAFETY: there is one offset more than there are values.
        let offsets = unsafe { self.items::<T>(1, 1) }?;
        let end = offsets.last().map_or(0, |end| (*end).into());
        let text = match (usize::try_from(end), buffers.get(2)) {
            // SAFETY: there is text up to the last offset, and nobody changes it.
            (Ok(end), Some(text)) if !text.is_null() => unsafe {
                std::slice::from_raw_parts(text.cast::<u8>(), end)
            },
            _ => &[],
        };
        view(text, offsets).map_err(failed)
    }

    /// Copies text of string views.
    ///
    /// # Safety
    /// The array has string views.
    unsafe fn views(&self) -> PyResult<PathSet> {
        let mut set = PathSet::with_capacity(self.count, 0);
        let Some(buffers) = self.buffers else { return Ok(set) };
        let [_, views, texts @ .., lengths] = buffers else { return Err(self.bad("without its buffers")) };
        if views.is_null() || lengths.is_null() && !texts.is_empty() {
            return Err(self.bad("without its views"));
        }
        for at in self.start..self.start + self.count {
            // SAFETY: there is a view of 16 bytes for each value.
            let view = unsafe { views.cast::<[u8; VIEW_BYTES]>().add(at).read_unaligned() };
            let word =
                |at: usize| u32::from_le_bytes([view[at], view[at + 1], view[at + 2], view[at + 3]]) as usize;
            let len = word(0);
            if len <= INLINE_BYTES {
                set.push(&view[4..4 + len]);
                continue;
            }
            let (number, start) = (word(8), word(12));
            let Some(text) = texts.get(number).filter(|text| !text.is_null()) else {
                return Err(self.bad("with a view outside of its text"));
            };
            // SAFETY: there is a length for each buffer of text.
            let bytes = unsafe { lengths.cast::<i64>().add(number).read_unaligned() };
            if usize::try_from(bytes).is_ok_and(|bytes| start + len <= bytes) {
                // SAFETY: the text has so many bytes.
                set.push(unsafe { std::slice::from_raw_parts(text.cast::<u8>().add(start), len) });
            } else {
                return Err(self.bad("with a view outside of its text"));
            }
        }
        Ok(set)
    }

    /// Views the numbers of a dictionary array, or copies those of another width than 32 bits.
    ///
    /// # Safety
    /// The format is that of the numbers.
    unsafe fn numbers(&self, format: &[u8], array: &Arc<Owned<ArrowArray>>) -> PyResult<Numbers> {
        macro_rules! copied {
            ($type:ty) => {{
                // SAFETY: the buffer has a number of this width for each value.
                let numbers = unsafe { self.items::<$type>(1, 0) }?;
                Numbers::Copied(numbers.iter().map(|number| i32::try_from(*number).unwrap_or(-1)).collect())
            }};
        }
        Ok(match format {
            b"c" => copied!(i8),
            b"C" => copied!(u8),
            b"s" => copied!(i16),
            b"S" => copied!(u16),
            // SAFETY: as above; the view lives as long as the array beside it.
            b"i" => Numbers::InPlace(unsafe { self.items::<i32>(1, 0) }?, Arc::clone(array)),
            b"I" => copied!(u32),
            b"l" => copied!(i64),
            b"L" => copied!(u64),
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "{} is an Arrow array of other numbers",
                    self.what
                )));
            }
        })
    }
}
