//! Fuel: the rounds of loops that an invocation has left, as in `shaders/fuel.glsl`.

use std::cell::Cell;

/// Rounds left. With none, loops have ended early, and their results do not count.
pub(super) struct Fuel(Cell<u32>);

impl Fuel {
    pub(super) fn new(rounds: u32) -> Self {
        Fuel(Cell::new(rounds))
    }

    pub(super) fn left(&self) -> u32 {
        self.0.get()
    }

    pub(super) fn spend(&self, rounds: u32) {
        self.0.set(self.left().saturating_sub(rounds));
    }

    /// Uses up one round; false where none is left.
    pub(super) fn burn(&self) -> bool {
        let has_some = self.left() > 0;
        self.spend(1);
        has_some
    }
}
