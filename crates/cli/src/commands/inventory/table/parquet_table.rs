//! The table in Parquet's format.

use crate::commands::inventory::rows::{OptionalTexts, Rows, Texts};
use crate::terminal::exit;
use crate::terminal::failure::Failure;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::sync::Arc;

/// The columns, in the order in which they are written.
const COLUMNS: &str = "
    required binary path (STRING);
    optional binary path_hex (STRING);
    optional binary parent (STRING);
    required binary name (STRING);
    required binary type (STRING);
    required int64 inode (INTEGER(64,false));
    required int32 links (INTEGER(32,false));
    required int64 size;
    required int64 allocated;
    required int32 mode (INTEGER(16,false));
    required int32 uid (INTEGER(32,false));
    required int32 gid (INTEGER(32,false));
    required binary owner (STRING);
    required binary owner_group (STRING);
    required int64 mtime (TIMESTAMP(NANOS,true));
    required int64 ctime (TIMESTAMP(NANOS,true));
    required int64 atime (TIMESTAMP(NANOS,true));
    required int64 btime (TIMESTAMP(NANOS,true));
";
const DIGEST: &str = "optional binary digest (STRING);";

/// A file that gets rows.
pub(in crate::commands::inventory) struct ParquetTable {
    writer: SerializedFileWriter<Box<dyn Write + Send>>,
    has_digest: bool,
}

impl ParquetTable {
    /// Begins a file.
    ///
    /// # Errors
    /// The output's.
    pub(in crate::commands::inventory) fn create(
        out: Box<dyn Write + Send>,
        has_digest: bool,
    ) -> std::result::Result<Self, Failure> {
        let begun = Self::begin(out, has_digest);
        begun.map_err(|error| Failure::new(exit::HOST, "inventory", &error.to_string(), ""))
    }

    fn begin(out: Box<dyn Write + Send>, has_digest: bool) -> Result<Self> {
        let digest = if has_digest { DIGEST } else { "" };
        let schema = parse_message_type(&format!("message inventory {{ {COLUMNS} {digest} }}"))?;
        let properties = WriterProperties::builder()
            .set_created_by(format!("lanefs {}", env!("CARGO_PKG_VERSION")))
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            // A path has most of its text from the one before.
            .set_column_dictionary_enabled("path".into(), false)
            .set_column_encoding("path".into(), Encoding::DELTA_BYTE_ARRAY)
            .set_column_dictionary_enabled("name".into(), false)
            .set_column_dictionary_enabled("inode".into(), false)
            .set_column_encoding("inode".into(), Encoding::DELTA_BINARY_PACKED)
            .set_column_dictionary_enabled("digest".into(), false);
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))?;
        Ok(ParquetTable { writer, has_digest })
    }

    /// Writes rows.
    ///
    /// # Errors
    /// The output's.
    pub(in crate::commands::inventory) fn write(&mut self, rows: Rows) -> io::Result<()> {
        self.write_group(rows).map_err(io_error)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The output's.
    pub(in crate::commands::inventory) fn finish(self) -> io::Result<()> {
        self.writer.close().map(drop).map_err(io_error)
    }

    fn write_group(&mut self, rows: Rows) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        texts(&mut group, rows.path)?;
        optional(&mut group, rows.path_hex)?;
        optional(&mut group, rows.parent)?;
        texts(&mut group, rows.name)?;
        texts(&mut group, rows.kind)?;
        column::<Int64Type, _>(&mut group, &rows.inode, None)?;
        column::<Int32Type, _>(&mut group, &rows.links, None)?;
        column::<Int64Type, _>(&mut group, &rows.size, None)?;
        column::<Int64Type, _>(&mut group, &rows.allocated, None)?;
        for numbers in [rows.mode, rows.uid, rows.gid] {
            column::<Int32Type, _>(&mut group, &numbers, None)?;
        }
        texts(&mut group, rows.owner)?;
        texts(&mut group, rows.owner_group)?;
        for times in [rows.mtime, rows.ctime, rows.atime, rows.btime] {
            column::<Int64Type, _>(&mut group, &times, None)?;
        }
        if self.has_digest {
            optional(&mut group, rows.digest)?;
        }
        group.close().map(drop)
    }
}

type Group<'w> = SerializedRowGroupWriter<'w, Box<dyn Write + Send>>;

/// Writes the next column of a group. `levels` has 1 for a row with a value, 0 for one without.
fn column<D: DataType<T = V>, V>(group: &mut Group<'_>, values: &[V], levels: Option<&[i16]>) -> Result<()> {
    let next = group.next_column()?;
    let mut column = next.ok_or_else(|| ParquetError::General("a column too many".to_string()))?;
    column.typed::<D>().write_batch(values, levels, None)?;
    column.close()
}

fn texts(group: &mut Group<'_>, texts: Texts) -> Result<()> {
    column::<ByteArrayType, _>(group, &values(texts), None)
}

fn optional(group: &mut Group<'_>, column_texts: OptionalTexts) -> Result<()> {
    let levels: Vec<i16> = column_texts.is_there.iter().map(|is_there| (*is_there).into()).collect();
    column::<ByteArrayType, _>(group, &values(column_texts.texts), Some(&levels))
}

/// The texts as Parquet takes them, which are parts of one memory.
fn values(texts: Texts) -> Vec<ByteArray> {
    let (all, mut start) = (ByteArray::from(texts.text), 0);
    let each = texts.ends.into_iter().map(|end| {
        let text = all.slice(start, end - start);
        start = end;
        text
    });
    each.collect()
}

/// The error of the output, where it is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error.to_string()),
        },
        error => io::Error::other(error.to_string()),
    }
}
