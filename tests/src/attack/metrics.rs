//! Server metrics: memory and decision latency.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio_rustls::TlsConnector;

use super::test_bed::TestBed;

const DECIDED: &str = "fleetwright_decision_latency_seconds_bucket{le=\"";
const TIMEOUT: Duration = Duration::from_secs(20);

/// Number of decisions by latency bucket, in seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Decisions(Vec<(f64, u64)>);

impl Decisions {
    pub(super) fn of(text: &str) -> Self {
        let bucket = |line: &str| {
            let (bound, count) = line.strip_prefix(DECIDED)?.split_once("\"} ")?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            Some((bound, count.trim().parse().ok()?))
        };
        Self(text.lines().filter_map(bucket).collect())
    }

    /// The decisions after `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let earlier = |at: usize| before.0.get(at).map_or(0, |(_, count)| *count);
        Self(self.0.iter().enumerate().map(|(at, (bound, count))| (*bound, count - earlier(at))).collect())
    }

    pub(super) fn count(&self) -> u64 {
        self.0.last().map_or(0, |(_, count)| *count)
    }

    /// Upper bound of the bucket with the 95th percentile, in milliseconds; `None` without
    /// decisions.
    pub(super) fn p95_ms(&self) -> Option<f64> {
        let wanted = (self.count() * 95).div_ceil(100);
        let found = self.0.iter().find(|(_, count)| *count >= wanted && wanted > 0);
        found.map(|(bound, _)| bound * 1_000.0)
    }
}

/// A TLS connector that accepts the authorities in `ca`.
pub(super) fn connector(ca: &str) -> anyhow::Result<TlsConnector> {
    Ok(TlsConnector::from(trusting_config(Path::new(ca))?))
}

/// Configuration of a TLS client that accepts the authorities in the file `ca`.
pub(super) fn trusting_config(ca: &Path) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(ca)? {
        roots.add(authority?)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// An encrypted connection to `address`.
fn encrypted(address: &str, config: &Arc<ClientConfig>) -> anyhow::Result<StreamOwned<ClientConnection, TcpStream>> {
    let wire = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    wire.set_read_timeout(Some(TIMEOUT))?;
    let connection = ClientConnection::new(Arc::clone(config), ServerName::try_from("localhost")?)?;
    let mut stream = StreamOwned::new(connection, wire);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// The text of `/metrics`.
pub(super) fn scrape(test_bed: &TestBed, config: &Arc<ClientConfig>) -> anyhow::Result<String> {
    let mut stream = encrypted(&test_bed.http, config)?;
    let request =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer looker\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    // The server may close the connection without a close_notify.
    let _ended = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    if answer.starts_with("HTTP/1.1 200") { Ok(answer) } else { Err(anyhow!("/metrics answered {answer:.100}")) }
}

/// Resident memory of a process, in bytes.
pub(super) fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::Decisions;

    #[test]
    fn the_95th_percentile_is_that_of_later_values() {
        let text = |low: u64, mid: u64, all: u64| {
            let name = "fleetwright_decision_latency_seconds_bucket";
            format!("{name}{{le=\"0.01\"}} {low}\n{name}{{le=\"0.1\"}} {mid}\n{name}{{le=\"+Inf\"}} {all}\n")
        };
        let (before, after) = (Decisions::of(&text(5, 5, 5)), Decisions::of(&text(99, 104, 105)));
        // 94 of 100 within 10 ms, 99 within 100 ms.
        assert_eq!(after.since(&before).p95_ms(), Some(100.0));
        assert_eq!((after.since(&before).count(), before.since(&before).p95_ms()), (100, None));
    }
}
