//! Commands of the host.

use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Interval of the polls of a running command: well below the shortest measured time.
const POLL: Duration = Duration::from_millis(2);

/// Polls from one look at the command's memory to the next.
const POLLS_PER_LOOK: u64 = 4;

/// Folders of administrators' commands, which a user's search path may lack.
const ADMIN_PATH: &str = ":/usr/local/sbin:/usr/sbin:/sbin";

/// Runs a command to its end and returns its standard output. Kills it when `stop` is set. If it fails, its
/// standard error becomes the error's message.
///
/// The command gets a process group of its own, so that Ctrl-C reaches this process only and nothing is left
/// half mounted.
pub fn run_command(program: &str, arguments: &[&str], stop: &Stop) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    run_prepared(command, stop)
}

/// A command that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredCommand {
    /// Its standard output.
    pub output: String,
    /// Time from its start to its end.
    pub elapsed: Duration,
    /// Most bytes that it had resident, as seen every few milliseconds.
    pub memory_bytes: u64,
}

/// As [`run_command`], with arguments of any bytes and the caller's environment.
pub fn run_prepared(command: Command, stop: &Stop) -> Result<String> {
    run_measured(command, stop).map(|done| done.output)
}

/// As [`run_prepared`]; measures the command.
pub fn run_measured(mut command: Command, stop: &Stop) -> Result<MeasuredCommand> {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let shown = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    let path = std::env::var("PATH").unwrap_or_default() + ADMIN_PATH;
    command.env("PATH", path).env("LC_ALL", "C").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().map_err(|e| Error::Command {
        command: command.get_program().to_string_lossy().into_owned(),
        message: format!("{e}; is it installed?"),
    })?;
    // Both pipes are drained while the command runs, so that it never blocks on a full one.
    let mut output = child.stdout.take();
    let mut errors = child.stderr.take();
    let mut memory_bytes = 0;
    let (output, errors, status) = std::thread::scope(|scope| {
        let output = scope.spawn(move || drain(&mut output));
        let errors = scope.spawn(move || drain(&mut errors));
        let status = wait(&mut child, &mut memory_bytes, stop);
        (output.join().unwrap_or_default(), errors.join().unwrap_or_default(), status)
    });
    let status = status.map_err(Error::host(shown.clone()))?;
    if status.success() {
        return Ok(MeasuredCommand { output, elapsed: start.elapsed(), memory_bytes });
    }
    stop.check()?;
    let message = errors.trim();
    let message = if message.is_empty() {
        status.to_string()
    } else {
        message.lines().take(5).collect::<Vec<_>>().join("; ")
    };
    Err(Error::Command { command: shown, message })
}

fn drain(pipe: &mut Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for the end; looks at the memory from time to time.
fn wait(child: &mut Child, memory_bytes: &mut u64, stop: &Stop) -> std::io::Result<ExitStatus> {
    let mut polls = 0_u64;
    loop {
        polls += 1;
        if polls % POLLS_PER_LOOK == 1 {
            *memory_bytes = (*memory_bytes).max(resident_bytes(child.id()));
        }
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.is_set() {
            child.kill()?;
            return child.wait();
        }
        std::thread::sleep(POLL);
    }
}

/// Most bytes that a process has had resident so far; 0 where the host does not tell.
fn resident_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_failure_and_absence_are_told() {
        let stop = Stop::default();
        assert_eq!(run_command("printf", &["%s", "x y"], &stop).unwrap(), "x y");
        let failed = run_command("sh", &["-c", "echo why >&2; exit 3"], &stop).unwrap_err();
        assert!(failed.to_string().contains("why"), "{failed}");
        let failed = run_command("sh", &["-c", "exit 3"], &stop).unwrap_err();
        assert!(failed.to_string().contains('3'), "{failed}");
        let absent = run_command("lanefs-no-such-command", &[], &stop).unwrap_err();
        assert!(absent.to_string().contains("installed"), "{absent}");
    }

    #[test]
    fn time_and_memory_are_measured() {
        let mut command = Command::new("sh");
        command.args(["-c", "a=$(head -c 30000000 /dev/zero | tr '\\0' x); sleep 1; echo ${#a}"]);
        let done = run_measured(command, &Stop::default()).unwrap();
        assert_eq!(done.output.trim(), "30000000");
        assert!(done.elapsed >= Duration::from_secs(1) && done.memory_bytes > 20_000_000, "{done:?}");
    }

    #[test]
    fn a_stop_kills_it() {
        let stop = Stop::default();
        stop.set();
        assert!(matches!(run_command("sleep", &["60"], &stop), Err(Error::Stopped)));
    }
}
