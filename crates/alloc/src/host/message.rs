//! Lines on standard error, and the end of a program that misused the heap. Nothing here allocates.

use super::os::keeping_errno;

/// Bytes of a line, its end included. A line that would be longer is cut off.
const LINE_BYTES: usize = 256;

/// Ends the program with a message on standard error.
#[cold]
pub(crate) fn fail(what: &str, address: usize) -> ! {
    // A panic is one of the ways in which the schedule explorer finds a planted bug.
    #[cfg(all(test, feature = "_shuttle"))]
    panic!("{what} at {address:#x}");
    #[cfg(not(all(test, feature = "_shuttle")))]
    print_and_abort(what, address)
}

/// Checks the heap's own state in debug builds.
///
/// It is `debug_assert!` without a panic: a panic allocates, which a heap with a broken state cannot do.
macro_rules! debug_assert_state {
    ($condition:expr, $what:literal) => {
        if cfg!(debug_assertions) && !$condition {
            $crate::host::message::broken(concat!(
                "broken invariant: ",
                $what,
                " (",
                file!(),
                ":",
                line!(),
                ")"
            ));
        }
    };
}
pub(crate) use debug_assert_state;

/// Ends the program: the heap's own state is not as it must be.
#[cold]
pub(crate) fn broken(what: &str) -> ! {
    #[cfg(all(test, feature = "_shuttle"))]
    panic!("{what}");
    #[cfg(not(all(test, feature = "_shuttle")))]
    {
        let mut line = Line::new();
        line.add(what.as_bytes());
        line.print();
        // SAFETY: ends the process.
        unsafe { libc::abort() }
    }
}

#[cfg(not(all(test, feature = "_shuttle")))]
#[cold]
fn print_and_abort(what: &str, address: usize) -> ! {
    let mut line = Line::new();
    line.add(what.as_bytes());
    line.add(b" at 0x");
    line.add_number(address, 16);
    line.print();
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

/// A line for standard error.
pub(crate) struct Line {
    text: [u8; LINE_BYTES],
    len: usize,
}

impl Line {
    pub(crate) fn new() -> Self {
        let mut line = Line { text: [0; LINE_BYTES], len: 0 };
        line.add(b"lanefs-alloc: ");
        line
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        // One byte is left for the line's end.
        let room = &mut self.text[self.len..LINE_BYTES - 1];
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.len += count;
    }

    /// Adds a number with the digits of a base up to 16.
    pub(crate) fn add_number(&mut self, number: usize, base: usize) {
        let mut digits = [0; usize::BITS as usize];
        let (mut first, mut rest) = (digits.len(), number);
        loop {
            first -= 1;
            digits[first] = b"0123456789abcdef"[rest % base];
            rest /= base;
            if rest == 0 {
                break;
            }
        }
        self.add(&digits[first..]);
    }

    /// Writes the line. A failure to write changes nothing.
    pub(crate) fn print(mut self) {
        self.text[self.len] = b'\n';
        // SAFETY: the text is this line's own.
        keeping_errno(|| unsafe {
            libc::write(2, self.text.as_ptr().cast(), self.len + 1);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_numbers_and_never_more_than_it_holds() {
        let mut line = Line::new();
        for (number, base) in [(0, 10), (1_234_567_890, 10), (0xfeed, 16), (usize::MAX, 2)] {
            line.add_number(number, base);
            line.add(b" ");
        }
        let text = format!("lanefs-alloc: 0 1234567890 feed {} ", "1".repeat(64));
        assert_eq!(&line.text[..line.len], text.as_bytes());
        (0..100).for_each(|_| line.add(b"too much"));
        assert_eq!(line.len, LINE_BYTES - 1);
    }
}
