//! Exit codes of the program.

/// Everything was done.
pub const OK: u8 = 0;
/// A name was not found, or a part was not done; the rest was.
pub const PARTIAL: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// The image is not a LaneFS volume, is damaged or is in use.
pub const IMAGE: u8 = 3;
/// The host or the device failed.
pub const HOST: u8 = 4;
/// Ctrl-C or a request to terminate.
pub const INTERRUPTED: u8 = 130;

/// Exit codes of `lanefs fsck`, which are those of e2fsck.
pub mod fsck {
    /// All errors were corrected.
    pub const CORRECTED: u8 = 1;
    /// Errors are left.
    pub const LEFT: u8 = 4;
    /// The check could not be done.
    pub const OPERATIONAL: u8 = 8;
    /// The command line is wrong.
    pub const USAGE: u8 = 16;
    /// The user stopped the check.
    pub const CANCELLED: u8 = 32;

    /// The codes as the help shows them.
    pub fn list() -> String {
        format!(
            "{} clean, {CORRECTED} errors corrected, {LEFT} errors left,\n\
             {OPERATIONAL} operational error, {USAGE} usage error, {CANCELLED} interrupted",
            super::OK
        )
    }
}

/// The table that `--help` and the manual page show.
pub fn table() -> String {
    let rows = [
        (OK, "everything was done"),
        (PARTIAL, "a name was not found, or a part was not done; the rest was"),
        (USAGE, "the command line is wrong"),
        (IMAGE, "the image is not a LaneFS volume, is damaged or is in use"),
        (HOST, "the host or the device failed"),
        (INTERRUPTED, "interrupted"),
    ];
    let rows = rows.map(|(code, meaning)| format!("  {code:>3}  {meaning}\n"));
    format!("Exit codes:\n{}\n`lanefs fsck` has e2fsck's codes instead: {}.", rows.concat(), fsck::list())
}
