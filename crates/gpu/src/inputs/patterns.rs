//! Patterns that a device finds in texts, as machines whose states are bits.

use crate::shared::layout::MACHINES;
use crate::shared::structures::ScanProgram;

/// A step of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternStep {
    /// A bit for each byte that it takes: byte `b` is bit `b % 64` of word `b / 64`. A line feed counts for
    /// nothing: no match goes beyond a line.
    pub bytes: [u64; 4],
    /// It may be left out.
    pub is_optional: bool,
    /// It may come several times in a row.
    pub is_repeated: bool,
}

/// Patterns, each a row of up to 64 steps, in machines of 64 states: a state for each step. A byte turns on
/// the states after those that are on, as far as it is one of theirs; so a text costs its length, whatever
/// the patterns (Navarro and Raffinot, "Flexible Pattern Matching in Strings", 2002).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns {
    machines: Vec<Machine>,
}

/// A machine. The fields are those of [`ScanProgram`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Machine {
    starts: u64,
    ends: u64,
    repeats: u64,
    optional: u64,
    before: u64,
    last: u64,
    leads: Box<[u64; 256]>,
    /// States in use.
    states: u32,
}

impl Patterns {
    /// Adds a pattern. Returns false, and changes nothing, where there is no room for it, where it has no
    /// step or more than 64, or where its first or its last step may be left out.
    #[must_use]
    pub fn or(&mut self, steps: &[PatternStep]) -> bool {
        let is_there = |step: Option<&PatternStep>| step.is_some_and(|step| !step.is_optional);
        let states = steps.len() as u32;
        if steps.len() > u64::BITS as usize || !is_there(steps.first()) || !is_there(steps.last()) {
            return false;
        }
        let fits = |machine: &&mut Machine| machine.states + states <= u64::BITS;
        if let Some(machine) = self.machines.iter_mut().find(fits) {
            machine.add(steps);
            return true;
        }
        if self.machines.len() == MACHINES {
            return false;
        }
        let mut machine = Machine::new();
        machine.add(steps);
        self.machines.push(machine);
        true
    }

    /// Tells whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.machines.is_empty()
    }

    /// Returns the program for the kernel.
    pub(crate) fn program(&self) -> ScanProgram {
        let mut program = ScanProgram { count: self.machines.len() as u32, ..ScanProgram::default() };
        for (k, machine) in self.machines.iter().enumerate() {
            program.starts[k] = machine.starts;
            program.ends[k] = machine.ends;
            program.repeats[k] = machine.repeats;
            program.optional[k] = machine.optional;
            program.before[k] = machine.before;
            program.last[k] = machine.last;
            program.leads[k * 256..][..256].copy_from_slice(&machine.leads[..]);
        }
        program
    }
}

impl Machine {
    fn new() -> Self {
        let leads = Box::new([0; 256]);
        Machine { starts: 0, ends: 0, repeats: 0, optional: 0, before: 0, last: 0, leads, states: 0 }
    }

    fn add(&mut self, steps: &[PatternStep]) {
        self.starts |= 1 << self.states;
        let mut was_optional = false;
        for step in steps {
            let state = 1u64 << self.states;
            for (byte, leads) in self.leads.iter_mut().enumerate() {
                if step.bytes[byte / 64] >> (byte % 64) & 1 != 0 && byte != usize::from(b'\n') {
                    *leads |= state;
                }
            }
            if step.is_repeated {
                self.repeats |= state;
            }
            // The first step is none that may be left out, so there is a state below.
            match (was_optional, step.is_optional) {
                (false, true) => self.before |= state >> 1,
                (true, false) => self.last |= state >> 1,
                _ => {}
            }
            if step.is_optional {
                self.optional |= state;
            }
            was_optional = step.is_optional;
            self.states += 1;
        }
        self.ends |= 1 << (self.states - 1);
        debug_assert!(self.states <= u64::BITS, "more states than bits");
    }
}

/// Returns the steps of a pattern of a probe or a test: `?`, `*` and `+` follow a letter, and `.` stands for
/// any byte.
pub(crate) fn steps(pattern: &str) -> Vec<PatternStep> {
    let mut steps: Vec<PatternStep> = Vec::new();
    for byte in pattern.bytes() {
        let mut bytes = [0; 4];
        match (byte, steps.last_mut()) {
            (b'?' | b'+' | b'*', Some(last)) => {
                last.is_optional |= byte != b'+';
                last.is_repeated |= byte != b'?';
                continue;
            }
            (b'.', _) => bytes = [u64::MAX; 4],
            _ => bytes[usize::from(byte / 64)] |= 1 << (byte % 64),
        }
        steps.push(PatternStep { bytes, is_optional: false, is_repeated: false });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut patterns = Patterns::default();
        assert!(patterns.is_empty());
        for no in [String::new(), "a?b".into(), "ab*".into(), "x".repeat(65)] {
            assert!(!patterns.or(&steps(&no)), "{no}");
        }
        for _ in 0..MACHINES {
            assert!(patterns.or(&steps(&"x".repeat(40))));
        }
        let full = patterns.clone();
        assert!(!patterns.or(&steps(&"y".repeat(25))));
        assert_eq!(patterns, full);
        assert!(patterns.or(&steps(&"y".repeat(24))) && patterns != full);
    }
}
