//! Deadlines of real connections, and behaviour without them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::super::connections::ConnectionLimits;
use super::super::tls::Incoming;
use super::endpoints::{authorities, authority};
use super::issuer::Folder;

const SOON: Duration = Duration::from_millis(100);
/// Does not pass during a test.
const LATE: Duration = Duration::from_secs(3_600);
/// Upper bound for every wait, on the slowest machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// TLS listener with the certificates in `folder`.
async fn listener(folder: &Folder, handshake: Duration, silence: Duration) -> (SocketAddr, Incoming) {
    let limits = ConnectionLimits {
        unauthenticated: 8,
        unauthenticated_per_address: 8,
        admitted: 8,
        admitted_per_client: 8,
        reserved: 0,
        handshake,
        silence,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, Incoming::new(listener, Some(Arc::new(authorities(folder))), limits))
}

/// Connection that has sent the first byte of a handshake.
async fn begun(address: SocketAddr) -> TcpStream {
    let mut wire = TcpStream::connect(address).await.unwrap();
    wire.write_all(&[0x16]).await.unwrap();
    wire
}

/// Completes when the other end has closed the connection.
async fn closed(mut wire: TcpStream) {
    let mut rest = Vec::new();
    // A reset connection is closed, too.
    let read = tokio::time::timeout(TIMEOUT, wire.read_to_end(&mut rest)).await;
    drop(read.expect("the connection stays open"));
}

fn connector(folder: &Folder) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.path("ca.crt")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

#[tokio::test]
async fn an_incomplete_handshake_times_out() {
    let folder = Folder::new("handshakes");
    let _authority = authority(&folder);
    let (address, _incoming) = listener(&folder, SOON, LATE).await;
    closed(begun(address).await).await;
}

#[tokio::test]
async fn a_peer_that_is_idle_in_its_handshake_is_closed() {
    let folder = Folder::new("silent-handshakes");
    let _authority = authority(&folder);
    let (address, _incoming) = listener(&folder, LATE, SOON).await;
    closed(begun(address).await).await;
}

/// Each connection of the listener without deadlines was opened before one that its deadline
/// closed.
#[tokio::test]
async fn sabotage_without_deadlines_a_handshake_outlives_later_ones_that_timed_out() {
    let folder = Folder::new("patient-handshakes");
    let _authority = authority(&folder);
    let (patient, mut served) = listener(&folder, LATE, LATE).await;
    let silent = TcpStream::connect(patient).await.unwrap();
    for (handshake, silence) in [(SOON, LATE), (LATE, SOON)] {
        let (address, _incoming) = listener(&folder, handshake, silence).await;
        closed(begun(address).await).await;
    }
    let name = ServerName::try_from("localhost").unwrap();
    let secure = tokio::time::timeout(TIMEOUT, connector(&folder).connect(name, silent)).await;
    assert!(secure.is_ok_and(|handshake| handshake.is_ok()));
    assert!(served.next().await.is_some());
}
