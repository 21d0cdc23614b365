//! Why a request to a server failed, and what the operator has to do about it.

use std::error::Error;
use std::io;

use rustls::CertificateError;
use tonic::{Code, Status as RpcStatus};

use command::exit::Failure;

/// Port of the server's gRPC listener (`listen.grpc`: the default).
const GRPC_PORT: &str = "7450";
/// Port of the server's HTTP listener (`listen.http`: the default).
const HTTP_PORT: &str = "7480";

/// No connection to the server at `address` could be opened.
pub(super) fn unreachable(error: &tonic::transport::Error, address: &str) -> Failure {
    let chain = causes(error);
    // The outermost message is `transport error`.
    let why = if chain.is_empty() { error.to_string() } else { chain };
    let remedy = remedy_of(error, address).map_or_else(String::new, |remedy| format!("; {remedy}"));
    Failure::internal(format!("the server at {address} cannot be reached: {why}{remedy}"))
}

/// Error status of the server as the result of a command.
pub(crate) fn rpc_failure(status: RpcStatus) -> Failure {
    let message = status.message();
    match status.code() {
        Code::Unauthenticated if message.contains("no bearer token") => {
            // The rest of the message is for programs: the header that they have to send.
            Failure::refused("no bearer token was sent; pass --token-file FILE (FLEETWRIGHT_TOKEN_FILE)")
        }
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::Aborted
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::PermissionDenied
        | Code::Unauthenticated
            if !is_http_only(&status) =>
        {
            Failure::refused(message)
        }
        _ if is_http_only(&status) => Failure::refused(format!(
            "the address of --server answers HTTP without gRPC; write the address of the server's listen.grpc, port {GRPC_PORT} by \
             default, and not of the dashboard (listen.http, port {HTTP_PORT})"
        )),
        code if status.source().is_some() => Failure::internal(format!(
            "connection lost ({code:?}): {}; if the server uses TLS (listen.tls-certificate), write --server https://HOST:{GRPC_PORT} \
             --ca-file FILE",
            causes(&status)
        )),
        // The store's own error, such as that of a database that is down.
        Code::Unavailable => Failure::internal(message),
        code => Failure::internal(format!("the server answered {code:?}: {message}")),
    }
}

/// Whether an HTTP server without gRPC answered, by an error of the client library. A gateway without a
/// server behind it (502 to 504) may lead to gRPC later.
fn is_http_only(status: &RpcStatus) -> bool {
    let errors = ["mapped from HTTP status code", "while receiving response with status: 4"];
    errors.iter().any(|error| status.message().contains(error)) && status.code() != Code::Unavailable
}

fn remedy_of(error: &tonic::transport::Error, address: &str) -> Option<String> {
    let cause = io_cause(error)?;
    if cause.kind() == io::ErrorKind::ConnectionRefused {
        return Some(format!(
            "start the server, or correct --server: commands connect to the address of listen.grpc, port {GRPC_PORT} by default"
        ));
    }
    match cause.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidMessage(_) => Some(format!(
            "the server answers without TLS: write --server {}",
            address.replacen("https://", "http://", 1)
        )),
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => Some("write --server with a host name of the server's certificate".to_owned()),
        rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. } | CertificateError::NotValidYet,
        ) => Some("renew the server's certificate, or correct the clock".to_owned()),
        rustls::Error::InvalidCertificate(_) => Some(
            "write --ca-file with the certificates of the authority that signed the server's certificate".to_owned(),
        ),
        _ => None,
    }
}

/// The texts of the sources of `error`. A source whose text is contained in an earlier one is omitted.
fn causes(error: &dyn Error) -> String {
    let mut text = String::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            let separator = if text.is_empty() { "" } else { ": " };
            text = format!("{text}{separator}{cause_text}");
        }
        source = cause.source();
    }
    text
}

/// The first I/O error among the causes.
fn io_cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    let mut cause = error.source();
    while let Some(found) = cause {
        if let Some(found) = found.downcast_ref() {
            return Some(found);
        }
        cause = found.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::exit::Status;

    #[test]
    fn a_port_without_grpc_is_named_as_that_of_the_dashboard() {
        let status = RpcStatus::unimplemented("grpc-status header missing, mapped from HTTP status code 404");
        let failure = rpc_failure(status);
        assert_eq!(failure.status, Status::Refused);
        assert!(
            failure.messages[0].contains("port 7450 by default, and not of the dashboard (listen.http, port 7480)")
        );
    }

    #[test]
    fn a_missing_token_is_named_with_its_flag() {
        let failure =
            rpc_failure(RpcStatus::unauthenticated("no bearer token was sent; send `authorization: Bearer <token>`"));
        assert_eq!(failure.messages, ["no bearer token was sent; pass --token-file FILE (FLEETWRIGHT_TOKEN_FILE)"]);
    }

    #[test]
    fn the_error_of_the_store_is_printed_as_it_is() {
        let failure = rpc_failure(RpcStatus::unavailable("the store could not freeze: no connection"));
        assert_eq!(failure.status, Status::Internal);
        assert_eq!(failure.messages, ["the store could not freeze: no connection"]);
    }
}
