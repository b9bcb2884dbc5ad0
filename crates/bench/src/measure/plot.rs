//! Plots of kept reports: grouped bars of LaneFS and its peers, as SVG.
//!
//! One picture has one report. Rows of the same unit share a panel, because only their bars can be compared;
//! a panel whose values lie far apart has a logarithmic axis.

use super::report::{Better, Report, Row, Summary, short};
use super::selection::Selection;
use crate::error::{Error, Result};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Arguments of `lanefs-bench plot`.
#[derive(clap::Args, Clone, Debug)]
pub struct PlotArgs {
    /// Reports that a benchmark wrote with --json
    #[arg(value_name = "REPORT", required = true)]
    pub reports: Vec<PathBuf>,
    /// Directory of the pictures, which is made where it is missing; each has the name of its report
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// Only rows with a matching name
    #[arg(long, value_name = "GLOB")]
    pub rows: Option<String>,
}

/// Draws each report.
///
/// # Errors
/// [`Error::Arguments`] for two reports of one name, before anything is drawn. [`Error::Host`] for a file;
/// [`Error::Report`] for one that is not a report; [`Error::Arguments`] where no row matches. Pictures of
/// earlier reports are then there.
pub fn run_plot(args: &PlotArgs) -> Result<()> {
    let targets = targets(&args.reports, &args.out)?;
    std::fs::create_dir_all(&args.out).map_err(Error::host(format!("{}", args.out.display())))?;
    for (path, target) in args.reports.iter().zip(targets) {
        let text = std::fs::read_to_string(path).map_err(Error::host(format!("{}", path.display())))?;
        let report = serde_json::from_str(&text)
            .map_err(|error| Error::Report { path: path.clone(), message: error.to_string() })?;
        let picture = draw(&report, args.rows.as_deref())?;
        std::fs::write(&target, picture).map_err(Error::host(format!("{}", target.display())))?;
        // A closed pipe is not a failure.
        let _ = write_name(&target);
    }
    Ok(())
}

/// Returns the picture's file for each report.
///
/// # Errors
/// [`Error::Arguments`] where two reports have the same: one picture would overwrite the other.
fn targets(reports: &[PathBuf], out: &Path) -> Result<Vec<PathBuf>> {
    let mut of = BTreeMap::new();
    let mut targets = Vec::new();
    for path in reports {
        let target = out.join(path.file_stem().unwrap_or(path.as_os_str())).with_extension("svg");
        if let Some(other) = of.insert(target.clone(), path) {
            return Err(Error::Arguments(format!(
                "{} and {} would both be drawn into {}; draw them one by one, each with an --out of its own",
                other.display(),
                path.display(),
                target.display()
            )));
        }
        targets.push(target);
    }
    Ok(targets)
}

fn write_name(target: &Path) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{}", target.display())
}

/// Width of a picture in pixels.
const WIDTH: u32 = 900;
/// Width left of the bars, for the names of the rows.
const NAMES: u32 = 190;
/// Share of the axis right of the longest bar, for its value.
const ROOM_FOR_VALUES: f64 = 0.25;
const BAR: u32 = 14;
/// Space between the groups of a panel.
const GAP: u32 = 8;
/// Height of a panel beside its bars: title, legend and axis.
const FRAME: u32 = 78;
/// Height of the picture's title.
const HEAD: u32 = 46;
/// The factor between the largest and the smallest value from which on an axis is logarithmic.
const FAR_APART: f64 = 20.0;

const LANEFS: RGBColor = RGBColor(0xd1, 0x49, 0x2e);
/// Colours of the peers, which tell them apart in print and for most colour-blind readers too: they descend
/// in lightness. (After ColorBrewer's sequential scales.)
const PEERS: [RGBColor; 7] = [
    RGBColor(0x1f, 0x4e, 0x79),
    RGBColor(0x4a, 0x86, 0xb8),
    RGBColor(0x93, 0xc0, 0xdf),
    RGBColor(0x55, 0x55, 0x55),
    RGBColor(0x8c, 0x8c, 0x8c),
    RGBColor(0xbd, 0xbd, 0xbd),
    RGBColor(0xdd, 0xdd, 0xdd),
];

/// Values of a report are read from a file; a bar's length stays within these bounds.
const LEAST: f64 = 1e-12;
const MOST: f64 = 1e18;

/// Rows that share an axis.
struct Panel<'r> {
    rows: Vec<&'r Row>,
    /// Peers of all panels, in the order of their names: the same one has the same colour in each.
    peers: &'r [&'r str],
}

/// A bar: system, values and colour.
type Bar<'r> = (&'r str, &'r Summary, RGBColor);

impl<'r> Panel<'r> {
    /// Groups consecutive rows of one unit.
    fn all(rows: &[&'r Row], peers: &'r [&'r str]) -> Vec<Self> {
        let are_alike = |a: &&Row, b: &&Row| a.unit == b.unit && a.better == b.better;
        rows.chunk_by(are_alike).map(|rows| Panel { rows: rows.to_vec(), peers }).collect()
    }

    /// LaneFS first, and the peers that a row has.
    fn bars(&self, row: &'r Row) -> impl Iterator<Item = Bar<'r>> {
        let peers = row.peers.iter().map(|(name, value)| (name.as_str(), value, self.colour(name)));
        std::iter::once(("LaneFS", &row.lanefs, LANEFS)).chain(peers)
    }

    fn colour(&self, peer: &str) -> RGBColor {
        PEERS[self.peers.iter().position(|name| *name == peer).unwrap_or(0) % PEERS.len()]
    }

    fn height(&self) -> u32 {
        FRAME + self.rows.iter().map(|row| GAP + BAR * (1 + row.peers.len() as u32)).sum::<u32>()
    }

    /// The smallest value above 0, and the largest.
    fn bounds(&self) -> (f64, f64) {
        let values = self.rows.iter().flat_map(|row| self.bars(row)).map(|(_, value, _)| value.median);
        let shown = values.filter(|value| *value > 0.0).map(|value| value.clamp(LEAST, MOST));
        shown.fold((MOST, LEAST), |(least, most), value| (least.min(value), most.max(value)))
    }
}

/// Returns the picture of a report.
///
/// # Errors
/// [`Error::Arguments`] where no row matches.
pub fn draw(report: &Report, rows: Option<&str>) -> Result<String> {
    let names: Vec<String> = report.rows.iter().map(|row| row.name.clone()).collect();
    let selection = Selection::new(rows, &names)?;
    let rows: Vec<&Row> = report.rows.iter().filter(|row| selection.has(&row.name)).collect();
    let peers: BTreeSet<&str> = rows.iter().flat_map(|row| row.peers.keys().map(String::as_str)).collect();
    let peers = Vec::from_iter(peers);
    let panels = Panel::all(&rows, &peers);
    let height = HEAD + panels.iter().map(Panel::height).sum::<u32>();
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let font = ("sans-serif", 18).into_font();
        root.draw(&Text::new(format!("lanefs-bench {}", report.bench), (12, 8), font)).map_err(failed)?;
        let machine = &report.machine;
        let machine = format!(
            "medians on {}, {} cores, {}; 2x: LaneFS is twice as good",
            machine.processor, machine.cores, machine.kernel
        );
        root.draw(&Text::new(machine, (12, 30), small(BLACK.mix(0.6)))).map_err(failed)?;
        let mut top = HEAD;
        for panel in &panels {
            let area = root.clone().shrink((0, top), (WIDTH, panel.height()));
            let (least, most) = panel.bounds();
            if most > FAR_APART * least {
                let low = 10f64.powf((least / 2.0).log10().floor());
                let high = most * (most / low).powf(ROOM_FOR_VALUES);
                draw_panel(&area, panel, low, (low..high).log_scale())?;
            } else {
                draw_panel(&area, panel, 0.0, 0.0..most * (1.0 + ROOM_FOR_VALUES))?;
            }
            top += panel.height();
        }
        root.present().map_err(failed)?;
    }
    Ok(picture)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws a panel; its bars begin at `low`.
fn draw_panel<X>(area: &Area<'_>, panel: &Panel<'_>, low: f64, axis: X) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let first = panel.rows[0];
    let better = match first.better {
        Better::Less => "less is better",
        Better::More => "more is better",
    };
    let title = format!("{} ({better})", first.unit);
    area.draw(&Text::new(title, (12, 4), ("sans-serif", 14).into_font())).map_err(failed)?;
    draw_legend(area, panel)?;
    let pixels = panel.height() - FRAME;
    let mut chart = ChartBuilder::on(area)
        .margin_top(44)
        .margin_right(12)
        .x_label_area_size(26)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(axis, f64::from(pixels)..0.0)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .y_labels(0)
        .x_labels(6)
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .x_label_formatter(&|value| axis_label(*value))
        .label_style(small(BLACK.mix(0.7)))
        .draw()
        .map_err(failed)?;
    let mut y = f64::from(GAP) / 2.0;
    for row in &panel.rows {
        let middle = y + f64::from(BAR) * (1 + row.peers.len()) as f64 / 2.0;
        let (_, name_y) = chart.backend_coord(&(low, middle));
        let position = (NAMES as i32 - 8, name_y - area.get_base_pixel().1);
        let right = small(BLACK).pos(Pos::new(HPos::Right, VPos::Center));
        area.draw(&Text::new(row.name.clone(), position, right)).map_err(failed)?;
        for (system, value, colour) in panel.bars(row) {
            let [least, median, most] = [value.min, value.median, value.max].map(|v| v.min(MOST).max(low));
            let centre = y + f64::from(BAR) / 2.0;
            let bar = Rectangle::new([(low, y + 1.0), (median, y + f64::from(BAR) - 1.0)], colour.filled());
            chart.draw_series(std::iter::once(bar)).map_err(failed)?;
            if value.runs > 1 {
                let range = PathElement::new([(least, centre), (most, centre)], BLACK.mix(0.5));
                chart.draw_series(std::iter::once(range)).map_err(failed)?;
            }
            let ratio = row.ratio.get(system).map_or(String::new(), |ratio| format!(" ({}x)", short(*ratio)));
            let left = small(BLACK.mix(0.8)).pos(Pos::new(HPos::Left, VPos::Center));
            let text =
                Text::new(format!(" {}{ratio}", label(value.median)), (most.max(median), centre), left);
            chart.draw_series(std::iter::once(text)).map_err(failed)?;
            y += f64::from(BAR);
        }
        y += f64::from(GAP);
    }
    Ok(())
}

/// Draws the systems of a panel and their colours.
fn draw_legend(area: &Area<'_>, panel: &Panel<'_>) -> Result<()> {
    let is_shown = |name: &&&str| panel.rows.iter().any(|row| row.peers.contains_key(**name));
    let peers = panel.peers.iter().filter(is_shown).map(|name| (*name, panel.colour(name)));
    let mut x = NAMES as i32;
    for (name, colour) in std::iter::once(("LaneFS", LANEFS)).chain(peers) {
        area.draw(&Rectangle::new([(x, 26), (x + 10, 36)], colour.filled())).map_err(failed)?;
        area.draw(&Text::new(name.to_string(), (x + 14, 25), small(BLACK))).map_err(failed)?;
        x += 30 + 7 * name.len() as i32;
    }
    Ok(())
}

fn small<C: Color>(colour: C) -> TextStyle<'static> {
    ("sans-serif", 12).into_font().color(&colour)
}

/// Formats a value with three significant digits.
fn label(value: f64) -> String {
    with_thousands(&short(value))
}

/// Formats a value of an axis, which is round.
fn axis_label(value: f64) -> String {
    with_thousands(&if value.fract() == 0.0 { format!("{value:.0}") } else { short(value) })
}

/// Sets the thousands of a number apart.
fn with_thousands(text: &str) -> String {
    let (whole, rest) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let mut digits = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            digits.push(',');
        }
        digits.push(digit);
    }
    rest.map_or(digits.clone(), |rest| format!("{digits}.{rest}"))
}

/// An error of the library: none is known for pictures in memory.
fn failed<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> Error {
    Error::Picture(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn row(name: &str, unit: &str, lanefs: f64, peers: &[(&str, f64)]) -> Row {
        let peers = peers.iter().map(|(name, value)| (name.to_string(), vec![*value]));
        Row::new(name, unit, &[lanefs], &BTreeMap::from_iter(peers)).unwrap()
    }

    fn report(rows: Vec<Row>) -> Report {
        Report { bench: "lookup".into(), rows, ..Report::default() }
    }

    fn bars(picture: &str, colour: RGBColor) -> usize {
        let RGBColor(r, g, b) = colour;
        picture.matches(&format!("fill=\"#{r:02X}{g:02X}{b:02X}\"")).count()
    }

    #[test]
    fn each_unit_has_a_panel_and_each_system_a_bar() {
        let rows = vec![
            row("warm", "ns/path", 10.0, &[("ext4", 40.0), ("tmpfs", 30.0)]),
            row("cold", "ns/path", 20.0, &[("tmpfs", 5.0)]),
            row("size", "bytes", 1e6, &[]),
        ];
        let picture = draw(&report(rows), None).unwrap();
        for text in [
            "warm",
            "cold",
            "ns/path (less is better)",
            "bytes (less is better)",
            "40.0 (4.00x)",
            "1,000,000",
        ] {
            assert!(picture.contains(text), "{text}: {picture}");
        }
        // A bar for each row, and one of the legend for each panel.
        assert_eq!(bars(&picture, LANEFS), 3 + 2);
        assert_eq!((bars(&picture, PEERS[0]), bars(&picture, PEERS[1])), (1 + 1, 2 + 1));
    }

    #[test]
    fn values_that_lie_far_apart_have_a_logarithmic_axis() {
        let near = draw(&report(vec![row("a", "ns", 20.0, &[("ext4", 300.0)])]), None).unwrap();
        assert!(near.contains("\n100\n") && near.contains("\n0\n"), "{near}");
        let far = draw(&report(vec![row("a", "ns", 2.0, &[("ext4", 3000.0)])]), None).unwrap();
        assert!(far.contains("\n10\n") && far.contains("\n1,000\n") && !far.contains("\n0\n"), "{far}");
    }

    #[test]
    fn values_that_make_no_sense_are_drawn_all_the_same() {
        for value in [0.0, -5.0, 1e-308, 1e308, f64::MAX] {
            for other in [0.0, 1.0, -1e300, f64::MAX] {
                draw(&report(vec![row("a", "ns", value, &[("ext4", other)])]), None).unwrap();
            }
        }
        draw(&report(Vec::new()), None).unwrap();
        assert!(draw(&report(Vec::new()), Some("x")).is_err());
    }
}
