//! Two variants of the same work, measured in turn many times: a difference of a few percent shows despite
//! noise of tens of percent.
//!
//! Each round of one variant is compared with the adjacent round of the other, which excludes a drift of the
//! machine. The median of all those ratios counts, which excludes disturbed rounds. The order within a pair
//! changes from pair to pair.

use crate::measure::report::Summary;

/// Costs of the rounds of two variants, pair by pair.
#[derive(Clone, Debug, Default)]
pub(super) struct Paired {
    pub(super) first: Vec<f64>,
    pub(super) second: Vec<f64>,
}

/// Ratio of the first variant's cost to the second's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ratio {
    /// Median of the pairs.
    pub(super) median: f64,
    /// Bounds of an interval that contains the true median with a probability of 95 %.
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Paired {
    /// Measures `pairs` pairs; `round` measures one round, of the first variant if its argument is `true`.
    pub(super) fn measure<E>(pairs: usize, mut round: impl FnMut(bool) -> Result<f64, E>) -> Result<Self, E> {
        let mut all = Paired::default();
        for pair in 0..pairs {
            let first_comes_first = pair % 2 == 0;
            let (a, b) = (round(first_comes_first)?, round(!first_comes_first)?);
            let (first, second) = if first_comes_first { (a, b) } else { (b, a) };
            all.first.push(first);
            all.second.push(second);
        }
        Ok(all)
    }

    /// Returns the first variant's cost over the second's.
    pub(super) fn ratio(&self) -> Ratio {
        let pairs = self.first.iter().zip(&self.second);
        let mut ratios: Vec<f64> = pairs.filter(|(_, b)| **b > 0.0).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        let Some(summary) = Summary::of(&ratios) else { return Ratio::default() };
        // The number of values below the true median is binomial: 1.96 of its standard deviations to either
        // side.
        let (middle, reach) = (ratios.len() as f64 / 2.0, 0.98 * (ratios.len() as f64).sqrt());
        let low = (middle - reach).floor().max(0.0) as usize;
        let high = ((middle + reach).ceil() as usize).min(ratios.len() - 1);
        Ratio { median: summary.median, low: ratios[low], high: ratios[high] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that slows down all the time, and on which every tenth round takes ten times as long.
    fn noisy(times: f64) -> Ratio {
        let mut rounds = 0;
        let paired = Paired::measure::<()>(200, |first| {
            rounds += 1;
            let drift = 1.0 + f64::from(rounds) / 400.0;
            let hiccup = if rounds % 10 == 0 { 10.0 } else { 1.0 };
            Ok(100.0 * drift * hiccup * if first { times } else { 1.0 })
        });
        paired.unwrap().ratio()
    }

    #[test]
    fn three_percent_show_through_drift_and_hiccups() {
        for times in [0.97, 1.0, 1.03, 1.2] {
            let ratio = noisy(times);
            assert!((ratio.median - times).abs() < 0.004, "{times}: {ratio:?}");
            assert!(ratio.low <= ratio.median && ratio.median <= ratio.high);
            assert!(ratio.high - ratio.low < 0.02, "{times}: {ratio:?}");
        }
    }

    #[test]
    fn no_pair_gives_no_ratio() {
        assert_eq!(Paired::default().ratio(), Ratio::default());
        let failed = Paired::measure(3, |_| Err("why"));
        assert_eq!(failed.map(drop), Err("why"));
    }
}
