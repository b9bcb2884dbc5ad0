//! The programs that are peers.

use super::PublishSettings;
use super::server::{BUCKET, KEY, SECRET};
use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::session::Session;
use crate::systems::peers::{mksquashfs, run_prepared};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// A program of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Restic,
    /// `tar`, `zstd` and `rclone rcat`, one after the other.
    Tar,
    Squashfs,
    Rclone,
    S3fs,
}

impl Program {
    pub(super) fn name(self) -> &'static str {
        match self {
            Program::Restic => "restic",
            Program::Tar => "tar-zstd-rclone",
            Program::Squashfs => "mksquashfs",
            Program::Rclone => "rclone-mount",
            Program::S3fs => "s3fs",
        }
    }

    /// As [`Session::has_program`].
    pub(super) fn is_there(self, bench: &mut Session<PublishSettings>) -> Result<bool> {
        let (version, how) = match self {
            Program::Restic => (["restic", "version"], "package restic"),
            Program::Tar | Program::Rclone => (["rclone", "version"], "package rclone"),
            Program::Squashfs => (["mksquashfs", "-version"], "package squashfs-tools"),
            Program::S3fs => (["s3fs", "--version"], "package s3fs"),
        };
        bench.has_program(self.name(), version, how)
    }
}

/// Makes a repository of restic in a folder of the bucket.
pub(super) fn restic_init(server: SocketAddr, folder: &str, cache: &Path, stop: &Stop) -> Result<()> {
    run_prepared(restic(server, folder, cache, &["init"]), stop).map(drop)
}

/// Saves a tree with restic.
pub(super) fn restic_backup(
    server: SocketAddr,
    folder: &str,
    (tree, cache): (&Path, &Path),
    stop: &Stop,
) -> Result<()> {
    let mut command = restic(server, folder, cache, &["backup", "--quiet", "."]);
    command.current_dir(tree);
    run_prepared(command, stop).map(drop)
}

/// Its cache, of the repository's own metadata, lies beside the tree as it would in the user's home.
fn restic(server: SocketAddr, folder: &str, cache: &Path, arguments: &[&str]) -> Command {
    let mut command = client("restic");
    command
        .arg("--cache-dir")
        .arg(cache)
        .args(["--repo", &format!("s3:http://{server}/{BUCKET}/{folder}")])
        .args(arguments);
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET).env("RESTIC_PASSWORD", SECRET);
    command
}

/// Packs a tree into an archive of zstd at a level, and stores that as an object of a folder.
pub(super) fn tar(server: SocketAddr, folder: &str, tree: &Path, level: i32, stop: &Stop) -> Result<()> {
    let mut command = client("bash");
    let script = "set -o pipefail; tar -C \"$1\" -c . | zstd -q -T0 \"-$2\" | rclone rcat \"$3\"";
    command.args(["-c", script, "bash"]).arg(tree).arg(level.to_string());
    command.arg(format!("{}/{folder}/tree.tar.zst", rclone_bucket(server)));
    run_prepared(command, stop).map(drop)
}

/// Packs a tree into an image; returns its bytes.
pub(super) fn squashfs(tree: &Path, image: &Path, stop: &Stop) -> Result<u64> {
    mksquashfs(tree, image, stop)?;
    Ok(std::fs::metadata(image).map_err(Error::host("the SquashFS image"))?.len())
}

/// Mounts a folder with `rclone`; the mount point comes after the arguments.
pub(super) fn rclone_mount(server: SocketAddr, folder: &str) -> Command {
    let mut command = client("rclone");
    command.args(["mount", "--read-only", &format!("{}/{folder}", rclone_bucket(server))]);
    command
}

/// The bucket with its server, as rclone takes them.
fn rclone_bucket(server: SocketAddr) -> String {
    let keys = format!("access_key_id={KEY},secret_access_key={SECRET}");
    format!(":s3,provider=Other,endpoint='http://{server}',{keys}:{BUCKET}")
}

/// As [`rclone_mount`], for `s3fs`. `passwords` is a file with the credentials.
pub(super) fn s3fs_mount(server: SocketAddr, folder: &str, passwords: &Path) -> Command {
    let mut options = OsString::from("ro,use_path_request_style,passwd_file=");
    options.push(passwords);
    options.push(format!(",url=http://{server}"));
    let mut command = client("s3fs");
    command.arg("-f").arg("-o").arg(options).arg(format!("{BUCKET}:/{folder}"));
    command
}

/// A client of the server. Settings of the user for other servers do not count.
fn client(program: &str) -> Command {
    let mut command = Command::new(program);
    let is_setting = |name: &str| ["AWS_", "RCLONE_", "RESTIC_"].iter().any(|begin| name.starts_with(begin));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_setting)) {
        command.env_remove(name);
    }
    command
}
