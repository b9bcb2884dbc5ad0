//! Servers that stop or are killed, and clients that are many, fork or are killed: with requests through the
//! device, and through rings where root can switch them on.

use crate::common::{ended, run, text, until};
use crate::mount::Mounted;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Switch of the kernel's fuse module.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// More clients than a server has threads and exchanges.
const CLIENTS: usize = 40;

/// One test at a time changes the switch.
static SWITCHING: Mutex<()> = Mutex::new(());

/// Puts the kernel's switch back.
struct Switched(String);

impl Switched {
    fn on() -> std::io::Result<Self> {
        let before = Switched(fs::read_to_string(SWITCH)?);
        fs::write(SWITCH, "Y").map(|()| before)
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, &self.0);
    }
}

/// Calls `check` with a mount of each transport that this kernel and user have.
fn with_each(check: impl Fn(&Mounted)) {
    let m = Mounted::prepare();
    m.mount(&["-o", "transport=dev"]).ends(0);
    check(&m);
    let _alone = SWITCHING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let m = Mounted::prepare();
    let switched = match Switched::on() {
        Ok(switched) => switched,
        Err(error) => return eprintln!("not tried with rings: {SWITCH}: {error}"),
    };
    let mounted = m.mount(&["-o", "transport=uring"]);
    if mounted.code != 0 && mounted.err.contains("making a ring") {
        return eprintln!("not tried with rings: {}", mounted.err);
    }
    mounted.ends(0);
    check(&m);
    drop(switched);
}

fn shell(script: &str, dir: &Path) -> Child {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir("/").env("DIR", dir).stderr(Stdio::null());
    shell.stdout(Stdio::piped()).spawn().unwrap()
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

#[test]
fn clients_of_a_stopped_server_go_on_with_it_and_killed_ones_are_gone() {
    with_each(|m| {
        let server = m.server();
        signal("-STOP", server);
        let script = |number: usize| format!("echo text{number} >$DIR/f{number} && cat $DIR/f{number}");
        let mut clients: Vec<_> = (0..CLIENTS).map(|number| shell(&script(number), &m.dir)).collect();
        clients.iter().step_by(2).for_each(|client| signal("-KILL", client.id()));
        signal("-CONT", server);
        for (number, client) in clients.iter_mut().enumerate() {
            let code = ended(client);
            if number % 2 == 0 {
                assert_eq!(code, None, "client {number} was killed");
            } else {
                let output = std::io::read_to_string(client.stdout.take().unwrap()).unwrap();
                assert_eq!((code, output), (Some(0), format!("text{number}\n")));
            }
        }
        // Child and parent write to one open file.
        let mut forks = shell("exec 3>$DIR/forks; (echo child >&3) & echo parent >&3; wait", &m.dir);
        assert_eq!(ended(&mut forks), Some(0));
        let mut lines: Vec<_> =
            fs::read_to_string(m.path("forks")).unwrap().lines().map(String::from).collect();
        lines.sort();
        assert_eq!(lines, ["child", "parent"]);
        m.umount().ends(0);
        m.is_clean();
    });
}

#[test]
fn clients_of_a_killed_server_end_with_an_error() {
    with_each(|m| {
        let server = m.server();
        let script = "while echo text >$DIR/$$ && cat $DIR/$$ >/dev/null && rm $DIR/$$; do :; done";
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| shell(script, &m.dir)).collect();
        until("some clients work", || fs::read_dir(&m.dir).unwrap().count() > 0);
        signal("-KILL", server);
        for client in &mut clients {
            assert!(ended(client).is_some(), "it ends by itself");
        }
        until("the server is gone", || !Path::new(&format!("/proc/{server}/exe")).exists());
        m.umount().ends(0);
        run(&["fsck", text(&m.v.image)]).ends(0);
    });
}
