//! Listener: TLS when certificates are configured, plain otherwise. Certificates are reloaded when
//! their files change; open connections keep the ones of their handshake.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use futures::Stream;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;
use tracing::{debug, info, warn};

use super::connections::{ConnectionLimits, ConnectionSlot, Connections};

/// Interval of the check for idle connections.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Delay after a failed accept when no connection could be evicted.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Connections after the handshake that wait to be served.
const ACCEPT_BACKLOG: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// `listen.tls-certificate`: certificate chain of this server (PEM).
    pub certificate: PathBuf,
    /// `listen.tls-key`: its private key (PEM).
    pub key: PathBuf,
    /// `listen.client-ca`: authorities of agent certificates (PEM).
    pub client_ca: Option<PathBuf>,
}

/// Why the TLS files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("certificates {}: {error}", path.display())]
    Certificates { path: PathBuf, error: pem::Error },
    #[error("listen.tls-key {}: {error}", path.display())]
    Key { path: PathBuf, error: pem::Error },
    #[error("listen.client-ca {} holds no certificate", path.display())]
    NoAuthorities { path: PathBuf },
    #[error("listen.tls-certificate {} and listen.tls-key cannot be used together: {error}", certificate.display())]
    Mismatch { certificate: PathBuf, error: rustls::Error },
    #[error(transparent)]
    Versions(rustls::Error),
    #[error(transparent)]
    Verifier(VerifierBuilderError),
}

/// Why a client certificate is not accepted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("listen.client-ca has no certificate authority")]
    NoAuthority,
    #[error("no client certificate presented")]
    Missing,
    #[error("the client certificate is invalid: {0}")]
    Invalid(rustls::Error),
}

/// Certificates, reloaded from disk.
#[derive(Debug)]
pub struct Certificates {
    files: TlsFiles,
    current: Mutex<(FileVersions, LoadedTls)>,
}

type FileVersions = [Option<SystemTime>; 3];

#[derive(Debug, Clone)]
struct LoadedTls {
    config: Arc<ServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    digest: Vec<u8>,
}

impl Certificates {
    /// Loads the files.
    ///
    /// # Errors
    /// The unusable file and the cause.
    pub fn read(files: TlsFiles) -> Result<Self, TlsError> {
        let current = (files.versions(), files.load()?);
        Ok(Self { files, current: Mutex::new(current) })
    }

    /// SHA-256 digest of the certificate that the listener presents.
    pub fn digest(&self) -> Vec<u8> {
        self.loaded().digest
    }

    /// Whether agents can authenticate by a certificate.
    pub(crate) fn has_client_authorities(&self) -> bool {
        self.files.client_ca.is_some()
    }

    fn acceptor(&self) -> TlsAcceptor {
        let _changed = self.refresh();
        TlsAcceptor::from(self.loaded().config)
    }

    /// Reloads changed files; returns whether new certificates are in effect.
    pub(crate) fn refresh(&self) -> bool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let versions = self.files.versions();
        if versions == current.0 {
            return false;
        }
        match self.files.load() {
            Ok(loaded) => {
                info!(certificate = %self.files.certificate.display(), "certificates reloaded");
                *current = (versions, loaded);
                true
            }
            Err(error) => {
                warn!(%error, "cannot reload certificates; keeping previous ones");
                false
            }
        }
    }

    /// Verifies `chain` by the current authorities; returns its expiry, at most `now + ahead`.
    ///
    /// # Errors
    /// Why the chain is invalid now.
    pub(crate) fn verify_until(
        &self,
        chain: &[CertificateDer<'static>],
        now: SystemTime,
        ahead: Duration,
    ) -> Result<SystemTime, CertificateError> {
        let verifier = self.loaded().verifier.ok_or(CertificateError::NoAuthority)?;
        let (end, between) = chain.split_first().ok_or(CertificateError::Missing)?;
        let holds = |at: SystemTime| {
            let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            verifier.verify_client_cert(end, between, UnixTime::since_unix_epoch(since)).map(drop)
        };
        holds(now).map_err(CertificateError::Invalid)?;
        if holds(now + ahead).is_ok() {
            return Ok(now + ahead);
        }
        // It expires before then: find the second by bisection.
        let (mut good, mut bad) = (0, ahead.as_secs().max(1));
        while bad - good > 1 {
            let middle = good.midpoint(bad);
            if holds(now + Duration::from_secs(middle)).is_ok() { good = middle } else { bad = middle }
        }
        Ok(now + Duration::from_secs(bad))
    }

    fn loaded(&self) -> LoadedTls {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}

impl TlsFiles {
    fn versions(&self) -> FileVersions {
        [changed_at(&self.certificate), changed_at(&self.key), self.client_ca.as_deref().and_then(changed_at)]
    }

    fn load(&self) -> Result<LoadedTls, TlsError> {
        let chain = certificates(&self.certificate)?;
        let digest = chain.first().map(|leaf| Sha256::digest(leaf).to_vec()).unwrap_or_default();
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| TlsError::Key { path: self.key.clone(), error })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Versions)?;
        let verifier = self.client_ca.as_deref().map(|path| client_verifier(path, provider)).transpose()?;
        let builder = match &verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| TlsError::Mismatch { certificate: self.certificate.clone(), error })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(LoadedTls { config: Arc::new(config), verifier, digest })
    }
}

/// When the file was changed last; `None` if its metadata cannot be read.
pub(super) fn changed_at(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|about| about.modified()).ok()
}

/// Verifier for agent certificates by the authorities at `path`. Clients with tokens present no
/// certificate, so none is required; a presented one must be valid.
fn client_verifier(path: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(certificates(path)?);
    if good == 0 {
        return Err(TlsError::NoAuthorities { path: path.to_owned() });
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    verifier.allow_unauthenticated().build().map_err(TlsError::Verifier)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let file_error = |error| TlsError::Certificates { path: path.to_owned(), error };
    CertificateDer::pem_file_iter(path).map_err(file_error)?.collect::<Result<_, _>>().map_err(file_error)
}

#[derive(Debug, Clone)]
pub struct Peer {
    pub address: SocketAddr,
    pub certificates: Vec<CertificateDer<'static>>,
    /// Slot of the connection on its listener.
    pub slot: Arc<ConnectionSlot>,
}

/// A connection; it fails when its slot is evicted.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    peer: SocketAddr,
    slot: Arc<ConnectionSlot>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    fn new(transport: Transport, peer: SocketAddr, slot: Arc<ConnectionSlot>) -> Self {
        let ended = Box::pin(slot.ended().cancelled_owned());
        Self { transport, peer, slot, ended }
    }

    /// Whether its slot was evicted; otherwise registers the task for wakeup.
    fn is_evicted(&mut self, context: &mut Context<'_>) -> bool {
        self.ended.as_mut().poll(context).is_ready()
    }

    pub fn peer(&self) -> Peer {
        let chain = match &self.transport {
            Transport::Plain(_) => None,
            Transport::Encrypted(stream) => stream.get_ref().1.peer_certificates(),
        };
        let certificates = chain.unwrap_or_default().iter().map(|one| one.clone().into_owned()).collect();
        Peer { address: self.peer, certificates, slot: Arc::clone(&self.slot) }
    }
}

fn evicted() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "connection evicted: too many unauthenticated connections")
}

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// Incoming connections after their handshake. Handshakes run concurrently.
#[derive(Debug)]
pub struct Incoming {
    ready: mpsc::Receiver<Connection>,
}

impl Incoming {
    /// Accepts on `listener` until dropped, within `limits`.
    pub fn new(listener: TcpListener, certificates: Option<Arc<Certificates>>, limits: ConnectionLimits) -> Self {
        let (connections_out, ready) = mpsc::channel(ACCEPT_BACKLOG);
        let connections = Connections::new(limits);
        tokio::spawn(
            Acceptor { listener, certificates, connections, handshake: limits.handshake, connections_out }.run(),
        );
        Self { ready }
    }

    pub async fn next(&mut self) -> Option<Connection> {
        self.ready.recv().await
    }
}

/// Accept loop; never waits for a peer.
struct Acceptor {
    listener: TcpListener,
    certificates: Option<Arc<Certificates>>,
    connections: Arc<Connections>,
    handshake: Duration,
    connections_out: mpsc::Sender<Connection>,
}

impl Acceptor {
    async fn run(self) {
        let mut interval = tokio::time::interval(IDLE_CHECK_INTERVAL);
        loop {
            let accepted = tokio::select! {
                () = self.connections_out.closed() => return,
                _ = interval.tick() => {
                    self.connections.close_idle(Instant::now());
                    continue;
                }
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.spawn_handshake(stream, peer),
                Err(error) => self.handle_accept_error(&error).await,
            }
        }
    }

    /// The usual cause is the file descriptor limit: evict an unauthenticated connection.
    async fn handle_accept_error(&self, error: &io::Error) {
        warn!(%error, "cannot accept connection");
        // The descriptor is released once the connection's task has been woken.
        let wait = if self.connections.evict_oldest() { ACCEPT_RETRY / 20 } else { ACCEPT_RETRY };
        tokio::time::sleep(wait).await;
    }

    fn spawn_handshake(&self, stream: TcpStream, peer: SocketAddr) {
        // Without TCP_NODELAY the connection is only slower.
        drop(stream.set_nodelay(true));
        let slot = self.connections.open(peer.ip(), Instant::now());
        let acceptor = self.certificates.as_ref().map(|current| (current.acceptor(), self.handshake));
        let connections_out = self.connections_out.clone();
        tokio::spawn(async move {
            let ended = slot.ended();
            tokio::select! {
                () = ended.cancelled() => debug!(%peer, "connection evicted during handshake"),
                () = complete_handshake(stream, peer, slot, acceptor, connections_out) => {}
            }
        });
    }
}

/// Completes the TLS handshake within the timeout and passes the connection to the server.
async fn complete_handshake(
    stream: TcpStream,
    peer: SocketAddr,
    slot: Arc<ConnectionSlot>,
    acceptor: Option<(TlsAcceptor, Duration)>,
    connections_out: mpsc::Sender<Connection>,
) {
    let transport = match acceptor {
        None => Transport::Plain(stream),
        Some((acceptor, within)) => match tokio::time::timeout(within, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => Transport::Encrypted(Box::new(stream)),
            Ok(Err(error)) => return info!(%peer, %error, "TLS handshake failed"),
            Err(_) => return debug!(%peer, "TLS handshake timed out"),
        },
    };
    drop(connections_out.send(Connection::new(transport, peer, slot)).await);
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
        if connection.is_evicted(context) {
            return Poll::Ready(Err(evicted()));
        }
        match &mut connection.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let connection = self.get_mut();
        if connection.is_evicted(context) {
            return Poll::Ready(Err(evicted()));
        }
        match &mut connection.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, buffer),
            Transport::Encrypted(stream) => Pin::new(stream).poll_write(context, buffer),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Encrypted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
