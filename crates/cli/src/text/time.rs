//! Times as text, in UTC, so that a listing is the same on every machine.

use lanefs::Time;

/// Year, month, day of a number of days since 1970-01-01 (Howard Hinnant's civil_from_days).
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days since 1970-01-01 of a date; the reverse of [`civil`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    y.div_euclid(400) * 146_097 + day_of_era - 719_468
}

/// `2026-05-01 09:30`.
pub fn short(time: Time) -> String {
    let (year, month, day) = civil(time.seconds().div_euclid(86_400));
    let second = time.seconds().rem_euclid(86_400);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", second / 3600, second / 60 % 60)
}

/// `2026-05-01 09:30:00.123456789 +0000`.
pub fn long(time: Time) -> String {
    let second = time.seconds().rem_euclid(60);
    format!("{}:{second:02}.{:09} +0000", short(time), time.nanoseconds())
}

/// Seconds since 1970 with nine decimals: `1777627800.123456789`, `-0.500000000`.
pub fn decimal(time: Time) -> String {
    let sign = if time.0 < 0 { "-" } else { "" };
    let magnitude = time.0.unsigned_abs();
    format!("{sign}{}.{:09}", magnitude / 1_000_000_000, magnitude % 1_000_000_000)
}

/// Parses a duration into seconds: `90s`, `30m`, `12h`, `14d`, `2w`, or `0`.
///
/// # Errors
/// Tells how to write it.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let seconds = |unit: &str| match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        "w" => Some(7 * 86_400),
        _ => None,
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at(digits);
    let parsed = count.parse::<u64>().ok().and_then(|count| match (count, unit) {
        (0, "") => Some(0),
        (count, unit) => count.checked_mul(seconds(unit)?),
    });
    parsed.ok_or_else(|| format!("`{text}` is not a duration; write it like 90s, 30m, 12h, 14d or 2w"))
}

/// Parses a time in UTC: `2026-05-01`, optionally followed by ` 09:30`, `:15` and `.5` (a `T` for the space
/// and a `Z` at the end are accepted), or `@SECONDS`.
///
/// # Errors
/// Tells how to write it.
pub fn parse(text: &str) -> Result<Time, String> {
    let bad = || {
        format!(
            "`{text}` is not a time; write it like 2026-05-01, '2026-05-01 09:30:15.5' (UTC) or @1777627815"
        )
    };
    let nanoseconds = if let Some(stamp) = text.strip_prefix('@') {
        let (negative, digits) = stamp.strip_prefix('-').map_or((false, stamp), |d| (true, d));
        let value = fixed(digits).ok_or_else(bad)?;
        if negative { -value } else { value }
    } else {
        let text = text.strip_suffix('Z').unwrap_or(text);
        let (date, clock) = text.split_once([' ', 'T']).unwrap_or((text, "0:0"));
        let mut date = date.splitn(3, '-').map(|f| f.parse::<i64>().ok().filter(|v| (0..=9999).contains(v)));
        let mut field = || date.next().flatten();
        let (Some(year), Some(month), Some(day)) = (field(), field(), field()) else { return Err(bad()) };
        let count = days(year, month, day);
        // A date that converts back to another one (February 30) does not exist.
        if !(1..=12).contains(&month) || civil(count) != (year, month, day) {
            return Err(bad());
        }
        let mut clock = clock.splitn(3, ':');
        let mut field =
            |limit: i64| clock.next().unwrap_or("0").parse::<i64>().ok().filter(|v| (0..limit).contains(v));
        let (Some(hour), Some(minute)) = (field(24), field(60)) else { return Err(bad()) };
        let second = fixed(clock.next().unwrap_or("0")).filter(|s| *s < 60_000_000_000).ok_or_else(bad)?;
        i128::from(count * 86_400 + hour * 3600 + minute * 60) * 1_000_000_000 + second
    };
    i64::try_from(nanoseconds)
        .map(Time)
        .map_err(|_| format!("`{text}` is out of range; years 1678 to 2262 are possible"))
}

/// Nanoseconds of an unsigned decimal number of seconds.
fn fixed(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let all_digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let fraction = format!("{:0<9}", &fraction[..fraction.len().min(9)]);
    Some(i128::from(whole.parse::<u64>().ok()?) * 1_000_000_000 + i128::from(fraction.parse::<u64>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_both_ways() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (951_782_400, "2000-02-29 00:00"),
            (1_777_627_800, "2026-05-01 09:30"),
            (-60, "1969-12-31 23:59"),
            (-9_000_000_000, "1684-10-19 08:00"),
        ] {
            let time = Time::from_parts(seconds, 0);
            assert_eq!(short(time), text);
            assert_eq!(parse(text), Ok(time));
        }
        for n in -100_000..200_000 {
            let (year, month, day) = civil(n);
            assert_eq!(days(year, month, day), n);
        }
    }

    #[test]
    fn decimals_read_as_numbers() {
        assert_eq!(decimal(Time::from_parts(5, 7)), "5.000000007");
        assert_eq!(decimal(Time::from_parts(-1, 500_000_000)), "-0.500000000");
        assert_eq!(parse("@-0.5"), Ok(Time::from_parts(-1, 500_000_000)));
        assert_eq!(parse("@1777627815"), Ok(Time::from_parts(1_777_627_815, 0)));
        assert_eq!(parse("2026-05-01T09:30:15.25Z"), Ok(Time::from_parts(1_777_627_815, 250_000_000)));
    }

    #[test]
    fn durations_parse() {
        let right = [
            ("0", 0),
            ("0d", 0),
            ("90s", 90),
            ("30m", 1800),
            ("2h", 7200),
            ("14d", 1_209_600),
            ("2w", 1_209_600),
        ];
        for (text, seconds) in right {
            assert_eq!(parse_duration(text), Ok(seconds), "{text}");
        }
        for wrong in
            ["", "5", "d", "-1d", "1.5h", "1 d", "1y", "99999999999999999999s", "18446744073709551615w"]
        {
            assert!(parse_duration(wrong).is_err_and(|error| error.contains("14d")), "{wrong}");
        }
    }

    #[test]
    fn bad_times_are_refused() {
        for text in [
            "",
            "@",
            "@x",
            "2026",
            "2026-13-01",
            "2026-02-30",
            "2026-01-01 25:00",
            "2026-01-01 1:60",
            "@1.",
            "9999-01-01",
            "@99999999999999999999",
            "2026-0-1",
            "2026-01-01 00:00:60",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
