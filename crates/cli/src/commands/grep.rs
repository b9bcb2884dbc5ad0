//! `lanefs grep`.

use crate::common::engine::{self, EngineArgs};
use crate::common::search_files::{SearchFiles, keep};
use crate::session::command::Command;
use crate::session::context::Context;
use crate::session::expansion::ExpansionArgs;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::input::Input;
use crate::terminal::{console, exit, interrupt};
use crate::text::bytes;
use clap::{Args, ValueEnum};
use lanefs_gpu::Gpu;
use lanefs_search::{
    Binary, Case, DeviceSearch, Error, Form, Found, Grep as Search, Lines, OutputOptions, QueryOptions,
    Selection, SelectionOptions,
};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes of a file of patterns.
const MAX_PATTERN_BYTES: u64 = 64 << 20;

/// Print the lines of files that match a pattern
///
/// Searches all files below each PATH, hidden ones too, with the engine, the patterns and the output of
/// ripgrep. Files come in the order of their paths. A file with a NUL byte is binary: the search in it ends
/// there, or prints only that it matches if PATH names the file.
///
/// With --engine gpu a device finds the files in which a line may match, and the CPU engine searches in these
/// only. The output is the same.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct Grep {
    /// Regular expression, as of the Rust crate `regex`
    #[arg(value_name = "PATTERN", required_unless_present_any = ["regexp", "file", "type_list"])]
    pattern: Option<OsString>,
    /// Files, and directories with all that is below [default: the root directory; in a shell the working
    /// directory]
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,

    /// A pattern; may be given several times. There is no PATTERN then
    #[arg(short = 'e', long, value_name = "PATTERN", allow_hyphen_values = true, help_heading = "Patterns")]
    regexp: Vec<OsString>,
    /// File of the host with one pattern per line; - is standard input. There is no PATTERN then
    #[arg(short = 'f', long, value_name = "FILE", help_heading = "Patterns")]
    file: Option<PathBuf>,
    /// Patterns are text, and not regular expressions
    #[arg(short = 'F', long, help_heading = "Patterns")]
    fixed_strings: bool,
    /// No regard to case
    #[arg(short = 'i', long, conflicts_with = "smart_case", help_heading = "Patterns")]
    ignore_case: bool,
    /// No regard to case, unless a pattern has a character in upper case
    #[arg(short = 'S', long, help_heading = "Patterns")]
    smart_case: bool,
    /// Only matches with word boundaries around them
    #[arg(short = 'w', long, help_heading = "Patterns")]
    word_regexp: bool,
    /// Only matches that are whole lines; comes before -w
    #[arg(short = 'x', long, help_heading = "Patterns")]
    line_regexp: bool,
    /// Lines without a match
    #[arg(short = 'v', long, help_heading = "Patterns")]
    invert_match: bool,

    /// Only files of this type, such as rust; may be given several times
    #[arg(short = 't', long = "type", value_name = "TYPE", help_heading = "Files")]
    types: Vec<String>,
    /// No files of this type
    #[arg(short = 'T', long = "type-not", value_name = "TYPE", help_heading = "Files")]
    not_types: Vec<String>,
    /// Print the types with their globs
    #[arg(long, help_heading = "Files")]
    type_list: bool,
    /// Only files that match GLOB or, with ! before it, do not; the last that matches counts
    #[arg(short = 'g', long, value_name = "GLOB", allow_hyphen_values = true, help_heading = "Files")]
    glob: Vec<String>,
    /// The same without regard to case
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true, help_heading = "Files")]
    iglob: Vec<String>,
    /// Binary files are text, too
    #[arg(short = 'a', long, help_heading = "Files")]
    text: bool,

    /// Print the number of lines of each file
    #[arg(short = 'c', long, group = "form", help_heading = "Output")]
    count: bool,
    /// Print the number of matches of each file
    #[arg(long, group = "form", help_heading = "Output")]
    count_matches: bool,
    /// Print the paths of files with a match
    #[arg(short = 'l', long, group = "form", help_heading = "Output")]
    files_with_matches: bool,
    /// Print the paths of files without a match
    #[arg(long, group = "form", help_heading = "Output")]
    files_without_match: bool,
    /// Print nothing; the exit code tells. The search ends at the first match
    #[arg(short = 'q', long, group = "form", help_heading = "Output")]
    quiet: bool,
    /// Print messages in JSON, those of ripgrep
    #[arg(long, group = "form", help_heading = "Output")]
    json: bool,
    /// Print the matches and not their lines
    #[arg(short = 'o', long, help_heading = "Output")]
    only_matching: bool,
    /// Lines at most of each file
    #[arg(short = 'm', long, value_name = "COUNT", help_heading = "Output")]
    max_count: Option<u64>,
    /// Lines after each match
    #[arg(short = 'A', long, value_name = "COUNT", help_heading = "Output")]
    after_context: Option<usize>,
    /// Lines before each match
    #[arg(short = 'B', long, value_name = "COUNT", help_heading = "Output")]
    before_context: Option<usize>,
    /// Lines before and after each match
    #[arg(short = 'C', long, value_name = "COUNT", help_heading = "Output")]
    context: Option<usize>,
    /// Line numbers [default: on a terminal]
    #[arg(short = 'n', long, overrides_with = "no_line_number", help_heading = "Output")]
    line_number: bool,
    /// No line numbers
    #[arg(short = 'N', long, overrides_with = "line_number", help_heading = "Output")]
    no_line_number: bool,
    /// The column of the first match, in bytes
    #[arg(long, help_heading = "Output")]
    column: bool,
    /// The offset of the line in its file, in bytes
    #[arg(short = 'b', long, help_heading = "Output")]
    byte_offset: bool,
    /// Leave out lines that are longer, in bytes
    #[arg(short = 'M', long, value_name = "COUNT", help_heading = "Output")]
    max_columns: Option<u64>,
    /// Paths [default: unless PATH is one file]
    #[arg(short = 'H', long, overrides_with = "no_filename", help_heading = "Output")]
    with_filename: bool,
    /// No paths
    #[arg(short = 'I', long, overrides_with = "with_filename", help_heading = "Output")]
    no_filename: bool,
    /// NUL after paths
    #[arg(short = '0', long, help_heading = "Output")]
    null: bool,
    /// Each path on a line of its own [default: on a terminal]
    #[arg(long, overrides_with = "no_heading", help_heading = "Output")]
    heading: bool,
    /// The path before each line
    #[arg(long, overrides_with = "heading", help_heading = "Output")]
    no_heading: bool,
    /// Colours
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Color::Auto, help_heading = "Output")]
    color: Color,
    /// Threads [default: as many as processors]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    expansion: ExpansionArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

fn after_help() -> String {
    format!(
        "Examples:
  lanefs grep v.lane 'fn \\w+_test' /src -t rust
  lanefs grep v.lane -i -l todo
  lanefs grep v.lane -e one -e two -C 2 /notes.txt
  lanefs grep v.lane -F -f words.txt --json > found
  lanefs grep s3://bucket/share license -g '*.md'
  lanefs grep v.lane --engine gpu -c 'unsafe (fn|impl)' /src

Exit codes: {} a line was found, {} none was found or a PATH is missing, {} wrong usage, {} the volume is
damaged, {} the host or the device failed, {} interrupted.",
        exit::OK,
        exit::PARTIAL,
        exit::USAGE,
        exit::IMAGE,
        exit::HOST,
        exit::INTERRUPTED
    )
}

impl Command for Grep {
    fn host_file(&self) -> Result<Option<Box<dyn Read + Send>>, Failure> {
        match &self.file {
            Some(path) if path != Path::new("-") => console::open_file(path, interrupt::raised)
                .map(Some)
                .map_err(|error| Failure::host(path, &error)),
            _ => Ok(None),
        }
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        if self.type_list {
            return print_types(context);
        }
        let (patterns, paths) = self.words()?;
        let selection = SelectionOptions {
            types: self.types.clone(),
            not_types: self.not_types.clone(),
            globs: self.glob.clone(),
            case_insensitive_globs: self.iglob.clone(),
        };
        let selection = Selection::new(&selection).map_err(|error| failure(&error))?;
        let mut files = SearchFiles::new(context, paths, selection, self.expansion)?;
        let output = self.output(context, files.is_one_file());
        let threads = self.threads.or(std::thread::available_parallelism().ok()).map_or(1, usize::from);
        let query = self.query(patterns);
        let gpu = self.engine.open_device()?;
        let device = gpu.as_ref().and_then(|gpu| device_search(gpu, &query));
        let mut search = Search::new(query, output, threads).map_err(|error| failure(&error))?;
        if let Some(device) = &device {
            search = search.with_prefilter(device.clone());
        }
        files.escapes = context.terminal && !self.json;
        let stops = interrupt::flag();
        let mut failures = Vec::new();
        let mut failed = |path: &[u8], error| keep(&mut failures, path, &error);
        let found = search.search(context.volume, || files.next(), &mut context.out, &mut failed, &stops);
        let found = match found {
            // The failure that ended it is the last of the list.
            Err(Error::Ended) => Found::default(),
            found => found.map_err(|error| failure(&error))?,
        };
        engine::report(device.and_then(|device| device.failure()));
        for one in files.failures.into_iter().chain(failures) {
            context.go_on(Err(one))?;
        }
        if found.shown == 0 {
            context.raise_status(exit::PARTIAL);
        }
        Ok(())
    }

    fn max_expansion(&self) -> u64 {
        self.expansion.max_expansion
    }
}

/// Prepares a device for a query; `None` where the exact engine must search everywhere.
fn device_search(gpu: &Gpu, query: &QueryOptions) -> Option<Arc<DeviceSearch>> {
    let device = DeviceSearch::new(gpu, query).map(Arc::new);
    if device.is_none() {
        log::debug!("no match of this query has a part that the device could find; the CPU engine searches");
    }
    device
}

impl Grep {
    /// Splits the words of the command line into patterns and paths.
    fn words(&self) -> Result<(Vec<String>, Vec<&OsString>), Failure> {
        let own = self.regexp.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        let paths = self.paths.iter();
        if self.regexp.is_empty() && self.file.is_none() {
            let pattern = self.pattern.iter().map(text).collect::<Result<_, _>>()?;
            return Ok((pattern, paths.collect()));
        }
        let mut patterns = own;
        if let Some(file) = &self.file {
            patterns.extend(self.read_patterns(file)?);
        }
        Ok((patterns, self.pattern.iter().chain(paths).collect()))
    }

    fn read_patterns(&self, path: &Path) -> Result<Vec<String>, Failure> {
        let mut file = match self.host_file()? {
            Some(file) => file,
            None => Box::new(Input::default()),
        };
        let mut content = Vec::new();
        let read = (&mut file).take(MAX_PATTERN_BYTES + 1).read_to_end(&mut content);
        read.map_err(|error| Failure::host(path, &error))?;
        if content.len() as u64 > MAX_PATTERN_BYTES {
            return Err(Failure::usage(
                bytes::of_path(path),
                "has more than 64 MiB",
                "name a file of patterns",
            ));
        }
        let lines = content.strip_suffix(b"\n").unwrap_or(&content).split(|byte| *byte == b'\n');
        let text = |line: &[u8]| {
            String::from_utf8(line.strip_suffix(b"\r").unwrap_or(line).to_vec())
                .map_err(|_| Failure::usage(bytes::of_path(path), "has a pattern that is not UTF-8", HEX))
        };
        if content.is_empty() { Ok(Vec::new()) } else { lines.map(text).collect() }
    }

    fn query(&self, patterns: Vec<String>) -> QueryOptions {
        let case = match (self.ignore_case, self.smart_case) {
            (true, _) => Case::Insensitive,
            (_, true) => Case::Smart,
            _ => Case::Sensitive,
        };
        QueryOptions {
            patterns,
            is_fixed: self.fixed_strings,
            case,
            words: self.word_regexp,
            lines: self.line_regexp,
            inverts: self.invert_match,
            binary: if self.text { Binary::Text } else { Binary::Detect },
            max_count: self.max_count,
        }
    }

    fn output(&self, context: &Context<'_>, is_one_file: bool) -> OutputOptions {
        let terminal = context.terminal;
        let lines = Lines {
            numbers: self.line_number || self.column || terminal && !self.no_line_number,
            columns: self.column,
            offsets: self.byte_offset,
            heading: self.heading || terminal && !self.no_heading,
            only_matching: self.only_matching,
            before: self.before_context.or(self.context).unwrap_or(0),
            after: self.after_context.or(self.context).unwrap_or(0),
            max_columns: self.max_columns,
        };
        let form = match () {
            () if self.count && self.only_matching || self.count_matches => Form::CountMatches,
            () if self.count => Form::Count,
            () if self.files_with_matches => Form::Files,
            () if self.files_without_match => Form::FilesWithout,
            () if self.quiet => Form::Nothing,
            () if self.json => Form::Json,
            () => Form::Lines(lines),
        };
        let colors = match self.color {
            Color::Auto => terminal && console::colors_are_welcome(),
            Color::Always => true,
            Color::Never => false,
        };
        let names_files = matches!(form, Form::Files | Form::FilesWithout);
        let paths = names_files || self.with_filename || !self.no_filename && !is_one_file;
        OutputOptions { form, paths, nul: self.null, colors }
    }
}

/// Advice on patterns that are not text.
const HEX: &str = "write bytes as (?-u:\\xff)";

/// A pattern as text.
fn text(word: &OsString) -> Result<String, Failure> {
    let word = bytes::of(word);
    let text = std::str::from_utf8(word).map_err(|_| Failure::usage(word, "is not UTF-8", HEX))?;
    Ok(text.to_owned())
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::Interrupted => Failure::Interrupted,
        Error::Output(error) => Failure::from(std::io::Error::new(error.kind(), error.to_string())),
        Error::Pattern(why) => Failure::usage("PATTERN", why, "-F searches for text as it is"),
        Error::Type(why) => Failure::usage("--type", why, "--type-list prints all"),
        error => Failure::usage("--glob", &error.to_string(), ""),
    }
}

fn print_types(context: &mut Context<'_>) -> Outcome {
    for (name, globs) in Selection::known_types() {
        writeln!(context.out, "{name}: {}", globs.join(", "))?;
    }
    Ok(())
}
