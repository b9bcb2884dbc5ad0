//! Content as runs of equal bytes: a block of content in a few words, so that states stay small.

/// Content of a small file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Runs(Vec<(u8, u16)>);

impl Runs {
    /// Encodes the bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut runs = Runs::default();
        for same in bytes.chunk_by(|a, b| a == b) {
            runs.push(same[0], same.len() as u16);
        }
        runs
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u16 {
        self.0.iter().map(|(_, len)| len).sum()
    }

    /// Returns true for no content.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, byte: u8, len: u16) {
        match self.0.last_mut() {
            _ if len == 0 => {}
            Some((last, count)) if *last == byte => *count += len,
            _ => self.0.push((byte, len)),
        }
    }

    /// Sets the first `len` bytes to `fill`.
    pub fn write(&mut self, fill: u8, len: u16) {
        let old = std::mem::take(&mut self.0);
        self.push(fill, len);
        let mut skip = len;
        for (byte, count) in old {
            let gone = count.min(skip);
            skip -= gone;
            self.push(byte, count - gone);
        }
    }

    /// Truncates the content, or extends it with zeros.
    pub fn resize(&mut self, size: u16) {
        let old = std::mem::take(&mut self.0);
        let mut left = size;
        for (byte, count) in old {
            let kept = count.min(left);
            left -= kept;
            self.push(byte, kept);
        }
        self.push(0, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_bytes() {
        let mut numbers = crate::seeded::Seeded::new(3);
        let (mut runs, mut bytes) = (Runs::default(), Vec::new());
        for _ in 0..2000 {
            let len = numbers.below(50) as usize;
            if numbers.chance(50) {
                let fill = numbers.below(3) as u8;
                runs.write(fill, len as u16);
                bytes.resize(bytes.len().max(len), 0);
                bytes[..len].fill(fill);
            } else {
                runs.resize(len as u16);
                bytes.resize(len, 0);
            }
            assert_eq!((&runs, usize::from(runs.len())), (&Runs::of(&bytes), bytes.len()));
            assert_eq!(runs.is_empty(), bytes.is_empty());
        }
    }
}
