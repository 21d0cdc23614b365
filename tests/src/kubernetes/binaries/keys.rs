//! Keys, certificates and kubeconfigs of a control plane, created once for each folder.

use std::fs;
use std::path::Path;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::KeyPair;
use serde_json::json;

use crate::kubernetes::certificate_authority::{CertificateAuthority, IssuedCertificate};

/// Clients of the API server: file, user, group.
const CLIENTS: [(&str, &str, Option<&str>); 3] = [
    ("admin", "admin", Some("system:masters")),
    ("kube-scheduler", "system:kube-scheduler", None),
    ("kube-controller-manager", "system:kube-controller-manager", None),
];
/// The file that is written last: a folder that has it is complete.
const LAST: &str = "service-accounts.key";

pub(super) fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

/// Creates the missing files in `home`.
pub(super) fn make(home: &Path, port: u16) -> anyhow::Result<()> {
    let pki = home.join("pki");
    if pki.join(LAST).is_file() {
        return Ok(());
    }
    fs::create_dir_all(&pki).with_context(|| format!("cannot make {}", pki.display()))?;
    let authority = CertificateAuthority::new("fleetwright-test-ca")?;
    write(&pki.join("ca.crt"), authority.pem())?;
    let server = authority.issue_certificate(&["127.0.0.1", "10.96.0.1", "localhost", "kubernetes.default.svc"])?;
    write(&pki.join("apiserver.crt"), &server.certificate)?;
    write(&pki.join("apiserver.key"), &server.key)?;
    for (file, user, group) in CLIENTS {
        let client = authority.issue_user_certificate(user, group)?;
        let config = kubeconfig(&url(port), authority.pem(), &client);
        write(&home.join(format!("{file}.kubeconfig")), &config)?;
    }
    let accounts = KeyPair::generate()?;
    write(&pki.join("service-accounts.pub"), &accounts.public_key_pem())?;
    write(&pki.join(LAST), &accounts.serialize_pem())
}

/// A kubeconfig with embedded certificates and key.
fn kubeconfig(url: &str, authority: &str, client: &IssuedCertificate) -> String {
    let data = |text: &str| STANDARD.encode(text);
    let cluster = json!({ "server": url, "certificate-authority-data": data(authority) });
    let user = json!({ "client-certificate-data": data(&client.certificate), "client-key-data": data(&client.key) });
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "test", "cluster": cluster }],
        "users": [{ "name": "test", "user": user }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "current-context": "test",
    });
    config.to_string()
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
