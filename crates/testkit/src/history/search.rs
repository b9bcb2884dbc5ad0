//! The search for an order that explains a history.
//!
//! Wing and Gong ("Testing and Verifying Concurrent Objects", 1993): of the calls not yet ordered, any that
//! began before each of the others ended may be next; try each. Two short cuts:
//!
//! * A set of ordered calls with the same state reached is tried once (Lowe, "Testing for Linearizability",
//!   2017).
//! * A call whose reply shows that it changed nothing is ordered as soon as the reply is explained: in any
//!   order that explains everything, it could as well stand here. One that shows the number of a whiteout is
//!   tried in each place: which whiteout of a name it saw follows from its place.

use super::{Event, SpecState};
use std::collections::HashSet;

/// Most events of a history: one bit of a word for each.
const MOST_EVENTS: usize = 64;

/// Searches for an order of the events that explains all replies, from `start` on.
///
/// # Errors
/// The longest order that explains as many replies as any tried, as indexes into `events`, where none
/// explains all.
///
/// # Panics
/// Panics for more than 64 events.
pub fn search(start: &SpecState, events: &[Event]) -> Result<Vec<usize>, Vec<usize>> {
    assert!(events.len() <= MOST_EVENTS, "a history of {} events is too long", events.len());
    let mut search = Search { events, tried: HashSet::new(), order: Vec::new(), longest: Vec::new() };
    if search.explains_rest(0, start.clone()) { Ok(search.order) } else { Err(search.longest) }
}

struct Search<'h> {
    events: &'h [Event],
    tried: HashSet<(u64, SpecState)>,
    order: Vec<usize>,
    longest: Vec<usize>,
}

impl Search<'_> {
    /// Returns true where the events outside `placed` can be ordered; `order` then holds the order. The depth
    /// is the number of events.
    fn explains_rest(&mut self, mut placed: u64, state: SpecState) -> bool {
        let start = self.order.len();
        let next = loop {
            let candidates = self.candidates(placed);
            let mut changing = Vec::new();
            let mut neutral = None;
            'candidates: for index in candidates {
                for after in state.outcomes(&self.events[index]) {
                    if self.events[index].is_neutral() && after == state {
                        neutral = Some(index);
                        break 'candidates;
                    }
                    changing.push((index, after));
                }
            }
            match neutral {
                Some(index) => {
                    placed |= 1 << index;
                    self.order.push(index);
                }
                None => break changing,
            }
        };
        if self.order.len() > self.longest.len() {
            self.longest.clone_from(&self.order);
        }
        if self.order.len() == self.events.len() {
            return true;
        }
        for (index, after) in next {
            let placed = placed | 1 << index;
            if self.tried.insert((placed, after.clone())) {
                self.order.push(index);
                if self.explains_rest(placed, after) {
                    return true;
                }
                self.order.pop();
            }
        }
        // Events that were ordered here without a choice are removed, too.
        self.order.truncate(start);
        false
    }

    /// Returns the events that may be next: those that began before any unordered event ended.
    fn candidates(&self, placed: u64) -> Vec<usize> {
        let open = || (0..self.events.len()).filter(move |index| placed >> index & 1 == 0);
        let first_end = open().map(|index| self.events[index].ended).min().unwrap_or(0);
        open().filter(|index| self.events[*index].began < first_end).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::NEW_PERM;
    use super::*;
    use crate::history::{Call, Reply};
    use lanefs::{Code, FileKind, RenameMode};

    fn event(thread: usize, began: u64, ended: u64, call: Call, reply: Reply) -> Event {
        Event { thread, began, ended, call, reply }
    }

    #[test]
    fn calls_that_overlap_may_be_swapped_and_others_may_not() {
        let lookup = Call::Lookup { dir: 1, name: "a" };
        let mkdir = Call::Mkdir { dir: 1, name: "a" };
        let facts =
            crate::history::Facts { ino: 5, kind: FileKind::Directory, perm: NEW_PERM, links: 2, size: 0 };
        let made_reply = Reply::Attributes(facts);
        assert_eq!(SpecState::new(1).outcomes(&event(0, 0, 1, mkdir, made_reply.clone())).len(), 1);
        let missing = Reply::Failed(Code::NotFound);
        let overlapping =
            [event(0, 0, 3, mkdir, made_reply.clone()), event(1, 1, 2, lookup, missing.clone())];
        assert_eq!(search(&SpecState::new(1), &overlapping), Ok(vec![1, 0]));
        let apart = [event(0, 0, 1, mkdir, made_reply), event(1, 2, 3, lookup, missing)];
        assert_eq!(search(&SpecState::new(1), &apart), Err(vec![0]));
    }

    /// `a` becomes `b` twice, and leaves two whiteouts, of which two lookups show one each.
    #[test]
    fn whiteouts_have_the_numbers_that_replies_show_each_its_own() {
        let rename = Call::Rename { dir: 1, name: "a", to: 1, new: "b", mode: RenameMode::Whiteout };
        let lookup = Call::Lookup { dir: 1, name: "a" };
        let getattr = |ino| Call::Getattr { ino };
        let found = |ino| Reply::Found(ino, FileKind::CharDevice);
        let facts =
            |ino, kind, perm| Reply::Attributes(crate::history::Facts { ino, kind, perm, links: 1, size: 0 });
        let made = facts(5, FileKind::File, NEW_PERM);
        let order = |replies: [Reply; 3]| {
            let [first, second, attributes] = replies;
            // The first whiteout is moved to `b` by the second rename. The first lookup meets both renames.
            search(
                &SpecState::new(1),
                &[
                    event(0, 0, 1, Call::Create { dir: 1, name: "a" }, made.clone()),
                    event(0, 2, 3, rename, Reply::Done),
                    event(1, 4, 9, lookup, first),
                    event(0, 5, 6, rename, Reply::Done),
                    event(0, 10, 11, lookup, second),
                    event(0, 12, 13, getattr(7), attributes),
                ],
            )
        };
        let whiteout = |ino| facts(ino, FileKind::CharDevice, 0);
        assert_eq!(order([found(7), found(8), whiteout(7)]), Ok(vec![0, 1, 2, 3, 4, 5]));
        // Both lookups show the second whiteout, so the first one comes after the rename that leaves it.
        assert_eq!(order([found(8), found(8), whiteout(7)]), Ok(vec![0, 1, 3, 2, 4, 5]));
        for wrong in [
            [found(7), found(8), facts(7, FileKind::CharDevice, 0o600)],
            [found(7), found(8), Reply::Failed(Code::StaleInode)],
            [found(8), found(9), whiteout(7)],
            [Reply::Failed(Code::NotFound), found(8), whiteout(7)],
        ] {
            assert!(order(wrong.clone()).is_err(), "{wrong:?}");
        }
    }
}
