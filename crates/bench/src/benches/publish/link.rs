//! A link between clients and a server on this machine, with the latency and the bandwidth of a longer one.
//!
//! Each direction takes half of a round trip, and a new connection a whole one, as its handshake does. All
//! connections share the bandwidth of a direction: a piece of data is on the link after those before it.

use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of a piece of data, and pieces on the way in a direction of a connection: a link of 1 GB/s
/// has as many in a sixteenth of a second.
const PIECE_BYTES: usize = 64 << 10;
const PIECES: usize = 1024;

/// Properties of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quality {
    pub(super) round_trip: Duration,
    /// Bytes in a second of a direction; `None`: as the machine can.
    pub(super) bandwidth: Option<f64>,
}

/// Counts of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// Requests: times that a client sent something after an answer.
    pub(super) requests: u64,
    /// Bytes from the server.
    pub(super) received: u64,
}

/// A link, open as long as its value lives.
pub(super) struct Link {
    address: SocketAddr,
    shared: Arc<LinkShared>,
    listener: Option<JoinHandle<()>>,
}

struct LinkShared {
    server: SocketAddr,
    quality: Quality,
    /// Time at which the last piece of a direction has left: to the server, from it.
    free_at: [Mutex<Instant>; 2],
    requests: AtomicU64,
    received: AtomicU64,
    is_closed: AtomicBool,
}

/// A direction: index of its time.
const TO_SERVER: usize = 0;
const FROM_SERVER: usize = 1;

impl Link {
    /// Opens a link to a server.
    pub(super) fn open(server: SocketAddr, quality: Quality) -> Result<Link> {
        let failed = || Error::host("a link");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        let now = Instant::now();
        let shared = Arc::new(LinkShared {
            server,
            quality,
            free_at: [Mutex::new(now), Mutex::new(now)],
            requests: AtomicU64::new(0),
            received: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        });
        let of_listener = Arc::clone(&shared);
        let listener = std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if of_listener.is_closed.load(Ordering::Relaxed) {
                    return;
                }
                // A connection that cannot be passed on is closed, which its client reports.
                let _ = connect(&of_listener, client);
            }
        });
        Ok(Link { address, shared, listener: Some(listener) })
    }

    /// Address for clients.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts since it was opened.
    pub(super) fn traffic(&self) -> Traffic {
        Traffic {
            requests: self.shared.requests.load(Ordering::Relaxed),
            received: self.shared.received.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        // Wakes the listener. The connections end with their clients.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

/// Passes a client's connection on, in threads of its own.
fn connect(shared: &Arc<LinkShared>, client: TcpStream) -> std::io::Result<()> {
    let ready = Instant::now() + shared.quality.round_trip;
    let server = TcpStream::connect(shared.server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let is_answered = Arc::new(AtomicBool::new(true));
    for (direction, from, to) in
        [(TO_SERVER, client.try_clone()?, server.try_clone()?), (FROM_SERVER, server, client)]
    {
        let (sender, receiver) = sync_channel(PIECES);
        let (shared, is_answered) = (Arc::clone(shared), Arc::clone(&is_answered));
        std::thread::spawn(move || take_in(&shared, direction, from, &sender, ready, &is_answered));
        std::thread::spawn(move || give_out(to, &receiver));
    }
    Ok(())
}

type Transmission = (Instant, Vec<u8>);

/// Reads what one side sends, and says when each piece arrives at the other one.
fn take_in(
    shared: &LinkShared,
    direction: usize,
    mut from: TcpStream,
    sender: &SyncSender<Transmission>,
    ready: Instant,
    is_answered: &AtomicBool,
) {
    let mut buffer = vec![0; PIECE_BYTES];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        let begins_request = is_answered.swap(direction == FROM_SERVER, Ordering::Relaxed);
        if direction == FROM_SERVER {
            shared.received.fetch_add(len as u64, Ordering::Relaxed);
        } else if begins_request {
            shared.requests.fetch_add(1, Ordering::Relaxed);
        }
        let mut sent = Instant::now().max(ready);
        if let Some(bandwidth) = shared.quality.bandwidth {
            let mut free_at = shared.free_at[direction].lock();
            sent = sent.max(*free_at) + Duration::from_secs_f64(len as f64 / bandwidth);
            *free_at = sent;
        }
        let arrives = sent + shared.quality.round_trip / 2;
        if sender.send((arrives, buffer[..len].to_vec())).is_err() {
            break;
        }
    }
}

fn give_out(mut to: TcpStream, receiver: &Receiver<Transmission>) {
    for (arrives, piece) in receiver {
        std::thread::sleep(arrives.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            return;
        }
    }
    // The side that sent has ended.
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers each byte with `answer` bytes.
    fn server(answer: usize) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    while client.read(&mut [0]).is_ok_and(|read| read > 0) {
                        client.write_all(&vec![7; answer]).unwrap();
                    }
                });
            }
        });
        address
    }

    fn ask(client: &mut TcpStream, answer: usize) -> Duration {
        let start = Instant::now();
        client.write_all(&[1]).unwrap();
        client.read_exact(&mut vec![0; answer]).unwrap();
        start.elapsed()
    }

    #[test]
    fn answers_take_a_round_trip_and_a_new_connection_one_more() {
        let round_trip = Duration::from_millis(40);
        let link = Link::open(server(10), Quality { round_trip, bandwidth: None }).unwrap();
        let mut client = TcpStream::connect(link.address()).unwrap();
        assert!(ask(&mut client, 10) >= round_trip * 2);
        assert!(ask(&mut client, 10) >= round_trip);
        let traffic = link.traffic();
        assert_eq!((traffic.requests, traffic.received), (2, 20));
    }

    #[test]
    fn connections_share_the_bandwidth() {
        let quality = Quality { round_trip: Duration::ZERO, bandwidth: Some(10e6) };
        let link = Link::open(server(500_000), quality).unwrap();
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| ask(&mut TcpStream::connect(link.address()).unwrap(), 500_000));
            }
        });
        assert!(start.elapsed() >= Duration::from_millis(100), "1 MB at 10 MB/s");
    }
}
