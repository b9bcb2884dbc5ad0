//! The thread that takes a device into use while the CPU engine goes on: it copies the metadata to it and
//! measures both engines. It borrows the volume, so it lives as long as one call of
//! [`Engines::attended`](super::Engines::attended).

use lanefs_sync::lock::{Condvar, Mutex};

/// Tells the attendant to begin, and to leave.
#[derive(Default)]
pub(super) struct Attendant {
    state: Mutex<Attendance>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Attendance {
    #[default]
    Absent,
    /// It waits until a device is being opened.
    Waiting,
    Asked,
    /// The work beside which it lives has ended.
    Leaving,
}

impl Attendant {
    /// Announces an attendant; false where there is one.
    pub(super) fn come(&self) -> bool {
        let mut state = self.state.lock();
        let is_absent = *state == Attendance::Absent;
        if is_absent {
            *state = Attendance::Waiting;
        }
        is_absent
    }

    /// Waits until the attendant is asked; false where it is to leave.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while *state == Attendance::Waiting {
            self.changed.wait(&mut state);
        }
        *state == Attendance::Asked
    }

    /// Has the attendant take the device that is being opened. Returns false where there is no attendant.
    pub(super) fn ask(&self) -> bool {
        let mut state = self.state.lock();
        if *state == Attendance::Waiting {
            *state = Attendance::Asked;
            self.changed.notify_all();
        }
        *state == Attendance::Asked
    }

    /// Has the attendant leave as soon as it can.
    pub(super) fn dismiss(&self) {
        *self.state.lock() = Attendance::Leaving;
        self.changed.notify_all();
    }

    /// Tells whether the attendant is to leave.
    pub(super) fn is_leaving(&self) -> bool {
        *self.state.lock() == Attendance::Leaving
    }

    /// Says that the attendant has left.
    pub(super) fn leave(&self) {
        *self.state.lock() = Attendance::Absent;
    }
}

/// Dismisses the attendant when it is dropped.
pub(super) struct Dismissed<'a>(pub(super) &'a Attendant);

impl Drop for Dismissed<'_> {
    fn drop(&mut self) {
        self.0.dismiss();
    }
}

/// Says that the attendant has left when it is dropped.
pub(super) struct Leave<'a>(pub(super) &'a Attendant);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
