//! Clients of the services of one account and region. They share settings and one pool of connections.

use std::sync::Arc;

use aws_config::SdkConfig;
use aws_config::identity::IdentityCache;
use aws_config::retry::RetryConfig;
use aws_sdk_ec2::config::{
    BehaviorVersion, Credentials, Region, SharedCredentialsProvider, SharedHttpClient, StalledStreamProtectionConfig,
};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

use crate::call_budget::{BudgetedClient, CallBudget};
use crate::sessions::renewal::RenewingClient;
use crate::sessions::role::{RoleSession, SessionCredentials};

/// A client for each service. Cloning one copies nothing.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    pub(crate) ec2: aws_sdk_ec2::Client,
    pub(crate) ssm: aws_sdk_ssm::Client,
    pub(crate) iam: aws_sdk_iam::Client,
    pub(crate) eks: aws_sdk_eks::Client,
    pub(crate) pricing: aws_sdk_pricing::Client,
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) events: aws_sdk_eventbridge::Client,
}

/// How AWS is reached: the server's own credentials, the region, and one pool of connections. Cloning copies nothing.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    shared: SdkConfig,
    region: String,
    /// Sends the calls of EC2, within their rate limits.
    budgeted: SharedHttpClient,
    http: SharedHttpClient,
    sts: aws_sdk_sts::Client,
}

impl Connection {
    /// With the default credential chain. `endpoint` replaces the address of every service; `budget` admits the calls of
    /// EC2.
    pub(crate) async fn load(region: &str, endpoint: Option<&str>, budget: Arc<dyn CallBudget>) -> Self {
        let http = https();
        let loaded = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(region.to_owned()))
            .http_client(http.clone())
            .load()
            .await;
        Self::new(&loaded, region, endpoint, http, budget)
    }

    pub(crate) fn with_credentials(
        region: &str,
        endpoint: Option<&str>,
        credentials: Credentials,
        budget: Arc<dyn CallBudget>,
    ) -> Self {
        let http = https();
        let shared = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(region.to_owned()))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(http.clone())
            .build();
        Self::new(&shared, region, endpoint, http, budget)
    }

    fn new(
        shared: &SdkConfig,
        region: &str,
        endpoint: Option<&str>,
        http: SharedHttpClient,
        budget: Arc<dyn CallBudget>,
    ) -> Self {
        let mut builder = shared.clone().into_builder();
        // Nested retries multiply; only the caller decides which requests to repeat.
        builder.set_retry_config(Some(RetryConfig::disabled()));
        if let Some(endpoint) = endpoint {
            builder.set_endpoint_url(Some(endpoint.to_owned()));
        }
        let budgeted = SharedHttpClient::new(BudgetedClient::new(http.clone(), budget));
        let shared = builder.build();
        let sts = aws_sdk_sts::Client::new(&shared);
        Self { shared, region: region.to_owned(), budgeted, http, sts }
    }

    /// A client of STS, with the server's own credentials.
    pub(crate) fn sts(&self) -> aws_sdk_sts::Client {
        self.sts.clone()
    }

    /// Clients with the credentials of `session`, or the server's own.
    pub(crate) fn clients(&self, session: Option<&Arc<RoleSession>>) -> Clients {
        let shared = session.map_or_else(|| self.shared.clone(), |session| self.config_of(session));
        let pricing = aws_sdk_pricing::config::Builder::from(&shared).region(Region::new(pricing_region(&self.region)));
        Clients {
            ec2: self.ec2(&shared, session),
            ssm: aws_sdk_ssm::Client::new(&shared),
            iam: aws_sdk_iam::Client::new(&shared),
            eks: aws_sdk_eks::Client::new(&shared),
            pricing: aws_sdk_pricing::Client::from_conf(pricing.build()),
            sqs: aws_sdk_sqs::Client::new(&shared),
            events: aws_sdk_eventbridge::Client::new(&shared),
        }
    }

    /// A client of EC2 with the credentials of `session`, and the settings of clients of other services with these.
    pub(crate) fn client_of(&self, session: &Arc<RoleSession>) -> (aws_sdk_ec2::Client, SdkConfig) {
        let shared = self.config_of(session);
        (self.ec2(&shared, Some(session)), shared)
    }

    /// The settings of clients with the server's own credentials.
    pub(crate) fn config(&self) -> &SdkConfig {
        &self.shared
    }

    fn config_of(&self, session: &Arc<RoleSession>) -> SdkConfig {
        self.shared
            .to_builder()
            .credentials_provider(SharedCredentialsProvider::new(SessionCredentials(Arc::clone(session))))
            // The session keeps its credentials itself.
            .identity_cache(IdentityCache::no_cache())
            .http_client(RenewingClient::new(self.http.clone(), Arc::clone(session)))
            .build()
    }

    fn ec2(&self, shared: &SdkConfig, session: Option<&Arc<RoleSession>>) -> aws_sdk_ec2::Client {
        let budgeted = self.budgeted.clone();
        let http = session.map_or_else(
            || budgeted.clone(),
            |session| SharedHttpClient::new(RenewingClient::new(budgeted.clone(), Arc::clone(session))),
        );
        // A request that waits for its token sends nothing, which is no stalled upload.
        let stalls = StalledStreamProtectionConfig::enabled().upload_enabled(false).build();
        let builder = aws_sdk_ec2::config::Builder::from(shared);
        aws_sdk_ec2::Client::from_conf(builder.stalled_stream_protection(stalls).http_client(http).build())
    }
}

/// The region whose Pricing API has the prices of `region` (Karpenter AWS: prices). The API exists in few regions.
fn pricing_region(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}

fn https() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}

#[cfg(test)]
mod tests {
    use super::pricing_region;

    #[test]
    fn prices_of_a_region_are_asked_for_where_the_pricing_api_has_them() {
        let asked = ["eu-west-1", "ap-east-1", "cn-north-1", "us-west-2", "sa-east-1"].map(pricing_region);
        assert_eq!(asked, ["eu-central-1", "ap-south-1", "cn-northwest-1", "us-east-1", "us-east-1"]);
    }
}
