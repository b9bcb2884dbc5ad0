//! The table of an inventory: a file in Parquet's format, group of rows by group of rows.

#[cfg(not(feature = "parquet"))]
mod missing;
#[cfg(feature = "parquet")]
mod parquet_table;

#[cfg(not(feature = "parquet"))]
pub(super) use missing::NoTable as Table;
#[cfg(feature = "parquet")]
pub(super) use parquet_table::ParquetTable as Table;
