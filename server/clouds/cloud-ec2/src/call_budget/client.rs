//! An HTTP client that takes a token for each request of EC2's query protocol before it is sent.

use std::sync::Arc;

use aws_sdk_ec2::config::http::{HttpRequest, HttpResponse};
use aws_sdk_ec2::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::{Response, StatusCode};
use aws_smithy_types::body::SdkBody;

use super::{CallBudget, NotSent};
use crate::error_body;
use crate::error_class::is_throttling;

/// What the SDK sends EC2's requests by.
#[derive(Debug)]
pub(crate) struct BudgetedClient {
    client: SharedHttpClient,
    budget: Arc<dyn CallBudget>,
}

impl BudgetedClient {
    /// Sends by `client` what `budget` admits.
    pub(crate) fn new(client: SharedHttpClient, budget: Arc<dyn CallBudget>) -> Self {
        Self { client, budget }
    }
}

impl HttpClient for BudgetedClient {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let connector = self.client.http_connector(settings, components);
        SharedHttpConnector::new(BudgetedConnector { connector, budget: Arc::clone(&self.budget) })
    }
}

#[derive(Debug)]
struct BudgetedConnector {
    connector: SharedHttpConnector,
    budget: Arc<dyn CallBudget>,
}

impl HttpConnector for BudgetedConnector {
    /// The token is taken before a connection is: calls that wait hold none.
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (connector, budget) = (self.connector.clone(), Arc::clone(&self.budget));
        HttpConnectorFuture::new(async move {
            let action = action_of(&request);
            match budget.admit(&action).await {
                Ok(()) => {}
                Err(NotSent::NoToken) => return throttled_here(),
                Err(expired @ NotSent::LeaseExpired) => return Err(ConnectorError::other(expired.into(), None)),
            }
            let (response, is_throttled) = with_error_code(connector.call(request).await?).await?;
            if is_throttled {
                budget.record_throttle(&action).await;
            }
            Ok(response)
        })
    }
}

/// The action of a request: its body begins with `Action=<name>&`.
fn action_of(request: &HttpRequest) -> String {
    let body = request.body().bytes().unwrap_or_default();
    let named = body.strip_prefix(b"Action=").unwrap_or_default();
    let name = named.split(|byte| *byte == b'&').next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// The response, and whether its error is one of throttling.
async fn with_error_code(response: HttpResponse) -> Result<(HttpResponse, bool), ConnectorError> {
    let (response, code) = error_body::with_code(response).await?;
    let is_throttled = code.as_deref().is_some_and(is_throttling);
    Ok((response, is_throttled))
}

/// The answer that EC2 gives to a throttled call, so that it is handled like one.
fn throttled_here() -> Result<HttpResponse, ConnectorError> {
    let status = StatusCode::try_from(503).map_err(|error| ConnectorError::other(error.into(), None))?;
    let body = format!(
        "<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>{}</Message></Error></Errors>\
         <RequestID>not-sent</RequestID></Response>",
        NotSent::NoToken
    );
    Ok(Response::new(status, SdkBody::from(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_action_begins_the_body() {
        let request = |body: &'static str| HttpRequest::new(SdkBody::from(body));
        assert_eq!(action_of(&request("Action=CreateFleet&Version=2016-11-15&Type=instant")), "CreateFleet");
        assert_eq!(action_of(&request("")), "");
    }
}
