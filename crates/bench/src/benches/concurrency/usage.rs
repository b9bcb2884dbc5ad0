//! Processor time and memory of this process.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::ops::{AddAssign, Sub};

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    /// User time.
    pub(super) user: f64,
    /// System time.
    pub(super) system: f64,
}

/// A reading of the clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    total: f64,
    user_ticks: u64,
    system_ticks: u64,
}

impl Reading {
    /// Reads the time of all threads of this process, ended ones included, until now.
    ///
    /// The sum comes from the process's clock, which is exact. The kernel reports its two parts in ticks of
    /// 10 ms only, as `getrusage` does, so they only serve to divide the sum.
    pub(super) fn now() -> Self {
        let total = clock_gettime(ClockId::ProcessCPUTime);
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let (user_ticks, system_ticks) = ticks(&stat).unwrap_or_default();
        Reading { total: total.tv_sec as f64 + total.tv_nsec as f64 / 1e9, user_ticks, system_ticks }
    }
}

impl Sub for Reading {
    type Output = Usage;

    fn sub(self, before: Reading) -> Usage {
        let total = (self.total - before.total).max(0.0);
        let user = self.user_ticks.saturating_sub(before.user_ticks) as f64;
        let system = self.system_ticks.saturating_sub(before.system_ticks) as f64;
        // Less than a tick in all: the parts are unknown.
        let share = if user + system > 0.0 { user / (user + system) } else { 1.0 };
        Usage { user: total * share, system: total * (1.0 - share) }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Usage) {
        self.user += more.user;
        self.system += more.system;
    }
}

/// Finds user and system time in the text of `/proc/self/stat`, in ticks.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    // The program's name, which may contain anything, ends with the last parenthesis.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    Some((fields.nth(11)?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Resident memory of this process.
    pub(super) resident: u64,
    /// Memory of the kernel for files of all processes: page cache and slabs.
    pub(super) kernel: u64,
}

impl Memory {
    /// Reads the current values.
    pub(super) fn now() -> Self {
        let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let all = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = ["Cached:", "Buffers:", "Slab:"].iter().map(|name| kib(&all, name)).sum::<u64>();
        Memory { resident: kib(&own, "VmRSS:") << 10, kernel: kernel << 10 }
    }
}

/// Returns the number in the line that begins with `name`.
fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_divided_as_the_ticks_are() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 300 100 0 0 20";
        assert_eq!(ticks(stat), Some((300, 100)));
        assert_eq!(ticks("nothing"), None);
        let before = Reading { total: 1.0, user_ticks: 10, system_ticks: 10 };
        let after = Reading { total: 5.0, user_ticks: 40, system_ticks: 20 };
        assert_eq!(after - before, Usage { user: 3.0, system: 1.0 });
        assert_eq!((before - after).user, 0.0);
        assert_eq!(before - before, Usage::default());
    }

    #[test]
    fn this_process_uses_time_and_memory() {
        let before = Reading::now();
        let mut number = 1u64;
        while Reading::now().total - before.total < 0.002 {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        let memory = Memory::now();
        assert!(memory.resident > 100_000 && memory.kernel > memory.resident / 1000);
        assert_eq!(kib("VmRSS:\t  12 kB\n", "VmRSS:"), 12);
    }
}
