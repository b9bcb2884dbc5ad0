//! Tests of several rooms together.

mod device_files;
mod exports;
mod failures;
mod probes;
