//! Forms of a listing: columns, one name per line, attributes, JSON.

use crate::session::context::Context;
use crate::session::users;
use crate::terminal::console;
use crate::terminal::failure::Outcome;
use crate::text::escape::escape;
use crate::text::size::human;
use crate::text::{json, mode, time};
use lanefs::{Attr, FileKind};
use std::io::Write;

/// Columns of a terminal of unknown width.
const DEFAULT_COLUMNS: usize = 80;

/// An entry to print.
pub(super) struct ListingRow {
    /// Name to print.
    pub(super) name: Vec<u8>,
    /// Path, for JSON.
    pub(super) path: Vec<u8>,
    /// Attributes.
    pub(super) attr: Attr,
    /// Target of a symbolic link.
    pub(super) target: Option<Vec<u8>>,
}

/// Form of a listing.
#[derive(Clone, Copy)]
pub(super) struct ListingFormat {
    /// JSON objects.
    pub(super) json: bool,
    /// Attributes, one entry per line.
    pub(super) long: bool,
    /// One name per line, on a terminal too.
    pub(super) one_per_line: bool,
    /// Inode numbers.
    pub(super) inode: bool,
    /// Numbers for owner and group.
    pub(super) numeric: bool,
    /// Sizes with a unit.
    pub(super) human_readable: bool,
}

impl ListingFormat {
    /// Prints the rows.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn print(self, context: &mut Context<'_>, rows: &[ListingRow]) -> Outcome {
        match () {
            () if self.json => rows.iter().try_for_each(|row| print_json(context, row)),
            () if self.long => self.print_long(context, rows),
            () if self.one_per_line || !context.terminal => rows.iter().try_for_each(|row| {
                let mut line = self.inode_column(row);
                context.push_name(&mut line, &row.name);
                line.push(b'\n');
                Ok(context.out.write_all(&line)?)
            }),
            () => self.print_columns(context, rows),
        }
    }

    fn inode_column(self, row: &ListingRow) -> Vec<u8> {
        if self.inode { format!("{} ", row.attr.ino).into_bytes() } else { Vec::new() }
    }

    fn print_long(self, context: &mut Context<'_>, rows: &[ListingRow]) -> Outcome {
        let cells: Vec<[String; 4]> = rows.iter().map(|row| self.cells(&row.attr)).collect();
        let width = |column: usize| cells.iter().map(|c| c[column].chars().count()).max().unwrap_or(0);
        let (links, owner, group, size) = (width(0), width(1), width(2), width(3));
        for (row, cell) in rows.iter().zip(&cells) {
            let mut line = self.inode_column(row);
            let fixed = format!(
                "{} {:>links$} {:<owner$} {:<group$} {:>size$} {} ",
                mode::text(row.attr.kind, row.attr.perm),
                cell[0],
                cell[1],
                cell[2],
                cell[3],
                time::short(row.attr.mtime),
            );
            line.extend_from_slice(fixed.as_bytes());
            context.push_name(&mut line, &row.name);
            if let Some(target) = &row.target {
                line.extend_from_slice(b" -> ");
                context.push_name(&mut line, target);
            }
            line.push(b'\n');
            context.out.write_all(&line)?;
        }
        Ok(())
    }

    /// Links, owner, group and size as text.
    fn cells(self, attr: &Attr) -> [String; 4] {
        let (owner, group) = match self.numeric {
            true => (attr.uid.to_string(), attr.gid.to_string()),
            false => (users::user(attr.uid), users::group(attr.gid)),
        };
        let size = match attr.kind {
            FileKind::CharDevice | FileKind::BlockDevice => {
                let (major, minor) = mode::device_numbers(attr.rdev);
                format!("{major}, {minor}")
            }
            _ if self.human_readable => human(attr.size),
            _ => attr.size.to_string(),
        };
        [attr.links.to_string(), owner, group, size]
    }

    /// Prints names in as many columns as fit the terminal.
    fn print_columns(self, context: &mut Context<'_>, rows: &[ListingRow]) -> Outcome {
        let name = |row: &ListingRow| {
            String::from_utf8_lossy(&self.inode_column(row)).into_owned() + &escape(&row.name)
        };
        let names: Vec<String> = rows.iter().map(name).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) + 2;
        let columns = (terminal_columns() / width).max(1);
        let height = names.len().div_ceil(columns);
        for line in 0..height {
            let mut text = String::new();
            for name in names.iter().skip(line).step_by(height) {
                text.push_str(&format!("{name:<width$}"));
            }
            writeln!(context.out, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

fn terminal_columns() -> usize {
    console::columns().unwrap_or(DEFAULT_COLUMNS)
}

fn print_json(context: &mut Context<'_>, row: &ListingRow) -> Outcome {
    let mut object = serde_json::Map::new();
    json::add_name(&mut object, "name", &row.name);
    json::add_name(&mut object, "path", &row.path);
    json::add_attributes(&mut object, &row.attr);
    if let Some(target) = &row.target {
        json::add_name(&mut object, "target", target);
    }
    Ok(writeln!(context.out, "{}", json::text(&object))?)
}
