//! Names of users and groups, from the host's `/etc/passwd` and `/etc/group`; for a command of a client from
//! the client's.

use crate::terminal::console;
use lanefs_fuse::Stream;
use lanefs_transfer::IdNames;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

struct IdTable {
    names: HashMap<u32, String>,
    ids: HashMap<String, u32>,
}

fn table(text: &[u8]) -> IdTable {
    let mut table = IdTable { names: HashMap::new(), ids: HashMap::new() };
    for line in String::from_utf8_lossy(text).lines() {
        let mut fields = line.split(':');
        let (Some(name), Some(id)) = (fields.next(), fields.nth(1).and_then(|id| id.parse().ok())) else {
            continue;
        };
        // The first name of an id counts, as for getpwuid(3).
        table.names.entry(id).or_insert_with(|| name.to_string());
        table.ids.entry(name.to_string()).or_insert(id);
    }
    table
}

fn own_table(file: &str) -> Arc<IdTable> {
    Arc::new(table(&std::fs::read(file).unwrap_or_default()))
}

static USERS: LazyLock<Arc<IdTable>> = LazyLock::new(|| own_table("/etc/passwd"));
static GROUPS: LazyLock<Arc<IdTable>> = LazyLock::new(|| own_table("/etc/group"));

std::thread_local! {
    /// The tables of this thread's client. A thread executes commands of one client.
    static OF_CLIENT: RefCell<HashMap<u8, Arc<IdTable>>> = RefCell::default();
}

/// The table of this process, or that of the client.
fn names_of(list: Stream, own: &LazyLock<Arc<IdTable>>) -> Arc<IdTable> {
    if console::client().is_none() {
        return Arc::clone(own);
    }
    OF_CLIENT.with_borrow_mut(|tables| {
        let read = || Arc::new(table(&console::client_names(list).unwrap_or_default()));
        Arc::clone(tables.entry(list as u8).or_insert_with(read))
    })
}

fn users() -> Arc<IdTable> {
    names_of(Stream::Users, &USERS)
}

fn groups() -> Arc<IdTable> {
    names_of(Stream::Groups, &GROUPS)
}

/// The user's name, or the number where there is none.
pub fn user(uid: u32) -> String {
    users().names.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
}

/// The group's name, or the number where there is none.
pub fn group(gid: u32) -> String {
    groups().names.get(&gid).cloned().unwrap_or_else(|| gid.to_string())
}

/// Names of users and groups of the caller's host.
pub struct HostNames {
    users: Arc<IdTable>,
    groups: Arc<IdTable>,
}

impl HostNames {
    /// Returns the names of this process' host, or of its client's.
    pub fn of_caller() -> Self {
        HostNames { users: users(), groups: groups() }
    }
}

impl IdNames for HostNames {
    fn user(&self, name: &str) -> Option<u32> {
        self.users.ids.get(name).copied()
    }

    fn group(&self, name: &str) -> Option<u32> {
        self.groups.ids.get(name).copied()
    }
}

/// New owner of a file: `USER`, `USER:GROUP` or `:GROUP`, each a name of the host or a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
}

impl Owner {
    /// Parses the argument of `chown`.
    ///
    /// # Errors
    /// Names the unknown user or group.
    pub fn parse(text: &str) -> Result<Self, String> {
        let id = |table: fn() -> Arc<IdTable>, what: &str, name: &str| match name {
            "" => Ok(None),
            name => match name.parse().ok().or_else(|| table().ids.get(name).copied()) {
                // All ones means "unchanged" to chown(2), so it is no one's id.
                Some(id) if id != u32::MAX => Ok(Some(id)),
                _ => Err(format!("no {what} `{name}` on this host; give its number")),
            },
        };
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        let owner = Owner { uid: id(users, "user", user)?, gid: id(groups, "group", group)? };
        match owner {
            Owner { uid: None, gid: None } => {
                Err("neither user nor group is given; write USER, USER:GROUP or :GROUP".to_string())
            }
            owner => Ok(owner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_parse() {
        assert_eq!(Owner::parse("5:7"), Ok(Owner { uid: Some(5), gid: Some(7) }));
        assert_eq!(Owner::parse(":7"), Ok(Owner { uid: None, gid: Some(7) }));
        assert_eq!(Owner::parse("5:"), Ok(Owner { uid: Some(5), gid: None }));
        for text in ["", ":", "no-such-user-here", "4294967295", "1:no-such-group-here"] {
            assert!(Owner::parse(text).is_err(), "{text}");
        }
    }
}
