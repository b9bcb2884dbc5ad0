//! Fuel: the rounds of loops that an invocation has left, as in `shaders/fuel.glsl`.

use std::cell::Cell;

/// Rounds left. With none, loops have ended early, and their results do not count.
pub(in crate::twin) struct Fuel(Cell<u32>);

impl Fuel {
    pub(in crate::twin) fn new(rounds: u32) -> Self {
        Fuel(Cell::new(rounds))
    }

    pub(in crate::twin) fn left(&self) -> u32 {
        self.0.get()
    }

    pub(in crate::twin) fn spend(&self, rounds: u32) {
        self.0.set(self.left().saturating_sub(rounds));
    }

    /// Uses up one round; false where none is left.
    pub(in crate::twin) fn burn(&self) -> bool {
        let has_some = self.left() > 0;
        self.spend(1);
        has_some
    }
}
