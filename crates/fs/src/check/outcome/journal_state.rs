//! The result of a pass for the journal.

/// The journal, as a pass finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::check) enum JournalState {
    /// It can be used, or the volume has none.
    #[default]
    Sound,
    /// It cannot be used. A new one can be made in so many blocks at this position, where there is room.
    Damaged(Option<(u64, u64)>),
}
