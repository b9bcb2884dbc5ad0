//! The treemap of directories.

use super::label::{cut, fitting, whole};
use super::squarify::{Rect, squarify};
use super::svg::Svg;
use super::tree::{Directory, Merged};
use crate::text::escape::escape;
use crate::text::size::human;
use std::cmp::Reverse;
use std::fmt::Display;

/// Directories that get a smaller area, in square pixels, are merged.
const MIN_AREA: f64 = 40.0;
/// Width of a column of text and height of a line, with some room.
const COLUMN: f64 = 7.4;
const LINE: f64 = 15.0;
/// Room left of a label.
const PADDING: f64 = 4.0;
/// Colours of the directories in the first one, the largest first; all others have the last colour.
const COLORS: [&str; 10] = [
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7", "#9c755f",
    "#bab0ac",
];
/// Directories in the legend.
const IN_LEGEND: usize = 5;

/// The treemap that is being drawn.
pub(super) struct Treemap<'s> {
    svg: &'s mut Svg,
    /// Bytes of the first directory, and the area in which they are shown.
    total: u64,
    area: f64,
    /// Path of the directory that is being drawn.
    path: Vec<u8>,
    /// Length of the path of the first one, with a slash after it.
    start: usize,
}

/// A part of a directory's rectangle.
enum Part<'d> {
    Below(&'d Directory),
    Own,
    Merged(Merged),
}

impl<'s> Treemap<'s> {
    /// Draws a directory and those below it.
    pub(super) fn draw(svg: &'s mut Svg, root: &Directory, at: Rect) {
        svg.begin("g", &[("id", &"directories")]);
        let start = root.name.len() + usize::from(!root.name.ends_with(b"/"));
        let mut map = Treemap { svg, total: root.bytes, area: at.area(), path: root.name.clone(), start };
        map.directory(root, at, 0, None);
        map.legend(root, at);
        map.svg.end("g");
    }

    /// Draws a directory. The first one has no colour; those in it get one each.
    fn directory(&mut self, directory: &Directory, at: Rect, depth: usize, color: Option<&str>) {
        let parts = self.parts(directory);
        if !parts.iter().any(|(_, part)| matches!(part, Part::Below(_))) {
            let (dir, name) = self.relative();
            let name = if depth == 0 { whole(&self.path) } else { name };
            return self.cell(at, depth, color, ("", directory.bytes), &(dir, name));
        }
        let weights: Vec<u64> = parts.iter().map(|(bytes, _)| *bytes).collect();
        let mut colors = COLORS.into_iter();
        for ((bytes, part), at) in parts.iter().zip(squarify(&weights, at)) {
            let (what, last) = match part {
                Part::Below(below) => {
                    let own = color.unwrap_or_else(|| colors.next().unwrap_or(COLORS[COLORS.len() - 1]));
                    self.below(below, at, depth + 1, own);
                    continue;
                }
                Part::Own => ("files in ".to_string(), "*"),
                Part::Merged(merged) => match merged.directories {
                    1 => ("1 other directory in ".to_string(), "…"),
                    count => (format!("{count} other directories in "), "…"),
                },
            };
            let (dir, name) = self.relative();
            let last = if depth == 0 { last.to_string() } else { format!("{name}/{last}") };
            self.cell(at, depth + 1, color, (&what, *bytes), &(dir, last));
        }
        // The wider the border, the higher is the directory that it shows.
        let width = [0, 3, 2, 1][depth.min(3)];
        if width > 0 {
            self.svg.rect(at, &[("class", &"d"), ("stroke-width", &width)], "");
        }
    }

    /// Draws a directory that is in another one.
    fn below(&mut self, directory: &Directory, at: Rect, depth: usize, color: &str) {
        let len = self.path.len();
        if !self.path.ends_with(b"/") {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&directory.name);
        self.directory(directory, at, depth, Some(color));
        self.path.truncate(len);
    }

    /// The parts of a directory that can be seen, the largest first.
    fn parts<'d>(&self, directory: &'d Directory) -> Vec<(u64, Part<'d>)> {
        let mut merged = directory.merged;
        let mut parts = Vec::new();
        for below in &directory.below {
            match below.bytes > 0 && below.bytes as f64 / self.total as f64 * self.area >= MIN_AREA {
                true => parts.push((below.bytes, Part::Below(below))),
                false => merged.add(below),
            }
        }
        parts.push((directory.own, Part::Own));
        parts.push((merged.bytes, Part::Merged(merged)));
        parts.retain(|(bytes, _)| *bytes > 0);
        parts.sort_by_key(|(bytes, _)| Reverse(*bytes));
        parts
    }

    /// The path from the first directory on, escaped: up to the last slash, and the name after it.
    fn relative(&self) -> (String, String) {
        let path = escape(self.path.get(self.start..).unwrap_or_default());
        let (dir, name) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
        (dir.to_string(), name.to_string())
    }

    /// Draws a cell: what is in it (in words before the path) with its bytes, and its label in two parts, of
    /// which the first may be left out.
    fn cell(
        &mut self,
        at: Rect,
        depth: usize,
        color: Option<&str>,
        (what, bytes): (&str, u64),
        label: &(String, String),
    ) {
        let share = if self.total == 0 { 0.0 } else { bytes as f64 / self.total as f64 * 100.0 };
        let path = whole(&self.path);
        let title = format!("{what}{path}: {} ({bytes} bytes, {share:.1} %)", human(bytes));
        let fill = color.unwrap_or(COLORS[COLORS.len() - 1]);
        let opacity = format!("{:.2}", 0.85 - 0.12 * depth.saturating_sub(1).min(4) as f64);
        self.svg.rect(at, &[("class", &"c"), ("fill", &fill), ("fill-opacity", &opacity)], &title);
        let columns = ((at.width - 2.0 * PADDING) / COLUMN).max(0.0) as usize;
        let lines = [fitting(&label.0, &label.1, columns), fitting("", &human(bytes), columns)];
        let mut y = at.y;
        for line in lines.into_iter().map_while(|line| line) {
            y += LINE;
            if y + PADDING > at.y + at.height {
                break;
            }
            self.label(at.x + PADDING, y, &line);
        }
    }

    fn label(&mut self, x: f64, y: f64, text: &str) {
        let (x, y) = (format!("{x:.2}"), format!("{y:.2}"));
        self.svg.text("text", &[("x", &x), ("y", &y), ("class", &"l")], text);
    }

    /// Draws the names and sizes of the largest directories below the treemap `above`.
    fn legend(&mut self, root: &Directory, above: Rect) {
        let width = above.width / IN_LEGEND as f64;
        let y = above.y + above.height + 10.0;
        let below = self.parts(root).into_iter().filter_map(|(_, part)| match part {
            Part::Below(below) => Some(below),
            _ => None,
        });
        for (number, (below, color)) in below.zip(COLORS).take(IN_LEGEND).enumerate() {
            let x = above.x + number as f64 * width;
            let at = Rect { x, y, width: 12.0, height: 12.0 };
            let fill: &dyn Display = &color;
            self.svg.rect(at, &[("fill", fill), ("fill-opacity", &"0.85")], "");
            let size = human(below.bytes);
            let columns = ((width - 24.0) / COLUMN) as usize;
            let name = cut(&escape(&below.name), columns.saturating_sub(size.len() + 1));
            self.label(x + 18.0, y + 11.0, &format!("{name} {size}"));
        }
    }
}
