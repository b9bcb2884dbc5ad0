//! Controls of files, as `ioctl(2)` has them.

use crate::errno::{Errno, Reply};
use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::NodeId;
use lanefs::Caller;

const OWNER: Caller = Caller::OWNER;

/// A control of `ioctl(2)` that a service knows: the flags of chattr(1), which know checksums of file data as
/// copy on write.
enum Control {
    Get,
    /// The flags as XFS has them. Linux asks for them before it changes any.
    GetExtended,
    Set(u32),
}

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS`, which Linux sends only once it has checked who asks. It passes on
/// all other controls of any process that has the file open, among them `FS_IOC32_SETFLAGS` of a program with
/// words of 8 bytes.
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
    /// [`lanefs::Volume::set_data_checksums`].
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
