//! Names of crash states, by which a failure is replayed.

use super::workload::Family;
use std::fmt;
use std::str::FromStr;

/// A cut of a log, and the choice of the unflushed writes that reached the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Events before the crash.
    pub cut: usize,
    /// Number of the choice.
    pub choice: u32,
}

/// A crash state: `seq2:1234:cut57:choice9`, with `:again:cut5:choice0` after a second crash during the
/// recovery from the first. Without a crash it names a whole workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Kind of workload.
    pub family: Family,
    /// Number within the kind.
    pub number: u64,
    /// The crash.
    pub crash: Option<Crash>,
    /// The crash during the recovery from it.
    pub again: Option<Crash>,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cut{}:choice{}", self.cut, self.choice)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.family, self.number)?;
        if let Some(crash) = self.crash {
            write!(f, ":{crash}")?;
        }
        if let Some(again) = self.again {
            write!(f, ":again:{again}")?;
        }
        Ok(())
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text}: no crash case (such as seq2:1234:cut57:choice9:again:cut5:choice0)");
        let parts: Vec<&str> = text.split(':').collect();
        let number = |at: usize, prefix: &str| -> Result<u64, String> {
            let digits = parts.get(at).and_then(|part| part.strip_prefix(prefix)).ok_or_else(bad)?;
            digits.parse().map_err(|_| bad())
        };
        let crash = |at: usize| -> Result<Crash, String> {
            let choice = u32::try_from(number(at + 1, "choice")?).map_err(|_| bad())?;
            Ok(Crash { cut: number(at, "cut")? as usize, choice })
        };
        let again = match parts.len() {
            2 | 4 => None,
            7 if parts[4] == "again" => Some(crash(5)?),
            _ => return Err(bad()),
        };
        let first = if parts.len() > 2 { Some(crash(2)?) } else { None };
        Ok(Case { family: parts[0].parse()?, number: number(1, "")?, crash: first, again })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_as_it_is_written() {
        for text in [
            "long:7",
            "wide:0",
            "churn:49:cut1:choice0",
            "grow:3",
            "seq1:3:cut5:choice0",
            "seq2:1234:cut57:choice9:again:cut5:choice2",
        ] {
            assert_eq!(text.parse::<Case>().map(|case| case.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "seq9:1", "seq1", "seq1:x", "seq1:1:cut1", "seq1:1:cut1:choice2:more:cut1:choice1"] {
            assert!(text.parse::<Case>().is_err(), "{text}");
        }
    }
}
