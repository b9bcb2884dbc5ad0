//! Attributes, and the set-id bits and capabilities that a change by an unprivileged user removes.

use crate::errno::{Errno, FuseResult};
use crate::served::Served;
use crate::versions::OpenVersion;
use fuser::{INodeNo, Request};
use lanefs::{Attr, Caller, Code, FileKind, Ino, SetAttr, Volume};

const OWNER: Caller = Caller::OWNER;
const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o10;
/// Attribute with the capabilities of a program, which a change of the program must remove.
const CAPABILITIES: &[u8] = b"security.capability";

impl Served {
    /// Changes attributes.
    pub(crate) fn setattr(
        &self,
        volume: &OpenVersion<'_>,
        request: &Request,
        ino: INodeNo,
        set: &SetAttr,
    ) -> FuseResult<Attr> {
        let ino = volume.numbers.ino(ino);
        // The library does not pass on the kernel's flag for this. The kernel sets it for all callers without
        // a privilege that in practice only root has.
        if (set.size.is_some() || *set == SetAttr::default()) && request.uid() != 0 {
            kill_privileges(volume, request, ino)?;
        }
        let mut set = *set;
        if set == SetAttr::default() {
            // Either a chown that changes neither id and still counts as a change, or, before a write, the
            // kernel's request to remove set-id bits and capabilities. Setting the present owner again does
            // both.
            set.uid = Some(volume.getattr(ino)?.uid);
        }
        if set.uid.is_some() || set.gid.is_some() {
            drop_capabilities(volume, ino)?;
        }
        Ok(volume.setattr(&OWNER, ino, &set)?)
    }
}

/// Removes set-id bits and capabilities of a file that an unprivileged user changes. As in every file system
/// of Linux, the set-group-id bit of a file without group execution stays where the user is in its group.
pub(crate) fn kill_privileges(volume: &Volume, request: &Request, ino: Ino) -> FuseResult<()> {
    let attr = volume.getattr(ino)?;
    let stays = attr.perm & (SETGID | GROUP_EXECUTES) == SETGID && is_member(request, attr.gid);
    let kept = attr.perm & !(SETUID | if stays { 0 } else { SETGID });
    if kept != attr.perm && attr.kind != FileKind::Directory {
        volume.setattr(&OWNER, ino, &SetAttr { perm: Some(kept), ..SetAttr::default() })?;
    }
    drop_capabilities(volume, ino)
}

/// True where the caller is in a group. The request has only its first one. Where the host does not list the
/// others, it counts as no member, and loses the bit.
pub(crate) fn is_member(request: &Request, gid: u32) -> bool {
    if request.gid() == gid {
        return true;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", request.pid())).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    groups.split_whitespace().any(|group| group.parse() == Ok(gid))
}

fn drop_capabilities(volume: &Volume, ino: Ino) -> FuseResult<()> {
    // Most files have none, which is cheap to find out.
    match volume.getxattr(&OWNER, ino, CAPABILITIES) {
        Ok(_) => Ok(volume.removexattr(&OWNER, ino, CAPABILITIES)?),
        Err(error) if error.code() == Code::NoAttribute => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A control of `ioctl(2)` that a mount knows: the flags of chattr(1).
pub(crate) enum Control {
    Get,
    /// The flags as XFS has them. The kernel asks for them before it changes any.
    GetExtended,
    Set(u32),
}

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS`, which the kernel sends only once it has checked who asks. It
/// passes on all other controls of any process that has the file open, among them `FS_IOC32_SETFLAGS` of a
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
    pub(crate) fn decode(control: u32, data: &[u8]) -> Option<Control> {
        match control {
            GET_FLAGS => Some(Control::Get),
            GET_EXTENDED => Some(Control::GetExtended),
            SET_FLAGS => Some(Control::Set(u32::from_ne_bytes(*data.first_chunk()?))),
            _ => None,
        }
    }
}

impl Served {
    /// Serves a control of a file, and returns the bytes of the answer.
    pub(crate) fn control(
        &self,
        volume: &OpenVersion<'_>,
        ino: INodeNo,
        control: &Control,
    ) -> FuseResult<Vec<u8>> {
        match control {
            Control::Get => Ok(self.file_flags(volume, ino)?.to_ne_bytes().to_vec()),
            // None of the flags that a volume has is one of XFS's.
            Control::GetExtended => Ok(vec![0; EXTENDED_SIZE]),
            Control::Set(flags) => {
                self.set_file_flags(volume, ino, *flags)?;
                Ok(Vec::new())
            }
        }
    }

    /// Returns the flags of a file.
    fn file_flags(&self, volume: &OpenVersion<'_>, ino: INodeNo) -> FuseResult<u32> {
        let summed = volume.has_data_checksums(volume.numbers.ino(ino))?;
        Ok(if summed { 0 } else { NO_COW })
    }

    /// Changes the flags of a file; the kernel has checked that its owner does so.
    fn set_file_flags(&self, volume: &OpenVersion<'_>, ino: INodeNo, flags: u32) -> FuseResult<()> {
        if flags & !NO_COW != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        Ok(volume.set_data_checksums(&OWNER, volume.numbers.ino(ino), flags & NO_COW == 0)?)
    }
}
