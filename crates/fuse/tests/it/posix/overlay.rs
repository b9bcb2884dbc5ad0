//! A mounted volume as the upper directory of overlayfs, which demands much of such a file system: extended
//! attributes, types in listings, files without a name, and renames that leave whiteouts.

use crate::posix::support::{Mounted, host_directory, names};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment of the run in a user namespace.
const IN_NAMESPACE: &str = "LANEFS_TEST_IN_NAMESPACE";
/// Arguments of unshare(1) for namespaces of users and mounts, in which the caller is root.
const NAMESPACES: [&str; 3] = ["--user", "--map-root-user", "--mount"];

/// Returns an option of the overlay, and the attribute by which it hides a directory. Root of a user
/// namespace may not set `trusted.` attributes.
fn kind_of_attributes() -> (&'static str, &'static str) {
    match std::env::var_os(IN_NAMESPACE) {
        Some(_) => (",userxattr", "user.overlay.opaque"),
        None => ("", "trusted.overlay.opaque"),
    }
}

/// An overlay of a directory of the host (lower) and a mounted volume (upper).
struct Overlay<'m> {
    on: &'m Mounted,
    lower: &'m Path,
    merged: PathBuf,
}

impl<'m> Overlay<'m> {
    fn new(on: &'m Mounted, lower: &'m Path, merged: &Path) -> Self {
        let overlay = Overlay { on, lower, merged: merged.to_owned() };
        overlay.mount();
        overlay
    }

    fn mount(&self) {
        let [lower, upper, work] = [self.lower.to_owned(), self.on.path("upper"), self.on.path("work")]
            .map(|path| path.display().to_string());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}{}", kind_of_attributes().0);
        let mut mount = Command::new("mount");
        mount.args(["-t", "overlay", "overlay", "-o", &options]).arg(&self.merged);
        let done = mount.output().expect("mount(8)");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn unmount(&self) {
        rustix::mount::unmount(&self.merged, rustix::mount::UnmountFlags::empty()).expect("unmount");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.merged.join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Drop for Overlay<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.merged, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Returns a reason for which this host cannot mount an overlay on a file system of its own.
fn refusal() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("root mounts overlays");
    }
    // A kernel may load the module with the first mount only.
    let _ = Command::new("modprobe").args(["-q", "overlay"]).status();
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    (!known.lines().any(|line| line.ends_with("\toverlay"))).then_some("the kernel has no overlayfs")
}

fn must_be_whiteout(path: &Path) {
    let metadata = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(metadata.file_type().is_char_device() && metadata.rdev() == 0, "{}", path.display());
}

#[test]
fn an_overlay_has_a_mounted_volume_as_its_upper_directory() {
    if let Some(reason) = refusal() {
        eprintln!("not tried: {reason}");
        return;
    }
    let m = Mounted::new();
    let (host, merged) = (host_directory(), tempfile::tempdir().unwrap());
    let lower = host.path();
    for dir in ["gone", "kept"] {
        fs::create_dir(lower.join(dir)).unwrap();
        fs::write(lower.join(dir).join("inside"), dir).unwrap();
    }
    for name in ["removed", "moved", "replaced", "appended", "untouched"] {
        fs::write(lower.join(name), name).unwrap();
    }
    fs::create_dir(m.path("upper")).unwrap();
    fs::create_dir(m.path("work")).unwrap();
    let overlay = Overlay::new(&m, lower, merged.path());

    fs::remove_file(overlay.path("removed")).unwrap();
    fs::rename(overlay.path("moved"), overlay.path("kept/moved")).unwrap();
    fs::rename(overlay.path("kept/inside"), overlay.path("replaced")).unwrap();
    fs::remove_dir_all(overlay.path("gone")).unwrap();
    fs::create_dir(overlay.path("gone")).unwrap();
    fs::write(overlay.path("gone/new"), "new").unwrap();
    let appended = fs::OpenOptions::new().append(true).open(overlay.path("appended"));
    std::io::Write::write_all(&mut appended.unwrap(), b" more").unwrap();
    fs::create_dir(overlay.path("made")).unwrap();
    fs::rename(overlay.path("made"), overlay.path("renamed")).unwrap();

    let all = ["appended", "gone", "kept", "renamed", "replaced", "untouched"].map(str::to_owned);
    let as_it_is_left = || {
        assert_eq!(names(&overlay.merged), BTreeSet::from(all.clone()));
        assert_eq!(names(&overlay.path("gone")), BTreeSet::from(["new".to_owned()]));
        assert_eq!(names(&overlay.path("kept")), BTreeSet::from(["moved".to_owned()]));
        assert_eq!((overlay.read("kept/moved"), overlay.read("replaced")), ("moved".into(), "kept".into()));
        assert_eq!(
            (overlay.read("appended"), overlay.read("gone/new")),
            ("appended more".into(), "new".into())
        );
    };
    as_it_is_left();
    // The kernel keeps nothing of the overlay. The upper directory alone says the same to the next one.
    overlay.unmount();
    for hidden in ["removed", "moved", "kept/inside"] {
        must_be_whiteout(&m.path("upper").join(hidden));
    }
    let mut opaque = [0; 8];
    let length = rustix::fs::getxattr(m.path("upper/gone"), kind_of_attributes().1, &mut opaque[..]);
    assert_eq!(length.map(|length| &opaque[..length]), Ok(&b"y"[..]));
    assert_eq!(names(lower).len(), 7, "the lower directory is as it was");
    overlay.mount();
    as_it_is_left();
    drop(overlay);
    m.end();
}

#[test]
fn root_of_a_user_namespace_mounts_an_overlay_on_its_volume() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(NAMESPACES);
        command
    };
    if !unshare().arg("true").output().is_ok_and(|done| done.status.success()) {
        eprintln!("not tried: this host gives no user namespaces");
        return;
    }
    let mut child = unshare();
    child.arg(std::env::current_exe().expect("this program")).env(IN_NAMESPACE, "1");
    child.args(["--exact", "posix::overlay::an_overlay_has_a_mounted_volume_as_its_upper_directory"]);
    let done = child.output().expect("unshare(1)");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}
