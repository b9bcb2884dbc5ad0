//! Rounds of loops that are left, as in `shaders/parameters.glsl`.

use std::cell::Cell;

/// What is left. Where it is nothing, loops have ended early, and nothing that they gave counts.
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

    /// One more round?
    pub(super) fn burn(&self) -> bool {
        let has_some = self.left() > 0;
        self.spend(1);
        has_some
    }
}
