//! The part of a batch's answers that comes to the host: bits, or columns.

use crate::error::Result;
use crate::kernels::Kernels;
use crate::shared::column_layout::{AnswerRow, ColumnLayout};
use crate::shared::layout::HOST_HEADER_BYTES;
use crate::shared::structures::{HostHeader, PackedAnswers};
use crate::twin::kernels::pack::PACKED;
use crate::vulkan::{Device, Direction, Recording, Staged};
use lanefs::{ANSWER_BLOCK, AnswerBlock, ColumnSet};
use std::sync::Arc;

const HEADER_BYTES: u64 = HOST_HEADER_BYTES as u64;

const _: () = assert!(HostHeader::SIZE == HOST_HEADER_BYTES);

/// The part of a batch that comes to the host: on the device, and beside it.
pub(crate) struct Output {
    form: Form,
    bytes: Staged,
}

enum Form {
    /// Two bits a path: whether it names an inode, and whether the host must decide.
    Bits {
        paths: u64,
    },
    Columns(ColumnLayout),
}

impl Form {
    fn new(wanted: ColumnSet, paths: u64) -> Form {
        match wanted.is_existence() {
            true => Form::Bits { paths },
            false => Form::Columns(ColumnLayout::new(paths, wanted)),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Form::Bits { paths } => HEADER_BYTES + paths.div_ceil(PACKED as u64) * PackedAnswers::SIZE as u64,
            Form::Columns(layout) => layout.bytes(),
        }
    }
}

impl Output {
    /// Makes room for what is wanted of the answers to so many paths.
    ///
    /// # Errors
    /// An error of the device, also for want of memory.
    pub(crate) fn new(device: &Arc<Device>, wanted: ColumnSet, paths: u64) -> Result<Output> {
        let form = Form::new(wanted, paths);
        let bytes = Staged::new(device, form.bytes(), Direction::ToHost)?;
        Ok(Output { form, bytes })
    }

    /// Returns the bytes that what is wanted of the answers to so many paths has.
    pub(crate) fn bytes_of(wanted: ColumnSet, paths: u64) -> u64 {
        Form::new(wanted, paths).bytes()
    }

    /// Returns the bytes for the host.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len()
    }

    /// Address for the kernels.
    pub(crate) fn address(&self) -> u64 {
        self.bytes.address()
    }

    /// Returns the bits of the attributes, by their places in [`Column::ALL`].
    pub(crate) fn attributes(&self) -> u32 {
        match &self.form {
            Form::Bits { .. } => 0,
            Form::Columns(layout) => layout.wanted().bits(),
        }
    }

    /// Records the kernel that writes it from the answers to `paths` paths, and the copy to the host.
    pub(crate) fn record(&self, commands: &Recording<'_>, kernels: &Kernels, parameters: u64, paths: u64) {
        match &self.form {
            Form::Bits { .. } => {
                commands.dispatch(&kernels.pack, parameters, paths.div_ceil(PACKED as u64));
            }
            Form::Columns(_) => commands.dispatch(&kernels.columns, parameters, paths),
        }
        self.bytes.transfer(commands, self.bytes.len());
    }

    /// Returns the lookups that another dispatch must resume.
    pub(crate) fn unfinished(&self) -> u32 {
        HostHeader::read(self.bytes.bytes()).unfinished
    }

    /// Returns the answers to `len` paths from `first` on, a multiple of [`ANSWER_BLOCK`].
    pub(crate) fn answers(&self, first: usize, len: usize) -> AnswerBlock<'_> {
        match &self.form {
            Form::Bits { .. } => bits(self.bytes.bytes(), first, len),
            Form::Columns(layout) => layout.block(self.bytes.bytes(), first, len),
        }
    }

    /// Returns the bits of so many paths, 32 in each element; none where columns are wanted.
    pub(crate) fn packed(&self, paths: usize) -> Vec<PackedAnswers> {
        let Form::Bits { .. } = &self.form else { return Vec::new() };
        let all = self.bytes.bytes().get(HostHeader::SIZE..).unwrap_or(&[]);
        PackedAnswers::read_all(all).take(paths.div_ceil(PACKED)).collect()
    }

    /// Returns the rows of so many paths; none where bits are wanted.
    pub(crate) fn rows(&self, paths: usize) -> Vec<AnswerRow> {
        match &self.form {
            Form::Bits { .. } => Vec::new(),
            Form::Columns(layout) => (0..paths).map(|row| layout.row(self.bytes.bytes(), row)).collect(),
        }
    }
}

const _: () = assert!(ANSWER_BLOCK == 2 * PACKED);

/// Reads the answers to `len` paths from `first` on from the bits of all.
fn bits<'a>(packed: &[u8], first: usize, len: usize) -> AnswerBlock<'a> {
    debug_assert!(first.is_multiple_of(ANSWER_BLOCK), "a block of answers begins with a word");
    let at = HostHeader::SIZE + first / PACKED * PackedAnswers::SIZE;
    let some = packed.get(at..).unwrap_or(&[]);
    let [low, high] = [0, 1].map(|half| match some.get(half * PackedAnswers::SIZE..) {
        Some(some) if some.len() >= PackedAnswers::SIZE => PackedAnswers::read(some),
        // There is no second half where the paths are few.
        _ => PackedAnswers { found: 0, open: u32::MAX },
    });
    let both = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    AnswerBlock::of_bits(len, both(low.found, high.found), both(low.open, high.open))
}
