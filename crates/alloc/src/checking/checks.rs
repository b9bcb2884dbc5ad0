//! How much the heap checks.

/// Grade of checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Checks {
    /// Nothing is checked.
    Off = 0,
    /// The slow paths check, which costs the quick ones nothing: when a magazine overflows, a thread ends, or
    /// an object goes to the heap of another thread, its address must be that of an object in use.
    ///
    /// A foreign address is found at once, unless no memory is mapped where the header of its unit would be:
    /// then the wild read ends the program. An address inside an object, and an object freed twice, are found
    /// when the magazine overflows, unless the heap has given the object out again by then.
    #[default]
    Cheap = 1,
    /// Every allocation and every free checks, also for writes past an object's end and to freed objects,
    /// unless the object is larger than [`LARGEST`](crate::LARGEST). Several times slower.
    Full = 2,
}
