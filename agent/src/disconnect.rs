//! Why a stream to the server ended, and what the operator has to do about it.

use std::error::Error;
use std::io;

use rustls::CertificateError;
use tonic::Code;

use crate::credentials::CredentialsError;
use crate::error_chain::error_chain;
use crate::port::ClusterError;

/// Port of the server's gRPC listener, which agents use (`listen.grpc`: the default).
const GRPC_PORT: &str = "7450";
/// Port of the server's HTTP listener: dashboard and metrics (`listen.http`: the default).
const HTTP_PORT: &str = "7480";

#[derive(Debug, thiserror::Error)]
pub(crate) enum DisconnectReason {
    #[error("the agent is shutting down")]
    Shutdown,
    #[error("{}", error_chain(.0))]
    Connect(tonic::transport::Error),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("{}", status_text(.0))]
    Status(Box<tonic::Status>),
    #[error("the server ended the stream")]
    Ended,
    #[error("{0}")]
    ClosedByAgent(String),
    #[error("cannot read the cluster: {0}")]
    Cluster(#[from] ClusterError),
}

impl DisconnectReason {
    /// Whether the server ended the stream in favour of a newer one of this cluster.
    pub(crate) fn is_replacement(&self) -> bool {
        matches!(self, Self::Status(status) if status.code() == Code::Aborted)
    }

    /// What the operator has to do, when the reason shows it. `server` is the address as configured.
    pub(crate) fn remedy(&self, server: &str) -> Option<String> {
        match self {
            Self::Status(status) if self.is_replacement() => Some(format!(
                "another agent connects as this cluster ({}): stop it, or give each cluster its own cluster.name; replicas \
                 of one cluster require the same kubernetes.namespace and kubernetes.lease",
                status.message()
            )),
            Self::Status(status) if is_http_only(status) => Some(without_grpc(server)),
            Self::Status(status) if status.source().is_some() && server.starts_with("http://") => Some(format!(
                "if the server uses TLS (listen.tls-certificate), set server.address = \"{}\" and server.ca-file; agents \
                 connect to the address of listen.grpc, port {GRPC_PORT} by default",
                server.replacen("http://", "https://", 1)
            )),
            Self::Connect(error) => connect_remedy(error, server),
            _ => None,
        }
    }
}

/// The status and its causes; the outermost message of a failed connection is `transport error`.
fn status_text(status: &tonic::Status) -> String {
    let causes = status.source().map(|cause| format!(": {}", error_chain(cause))).unwrap_or_default();
    let message = if causes.is_empty() { status.message() } else { "connection lost" };
    format!("{:?}: {message}{causes}", status.code())
}

/// Whether an HTTP server without gRPC answered. A gateway without a server behind it (502 to 504)
/// may lead to gRPC later.
fn is_http_only(status: &tonic::Status) -> bool {
    status.message().contains("mapped from HTTP status code") && status.code() != Code::Unavailable
}

fn without_grpc(server: &str) -> String {
    let corrected = server.trim_end_matches('/').strip_suffix(HTTP_PORT).filter(|before| before.ends_with(':'));
    let write = corrected.map(|before| format!("set server.address = \"{before}{GRPC_PORT}\": "));
    format!(
        "{}{server} answers HTTP without gRPC; agents connect to the address of the server's listen.grpc, port {GRPC_PORT} \
         by default, and not to the dashboard (listen.http, port {HTTP_PORT})",
        write.unwrap_or_default()
    )
}

fn connect_remedy(error: &tonic::transport::Error, server: &str) -> Option<String> {
    let cause = io_cause(error)?;
    if cause.kind() == io::ErrorKind::ConnectionRefused {
        return Some(format!(
            "start the server, or correct server.address: agents connect to the address of listen.grpc, port {GRPC_PORT} by \
             default"
        ));
    }
    match cause.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidMessage(_) => Some(format!(
            "the server answers without TLS: set server.address = \"{}\", or listen.tls-certificate at the server",
            server.replacen("https://", "http://", 1)
        )),
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => Some("set server.address to a host name of the server's certificate".to_owned()),
        rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. } | CertificateError::NotValidYet,
        ) => Some("renew the server's certificate, or correct the clock".to_owned()),
        rustls::Error::InvalidCertificate(_) => Some(
            "set server.ca-file to the certificates of the authority that signed the server's certificate".to_owned(),
        ),
        _ => None,
    }
}

/// The first I/O error among the causes.
fn io_cause(error: &tonic::transport::Error) -> Option<&io::Error> {
    let mut cause = error.source();
    while let Some(found) = cause {
        if let Some(found) = found.downcast_ref() {
            return Some(found);
        }
        cause = found.source();
    }
    None
}
