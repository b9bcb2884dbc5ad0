//! Twin of `shaders/merge.comp`.

use crate::shared::tasks::TaskView;
use lanefs::bulk::Added;

/// Returns the entries that stay and those that are added, by hash and position.
pub(crate) fn merge(part: &TaskView<'_>, items: &[Added]) -> Option<Vec<Added>> {
    let mut merged = vec![Added { hash: 0, at: 0 }; items.len() + part.added.len()];
    for (own, others) in [(items, part.added), (part.added, items)] {
        for (number, element) in own.iter().enumerate() {
            let below = others.partition_point(|other| other < element);
            if others.get(below) == Some(element) {
                return None;
            }
            *merged.get_mut(number + below)? = *element;
        }
    }
    Some(merged)
}
