//! Many names with one hash.
//!
//! By chance two of some 80,000 names have the same 32-bit hash, and 257 of a directory never do. Three
//! properties of half-MD4 give many at once:
//!
//! * A block of 32 bytes is enciphered and added to the state. So there is one state for each block that the
//!   block leaves alone: zeros, deciphered with the block as key. [`SEED`] is that of `PREFIX`. A name may
//!   begin with any number of prefixes.
//! * The end of a name is filled up with bytes that give its length. A name of 31 bytes has the hash of one
//!   of 32, which has this byte in it.
//! * `NUMBERS` are names without a prefix that a search found: the fullest of 2^20 hashes after some 2^35
//!   names.

use std::sync::OnceLock;

/// Seed of the volumes whose directories have these names.
pub const SEED: [u8; 16] =
    [0xc4, 0x66, 0x8c, 0xb6, 0xfc, 0x0e, 0x47, 0x04, 0xcb, 0x79, 0xbf, 0xe6, 0x20, 0x0a, 0x0f, 0xe0];

/// The hash of all names.
pub const HASH: u32 = 0xb941da55;

/// A block that does not change the state of [`SEED`].
const PREFIX: &[u8; 32] = b"this prefix leaves hashes alone ";

/// Numbers at the end of names.
const NUMBERS: [u64; 30] = [
    0x92f6ef83,
    0x120202798,
    0x19818d451,
    0x1b4b5dcdf,
    0x1c064259a,
    0x22be0dcb6,
    0x2d32b6978,
    0x31ec726f1,
    0x337fb4714,
    0x342af3f18,
    0x361e5c85e,
    0x3fac154bb,
    0x409c4e467,
    0x43fab97c5,
    0x4e4aef531,
    0x573651fee,
    0x5f17fc943,
    0x61c7c5c83,
    0x757b98ebd,
    0x799db4c36,
    0x7f9fddd63,
    0x85eb520b9,
    0x8a7eb0025,
    0x8bfd76022,
    0x8fe3bab19,
    0x9413a24bb,
    0x954813b48,
    0xa11efa0a3,
    0xa59b62095,
    0xa7e995aa1,
];

/// Returns all names. Their lengths rise, and the shortest ones have one block.
pub fn names() -> &'static [Vec<u8>] {
    static ALL: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    ALL.get_or_init(make)
}

fn make() -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for prefixes in 0..8 {
        for number in NUMBERS {
            let name = format!("names of one hash 0-{number:011x}").into_bytes();
            let mut filled = name.clone();
            filled.insert(28, 31);
            let prefix = PREFIX.repeat(prefixes);
            names.push([&prefix[..], &name].concat());
            if prefixes < 7 {
                names.push([&prefix[..], &filled].concat());
            }
        }
    }
    names
}
