//! Client of a running server.

mod client_file;
mod failure;

pub(crate) use failure::rpc_failure;

use std::future::Future;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fleetwright_proto::v1;
use fleetwright_rpc::v1::capacity_service_client::CapacityServiceClient;
use fleetwright_rpc::v1::fleet_service_client::FleetServiceClient;
use http::Uri;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status as RpcStatus};

use client_file::ClientFile;

use api_messages::caller;
use command::escape::escape_unprintable;
use command::exit::Failure;

/// Timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a request: longer than an operation of the server's store, so that the error of the store
/// arrives.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of the question what does not work.
const OUTAGES_TIMEOUT: Duration = Duration::from_secs(2);

/// Name of this host.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Default address of a server.
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:7450";

/// Address and credentials of a server. The credentials of the client file are those of its server: they are used only
/// where no flag names one.
#[derive(Debug, Clone, Default, Args)]
pub struct ServerFlags {
    /// Address of a server's gRPC endpoint [default: as in the client file, else http://127.0.0.1:7450]
    #[arg(long, env = "FLEETWRIGHT_SERVER", value_name = "URL")]
    server: Option<String>,
    /// Certificate authorities (PEM) of an https server
    #[arg(long, env = "FLEETWRIGHT_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// File with the bearer token
    #[arg(long, env = "FLEETWRIGHT_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Client of the fleet service.
pub(crate) type FleetClient = FleetServiceClient<InterceptedService<Channel, Bearer>>;

/// Client of the capacity service.
pub(crate) type CapacityClient = CapacityServiceClient<InterceptedService<Channel, Bearer>>;

/// Warns of what the server depends on and does not work. A server that does not say so soon is not waited for.
pub(crate) async fn warn_of_outages(client: &mut FleetClient) {
    let asked = client.get_server_info(v1::GetServerInfoRequest::default());
    if let Ok(Ok(info)) = tokio::time::timeout(OUTAGES_TIMEOUT, asked).await {
        for problem in info.into_inner().problems {
            eprintln!("warning: {}", escape_unprintable(&api_messages::notice(&problem)));
        }
    }
}

/// Interceptor that adds the bearer token to every request; without one, the name of the user for the
/// audit log.
#[derive(Clone)]
pub struct Bearer {
    token: Option<AsciiMetadataValue>,
    user: Option<AsciiMetadataValue>,
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, RpcStatus> {
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        } else if let Some(user) = &self.user {
            request.metadata_mut().insert(caller::USER_KEY, user.clone());
        }
        Ok(request)
    }
}

impl ServerFlags {
    /// Whether a server was given.
    pub fn is_named(&self) -> bool {
        self.server.is_some()
    }

    /// These flags, completed by the client file.
    ///
    /// # Errors
    /// The client file is invalid.
    fn with_client_file(&self) -> Result<Self, Failure> {
        if self.is_named() {
            return Ok(self.clone());
        }
        Ok(self.completed_by(ClientFile::of_user()?))
    }

    fn completed_by(&self, file: ClientFile) -> Self {
        Self {
            server: file.server,
            ca_file: self.ca_file.clone().or(file.ca_file),
            token_file: self.token_file.clone().or(file.token_file),
        }
    }

    /// These flags, completed by the client file: for commands that have no default server.
    ///
    /// # Errors
    /// Neither flags, nor variables, nor the client file name a server, or the client file is invalid.
    pub fn required(&self) -> Result<Self, Failure> {
        let complete = self.with_client_file()?;
        if complete.is_named() {
            return Ok(complete);
        }
        Err(Failure::refused(format!(
            "no server is named: write server = \"https://HOST:7450\", and ca-file and token-file, into {}, or set \
             FLEETWRIGHT_SERVER, FLEETWRIGHT_CA_FILE and FLEETWRIGHT_TOKEN_FILE",
            client_file::expected_path()
        )))
    }

    fn address(&self) -> &str {
        self.server.as_deref().unwrap_or(DEFAULT_ADDRESS)
    }

    /// Connects and runs `ask`.
    ///
    /// # Errors
    /// The server is unreachable, or `ask` failed.
    pub fn ask<T, F>(&self, ask: impl FnOnce(FleetClient) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
        runtime.block_on(async { ask(self.connect().await?).await })
    }

    /// Connects and runs `ask` with the service of plans, quotes and holds.
    ///
    /// # Errors
    /// The server is unreachable, or `ask` failed.
    pub fn ask_capacity<T, F>(&self, ask: impl FnOnce(CapacityClient) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
        runtime.block_on(async {
            let (channel, bearer) = self.with_client_file()?.open().await?;
            ask(CapacityServiceClient::with_interceptor(channel, bearer)).await
        })
    }

    async fn connect(&self) -> Result<FleetClient, Failure> {
        let (channel, bearer) = self.with_client_file()?.open().await?;
        Ok(FleetServiceClient::with_interceptor(channel, bearer))
    }

    /// A connection, and what authenticates its requests.
    async fn open(&self) -> Result<(Channel, Bearer), Failure> {
        let address = self.address();
        check_address(address, self.ca_file.is_some())?;
        let unusable = |error: &dyn std::error::Error| {
            Failure::refused(format!("--server {address:?} is not an address such as {DEFAULT_ADDRESS}: {error}"))
        };
        let mut endpoint = Endpoint::from_shared(address.to_owned()).map_err(|error| unusable(&error))?;
        if let Some(path) = &self.ca_file {
            let authorities = Certificate::from_pem(read(path)?);
            endpoint = endpoint
                .tls_config(ClientTlsConfig::new().ca_certificate(authorities))
                .map_err(|error| Failure::refused(format!("--ca-file {}: {error}", path.display())))?;
        }
        let bearer = self.bearer()?;
        let channel = endpoint.timeout(TIMEOUT).connect_timeout(CONNECT_TIMEOUT).connect().await;
        let channel = channel.map_err(|error| failure::unreachable(&error, address))?;
        Ok((channel, bearer))
    }

    fn bearer(&self) -> Result<Bearer, Failure> {
        let Some(path) = &self.token_file else { return Ok(Bearer { token: None, user: user() }) };
        if is_unencrypted(self.address()) {
            return Err(Failure::refused(format!(
                "the token would be sent to {} without encryption; use an https address",
                self.address()
            )));
        }
        let header = format!("Bearer {}", read(path)?.trim());
        let mut value = AsciiMetadataValue::try_from(header)
            .map_err(|_| Failure::refused(format!("{} is not a token: it has non-ASCII characters", path.display())))?;
        value.set_sensitive(true);
        Ok(Bearer { token: Some(value), user: None })
    }
}

/// User and host of this process.
fn user() -> Option<AsciiMetadataValue> {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok();
    let host = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    AsciiMetadataValue::try_from(caller::of_process(user.as_deref(), &host)).ok()
}

/// Verifies that `address` has a scheme of the client, and that a server with TLS can be verified.
fn check_address(address: &str, has_authorities: bool) -> Result<(), Failure> {
    match address.split_once("://") {
        Some(("http", _)) => Ok(()),
        Some(("https", _)) if has_authorities => Ok(()),
        Some(("https", _)) => Err(Failure::refused(format!(
            "--server {address} requires --ca-file FILE (FLEETWRIGHT_CA_FILE), the certificates (PEM) of the authority that signed \
             the server's certificate"
        ))),
        Some((_, rest)) => Err(Failure::refused(format!(
            "--server is {address:?}; write http://{rest}, or https://{rest} and --ca-file where the server uses TLS"
        ))),
        None => Err(Failure::refused(format!(
            "--server is {address:?}; write http://{address}, or https://{address} and --ca-file where the server uses TLS"
        ))),
    }
}

/// Whether requests to this address leave the host unencrypted.
fn is_unencrypted(address: &str) -> bool {
    let Ok(address) = address.parse::<Uri>() else { return true };
    let host = address.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let loopback = host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    address.scheme_str() != Some("https") && !loopback
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::refused(format!("cannot read {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use command::exit::Status;

    use super::*;

    #[test]
    fn a_token_is_sent_unencrypted_only_to_loopback() {
        for address in ["https://fleet.example:7450", "http://127.0.0.1:7450", "http://localhost:1", "http://[::1]:1"] {
            assert!(!is_unencrypted(address), "{address}");
        }
        for address in
            ["http://fleet.example:7450", "http://10.0.0.1", "http://localhost.evil.example", "fleet:7450", ""]
        {
            assert!(is_unencrypted(address), "{address}");
        }
    }

    #[test]
    fn an_address_has_a_scheme_and_https_requires_authorities() {
        assert!(check_address("http://fleet:7450", false).is_ok() && check_address("https://fleet:7450", true).is_ok());
        for (address, part) in [
            ("https://fleet:7450", "requires --ca-file FILE"),
            ("grpc://fleet:7450", "write http://fleet:7450, or https://fleet:7450 and --ca-file"),
            ("fleet:7450", "write http://fleet:7450, or https://fleet:7450 and --ca-file"),
        ] {
            let refused = check_address(address, false).unwrap_err();
            assert_eq!(refused.status, Status::Refused);
            assert!(refused.messages[0].contains(part), "{refused:?}");
        }
    }

    #[test]
    fn a_flag_wins_over_the_client_file_and_its_token_is_for_its_server_alone() {
        let file = || ClientFile {
            server: Some("https://prod:7450".to_owned()),
            ca_file: Some("prod.pem".into()),
            token_file: Some("prod.token".into()),
        };
        let other = ServerFlags { server: Some("https://test:7450".to_owned()), ..ServerFlags::default() };
        let complete = other.with_client_file().unwrap();
        assert!(complete.address() == "https://test:7450" && complete.token_file.is_none());
        let token = ServerFlags { token_file: Some("mine.token".into()), ..ServerFlags::default() };
        let complete = token.completed_by(file());
        assert_eq!(complete.address(), "https://prod:7450");
        assert_eq!((complete.ca_file, complete.token_file), (Some("prod.pem".into()), Some("mine.token".into())));
    }

    #[tokio::test]
    async fn no_unencrypted_connection_is_opened_with_a_token() {
        let token = std::env::temp_dir().join(format!("fleetwright-token-{}", std::process::id()));
        std::fs::write(&token, "secret\n").unwrap();
        // 192.0.2.0/24 is reserved for documentation (RFC 5737).
        let flags = |server: &str| ServerFlags {
            server: Some(server.to_owned()),
            ca_file: None,
            token_file: Some(token.clone()),
        };
        let refused = flags("http://192.0.2.1:7450").connect().await.map(drop).unwrap_err();
        assert_eq!(refused.status, Status::Refused);
        assert!(refused.messages[0].contains("without encryption"), "{refused:?}");
        assert!(flags("https://192.0.2.1:7450").bearer().is_ok() && flags("http://127.0.0.1:1").bearer().is_ok());
        std::fs::remove_file(&token).unwrap();
    }
}
