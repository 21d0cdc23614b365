//! Connections: encrypted when certificates are configured, plain otherwise. Certificates are read again when their files
//! change; connections that are open keep the ones that they began with.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures::Stream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;
use tracing::{debug, info, warn};

use super::book::changed_at;

/// A handshake that takes longer is given up.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Handshakes at once: they cost the most of all that a stranger can ask for.
const HANDSHAKES: usize = 256;
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
    current: Mutex<(Stamps, Arc<ServerConfig>)>,
}

type Stamps = [Option<SystemTime>; 3];

impl Certificates {
    /// Reads them.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(crate) fn read(files: TlsFiles) -> Result<Self, String> {
        let current = (files.stamps(), Arc::new(files.load()?));
        Ok(Self { files, current: Mutex::new(current) })
    }

    fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = self.files.stamps();
        if stamps != current.0 {
            match self.files.load() {
                Ok(config) => {
                    info!(certificate = %self.files.certificate.display(), "certificates have changed and are in force");
                    *current = (stamps, Arc::new(config));
                }
                Err(error) => warn!(error, "certificates have changed and cannot be used; the last ones stay in force"),
            }
        }
        TlsAcceptor::from(Arc::clone(&current.1))
    }
}

impl TlsFiles {
    fn stamps(&self) -> Stamps {
        [changed_at(&self.certificate), changed_at(&self.key), self.client_ca.as_deref().and_then(changed_at)]
    }

    fn load(&self) -> Result<ServerConfig, String> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| format!("listen.tls-key {}: {error}", self.key.display()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                let (good, _) = roots.add_parsable_certificates(certificates(path)?);
                if good == 0 {
                    return Err(format!("listen.client-ca {} holds no certificate", path.display()));
                }
                // Clients with tokens show no certificate, so none is demanded; one that is shown must be good.
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.allow_unauthenticated().build().map_err(|error| error.to_string())?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            format!("listen.tls-certificate {} and listen.tls-key do not fit: {error}", self.certificate.display())
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
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
    /// The certificate that it showed.
    pub(crate) certificate: Option<CertificateDer<'static>>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: Wire,
    peer: SocketAddr,
}

#[derive(Debug)]
enum Wire {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// Connections as they come. A handshake holds up nobody else.
#[derive(Debug)]
pub(crate) struct Incoming {
    address: SocketAddr,
    ready: mpsc::Receiver<Connection>,
}

impl Incoming {
    /// Accepts on `listener` until it is dropped.
    ///
    /// # Errors
    /// When the listener has no address.
    pub(crate) fn new(listener: TcpListener, certificates: Option<Arc<Certificates>>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (give, ready) = mpsc::channel(WAITING);
        tokio::spawn(accept(listener, certificates, give));
        Ok(Self { address, ready })
    }
}

async fn accept(listener: TcpListener, certificates: Option<Arc<Certificates>>, give: mpsc::Sender<Connection>) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let accepted = tokio::select! {
            () = give.closed() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Mostly: no file descriptor is left. Some are given back soon.
                warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // A connection without it is slower, not wrong.
        drop(stream.set_nodelay(true));
        let Some(certificates) = &certificates else {
            if give.send(Connection { wire: Wire::Plain(stream), peer }).await.is_err() {
                return;
            }
            continue;
        };
        let Ok(place) = Arc::clone(&handshakes).acquire_owned().await else { return };
        let (acceptor, give) = (certificates.acceptor(), give.clone());
        tokio::spawn(async move {
            match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    drop(place);
                    let connection = Connection { wire: Wire::Encrypted(Box::new(stream)), peer };
                    drop(give.send(connection).await);
                }
                Ok(Err(error)) => info!(%peer, %error, "a connection is refused: its handshake failed"),
                Err(_) => debug!(%peer, "a handshake took too long"),
            }
        });
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ready.poll_recv(context).map(|connection| connection.map(Ok))
    }
}

impl axum::serve::Listener for Incoming {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.ready.recv().await {
            Some(connection) => {
                let peer = connection.peer;
                (connection, peer)
            }
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        let certificate = match &self.wire {
            Wire::Plain(_) => None,
            Wire::Encrypted(stream) => stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned(),
        };
        Peer { address: self.peer, certificate: certificate.map(CertificateDer::into_owned) }
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().wire {
            Wire::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Wire::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().wire {
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
