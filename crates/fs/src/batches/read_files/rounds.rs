//! Many small attempts whose misses are fetched together.

use crate::attempt::Core;
use crate::mounted::shared::Shared;
use crate::vocabulary::error::Outcome;
use lanefs_store::{Fault, Reader};

/// Rounds after which an item that still misses is left: its metadata must be fetched step by step.
const ROUNDS: usize = 6;

/// Makes an attempt at each item; `accept` gets the result of each valid one. Those that miss are attempted
/// again, when the blocks of all of them have been fetched at once. Items that end with another error, or
/// meet writers again and again, get no result.
pub(super) fn in_rounds<T, R>(
    shared: &Shared,
    items: &mut [T],
    validates: bool,
    mut attempt: impl FnMut(&Core<'_>, &mut T) -> Outcome<R>,
    mut accept: impl FnMut(&mut T, R),
) {
    let store = &shared.state.store;
    let mut misses = Vec::new();
    // Returns true for an item that is worth another attempt.
    let mut round = |item: &mut T, misses: &mut Vec<_>| {
        let core = Core::new(&shared.state, Reader::reading(store));
        let done = attempt(&core, item);
        let valid = if validates { core.store.validate() } else { Ok(()) };
        if !core.store.is_quiet() {
            shared.state.gate.try_quiesce(store);
        }
        match valid.and(done) {
            Ok(result) => accept(item, result),
            Err(Fault::Miss { at, want }) => {
                misses.push((at, want));
                return true;
            }
            Err(Fault::Conflict { .. }) => return true,
            Err(_) => {}
        }
        false
    };
    let mut open = Vec::new();
    for (i, item) in items.iter_mut().enumerate() {
        if round(item, &mut misses) {
            open.push(i);
        }
    }
    for _ in 1..ROUNDS {
        if open.is_empty() {
            return;
        }
        store.fetch_many(&misses);
        misses.clear();
        open.retain(|i| round(&mut items[*i], &mut misses));
    }
}
