//! Connections that are made before they are needed: beside the first request of a reader, for those that
//! follow it at the same time.
//!
//! A server that is far away takes a round trip to connect, and another one to encrypt. A client of HTTP
//! makes a connection for a request that finds none free, so each further request at the same time would wait
//! for its own.

use futures_util::future::join_all;
use object_store::client::HttpRequest;
use reqwest::{Client, Method, Request, Url, Version};
use std::cell::RefCell;

tokio::task_local! {
    /// The connections that the request of this task for an object makes.
    static WANTED: RefCell<Option<Wanted>>;
}

/// Connections for the requests that follow one for an object.
struct Wanted {
    object: String,
    connections: usize,
}

/// Does the work of a request for an object. It makes connections for others beside its own.
pub(crate) async fn beside<T>(object: &str, connections: usize, work: impl Future<Output = T>) -> T {
    let wanted = (connections > 0).then(|| Wanted { object: object.into(), connections });
    WANTED.scope(RefCell::new(wanted), work).await
}

/// Makes the connections that are wanted beside a request, in the background. A request of the same task for
/// credentials goes to another server.
pub(crate) fn connect_beside(client: &Client, request: &HttpRequest) {
    let is_meant = |wanted: &Wanted| request.uri().path().ends_with(&wanted.object);
    let wanted = WANTED.try_with(|wanted| wanted.borrow_mut().take_if(|wanted| is_meant(wanted)));
    if let Ok(Some(Wanted { connections, .. })) = wanted
        && let Ok(url) = Url::parse(&request.uri().to_string())
    {
        let client = client.clone();
        tokio::spawn(async move { connect(&client, &url, connections).await });
    }
}

/// Makes connections to the server of a URL, which the client keeps for its next requests. Nothing is asked
/// of the server: a request of HTTP/2 is refused by the client itself as soon as it has a connection, because
/// it speaks HTTP/1 there. It may be refused with the connection of another one; its own is then made in the
/// background. A connection that cannot be made is made again by the request that needs it.
async fn connect(client: &Client, url: &Url, connections: usize) {
    let connect_once = || {
        let mut request = Request::new(Method::GET, url.clone());
        *request.version_mut() = Version::HTTP_2;
        client.execute(request)
    };
    join_all((0..connections).map(|_| connect_once())).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    #[derive(Default)]
    struct Counts {
        connections: AtomicUsize,
        requests: Mutex<Vec<String>>,
    }

    fn serve(mut stream: TcpStream, counts: &Counts, all: &Barrier) -> Option<()> {
        let mut head = Vec::new();
        loop {
            let mut byte = [0];
            stream.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
            if head.ends_with(b"\r\n\r\n") {
                counts.requests.lock().push(String::from_utf8_lossy(&head).into());
                head.clear();
                all.wait();
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx").ok()?;
            }
        }
    }

    /// Waits until a server has accepted so many connections, and the client keeps them. The runtime has one
    /// thread, and to the client's kernel a connection is made before the server's accepts it: when all are
    /// accepted, one sleep tells the client's tasks, and they wait for nothing else.
    async fn wait_for_connections(counts: &Counts, wanted: usize) {
        while counts.connections.load(Ordering::Relaxed) < wanted {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// Starts a server that answers requests when so many are there.
    fn start(together: usize) -> (Url, Arc<Counts>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/x", listener.local_addr().expect("an address"));
        let (counts, all) = (Arc::new(Counts::default()), Arc::new(Barrier::new(together)));
        let of_server = Arc::clone(&counts);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                of_server.connections.fetch_add(1, Ordering::Relaxed);
                let (counts, all) = (Arc::clone(&of_server), Arc::clone(&all));
                std::thread::spawn(move || serve(stream, &counts, &all));
            }
        });
        (Url::parse(&url).expect("a URL"), counts)
    }

    #[tokio::test]
    async fn requests_use_connections_that_were_made_without_a_request() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (url, counts) = start(3);
        let client = Client::builder().http1_only().build().expect("a client");
        connect(&client, &url, 3).await;
        wait_for_connections(&counts, 3).await;
        assert!(counts.requests.lock().is_empty(), "{:?}", counts.requests.lock());
        let answers = join_all((0..3).map(|_| client.get(url.clone()).send())).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(counts.connections.load(Ordering::Relaxed), 3);
        assert_eq!(counts.requests.lock().len(), 3);
    }
}
