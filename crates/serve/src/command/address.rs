//! Extended attributes of a mount's root directory, which tell its owner about its server.
//!
//! The kernel decides who reaches the mount, and says which user asks for an attribute; only the user of the
//! mount gets these. One names the mount's socket and holds the secret of each end. The name is random, so
//! nobody can bind it before the server does; a process that binds it afterwards lacks the server's secret.
//! The other one says which image the server has open.

use crate::command::wire::{SECRET_BYTES, Secret, VERSION};
use crate::served::{ADDRESS_ATTRIBUTE, IMAGE_ATTRIBUTE, parse_image};
use lanefs::FileId;
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use rustix::rand::{GetRandomFlags, getrandom};
use std::path::Path;

/// Largest value that a client reads.
const MAX_BYTES: usize = 256;

/// Reads which image the server of a mount has open: `None` for a volume that no file of the host has.
///
/// # Errors
/// The kernel's, or the server's; `NODATA` for a server that does not tell.
pub fn image_of_mount(dir: &Path) -> rustix::io::Result<Option<FileId>> {
    parse_image(&attribute(dir, IMAGE_ATTRIBUTE)?).ok_or(Errno::NODATA)
}

/// Reads the text of the address of the mount on `dir`.
///
/// # Errors
/// The kernel's, or the server's.
pub fn address_of_mount(dir: &Path) -> rustix::io::Result<Vec<u8>> {
    attribute(dir, ADDRESS_ATTRIBUTE)
}

fn attribute(dir: &Path, name: &str) -> rustix::io::Result<Vec<u8>> {
    let mut value = [0; MAX_BYTES];
    let len = rustix::fs::getxattr(dir, name, &mut value)?;
    Ok(value.get(..len).unwrap_or_default().to_vec())
}

/// The address of a mount's socket, with the secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) version: u32,
    name: Secret,
    /// The server proves itself with it.
    pub(crate) server: Secret,
    /// The client proves itself with it.
    pub(crate) client: Secret,
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn secret(text: &str) -> Option<Secret> {
    let mut secret = [0; SECRET_BYTES];
    if text.len() != 2 * SECRET_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in secret.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(secret)
}

impl Address {
    /// Makes a random address.
    pub(crate) fn random() -> rustix::io::Result<Address> {
        let mut secrets = [[0; SECRET_BYTES]; 3];
        for secret in &mut secrets {
            let mut filled = 0;
            while let Some(rest) = secret.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                match getrandom(rest, GetRandomFlags::empty()) {
                    Ok(count) => filled += count,
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
        }
        let [name, server, client] = secrets;
        Ok(Address { version: VERSION, name, server, client })
    }

    /// The socket's name: an abstract one, so that no file remains after the mount.
    pub(crate) fn socket(&self) -> rustix::io::Result<SocketAddrUnix> {
        SocketAddrUnix::new_abstract_name(format!("lanefs-{}", hexadecimal(&self.name)).as_bytes())
    }

    /// The value of the attribute.
    pub(crate) fn text(&self) -> String {
        let [name, server, client] = [&self.name, &self.server, &self.client].map(|part| hexadecimal(part));
        format!("{} {name} {server} {client}", self.version)
    }

    /// Parses a value; `None` for one of another version, whose number is the error.
    pub(crate) fn parse(text: &[u8]) -> Option<Result<Address, u32>> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let version = words.next()?.parse().ok()?;
        if version != VERSION {
            return Some(Err(version));
        }
        let (name, server, client) = (secret(words.next()?)?, secret(words.next()?)?, secret(words.next()?)?);
        words.next().is_none().then_some(Ok(Address { version, name, server, client }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_from_text_and_differ() {
        let address = Address::random().expect("random bytes");
        assert_eq!(Address::parse(address.text().as_bytes()), Some(Ok(address.clone())));
        assert!(address.text().len() < MAX_BYTES);
        assert_ne!(Address::random().expect("random bytes"), address);
        assert_eq!(Address::parse(b"99 whatever"), Some(Err(99)));
        assert_eq!(Address::parse(format!("{} whatever", VERSION - 1).as_bytes()), Some(Err(VERSION - 1)));
        for rest in ["", " aa bb cc", " \u{e4}"] {
            let bad = format!("{VERSION}{rest}");
            assert_eq!(Address::parse(bad.as_bytes()), None, "{bad}");
        }
        for bad in ["", "x y", &format!("{} 00", address.text())] {
            assert_eq!(Address::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
