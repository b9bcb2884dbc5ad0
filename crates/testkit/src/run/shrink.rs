//! Shrinks a failing list of operations by plain delta debugging (Zeller, Hildebrandt 2002).

use super::{Engines, replay};
use crate::ops::Op;
use std::cell::Cell;

/// Operations that one shrink replays at most. (A limit of time would make the result depend on the machine.)
const MOST_REPLAYED: usize = 300_000;

/// Returns the shortest failing list found, and its message. It drops pieces, first large, then single
/// operations, as long as the rest still fails in any way.
pub fn shrink(mut ops: Vec<Op>, mut message: String, engines: &Engines<'_>) -> (Vec<Op>, String) {
    let replayed = Cell::new(0);
    // A whole comparison after each operation finds the operation that did the harm, not the one that met it.
    let fails = |candidate: &[Op]| {
        let every = if candidate.len() <= 40 { 1 } else { 1000 };
        replayed.set(replayed.get() + candidate.len());
        replay(candidate, engines, every).err().map(|(index, text)| (index + 1, text))
    };
    if let Some((used, text)) = fails(&ops) {
        ops.truncate(used);
        message = text;
    } else {
        return (ops, format!("{message} (not seen again when replayed)"));
    }
    let mut piece = ops.len().div_ceil(2);
    while piece > 0 && replayed.get() < MOST_REPLAYED {
        let mut from = 0;
        let mut shorter = false;
        while from < ops.len() && replayed.get() < MOST_REPLAYED {
            let mut candidate = ops.clone();
            candidate.drain(from..(from + piece).min(ops.len()));
            match fails(&candidate) {
                Some((used, text)) if !candidate.is_empty() => {
                    candidate.truncate(used);
                    (ops, message, shorter) = (candidate, text, true);
                }
                _ => from += piece,
            }
        }
        piece = if shorter && piece == 1 { 1 } else { piece / 2 };
    }
    (ops, message)
}
