//! Answers to a batch of paths as columns: one array for each value that is asked for.
//!
//! A batch of a million answers of which one number is wanted each should write a million numbers. The caller
//! names the columns and owns their memory: [`Columns`] keeps it from batch to batch, and [`ColumnsMut`]
//! takes any slices, such as the arrays of another library.
//!
//! | module | what it knows |
//! |---|---|
//! | `table` | the columns that hold attributes, declared once |
//! | `column` | the columns, and sets of them |
//! | `block` | answers to some paths side by side, as an engine gives them |
//! | `lent` | columns in memory of the caller |
//! | `owned` | columns that keep their memory |
//! | `rows` | the receivers of answers |

mod block;
mod column;
mod lent;
mod owned;
mod rows;
mod table;
#[cfg(test)]
mod tests;

pub use block::{ANSWER_BLOCK, AnswerBlock, AttributeBlock};
pub use column::{Column, ColumnSet};
pub use lent::ColumnsMut;
pub use owned::{Columns, Row};
pub use rows::{Resolutions, Rows};
