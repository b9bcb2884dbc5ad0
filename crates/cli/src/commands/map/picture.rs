//! The picture: the treemap above the map of block groups.

use super::group_map::{self, Grid, summary};
use super::groups::{Cell, total};
use super::label::{cut, whole};
use super::squarify::Rect;
use super::svg::Svg;
use super::tree::Directory;
use super::treemap::Treemap;
use crate::text::size::human;

/// Width of the picture, and its margin on each side.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 20.0;
/// Upper edge and height of the treemap.
const TREE_TOP: f64 = 58.0;
const TREE_HEIGHT: f64 = 640.0;
/// Space between the treemap and the map of groups.
const BETWEEN: f64 = 92.0;
/// Columns of a heading at most.
const HEADING: usize = 120;

const STYLE: &str = "text{font:12px ui-monospace,monospace;fill:#222}\
    .h{font-size:15px;font-weight:bold}\
    .l{pointer-events:none}\
    .c{stroke:#fff;stroke-width:.5}\
    .d{fill:none;stroke:#fff;pointer-events:none}\
    .m{fill:#4e79a7}.r{fill:#9d9d9d}.u{fill:#f28e2b}.f{fill:#d5ead2}.x{fill:#d62728}.e{fill:#2a7a2a}\
    .b{fill:#fff;fill-opacity:0;stroke:#888;stroke-width:.5}";

/// Draws the picture of a volume with this name: directories from `root` on, and all block groups.
pub(super) fn draw(volume: &[u8], root: &Directory, cells: &[Cell]) -> String {
    let inner = WIDTH - 2.0 * MARGIN;
    let grid = Grid::new(cells.len(), inner);
    let groups = TREE_TOP + TREE_HEIGHT + BETWEEN;
    let height = groups + grid.total_height() + MARGIN;
    let mut svg = Svg::new(WIDTH, height);
    svg.text("style", &[], STYLE);
    svg.rect(Rect { x: 0.0, y: 0.0, width: WIDTH, height }, &[("fill", &"#fff")], "");
    let heading = format!("{} in {} of {}", human(root.bytes), whole(&root.name), whole(volume));
    text(&mut svg, 28.0, "h", &cut(&heading, HEADING));
    text(&mut svg, 48.0, "l", "Directories by the space that they take. Point at one for its path and size.");
    Treemap::draw(&mut svg, root, Rect { x: MARGIN, y: TREE_TOP, width: inner, height: TREE_HEIGHT });
    let all = total(cells);
    text(&mut svg, groups - 34.0, "h", &format!("{} block groups: {}", all.groups, summary(&all)));
    keys(&mut svg, groups - 22.0);
    group_map::draw(&mut svg, cells, &grid, MARGIN, groups);
    svg.finish()
}

fn text(svg: &mut Svg, y: f64, class: &str, text: &str) {
    svg.text("text", &[("x", &MARGIN), ("y", &y), ("class", &class)], text);
}

/// Draws the meaning of the colours.
fn keys(svg: &mut Svg, y: f64) {
    let keys = [
        ("m", "metadata"),
        ("r", "reserved"),
        ("u", "file data"),
        ("f", "free"),
        ("x", "cannot be read"),
        ("e", "line: number of free extents, on a logarithmic scale"),
    ];
    let mut x = MARGIN;
    for (class, meaning) in keys {
        svg.rect(Rect { x, y, width: 12.0, height: 12.0 }, &[("class", &class)], "");
        svg.text("text", &[("x", &(x + 18.0)), ("y", &(y + 10.0)), ("class", &"l")], meaning);
        x += 40.0 + 7.4 * meaning.len() as f64;
    }
}
