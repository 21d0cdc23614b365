//! A certificate authority, and the certificates that servers present.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

const HANDSHAKE: Duration = Duration::from_secs(20);

/// A certificate authority with its own key.
pub struct CertificateAuthority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct IssuedCertificate {
    /// The certificate, in PEM.
    pub certificate: String,
    /// The private key, in PEM.
    pub key: String,
}

impl CertificateAuthority {
    /// An authority of this name with a new key.
    ///
    /// # Errors
    /// When no key can be generated.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { pem, issuer: Issuer::new(params, key) })
    }

    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for these DNS names and addresses.
    ///
    /// # Errors
    /// When a name is neither a DNS name nor an address.
    pub fn issue_certificate(&self, names: &[&str]) -> anyhow::Result<IssuedCertificate> {
        let params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        self.sign(&params)
    }

    /// A client certificate for a user of an API server, with an optional group.
    ///
    /// # Errors
    /// When no key can be generated.
    pub fn issue_user_certificate(&self, user: &str, group: Option<&str>) -> anyhow::Result<IssuedCertificate> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> anyhow::Result<IssuedCertificate> {
        let key = KeyPair::generate()?;
        Ok(IssuedCertificate { certificate: params.signed_by(&key, &self.issuer)?.pem(), key: key.serialize_pem() })
    }
}

impl IssuedCertificate {
    /// The certificate in DER, as it is sent in a handshake.
    ///
    /// # Errors
    /// When it is no PEM.
    pub fn der(&self) -> anyhow::Result<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).context("a certificate that is no PEM")
    }
}

/// The certificate that the server at `address` presents, verified by the authorities in `ca_file`.
///
/// # Errors
/// When the handshake fails.
pub fn server_certificate(address: &str, ca_file: &Path) -> anyhow::Result<CertificateDer<'static>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(ca_file)? {
        roots.add(authority?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut socket = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    socket.set_read_timeout(Some(HANDSHAKE))?;
    let mut connection = ClientConnection::new(Arc::new(config), ServerName::try_from("127.0.0.1")?)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).with_context(|| format!("no handshake with {address}"))?;
    }
    let shown = connection.peer_certificates().and_then(|chain| chain.first()).cloned();
    connection.send_close_notify();
    connection.write_tls(&mut socket).and_then(|_| socket.flush())?;
    Ok(shown.context("the server shows no certificate")?.into_owned())
}
