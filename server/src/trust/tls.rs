//! Connections: encrypted when certificates are configured, plain otherwise. Certificates are read again when their files
//! change; connections that are open keep the ones that they began with.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use futures::Stream;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;
use tracing::{debug, info, warn};

use super::book::changed_at;
use super::connections::{ConnectionLimits, Connections, Place};

/// How often silent connections are looked for.
const LOOK_FOR_SILENT: Duration = Duration::from_secs(1);
/// After a failed accept with nothing to close, the next one is tried after this.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Connections that wait to be served.
const WAITING: usize = 64;

/// Where certificates are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// `listen.tls-certificate`: this server's chain (PEM).
    pub(crate) certificate: PathBuf,
    /// `listen.tls-key`: its key (PEM).
    pub(crate) key: PathBuf,
    /// `listen.client-ca`: authorities that may sign certificates of agents (PEM).
    pub(crate) client_ca: Option<PathBuf>,
}

/// Certificates as they are on disk.
#[derive(Debug)]
pub(crate) struct Certificates {
    files: TlsFiles,
    current: Mutex<(Stamps, Loaded)>,
}

type Stamps = [Option<SystemTime>; 3];

/// What the files say.
#[derive(Debug, Clone)]
struct Loaded {
    config: Arc<ServerConfig>,
    /// Judges certificates of agents.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl Certificates {
    /// Reads them.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(crate) fn read(files: TlsFiles) -> Result<Self, String> {
        let current = (files.stamps(), files.load()?);
        Ok(Self { files, current: Mutex::new(current) })
    }

    fn acceptor(&self) -> TlsAcceptor {
        let _changed = self.refresh();
        TlsAcceptor::from(self.loaded().config)
    }

    /// Reads the files again if they have changed; says whether other ones are in force now.
    pub(crate) fn refresh(&self) -> bool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = self.files.stamps();
        if stamps == current.0 {
            return false;
        }
        match self.files.load() {
            Ok(loaded) => {
                info!(certificate = %self.files.certificate.display(), "certificates have changed and are in force");
                *current = (stamps, loaded);
                true
            }
            Err(error) => {
                warn!(error, "certificates have changed and cannot be used; the last ones stay in force");
                false
            }
        }
    }

    /// Until when the authorities of this moment vouch for the first of `chain`; `now + ahead` if longer.
    ///
    /// # Errors
    /// Why they do not now.
    pub(crate) fn vouch(
        &self,
        chain: &[CertificateDer<'static>],
        now: SystemTime,
        ahead: Duration,
    ) -> Result<SystemTime, String> {
        let verifier = self.loaded().verifier.ok_or("no authority for agents is in listen.client-ca any more")?;
        let (end, between) = chain.split_first().ok_or("no certificate was shown")?;
        let holds = |at: SystemTime| {
            let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            verifier.verify_client_cert(end, between, UnixTime::since_unix_epoch(since)).map(drop)
        };
        holds(now).map_err(|error| format!("the certificate is not believed: {error}"))?;
        if holds(now + ahead).is_ok() {
            return Ok(now + ahead);
        }
        // It ends before then: to the second, by halves.
        let (mut good, mut bad) = (0, ahead.as_secs().max(1));
        while bad - good > 1 {
            let middle = good.midpoint(bad);
            if holds(now + Duration::from_secs(middle)).is_ok() { good = middle } else { bad = middle }
        }
        Ok(now + Duration::from_secs(bad))
    }

    fn loaded(&self) -> Loaded {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}

impl TlsFiles {
    fn stamps(&self) -> Stamps {
        [changed_at(&self.certificate), changed_at(&self.key), self.client_ca.as_deref().and_then(changed_at)]
    }

    fn load(&self) -> Result<Loaded, String> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| format!("listen.tls-key {}: {error}", self.key.display()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let verifier = self.client_ca.as_deref().map(|path| client_verifier(path, provider)).transpose()?;
        let builder = match &verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            format!("listen.tls-certificate {} and listen.tls-key do not fit: {error}", self.certificate.display())
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Loaded { config: Arc::new(config), verifier })
    }
}

/// Judges certificates of agents by the authorities in the file. Clients with tokens show no certificate, so none is demanded;
/// one that is shown must be good.
fn client_verifier(path: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(certificates(path)?);
    if good == 0 {
        return Err(format!("listen.client-ca {} holds no certificate", path.display()));
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    verifier.allow_unauthenticated().build().map_err(|error| error.to_string())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let tried = |why: String| format!("certificates {}: {why}", path.display());
    let all = CertificateDer::pem_file_iter(path).map_err(|error| tried(error.to_string()))?;
    all.collect::<Result<_, _>>().map_err(|error| tried(error.to_string()))
}

/// Who is at the other end.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Its address.
    pub(crate) address: SocketAddr,
    /// The certificate that it showed, and those that lead to an authority.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    /// The connection's place among those of its listener.
    pub(crate) place: Arc<Place>,
}

/// A connection. It breaks when its place is taken away.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: Wire,
    peer: SocketAddr,
    place: Arc<Place>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    fn new(wire: Wire, peer: SocketAddr, place: Arc<Place>) -> Self {
        let ended = Box::pin(place.ended().cancelled_owned());
        Self { wire, peer, place, ended }
    }

    /// Whether its place was taken away; otherwise the task hears of it.
    fn has_ended(&mut self, context: &mut Context<'_>) -> bool {
        self.ended.as_mut().poll(context).is_ready()
    }

    /// What is known of the other end.
    pub(crate) fn peer(&self) -> Peer {
        let chain = match &self.wire {
            Wire::Plain(_) => None,
            Wire::Encrypted(stream) => stream.get_ref().1.peer_certificates(),
        };
        let certificates = chain.unwrap_or_default().iter().map(|one| one.clone().into_owned()).collect();
        Peer { address: self.peer, certificates, place: Arc::clone(&self.place) }
    }
}

fn gave_way() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection gave way to others")
}

#[derive(Debug)]
enum Wire {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// Connections as they come. A handshake holds up nobody else.
#[derive(Debug)]
pub(crate) struct Incoming {
    ready: mpsc::Receiver<Connection>,
}

impl Incoming {
    /// Accepts on `listener` until it is dropped, so many connections as `limits` allow.
    pub(crate) fn new(
        listener: TcpListener,
        certificates: Option<Arc<Certificates>>,
        limits: ConnectionLimits,
    ) -> Self {
        let (give, ready) = mpsc::channel(WAITING);
        let connections = Connections::new(limits);
        tokio::spawn(Acceptor { listener, certificates, connections, handshake: limits.handshake, give }.run());
        Self { ready }
    }

    /// The next connection.
    pub(crate) async fn next(&mut self) -> Option<Connection> {
        self.ready.recv().await
    }
}

/// Accepts, and never waits for a peer.
struct Acceptor {
    listener: TcpListener,
    certificates: Option<Arc<Certificates>>,
    connections: Arc<Connections>,
    handshake: Duration,
    give: mpsc::Sender<Connection>,
}

impl Acceptor {
    async fn run(self) {
        let mut looks = tokio::time::interval(LOOK_FOR_SILENT);
        loop {
            let accepted = tokio::select! {
                () = self.give.closed() => return,
                _ = looks.tick() => {
                    self.connections.close_silent(Instant::now());
                    continue;
                }
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.take(stream, peer),
                Err(error) => self.could_not(&error).await,
            }
        }
    }

    /// Mostly no file descriptor is left. Whoever has not shown who they are gives one back.
    async fn could_not(&self, error: &io::Error) {
        warn!(%error, "a connection could not be accepted");
        // The descriptor is given back as soon as the connection's task has heard of it.
        let wait = if self.connections.shed() { ACCEPT_AGAIN / 20 } else { ACCEPT_AGAIN };
        tokio::time::sleep(wait).await;
    }

    fn take(&self, stream: TcpStream, peer: SocketAddr) {
        // A connection without it is slower, not wrong.
        drop(stream.set_nodelay(true));
        let place = self.connections.open(peer.ip(), Instant::now());
        let acceptor = self.certificates.as_ref().map(|current| (current.acceptor(), self.handshake));
        let give = self.give.clone();
        tokio::spawn(async move {
            let ended = place.ended();
            tokio::select! {
                () = ended.cancelled() => debug!(%peer, "a connection gave way before it was served"),
                () = serve_soon(stream, peer, place, acceptor, give) => {}
            }
        });
    }
}

/// Shakes hands within the time that is given, and gives the connection to the server.
async fn serve_soon(
    stream: TcpStream,
    peer: SocketAddr,
    place: Arc<Place>,
    acceptor: Option<(TlsAcceptor, Duration)>,
    give: mpsc::Sender<Connection>,
) {
    let wire = match acceptor {
        None => Wire::Plain(stream),
        Some((acceptor, within)) => match tokio::time::timeout(within, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => Wire::Encrypted(Box::new(stream)),
            Ok(Err(error)) => return info!(%peer, %error, "a connection is refused: its handshake failed"),
            Err(_) => return debug!(%peer, "a handshake took too long"),
        },
    };
    drop(give.send(Connection::new(wire, peer, place)).await);
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ready.poll_recv(context).map(|connection| connection.map(Ok))
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer()
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        if connection.has_ended(context) {
            return Poll::Ready(Err(gave_way()));
        }
        match &mut connection.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Wire::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let connection = self.get_mut();
        if connection.has_ended(context) {
            return Poll::Ready(Err(gave_way()));
        }
        match &mut connection.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write(context, buffer),
            Wire::Encrypted(stream) => Pin::new(stream).poll_write(context, buffer),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().wire {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(context),
            Wire::Encrypted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().wire {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Wire::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
