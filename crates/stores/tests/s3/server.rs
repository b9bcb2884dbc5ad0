//! A server that speaks enough of the protocol of S3, in this process, with failures that a test plants.
#![allow(dead_code, reason = "each test uses a part")]

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path without the query.
    pub(crate) path: String,
    pub(crate) query: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// A failure.
pub(crate) enum Fault {
    /// This answer, and nothing is done.
    Answer(u16, &'static str, String),
    /// The answer ends after half of its body.
    Cut,
    /// The answer has other bytes than its headers say: those of a later range.
    Shifted,
    /// The whole object in place of a range.
    Whole,
    /// One bit of the body is wrong.
    Flipped,
    /// All is done, and the answer is lost.
    Lost,
    /// More bytes than the range has.
    Endless,
    /// As `Cut`, and the answer has no entity tag.
    CutUntagged,
    /// This head, and a body of so many bytes, whatever the head says.
    Raw(String, usize),
    /// The right answer, when as many requests as the barrier takes are here.
    Together(Arc<Barrier>),
    /// The right answer, when there are as many connections, or after half a minute.
    Connected(usize),
}

type Plant = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

#[derive(Default)]
struct State {
    /// Objects by path, with the number of their version.
    objects: Mutex<BTreeMap<String, (Vec<u8>, u64)>>,
    requests: Mutex<Vec<Request>>,
    /// Number of connections so far.
    connections: Mutex<usize>,
    connected: Condvar,
    plant: Mutex<Option<Plant>>,
    /// Bytes of bodies of `Fault::Raw` that the host has taken.
    sent: AtomicUsize,
}

/// The server. It ends with the process.
#[derive(Clone)]
pub(crate) struct Server {
    address: SocketAddr,
    state: Arc<State>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                *shared.connections.lock() += 1;
                shared.connected.notify_all();
                let state = Arc::clone(&shared);
                std::thread::spawn(move || state.serve(&stream));
            }
        });
        Server { address, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Plants failures from now on.
    pub(crate) fn plant(&self, plant: impl FnMut(&Request) -> Option<Fault> + Send + 'static) {
        *self.state.plant.lock() = Some(Box::new(plant));
    }

    /// Plants a failure for the next request that `is_meant`.
    pub(crate) fn plant_once(&self, fault: Fault, is_meant: impl Fn(&Request) -> bool + Send + 'static) {
        let mut fault = Some(fault);
        self.plant(move |request| if is_meant(request) { fault.take() } else { None });
    }

    pub(crate) fn heal(&self) {
        *self.state.plant.lock() = None;
    }

    /// The requests so far, which are forgotten.
    pub(crate) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.requests.lock())
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        *self.state.connections.lock()
    }

    /// The bytes of raw bodies so far, which are forgotten.
    pub(crate) fn sent(&self) -> usize {
        self.state.sent.swap(0, Ordering::Relaxed)
    }

    /// Changes an object.
    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        self.state.put(path, bytes.to_vec());
    }

    pub(crate) fn object(&self, path: &str) -> Option<Vec<u8>> {
        self.state.objects.lock().get(path).map(|(bytes, _)| bytes.clone())
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.state.objects.lock().keys().cloned().collect()
    }
}

/// An answer.
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Answer { status, headers: Vec::new(), body: body.into() }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl State {
    fn put(&self, path: &str, bytes: Vec<u8>) -> u64 {
        let mut objects = self.objects.lock();
        let version = objects.get(path).map_or(1, |(_, version)| version + 1);
        objects.insert(path.into(), (bytes, version));
        version
    }

    fn serve(&self, stream: &TcpStream) -> Option<()> {
        // Head and body are two packets, of which the second one would wait.
        stream.set_nodelay(true).ok()?;
        let mut reader = BufReader::new(stream);
        loop {
            let request = read_request(&mut reader)?;
            self.requests.lock().push(request.clone());
            let fault = self.plant.lock().as_mut().and_then(|plant| plant(&request));
            let (answer, sent) = match fault {
                Some(Fault::Answer(status, header, body)) => {
                    let answer = Answer::new(status, body);
                    let header = header.split_once(": ");
                    (header.into_iter().fold(answer, |answer, (name, value)| answer.with(name, value)), None)
                }
                Some(Fault::Together(all)) => {
                    all.wait();
                    (self.answer(&request, None), None)
                }
                Some(Fault::Connected(count)) => {
                    let mut connections = self.connections.lock();
                    let too_few = |connections: &mut usize| *connections < count;
                    self.connected.wait_while_for(&mut connections, too_few, Duration::from_secs(30));
                    drop(connections);
                    (self.answer(&request, None), None)
                }
                Some(Fault::Lost) => {
                    let _ = self.answer(&request, None);
                    return None;
                }
                Some(Fault::Raw(head, bytes)) => return self.write_raw(stream, &head, bytes),
                Some(fault @ (Fault::Cut | Fault::CutUntagged)) => {
                    let mut answer = self.answer(&request, None);
                    if matches!(fault, Fault::CutUntagged) {
                        answer.headers.retain(|(name, _)| *name != "ETag");
                    }
                    let half = answer.body.len() / 2;
                    (answer, Some(half))
                }
                fault => (self.answer(&request, fault), None),
            };
            write_answer(stream, &answer, sent)?;
            if sent.is_some() {
                return None;
            }
        }
    }

    fn write_raw(&self, mut stream: &TcpStream, head: &str, bytes: usize) -> Option<()> {
        stream.write_all(head.as_bytes()).ok()?;
        let part = [b' '; 1 << 16];
        let mut left = bytes;
        while left > 0 {
            let count = left.min(part.len());
            stream.write_all(&part[..count]).ok()?;
            self.sent.fetch_add(count, Ordering::Relaxed);
            left -= count;
        }
        None
    }

    fn answer(&self, request: &Request, fault: Option<Fault>) -> Answer {
        match request.method.as_str() {
            "GET" if request.query.contains("list-type=2") => self.list(request),
            "GET" => self.get(request, fault),
            "PUT" => self.conditional_put(request),
            "DELETE" => {
                self.objects.lock().remove(&request.path);
                Answer::new(204, "")
            }
            _ => Answer::new(405, ""),
        }
    }

    fn get(&self, request: &Request, fault: Option<Fault>) -> Answer {
        let objects = self.objects.lock();
        let Some((bytes, version)) = objects.get(&request.path) else {
            return Answer::new(404, "<Error><Code>NoSuchKey</Code></Error>");
        };
        let all = bytes.len();
        let range = request.headers.get("range").and_then(|range| parse_range(range, all));
        let dated = |answer: Answer| {
            let date = "Tue, 24 Nov 2026 00:00:00 GMT";
            answer.with("ETag", format!("\"{version}\"")).with("Last-Modified", date)
        };
        let first = |range: &str| range.strip_prefix("bytes=")?.split_once('-')?.0.parse::<usize>().ok();
        if request.headers.get("range").and_then(|range| first(range)).is_some_and(|first| first >= all) {
            return Answer::new(416, "<Error><Code>InvalidRange</Code></Error>");
        }
        let Some(range) = range.filter(|_| !matches!(fault, Some(Fault::Whole))) else {
            return dated(Answer::new(200, bytes.clone()));
        };
        let mut part = bytes[range.clone()].to_vec();
        let mut shown = format!("bytes {}-{}/{all}", range.start, range.end - 1);
        match fault {
            Some(Fault::Flipped) => part[0] ^= 1,
            Some(Fault::Shifted) => {
                shown = format!("bytes {}-{}/{}", range.start + 1, range.end, all + 1);
            }
            Some(Fault::Endless) => {
                part = vec![7; part.len() + (1 << 20)];
            }
            _ => {}
        }
        dated(Answer::new(206, part)).with("Content-Range", shown)
    }

    fn conditional_put(&self, request: &Request) -> Answer {
        let present = self.objects.lock().get(&request.path).map(|(_, version)| format!("\"{version}\""));
        let fails = match (request.headers.get("if-match"), request.headers.get("if-none-match")) {
            (Some(wanted), _) => present.as_ref() != Some(wanted),
            (_, Some(_)) => present.is_some(),
            _ => false,
        };
        if fails {
            return Answer::new(412, "<Error><Code>PreconditionFailed</Code></Error>");
        }
        let version = self.put(&request.path, request.body.clone());
        Answer::new(200, "").with("ETag", format!("\"{version}\""))
    }

    fn list(&self, request: &Request) -> Answer {
        let prefix = request.query.split('&').find_map(|part| part.strip_prefix("prefix="));
        let prefix = prefix.unwrap_or_default().replace("%2F", "/");
        let bucket = request.path.trim_end_matches('/');
        let mut xml = String::from("<ListBucketResult><IsTruncated>false</IsTruncated>");
        for (path, (bytes, version)) in &*self.objects.lock() {
            let Some(key) = path.strip_prefix(bucket).and_then(|key| key.strip_prefix('/')) else { continue };
            if key.starts_with(&prefix) {
                xml += &format!(
                    "<Contents><Key>{key}</Key><LastModified>2026-11-24T00:00:00.000Z</LastModified>\
                     <ETag>\"{version}\"</ETag><Size>{}</Size></Contents>",
                    bytes.len()
                );
            }
        }
        Answer::new(200, xml + "</ListBucketResult>").with("Content-Type", "application/xml")
    }
}

fn parse_range(text: &str, all: usize) -> Option<Range<usize>> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    let from: usize = from.parse().ok()?;
    let to = to.parse().map_or(all, |last: usize| all.min(last + 1));
    (from < to).then_some(from..to)
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let line = read_line(reader)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut headers = BTreeMap::new();
    loop {
        let line = read_line(reader)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path: path.into(), query: query.into(), headers, body })
}

fn read_line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    let count = reader.read_line(&mut line).ok()?;
    (count > 0).then(|| line.trim_end().to_owned())
}

fn write_answer(mut stream: &TcpStream, answer: &Answer, sent: Option<usize>) -> Option<()> {
    let mut head = format!("HTTP/1.1 {} Status\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all((head + "\r\n").as_bytes()).ok()?;
    let sent = sent.unwrap_or(answer.body.len());
    stream.write_all(&answer.body[..sent]).ok()
}
