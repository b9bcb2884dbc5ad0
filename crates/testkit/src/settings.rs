//! The amount of testing: that of a test run or of the replay of one failure from the environment, that of a
//! soak from its arguments.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{name}={text}: a whole number was expected"),
    }
}

/// The seeds of a test, one after another.
///
/// `LANEFS_SEED` is the first (default: `default_seed`). `LANEFS_SEQUENCES` (or the variable that the caller
/// names) is their number. `LANEFS_SECONDS` ends the test early or, where no number is given, at all.
#[derive(Clone, Debug)]
pub struct Seeds {
    next: u64,
    left: u64,
    until: Option<Instant>,
}

impl Seeds {
    /// Reads the environment, with these defaults.
    ///
    /// # Panics
    /// Panics if a variable is not a number.
    pub fn from_environment(count_variable: &str, default_seed: u64, default_count: u64) -> Self {
        let seconds = number("LANEFS_SECONDS");
        let default_count = if seconds.is_some() { u64::MAX } else { default_count };
        Seeds {
            next: number("LANEFS_SEED").unwrap_or(default_seed),
            left: number(count_variable).unwrap_or(default_count),
            until: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
        }
    }

    /// Splits off the seeds for one of `parts` threads.
    pub fn part(&self, part: u64, parts: u64) -> Seeds {
        let share = self.left / parts + u64::from(part < self.left % parts);
        let before = self.left / parts * part + part.min(self.left % parts);
        Seeds { next: self.next.wrapping_add(before), left: share, until: self.until }
    }
}

impl Iterator for Seeds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.left == 0 || self.until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        self.left -= 1;
        let seed = self.next;
        self.next = self.next.wrapping_add(1);
        Some(seed)
    }
}

/// The arguments of a soak, each a name and a value.
pub struct SoakArguments(HashMap<String, String>);

impl SoakArguments {
    /// Reads the arguments of this process.
    ///
    /// # Errors
    /// `usage` for a name that is not among `names`, and for one without a value.
    pub fn of_process(usage: &str, names: &[&str]) -> Result<Self, String> {
        let (mut given, mut words) = (HashMap::new(), std::env::args().skip(1));
        while let Some(name) = words.next() {
            let value = words.next().filter(|_| names.contains(&name.as_str())).ok_or(usage)?;
            given.insert(name, value);
        }
        Ok(SoakArguments(given))
    }

    /// Returns the value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the number of a name.
    ///
    /// # Errors
    /// A value that is not a number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let parse =
            |value: &str| value.parse().map_err(|_| format!("{name} {value}: a whole number was expected"));
        self.get(name).map(parse).transpose()
    }

    /// Returns `--seconds`: ten minutes, unless given.
    ///
    /// # Errors
    /// As [`SoakArguments::number`].
    pub fn seconds(&self) -> Result<u64, String> {
        Ok(self.number("--seconds")?.unwrap_or(600))
    }

    /// Returns `--seed`: one from the clock, unless given.
    ///
    /// # Errors
    /// As [`SoakArguments::number`].
    pub fn seed(&self) -> Result<u64, String> {
        let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(self.number("--seed")?.unwrap_or(clock.as_nanos() as u64 >> 10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_seeds_once() {
        let all = Seeds { next: 7, left: 11, until: None };
        let mut seen: Vec<u64> = (0..3).flat_map(|part| all.part(part, 3)).collect();
        seen.sort_unstable();
        assert_eq!(seen, (7..18).collect::<Vec<_>>());
    }
}
