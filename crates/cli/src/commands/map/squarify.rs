//! The layout of a treemap (Bruls, Huizing, van Wijk, "Squarified Treemaps", 2000).

/// A rectangle; `x` and `y` are its top left corner.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Rect {
    pub(super) fn area(self) -> f64 {
        self.width * self.height
    }

    /// Cuts off a part along the shorter side, of all its length and with `share` of the area.
    fn cut(&mut self, share: f64) -> Rect {
        let mut part = *self;
        if self.width >= self.height {
            part.width = self.width * share;
            (self.x, self.width) = (self.x + part.width, self.width - part.width);
        } else {
            part.height = self.height * share;
            (self.y, self.height) = (self.y + part.height, self.height - part.height);
        }
        part
    }
}

/// Divides `rect` among weights, the largest first: areas are proportional to the weights, and the parts are
/// as square as possible. Where all weights are zero, all parts are empty.
pub(super) fn squarify(weights: &[u64], mut rect: Rect) -> Vec<Rect> {
    debug_assert!(weights.is_sorted_by(|a, b| a >= b), "the largest weight is first");
    let mut parts = Vec::with_capacity(weights.len());
    // Exact: the rest of a sum of large weights may be small.
    let mut left = sum(weights);
    let mut rest = weights;
    while let [first, ..] = rest
        && *first > 0
    {
        let (of_row, others) = rest.split_at(row(rest, left as f64, rect));
        let in_row = sum(of_row);
        // The last row takes all that is left, with all rounding errors.
        let is_last = in_row == left;
        let mut strip = if is_last { std::mem::take(&mut rect) } else { rect.cut(share(in_row, left)) };
        divide(of_row, in_row, &mut strip, &mut parts);
        (left, rest) = (left - in_row, others);
    }
    parts.resize(weights.len(), Rect::default());
    parts
}

/// Divides a strip along its longer side.
fn divide(weights: &[u64], mut left: u128, strip: &mut Rect, parts: &mut Vec<Rect>) {
    for (i, weight) in weights.iter().enumerate() {
        let weight = u128::from(*weight);
        let is_last = i + 1 == weights.len();
        parts.push(if is_last { *strip } else { strip.cut(share(weight, left)) });
        left -= weight;
    }
}

fn sum(weights: &[u64]) -> u128 {
    weights.iter().map(|weight| u128::from(*weight)).sum()
}

fn share(part: u128, whole: u128) -> f64 {
    (part as f64 / whole as f64).min(1.0)
}

/// Number of weights in the next row: as many as make its worst ratio of sides better.
fn row(weights: &[u64], left: f64, rect: Rect) -> usize {
    let side = rect.width.min(rect.height);
    let scale = rect.area() / left;
    let (mut sum, mut best) = (0.0, f64::INFINITY);
    let largest = weights.first().map_or(0.0, |weight| *weight as f64 * scale);
    for (count, weight) in weights.iter().enumerate() {
        let area = *weight as f64 * scale;
        sum += area;
        let squares = (side * side, sum * sum);
        let worst = (squares.0 * largest / squares.1).max(squares.1 / (squares.0 * area));
        // Zeros, and what rounds to them, have no ratio and end the row.
        if count > 0 && (worst > best || !worst.is_finite()) {
            return count;
        }
        best = worst;
    }
    weights.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CANVAS: Rect = Rect { x: 20.0, y: 50.0, width: 1160.0, height: 640.0 };
    /// Largest rounding error of a coordinate.
    const ERROR: f64 = 1e-6;

    fn sorted(mut weights: Vec<u64>) -> Vec<u64> {
        weights.sort_by_key(|weight| std::cmp::Reverse(*weight));
        weights
    }

    fn weights() -> impl Strategy<Value = Vec<u64>> {
        let weight = prop_oneof![0..10u64, 0..1_000_000u64, any::<u64>(), Just(0), Just(4096)];
        proptest::collection::vec(weight, 0..60).prop_map(sorted)
    }

    fn overlap(a: Rect, b: Rect) -> f64 {
        let width = (a.x + a.width).min(b.x + b.width) - a.x.max(b.x);
        let height = (a.y + a.height).min(b.y + b.height) - a.y.max(b.y);
        if width > ERROR && height > ERROR { width * height } else { 0.0 }
    }

    proptest! {
        #[test]
        fn parts_fill_the_whole_and_do_not_overlap(weights in weights()) {
            let parts = squarify(&weights, CANVAS);
            prop_assert_eq!(parts.len(), weights.len());
            let sum: f64 = weights.iter().map(|weight| *weight as f64).sum();
            for (part, weight) in parts.iter().zip(&weights) {
                let expected = if sum > 0.0 { *weight as f64 / sum * CANVAS.area() } else { 0.0 };
                prop_assert!((part.area() - expected).abs() < 1e-3, "{:?} for {}", part, expected);
                prop_assert!(part.width >= 0.0 && part.height >= 0.0);
                let inside = part.area() == 0.0 || (overlap(*part, CANVAS) - part.area()).abs() < 1e-2;
                prop_assert!(inside || part.width < ERROR || part.height < ERROR, "{:?}", part);
            }
            for (i, a) in parts.iter().enumerate() {
                for b in &parts[i + 1..] {
                    prop_assert!(overlap(*a, *b) < 1e-2, "{:?} {:?}", a, b);
                }
            }
            let area: f64 = parts.iter().map(|part| part.area()).sum();
            prop_assert!(sum == 0.0 || (area - CANVAS.area()).abs() < 1e-3, "{}", area);
        }
    }

    #[test]
    fn parts_are_as_square_as_those_of_the_paper() {
        let rect = Rect { x: 0.0, y: 0.0, width: 6.0, height: 4.0 };
        let parts = squarify(&[6, 6, 4, 3, 2, 2, 1], rect);
        assert_eq!(parts[0], Rect { x: 0.0, y: 0.0, width: 3.0, height: 2.0 });
        assert_eq!(parts[1], Rect { x: 0.0, y: 2.0, width: 3.0, height: 2.0 });
        let ratio = |part: &Rect| (part.width / part.height).max(part.height / part.width);
        assert!(parts.iter().all(|part| ratio(part) < 3.0), "{parts:?}");
        assert_eq!(squarify(&[7], rect), [rect]);
        assert_eq!(squarify(&[], rect), []);
        assert_eq!(squarify(&[0, 0], rect), [Rect::default(); 2]);
        assert_eq!(squarify(&[1, 0], rect), [rect, Rect::default()]);
    }
}
