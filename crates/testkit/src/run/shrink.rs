//! Shrinks a failing list of operations by plain delta debugging (Zeller, Hildebrandt 2002).

use super::{Engines, replay};
use crate::ops::Op;
use std::time::{Duration, Instant};

/// Time limit of one shrink.
const MOST_TIME: Duration = Duration::from_secs(30);

/// Returns the shortest failing list found, and its message. It drops pieces, first large, then single
/// operations, as long as the rest still fails in any way.
pub fn shrink(mut ops: Vec<Op>, mut message: String, engines: &Engines<'_>) -> (Vec<Op>, String) {
    let start = Instant::now();
    // A whole comparison after each operation finds the operation that did the harm, not the one that met it.
    let fails = |candidate: &[Op]| {
        let every = if candidate.len() <= 40 { 1 } else { 1000 };
        replay(candidate, engines, every).err().map(|(index, text)| (index + 1, text))
    };
    if let Some((used, text)) = fails(&ops) {
        ops.truncate(used);
        message = text;
    } else {
        return (ops, format!("{message} (not seen again when replayed)"));
    }
    let mut piece = ops.len().div_ceil(2);
    while piece > 0 && start.elapsed() < MOST_TIME {
        let mut from = 0;
        let mut shorter = false;
        while from < ops.len() && start.elapsed() < MOST_TIME {
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
