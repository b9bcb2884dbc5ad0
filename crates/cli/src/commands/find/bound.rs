//! Bounds of find(1): `+N`, `-N` and `N`.

use crate::text::size::parse_size;
use lanefs::Time;
use std::cmp::Ordering;
use std::ops::RangeInclusive;

/// Nanoseconds of a day.
const DAY_NANOSECONDS: i64 = 86_400_000_000_000;

/// A number, and the side of it that values must be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    side: Ordering,
    value: u64,
}

impl Bound {
    /// Parses a bound on a size.
    ///
    /// # Errors
    /// Tells how to write it.
    pub(super) fn parse_size(text: &str) -> Result<Self, String> {
        let (side, number) = split_side(text);
        // find(1) writes bytes as `c`.
        let value = parse_size(number.strip_suffix('c').unwrap_or(number))?;
        Ok(Bound { side, value })
    }

    /// Parses a bound on a number of days.
    ///
    /// # Errors
    /// Tells how to write it.
    pub(super) fn parse_days(text: &str) -> Result<Self, String> {
        let (side, number) = split_side(text);
        let value = number
            .parse()
            .map_err(|_| format!("`{text}` is not a number of days; write it like 7, +30 or -1"))?;
        Ok(Bound { side, value })
    }

    /// All numbers within the bound.
    pub(super) fn numbers(self) -> RangeInclusive<u64> {
        const NONE: RangeInclusive<u64> = RangeInclusive::new(1, 0);
        match self.side {
            Ordering::Less => self.value.checked_sub(1).map_or(NONE, |most| 0..=most),
            Ordering::Equal => self.value..=self.value,
            Ordering::Greater => self.value.checked_add(1).map_or(NONE, |least| least..=u64::MAX),
        }
    }

    /// All times whose age at `now`, in whole days, is within the bound. A time in the future is less than 0
    /// days old.
    pub(super) fn times(self, now: Time) -> RangeInclusive<i64> {
        const NONE: RangeInclusive<i64> = RangeInclusive::new(1, 0);
        let (now, day) = (i128::from(now.0), i128::from(DAY_NANOSECONDS));
        // The last and the first nanosecond at which a file is that many days old.
        let last = now - i128::from(self.value) * day;
        let first = last - day + 1;
        let (from, to) = match self.side {
            Ordering::Less => (last + 1, i128::MAX),
            Ordering::Equal => (first, last),
            Ordering::Greater => (i128::MIN, first - 1),
        };
        match (i64::try_from(from), i64::try_from(to)) {
            (Ok(from), Ok(to)) => from..=to,
            (Ok(from), Err(_)) if to > 0 => from..=i64::MAX,
            (Err(_), Ok(to)) if from < 0 => i64::MIN..=to,
            (Err(_), Err(_)) if from < 0 && to > 0 => i64::MIN..=i64::MAX,
            _ => NONE,
        }
    }
}

/// All times after `time`.
pub(super) fn times_after(time: Time) -> RangeInclusive<i64> {
    time.0.checked_add(1).map_or(RangeInclusive::new(1, 0), |from| from..=i64::MAX)
}

fn split_side(text: &str) -> (Ordering, &str) {
    match text.as_bytes().first() {
        Some(b'+') => (Ordering::Greater, &text[1..]),
        Some(b'-') => (Ordering::Less, &text[1..]),
        _ => (Ordering::Equal, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDES: [Ordering; 3] = [Ordering::Less, Ordering::Equal, Ordering::Greater];

    #[test]
    fn bounds_parse() {
        let bound = |side, value| Ok(Bound { side, value });
        assert_eq!(Bound::parse_size("+1M"), bound(Ordering::Greater, 1 << 20));
        assert_eq!(Bound::parse_size("-4k"), bound(Ordering::Less, 4096));
        assert_eq!(Bound::parse_size("10c"), bound(Ordering::Equal, 10));
        assert_eq!(Bound::parse_days("+30"), bound(Ordering::Greater, 30));
        assert!(Bound::parse_size("+").is_err());
        assert!(Bound::parse_days("+x").is_err());
    }

    #[test]
    fn a_range_has_the_numbers_on_its_side() {
        for side in SIDES {
            for value in [0, 1, 2, 20_000, u64::MAX - 1, u64::MAX] {
                let bound = Bound { side, value };
                for number in [0, 1, 2, 3, 19_999, 20_000, 20_001, u64::MAX - 1, u64::MAX] {
                    let wanted = number.cmp(&value) == side;
                    assert_eq!(bound.numbers().contains(&number), wanted, "{bound:?}, {number}");
                }
            }
        }
    }

    #[test]
    fn a_range_has_the_times_on_its_side() {
        for now in [0, 17, 20_000 * DAY_NANOSECONDS + 17, i64::MAX] {
            let days = [0, 1, 2, 3, 20_000, 20_001, 106_751, 106_752];
            let times = days.iter().flat_map(|days| {
                let time = i128::from(now) - days * i128::from(DAY_NANOSECONDS);
                [time - 1, time, time + 1]
            });
            let times: Vec<i64> =
                times.filter_map(|time| i64::try_from(time).ok()).chain([i64::MIN, 0, i64::MAX]).collect();
            for side in SIDES {
                for value in [0, 1, 2, 20_000, 106_750, 106_751, 106_752, 213_503, u64::MAX - 1, u64::MAX] {
                    let bound = Bound { side, value };
                    for time in &times {
                        let age =
                            (i128::from(now) - i128::from(*time)).div_euclid(i128::from(DAY_NANOSECONDS));
                        let wanted = age.cmp(&i128::from(value)) == side;
                        assert_eq!(bound.times(Time(now)).contains(time), wanted, "{now}, {bound:?}, {time}");
                    }
                }
            }
        }
    }
}
