//! An authority that signs certificates, and what somebody without one sees of a server's.

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

/// A handshake that takes longer has failed.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// Signs certificates.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// An authority of this name, with a key of its own.
    ///
    /// # Errors
    /// When there is no key to be had.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let mut about = CertificateParams::new(Vec::new())?;
        about.distinguished_name.push(DnType::CommonName, name);
        about.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = about.self_signed(&key)?.pem();
        Ok(Self { pem, issuer: Issuer::new(about, key) })
    }

    /// Its own certificate.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for these DNS names and addresses.
    ///
    /// # Errors
    /// When one of them is none.
    pub fn certify(&self, names: &[&str]) -> anyhow::Result<Certified> {
        let about = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        self.sign(&about)
    }

    /// A certificate for a user of an API server, and the group that the user is in.
    ///
    /// # Errors
    /// When there is no key to be had.
    pub fn certify_user(&self, user: &str, group: Option<&str>) -> anyhow::Result<Certified> {
        let mut about = CertificateParams::new(Vec::new())?;
        about.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            about.distinguished_name.push(DnType::OrganizationName, group);
        }
        about.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        self.sign(&about)
    }

    fn sign(&self, about: &CertificateParams) -> anyhow::Result<Certified> {
        let key = KeyPair::generate()?;
        Ok(Certified { certificate: about.signed_by(&key, &self.issuer)?.pem(), key: key.serialize_pem() })
    }
}

impl Certified {
    /// The certificate in the form in which it travels.
    ///
    /// # Errors
    /// When it is no PEM.
    pub fn der(&self) -> anyhow::Result<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).context("a certificate that is no PEM")
    }
}

/// The certificate that the server at `address` shows in a handshake of its own, believed by the authorities in `ca_file`.
///
/// # Errors
/// When there is no handshake.
pub fn shown_by(address: &str, ca_file: &Path) -> anyhow::Result<CertificateDer<'static>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(ca_file)? {
        roots.add(authority?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut wire = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    wire.set_read_timeout(Some(HANDSHAKE))?;
    let mut connection = ClientConnection::new(Arc::new(config), ServerName::try_from("127.0.0.1")?)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut wire).with_context(|| format!("no handshake with {address}"))?;
    }
    let shown = connection.peer_certificates().and_then(|chain| chain.first()).cloned();
    connection.send_close_notify();
    connection.write_tls(&mut wire).and_then(|_| wire.flush())?;
    Ok(shown.context("the server shows no certificate")?.into_owned())
}
