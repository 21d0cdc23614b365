//! Connections to the other replicas on the same store. A replica trusts the certificate whose digest the other one has
//! written to the store, whatever its names and its authority: an address of a pod is in no certificate.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;

/// Deadline of a connection and its handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes to and from a replica.
pub trait ReplicaStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReplicaStream for T {}

/// Connects to the replica at `address`, whose certificate has the SHA-256 digest `certificate`. Without one the connection
/// is not encrypted, and only an address of this host is connected to.
///
/// # Errors
/// The address does not answer in time, presents another certificate, or would be sent a token without encryption.
pub async fn connect(address: &str, certificate: &[u8]) -> io::Result<Box<dyn ReplicaStream>> {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, connect_within(address, certificate));
    connected.await.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 2 s")))
}

async fn connect_within(address: &str, certificate: &[u8]) -> io::Result<Box<dyn ReplicaStream>> {
    let addresses: Vec<SocketAddr> = lookup_host(address).await?.collect();
    if certificate.is_empty() && addresses.iter().any(|address| !address.ip().is_loopback()) {
        return Err(io::Error::other("the replica has no TLS certificate and is not on this host"));
    }
    let stream = TcpStream::connect(&addresses[..]).await?;
    stream.set_nodelay(true)?;
    if certificate.is_empty() {
        return Ok(Box::new(stream));
    }
    let config = client_config(certificate.to_vec()).map_err(io::Error::other)?;
    // The name is not verified, and not sent.
    let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
}

fn client_config(certificate: Vec<u8>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(PinnedCertificate { digest: certificate, provider: Arc::clone(&provider) });
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// Accepts one certificate, and signatures by its key.
#[derive(Debug)]
struct PinnedCertificate {
    digest: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if Sha256::digest(end_entity).as_slice() == self.digest {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
