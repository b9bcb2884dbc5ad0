//! Tests of several rooms together.

mod device_files;
mod failures;
