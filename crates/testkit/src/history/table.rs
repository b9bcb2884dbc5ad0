//! A history for people.

use super::Event;
use std::fmt::Write;

/// Formats the events as a table, one row each, in the order in which they began. `order` is the longest
/// order found; the second column numbers it.
pub fn table(events: &[Event], order: &[usize]) -> String {
    let mut rows: Vec<usize> = (0..events.len()).collect();
    rows.sort_by_key(|index| events[*index].began);
    let mut text = String::from(" began  ended  place  thread  call -> answer\n");
    for index in rows {
        let event = &events[index];
        let place = order.iter().position(|placed| *placed == index);
        let place = place.map_or_else(|| "-".to_owned(), |place| place.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:6} {:6} {place:>6} {:>7}  {:?} -> {:?}",
            event.began, event.ended, event.thread, event.call, event.reply
        );
    }
    text
}
