//! Repairs that could not be made, each with the remedy.

use crate::vocabulary::error::Error;
use lanefs_format::Code;
use lanefs_store::Fault;

/// Most obstacles that a report lists.
const LISTED: usize = 1000;

/// The obstacles that a pass has met.
#[derive(Default)]
pub(in crate::check) struct Obstacles {
    list: Vec<String>,
    /// Number of obstacles that are not listed.
    more: u64,
}

impl Obstacles {
    /// Notes that a repair of `what` failed.
    pub(in crate::check) fn add(&mut self, what: &str, fault: Fault) {
        let text = match fault {
            Fault::Code(code) => format!("{what}: {}; {}", code.text(), remedy(code)),
            fault => format!("{what}: {}", Error::from(fault)),
        };
        self.note(text);
    }

    /// Notes an obstacle in whole words.
    pub(in crate::check) fn note(&mut self, text: String) {
        if self.list.len() < LISTED {
            self.list.push(text);
        } else {
            self.more += 1;
        }
    }

    /// All obstacles, for people.
    pub(in crate::check) fn into_list(self) -> Vec<String> {
        let mut list = self.list;
        if self.more > 0 {
            list.push(format!("{} more of this kind", self.more));
        }
        list
    }
}

/// Where to make room, for messages.
pub(in crate::check) const MAKE_ROOM: &str = "remove files or grow the volume, then repair it again";

fn remedy(code: Code) -> &'static str {
    match code {
        Code::NoSpace => MAKE_ROOM,
        Code::Exists | Code::TreeFull | Code::TooManyLinks => {
            "rename or remove /lost+found, then repair the volume again"
        }
        _ => "repair the volume again",
    }
}
