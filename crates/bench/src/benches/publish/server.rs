//! The S3 server: Versity's gateway, which keeps objects as files of a directory.

use super::link::{Link, Quality};
use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::systems::peers::run_command;
use lanefs_publish::{Location, Store};
use lanefs_stores::{Retries, StoreOptions, open};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The one bucket, and the credentials for it.
pub(super) const BUCKET: &str = "bench";
pub(super) const KEY: &str = "lanefs-bench";
pub(super) const SECRET: &str = "not-a-secret";
const REGION: &str = "us-east-1";

/// SHA-256 of no bytes, the body of a request.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Time limit of the server to answer, and the pause between two attempts.
const START: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// A server, which runs as long as its value lives.
pub(super) struct Server {
    child: Child,
    address: SocketAddr,
    root: PathBuf,
}

impl Server {
    /// Starts the server `program` with its objects in `root`.
    ///
    /// # Errors
    /// [`Error::Program`] without the program, with the way to install it.
    pub(super) fn start(program: &Path, root: &Path, stop: &Stop) -> Result<Server> {
        std::fs::create_dir_all(root).map_err(Error::host("a directory of the server"))?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::host("a port"))?;
        let address = free.local_addr().map_err(Error::host("a port"))?;
        drop(free);
        let mut command = Command::new(program);
        command.args(["--port", &address.to_string(), "--access", KEY, "--secret", SECRET]);
        // By default it closes the connection after each answer, which no service does.
        command.args(["--region", REGION, "--quiet", "--keep-alive", "posix"]).arg(root);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|error| {
            let how = "`make bench-publish` installs it; `--server PROGRAM` names another place";
            Error::Program(format!("the server {} does not start: {error}; {how}", program.display()))
        })?;
        let mut server = Server { child, address, root: root.into() };
        let deadline = Instant::now() + START;
        while TcpStream::connect(address).is_err() {
            stop.check()?;
            let ended = server.child.try_wait().map_err(Error::host("the server"))?;
            if ended.is_some() || Instant::now() > deadline {
                return Err(Error::Program(format!("the server {} does not answer", program.display())));
            }
            std::thread::sleep(POLL);
        }
        server.make_bucket(stop)?;
        Ok(server)
    }

    /// Makes the bucket by a signed request: a directory of that name would be one without an owner.
    fn make_bucket(&self, stop: &Stop) -> Result<()> {
        let (user, url) = (format!("{KEY}:{SECRET}"), format!("http://{}/{BUCKET}", self.address));
        let (sign, digest) = (format!("aws:amz:{REGION}:s3"), format!("x-amz-content-sha256: {NOTHING}"));
        let request = ["--silent", "--show-error", "--fail", "--request", "PUT", "--header", &digest];
        let signed = ["--aws-sigv4", &sign, "--user", &user, &url];
        run_command("curl", &[&request[..], &signed].concat(), stop).map(drop)
    }

    /// Address for clients beside it.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens a link to it.
    pub(super) fn link(&self, quality: Quality) -> Result<Link> {
        Link::open(self.address, quality)
    }

    /// Bytes of the objects of a folder.
    pub(super) fn stored(&self, folder: &str, stop: &Stop) -> Result<u64> {
        let path = self.root.join(BUCKET).join(folder);
        let path = path.to_string_lossy();
        let sizes = run_command("find", &[&path, "-type", "f", "-printf", "%s\\n"], stop)?;
        Ok(sizes.lines().filter_map(|size| size.parse::<u64>().ok()).sum())
    }

    /// Removes a folder with its objects.
    pub(super) fn remove(&self, folder: &str) {
        let _ = std::fs::remove_dir_all(self.root.join(BUCKET).join(folder));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens a folder of the bucket as a store, with connections of its own. `address` is that of the server or
/// of a link to it.
pub(super) fn store(address: SocketAddr, folder: &str) -> Result<Arc<dyn Store>> {
    let variables = [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_REGION", REGION)];
    let options = StoreOptions {
        writes: true,
        endpoint: Some(format!("http://{address}")),
        environment: variables.map(|(name, value)| (name.into(), value.into())).into(),
        retries: Retries::default(),
        ..StoreOptions::default()
    };
    let location =
        Location::parse(&format!("s3://{BUCKET}/{folder}")).map_err(Error::publication("a URL"))?;
    open(location.store_url(), &options)
        .map_err(|error| Error::Publication { what: "opening the store".into(), message: error.to_string() })
}
