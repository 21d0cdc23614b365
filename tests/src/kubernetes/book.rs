//! The simulated cloud's own book: the judge of what was bought, and of what is still paid for.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use fleetwright_proto::simulation::v1::simulated_cloud_service_client::SimulatedCloudServiceClient;
use fleetwright_proto::simulation::v1::{
    BookRequest, BookResponse, InstanceState, InterruptRequest, Sale, WeatherRequest,
};
use tonic::transport::{Channel, Endpoint};

/// A way to ask the cloud.
#[derive(Debug, Clone)]
pub struct Book {
    cloud: SimulatedCloudServiceClient<Channel>,
}

/// The book at one moment.
#[derive(Debug, Clone)]
pub struct Page {
    /// Everything that the cloud says.
    pub told: BookResponse,
}

impl Book {
    /// The cloud at `address`.
    ///
    /// # Errors
    /// When the address is none.
    pub fn at(address: &str) -> anyhow::Result<Self> {
        let endpoint = Endpoint::from_shared(address.to_owned())?.connect_timeout(Duration::from_secs(10));
        // The book of a whole run is longer than one message usually is.
        let cloud = SimulatedCloudServiceClient::new(endpoint.connect_lazy()).max_decoding_message_size(64 << 20);
        Ok(Self { cloud })
    }

    /// What is written there.
    ///
    /// # Errors
    /// When the cloud does not answer.
    pub async fn read(&self) -> anyhow::Result<Page> {
        let told =
            self.cloud.clone().book(BookRequest {}).await.context("the simulated cloud's book cannot be read")?;
        Ok(Page { told: told.into_inner() })
    }

    /// Announces the end of a spot machine, two minutes ahead.
    ///
    /// # Errors
    /// When the cloud does not answer, or the machine is no spot machine that is up.
    pub async fn interrupt(&self, id: &str) -> anyhow::Result<()> {
        let announced =
            self.cloud.clone().interrupt(InterruptRequest { id: id.to_owned() }).await?.into_inner().announced;
        ensure!(announced, "the simulated cloud has no spot machine {id} that is up");
        Ok(())
    }

    /// Changes what goes wrong.
    ///
    /// # Errors
    /// When the cloud does not answer.
    pub async fn weather(&self, weather: WeatherRequest) -> anyhow::Result<()> {
        self.cloud.clone().weather(weather).await.context("the simulated cloud takes no weather")?;
        Ok(())
    }
}

impl Page {
    /// Machines that are up or coming up.
    pub fn up(&self) -> impl Iterator<Item = &Sale> {
        let up = [InstanceState::Pending, InstanceState::Running];
        self.told.sales.iter().filter(move |sale| sale.instance.as_ref().is_some_and(|one| up.contains(&one.state())))
    }

    /// Machines that are paid for.
    pub fn paid(&self) -> impl Iterator<Item = &Sale> {
        self.told.sales.iter().filter(|sale| sale.ended_ms.is_none())
    }

    /// Ids of the machines that are paid for, by id.
    #[must_use]
    pub fn paid_ids(&self) -> Vec<String> {
        let mut ids: Vec<String> =
            self.paid().filter_map(|sale| sale.instance.as_ref()).map(|one| one.id.clone()).collect();
        ids.sort_unstable();
        ids
    }

    /// How many machines were ever sold.
    #[must_use]
    pub fn sold(&self) -> usize {
        self.told.sales.len()
    }

    /// NodeClaims for which more than one machine was sold.
    #[must_use]
    pub fn doubles(&self) -> Vec<String> {
        let mut counts = BTreeMap::<&str, usize>::new();
        for claim in self.told.sales.iter().filter_map(|sale| sale.instance.as_ref()).map(|one| one.claim.as_str()) {
            *counts.entry(claim).or_default() += 1;
        }
        counts.into_iter().filter(|(_, count)| *count > 1).map(|(claim, count)| format!("{claim}: {count}")).collect()
    }

    /// What the machines that are paid for cost, in dollars an hour.
    #[must_use]
    pub fn dollars_an_hour(&self) -> f64 {
        let micros: i64 = self.paid().map(|sale| sale.price_micro_usd).sum();
        // Cents matter here, not the last of 53 bits.
        micros as f64 / 1e6
    }
}
