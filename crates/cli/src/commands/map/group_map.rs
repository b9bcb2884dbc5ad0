//! The map of block groups: a cell for each, or for several.

use super::groups::Cell;
use super::squarify::Rect;
use super::svg::Svg;
use crate::text::size::human;
use lanefs::format::{BLOCK, BLOCKS_PER_GROUP};
use std::fmt::Display;

/// Space between two cells.
const GAP: f64 = 3.0;
/// Height of the line in a cell that shows the number of free extents.
const STRIP: f64 = 3.0;
/// Columns at most.
const MAX_COLUMNS: f64 = 48.0;

/// Rows and columns of the map.
pub(super) struct Grid {
    columns: usize,
    rows: usize,
    width: f64,
    height: f64,
}

impl Grid {
    /// The grid of `count` cells in a width of `width` pixels.
    pub(super) fn new(count: usize, width: f64) -> Self {
        // Cells are about twice as wide as high.
        let columns = (count as f64 * 2.5).sqrt().ceil().clamp(1.0, MAX_COLUMNS);
        let width = width / columns;
        let rows = count.div_ceil(columns as usize);
        Grid { columns: columns as usize, rows, width, height: (width / 2.0).clamp(12.0, 32.0) }
    }

    /// Height of the whole map.
    pub(super) fn total_height(&self) -> f64 {
        self.rows as f64 * self.height
    }

    /// The cell of this number.
    fn cell(&self, number: usize, left: f64, top: f64) -> Rect {
        let (row, column) = (number / self.columns, number % self.columns);
        Rect {
            x: left + column as f64 * self.width,
            y: top + row as f64 * self.height,
            width: self.width - GAP,
            height: self.height - GAP,
        }
    }
}

/// Draws all cells.
pub(super) fn draw(svg: &mut Svg, cells: &[Cell], grid: &Grid, left: f64, top: f64) {
    svg.begin("g", &[("id", &"groups")]);
    for (number, cell) in cells.iter().enumerate() {
        draw_cell(svg, cell, grid.cell(number, left, top));
    }
    svg.end("g");
}

fn draw_cell(svg: &mut Svg, cell: &Cell, at: Rect) {
    let sum = &cell.sum;
    let parts = [
        ("m", sum.metadata_blocks),
        ("r", sum.reserved_blocks),
        ("u", sum.data_blocks),
        ("f", sum.free_blocks),
        ("x", cell.unread * BLOCKS_PER_GROUP),
    ];
    let all: u64 = parts.iter().map(|(_, blocks)| blocks).sum();
    let mut x = at.x;
    for (class, blocks) in parts {
        let width = if all == 0 { 0.0 } else { blocks as f64 / all as f64 * at.width };
        if blocks > 0 {
            let part = Rect { x, width, height: at.height - STRIP, ..at };
            svg.rect(part, &[("class", &class)], "");
        }
        x += width;
    }
    let extents = sum.free_extents as f64 / cell.groups.max(1) as f64;
    // No group has more extents than every second block.
    let share = (1.0 + extents).log2() / (1.0 + BLOCKS_PER_GROUP as f64 / 2.0).log2();
    let strip = Rect { y: at.y + at.height - STRIP, width: at.width * share.min(1.0), height: STRIP, ..at };
    svg.rect(strip, &[("class", &"e")], "");
    let border: &dyn Display = &"b";
    svg.rect(at, &[("class", border)], &title(cell));
}

fn title(cell: &Cell) -> String {
    let name = match cell.groups {
        0 | 1 => format!("group {}", cell.first),
        groups => format!("groups {} to {}", cell.first, cell.first + groups - 1),
    };
    let unread = match cell.unread {
        0 => String::new(),
        1 => "; one cannot be read".to_string(),
        unread => format!("; {unread} cannot be read"),
    };
    if cell.unread > 0 && cell.unread == cell.groups {
        return format!("{name}{unread}");
    }
    format!("{name} at {:#x}: {}{unread}", cell.sum.position, summary(cell))
}

/// The use of the blocks in words.
pub(super) fn summary(cell: &Cell) -> String {
    let sum = &cell.sum;
    let [metadata, reserved, data, free, longest] =
        [sum.metadata_blocks, sum.reserved_blocks, sum.data_blocks, sum.free_blocks, sum.longest_free_blocks]
            .map(|blocks| human(blocks.saturating_mul(BLOCK)));
    let chunks = match sum.metadata_chunks {
        1 => "1 chunk".to_string(),
        chunks => format!("{chunks} chunks"),
    };
    let extents = match sum.free_extents {
        0 => String::new(),
        1 => " in 1 extent".to_string(),
        extents => format!(" in {extents} extents, the longest {longest}"),
    };
    format!("metadata {metadata} in {chunks}, reserved {reserved}, file data {data}, free {free}{extents}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::GroupUse;

    #[test]
    fn cells_lie_side_by_side() {
        for count in [0, 1, 2, 8, 63, 1000, 1024] {
            let grid = Grid::new(count, 1160.0);
            let cells: Vec<Rect> = (0..count).map(|number| grid.cell(number, 20.0, 0.0)).collect();
            for (number, cell) in cells.iter().enumerate() {
                assert!(cell.x >= 20.0 && cell.x + cell.width <= 1180.0, "{count}: {cell:?}");
                assert!(cell.y + cell.height <= grid.total_height(), "{count}: {cell:?}");
                let next = cells.get(number + 1);
                let is_apart = |next: &Rect| next.x >= cell.x + cell.width || next.y >= cell.y + cell.height;
                assert!(next.is_none_or(is_apart), "{count}: {cell:?}");
            }
        }
    }

    #[test]
    fn titles_say_what_is_in_a_group() {
        let sum = GroupUse {
            position: 0x1000,
            metadata_chunks: 2,
            metadata_blocks: 1024,
            data_blocks: 256,
            free_blocks: 512,
            free_extents: 3,
            longest_free_blocks: 256,
            ..GroupUse::default()
        };
        let one = Cell { first: 3, groups: 1, unread: 0, sum };
        assert_eq!(
            title(&one),
            "group 3 at 0x1000: metadata 4.0M in 2 chunks, reserved 0, file data 1.0M, \
             free 2.0M in 3 extents, the longest 1.0M"
        );
        assert!(title(&Cell { groups: 4, unread: 2, ..one }).ends_with("; 2 cannot be read"));
        let none = Cell { groups: 1, unread: 1, sum: GroupUse::default(), ..one };
        assert_eq!(title(&none), "group 3; one cannot be read");
    }
}
