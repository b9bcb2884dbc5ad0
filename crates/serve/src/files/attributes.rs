//! Attributes, and the set-id bits and capabilities that a change by an unprivileged user removes.

use crate::errno::{Errno, Reply};
use crate::requester::Requester;
use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::{Entry, NodeId};
use lanefs::{Caller, Code, FileKind, Ino, SetAttr, StatFs, Volume};

const OWNER: Caller = Caller::OWNER;
const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o10;
/// Attribute with the capabilities of a program, which a change of the program must remove.
const CAPABILITIES: &[u8] = b"security.capability";

impl Served {
    /// Returns attributes.
    ///
    /// # Errors
    /// Those of [`Volume::getattr`].
    pub fn getattr(&self, node: NodeId) -> Reply<Entry> {
        self.with_entry(Operation::Getattr, node, |volume| Ok(volume.getattr(volume.numbers.ino(node))?))
    }

    /// Changes attributes. A change of nothing is either a `chown(2)` that names neither an owner nor a
    /// group, or, before a write, a client's request to take set-id bits and capabilities away. It does both.
    ///
    /// # Errors
    /// Those of [`Volume::setattr`].
    pub fn setattr(&self, requester: &Requester<'_>, node: NodeId, set: &SetAttr) -> Reply<Entry> {
        self.with_entry(Operation::Setattr, node, |volume| {
            let ino = volume.numbers.ino(node);
            // Linux takes privileges away for all users without a privilege that in practice only root has.
            if (set.size.is_some() || *set == SetAttr::default()) && !requester.is_root() {
                kill_privileges(volume, requester, ino)?;
            }
            let mut set = *set;
            if set == SetAttr::default() {
                // To set the present owner again counts as a change, and takes privileges away.
                set.uid = Some(volume.getattr(ino)?.uid);
            }
            if set.uid.is_some() || set.gid.is_some() {
                drop_capabilities(volume, ino)?;
            }
            Ok(volume.setattr(&OWNER, ino, &set)?)
        })
    }

    /// Returns the size of the volume and its free space.
    ///
    /// # Errors
    /// Those of [`Volume::statfs`].
    pub fn statfs(&self) -> Reply<StatFs> {
        self.with(Operation::Statfs, NodeId::ROOT, |volume| Ok(volume.statfs()?))
    }
}

/// Removes set-id bits and capabilities of a file that an unprivileged user changes. As in every file system
/// of Linux, the set-group-id bit of a file without group execution stays where the user is in its group.
pub(crate) fn kill_privileges(volume: &Volume, requester: &Requester<'_>, ino: Ino) -> Reply<()> {
    let attr = volume.getattr(ino)?;
    let stays = attr.perm & (SETGID | GROUP_EXECUTES) == SETGID && requester.is_member(attr.gid);
    let kept = attr.perm & !(SETUID | if stays { 0 } else { SETGID });
    if kept != attr.perm && attr.kind != FileKind::Directory {
        volume.setattr(&OWNER, ino, &SetAttr { perm: Some(kept), ..SetAttr::default() })?;
    }
    drop_capabilities(volume, ino)
}

fn drop_capabilities(volume: &Volume, ino: Ino) -> Reply<()> {
    // Most files have none, which is cheap to find out.
    match volume.getxattr(&OWNER, ino, CAPABILITIES) {
        Ok(_) => Ok(volume.removexattr(&OWNER, ino, CAPABILITIES)?),
        Err(error) if error.code() == Code::NoAttribute => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A control of `ioctl(2)` that a service knows: the flags of chattr(1), which know checksums of file data as
/// copy on write.
enum Control {
    Get,
    /// The flags as XFS has them. Linux asks for them before it changes any.
    GetExtended,
    Set(u32),
}

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS`, which Linux sends only once it has checked who asks. It passes on all other controls of any process that has the file open, among them `FS_IOC32_SETFLAGS` of a
/// program with words of 8 bytes.
const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
/// `FS_IOC_FSGETXATTR`, and the size of its answer, `struct fsxattr`.
const GET_EXTENDED: u32 = 0x801c_581f;
const EXTENDED_SIZE: usize = 28;
/// `FS_NOCOW_FL`, the letter `C` of chattr(1): no copy on write, so no checksums.
const NO_COW: u32 = 0x0080_0000;

impl Control {
    /// Decodes a control and its argument.
    fn decode(control: u32, data: &[u8]) -> Option<Control> {
        match control {
            GET_FLAGS => Some(Control::Get),
            GET_EXTENDED => Some(Control::GetExtended),
            SET_FLAGS => Some(Control::Set(u32::from_ne_bytes(*data.first_chunk()?))),
            _ => None,
        }
    }
}

impl Served {
    /// Serves a control of a file, with the number and the argument of `ioctl(2)`; returns the bytes of the
    /// answer. The client has checked that the owner of the file changes its flags.
    ///
    /// # Errors
    /// `ENOTTY`: there is no such control. `EOPNOTSUPP`: there is no such flag. Those of
    /// [`Volume::set_data_checksums`].
    pub fn control(&self, node: NodeId, control: u32, data: &[u8]) -> Reply<Vec<u8>> {
        match Control::decode(control, data).ok_or(Errno::ENOTTY)? {
            Control::Get => Ok(self.file_flags(node)?.to_ne_bytes().to_vec()),
            // None of the flags that a volume has is one of XFS's.
            Control::GetExtended => self.with(Operation::Getattr, node, |_| Ok(vec![0; EXTENDED_SIZE])),
            Control::Set(flags) => self.set_file_flags(node, flags).map(|()| Vec::new()),
        }
    }

    /// Returns the flags of a file.
    fn file_flags(&self, node: NodeId) -> Reply<u32> {
        self.with(Operation::Getattr, node, |volume| {
            let summed = volume.has_data_checksums(volume.numbers.ino(node))?;
            Ok(if summed { 0 } else { NO_COW })
        })
    }

    /// Changes the flags of a file.
    fn set_file_flags(&self, node: NodeId, flags: u32) -> Reply<()> {
        self.with(Operation::Setattr, node, |volume| {
            if flags & !NO_COW != 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            Ok(volume.set_data_checksums(&OWNER, volume.numbers.ino(node), flags & NO_COW == 0)?)
        })
    }
}
