//! The rings of a device.

use super::ring::RequestRing;
use lanefs_sync::lock::{Condvar, Mutex};
use std::io;
use std::ops::{Deref, DerefMut};

/// Most rings of one device: so many threads at a time have many requests in flight; the others wait for
/// them.
const MAX_RINGS: usize = 32;

/// Rings that are lent to one call at a time. So any thread may use them, and no thread exists for them.
pub(super) struct RingPool {
    rings: Mutex<Rings>,
    returned: Condvar,
}

struct Rings {
    idle: Vec<RequestRing>,
    /// Number of rings, lent ones included.
    count: usize,
}

impl RingPool {
    /// Returns a pool with a first ring.
    ///
    /// # Errors
    /// The host's, when it refuses rings.
    pub(super) fn new() -> io::Result<Self> {
        let rings = Rings { idle: vec![RequestRing::new()?], count: 1 };
        Ok(RingPool { rings: rings.into(), returned: Condvar::new() })
    }

    /// Returns an idle ring, or a new one, or waits for one. `None` where there is no ring and none can be
    /// made.
    pub(super) fn take(&self) -> Option<Lent<'_>> {
        let mut rings = self.rings.lock();
        loop {
            if let Some(ring) = rings.idle.pop() {
                return Some(Lent { pool: self, ring: Some(ring) });
            }
            if rings.count < MAX_RINGS
                && let Ok(ring) = RequestRing::new()
            {
                rings.count += 1;
                return Some(Lent { pool: self, ring: Some(ring) });
            }
            if rings.count == 0 {
                return None;
            }
            self.returned.wait(&mut rings);
        }
    }
}

/// A ring for one call.
pub(super) struct Lent<'p> {
    pool: &'p RingPool,
    /// Present until it is returned.
    ring: Option<RequestRing>,
}

impl Deref for Lent<'_> {
    type Target = RequestRing;

    fn deref(&self) -> &RequestRing {
        self.ring.as_ref().expect("a ring is present until it is returned")
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut RequestRing {
        self.ring.as_mut().expect("a ring is present until it is returned")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut rings = self.pool.rings.lock();
        // After a panic or a refusal a ring may have queued requests that the kernel must never take: it ends
        // here.
        match self.ring.take().filter(RequestRing::is_sound) {
            Some(ring) => {
                rings.idle.push(ring);
                debug_assert!(rings.idle.len() <= rings.count && rings.count <= MAX_RINGS);
            }
            None => rings.count -= 1,
        }
        drop(rings);
        self.pool.returned.notify_one();
    }
}
