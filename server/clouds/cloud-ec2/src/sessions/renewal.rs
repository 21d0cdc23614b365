//! An HTTP client that drops the session of a role when AWS rejects its credentials, so that the next call makes a new one.

use std::sync::Arc;

use aws_sdk_ec2::config::http::{HttpRequest, HttpResponse};
use aws_sdk_ec2::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use cloud::provider::is_denied;

use super::role::RoleSession;
use crate::error_body;

/// Codes for credentials that have expired or that AWS does not know, of EC2, of IAM and STS, and of the services with
/// JSON (API references: common errors).
const REJECTED: [&str; 6] = [
    "RequestExpired",
    "AuthFailure",
    "ExpiredToken",
    "InvalidClientTokenId",
    "ExpiredTokenException",
    "UnrecognizedClientException",
];

/// What the SDK sends requests of a session by.
#[derive(Debug)]
pub(crate) struct RenewingClient {
    client: SharedHttpClient,
    session: Arc<RoleSession>,
}

impl RenewingClient {
    pub(crate) fn new(client: SharedHttpClient, session: Arc<RoleSession>) -> Self {
        Self { client, session }
    }
}

impl HttpClient for RenewingClient {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let connector = self.client.http_connector(settings, components);
        SharedHttpConnector::new(RenewingConnector { connector, session: Arc::clone(&self.session) })
    }
}

#[derive(Debug)]
struct RenewingConnector {
    connector: SharedHttpConnector,
    session: Arc<RoleSession>,
}

impl HttpConnector for RenewingConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (connector, session) = (self.connector.clone(), Arc::clone(&self.session));
        HttpConnectorFuture::new(async move {
            let key = access_key(&request);
            let response = connector.call(request).await?;
            let (response, code) = error_body::with_code(response).await?;
            match code {
                Some(code) if REJECTED.contains(&code.as_str()) => rejected(&session, &key, &code, response).await,
                Some(code) if is_denied(&code) => {
                    session.deny(&key).await;
                    Ok(response)
                }
                _ => Ok(response),
            }
        })
    }
}

/// Nothing was done, so the call may be repeated with another session.
async fn rejected(
    session: &RoleSession,
    key: &str,
    code: &str,
    response: HttpResponse,
) -> Result<HttpResponse, ConnectorError> {
    match session.reject(key, code).await {
        Some(error) => Err(ConnectorError::other(error.into(), None)),
        None => Ok(response),
    }
}

/// The access key of `AWS4-HMAC-SHA256 Credential=KEY/DATE/…`.
fn access_key(request: &HttpRequest) -> String {
    let signed = request.headers().get("authorization").unwrap_or_default();
    let key = signed.split_once("Credential=").and_then(|(_, rest)| rest.split('/').next());
    key.unwrap_or_default().to_owned()
}
