//! Ways in which a program misuses the heap. Each ends the program.

use crate::host::message;

/// Ends the program: it wrote past the end of an object.
#[cold]
pub(crate) fn written_behind_end(object: *const u8) -> ! {
    message::fail("memory was written to past the end of an object", object.addr())
}

/// Ends the program: it wrote to a freed object.
#[cold]
pub(crate) fn written_after_free(object: *const u8) -> ! {
    message::fail("memory was written to after it was freed", object.addr())
}

/// Ends the program: it freed an object twice.
#[cold]
pub(crate) fn freed_twice(object: *const u8) -> ! {
    message::fail("memory was freed twice", object.addr())
}

/// Ends the program: it freed or resized an address at which no object is in use.
#[cold]
pub(crate) fn not_an_object(address: *const u8) -> ! {
    message::fail("there is no object in use at an address that was freed or resized,", address.addr())
}
