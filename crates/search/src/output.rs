//! How matches are shown.

use grep_printer::{
    ColorSpecs, JSON, JSONBuilder, Standard, StandardBuilder, Summary, SummaryBuilder, SummaryKind,
    default_color_specs,
};
use grep_regex::RegexMatcher;
use grep_searcher::Searcher;
use std::io::{Read, Result};
use std::path::Path;
use termcolor::WriteColor;

/// Form of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// The lines.
    Lines(Lines),
    /// The number of lines of each file.
    Count,
    /// The number of matches of each file.
    CountMatches,
    /// The paths of files with a line.
    Files,
    /// The paths of files without one.
    FilesWithout,
    /// Nothing.
    Nothing,
    /// Messages in JSON, those of ripgrep.
    Json,
}

/// Options of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// With their numbers.
    pub numbers: bool,
    /// With the column of the first match.
    pub columns: bool,
    /// With the offset in the file in bytes.
    pub offsets: bool,
    /// The path on a line of its own, and not before each line.
    pub heading: bool,
    /// Only what matches.
    pub only_matching: bool,
    /// Lines before.
    pub before: usize,
    /// Lines after.
    pub after: usize,
    /// Lines with more bytes are left out.
    pub max_columns: Option<u64>,
}

/// Options of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputOptions {
    /// Its form.
    pub form: Form,
    /// With paths.
    pub paths: bool,
    /// NUL and not a line feed or a colon after a path.
    pub nul: bool,
    /// With colours.
    pub colors: bool,
}

impl OutputOptions {
    /// The line between the results of two files.
    pub(crate) fn separator(&self) -> Option<&'static [u8]> {
        match &self.form {
            Form::Lines(lines) if lines.heading => Some(b""),
            Form::Lines(lines) if lines.before > 0 || lines.after > 0 => Some(b"--"),
            _ => None,
        }
    }

    /// True where one match in all files is enough.
    pub(crate) fn ends_at_first(&self) -> bool {
        self.form == Form::Nothing
    }

    /// True where a file without a line is one that is shown.
    pub(crate) fn shows_without(&self) -> bool {
        self.form == Form::FilesWithout
    }

    pub(crate) fn printer<W: WriteColor>(&self, out: W) -> Printer<W> {
        let terminator = self.nul.then_some(0);
        let colors =
            if self.colors { ColorSpecs::new(&default_color_specs()) } else { ColorSpecs::default() };
        let summary = |kind, out| {
            let mut builder = SummaryBuilder::new();
            builder.kind(kind).color_specs(colors.clone()).path(self.paths).path_terminator(terminator);
            Printer::Summary(builder.build(out))
        };
        match &self.form {
            Form::Lines(lines) => {
                let mut builder = StandardBuilder::new();
                builder
                    .color_specs(colors.clone())
                    .heading(lines.heading)
                    .path(self.paths)
                    .path_terminator(terminator)
                    .column(lines.columns)
                    .byte_offset(lines.offsets)
                    .only_matching(lines.only_matching)
                    .max_columns(lines.max_columns);
                Printer::Lines(builder.build(out))
            }
            Form::Count => summary(SummaryKind::Count, out),
            Form::CountMatches => summary(SummaryKind::CountMatches, out),
            Form::Files => summary(SummaryKind::PathWithMatch, out),
            Form::FilesWithout => summary(SummaryKind::PathWithoutMatch, out),
            Form::Nothing => summary(SummaryKind::QuietWithMatch, out),
            Form::Json => Printer::Json(JSONBuilder::new().build(out)),
        }
    }
}

/// The bytes of a file.
pub(crate) enum Content<'c> {
    Slice(&'c [u8]),
    Reader(&'c mut dyn Read),
}

/// A printer of one of the forms.
pub(crate) enum Printer<W> {
    Lines(Standard<W>),
    Summary(Summary<W>),
    Json(JSON<W>),
}

impl<W: WriteColor> Printer<W> {
    /// Searches in a file and prints what is found. Returns whether a line was found.
    pub(crate) fn search(
        &mut self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        path: &Path,
        content: Content<'_>,
    ) -> Result<bool> {
        macro_rules! run {
            ($sink:expr) => {{
                let mut sink = $sink;
                match content {
                    Content::Slice(bytes) => searcher.search_slice(matcher, bytes, &mut sink)?,
                    Content::Reader(reader) => searcher.search_reader(matcher, reader, &mut sink)?,
                }
                Ok(sink.has_match())
            }};
        }
        match self {
            Printer::Lines(printer) => run!(printer.sink_with_path(matcher, path)),
            Printer::Summary(printer) => run!(printer.sink_with_path(matcher, path)),
            Printer::Json(printer) => run!(printer.sink_with_path(matcher, path)),
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut W {
        match self {
            Printer::Lines(printer) => printer.get_mut(),
            Printer::Summary(printer) => printer.get_mut(),
            Printer::Json(printer) => printer.get_mut(),
        }
    }
}
