//! What this process has used: processor time and memory.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::ops::{AddAssign, Sub};

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    /// In the program.
    pub(super) user: f64,
    /// In the kernel, on its behalf.
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
    /// All threads of this process, ended ones included, until now.
    ///
    /// The sum comes from the process's clock, which is exact; the kernel tells the two parts of it in ticks of 10 ms only
    /// (they are what `getrusage` gives), so they serve to divide the sum.
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
        // Less than a tick in all: nothing tells where.
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

/// User and system time in the text of `/proc/self/stat`, in ticks.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    // The program's name, which may hold anything, ends with the last parenthesis.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    Some((fields.nth(11)?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Of this process, resident.
    pub(super) resident: u64,
    /// Of the kernel, for files: page cache and slabs, of all processes together.
    pub(super) kernel: u64,
}

impl Memory {
    /// Now.
    pub(super) fn now() -> Self {
        let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let all = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = ["Cached:", "Buffers:", "Slab:"].iter().map(|name| kib(&all, name)).sum::<u64>();
        Memory { resident: kib(&own, "VmRSS:") << 10, kernel: kernel << 10 }
    }
}

/// The number of the line that begins with `name`.
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
