//! A history for people.

use super::Event;
use std::fmt::Write;

/// Formats the events as a table, one row each, in the order in which they began. `order` is the longest
/// order found; the column `rank` numbers it.
pub fn table(events: &[Event], order: &[usize]) -> String {
    let mut rows: Vec<usize> = (0..events.len()).collect();
    rows.sort_by_key(|index| events[*index].began);
    let mut text = String::from(" began  ended   rank  thread  call -> answer\n");
    for index in rows {
        let event = &events[index];
        let rank = order.iter().position(|placed| *placed == index);
        let rank = rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:6} {:6} {rank:>6} {:>7}  {:?} -> {:?}",
            event.began, event.ended, event.thread, event.call, event.reply
        );
    }
    text
}
