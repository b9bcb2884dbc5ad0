//! Work of several commands: walks, transfers, the choice of an engine, searches.

pub mod differences;
pub mod engine;
pub mod fuzzy_names;
pub mod output_file;
pub mod path_list;
pub mod search_files;
pub mod set_attributes;
pub mod transfer;
pub mod tree_arg;
pub mod unpacked_tree;
pub mod usage;
pub mod walk;
