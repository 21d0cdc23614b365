//! The simulated cloud's ledger: ground truth of all launches and of the instances that incur cost.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use fleetwright_proto::simulation::v1::simulated_cloud_service_client::SimulatedCloudServiceClient;
use fleetwright_proto::simulation::v1::{
    InstanceState, InterruptRequest, ReadLedgerRequest, ReadLedgerResponse, Sale, SetFaultProfileRequest,
};
use tonic::transport::{Channel, Endpoint};

/// A client of the simulated cloud.
#[derive(Debug, Clone)]
pub struct LedgerClient {
    cloud: SimulatedCloudServiceClient<Channel>,
}

/// The ledger at one time.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// The response of the simulated cloud.
    pub response: ReadLedgerResponse,
}

impl LedgerClient {
    /// The cloud at `address`.
    ///
    /// # Errors
    /// When the address is none.
    pub fn connect(address: &str) -> anyhow::Result<Self> {
        let endpoint = Endpoint::from_shared(address.to_owned())?.connect_timeout(Duration::from_secs(10));
        // The ledger of a whole run exceeds the default message size.
        let cloud = SimulatedCloudServiceClient::new(endpoint.connect_lazy()).max_decoding_message_size(64 << 20);
        Ok(Self { cloud })
    }

    /// Reads the ledger.
    ///
    /// # Errors
    /// When the cloud does not answer.
    pub async fn read_ledger(&self) -> anyhow::Result<Ledger> {
        let response = self
            .cloud
            .clone()
            .read_ledger(ReadLedgerRequest {})
            .await
            .context("the simulated cloud's book cannot be read")?;
        Ok(Ledger { response: response.into_inner() })
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

    /// Changes the fault profile.
    ///
    /// # Errors
    /// When the cloud does not answer.
    pub async fn set_faults(&self, weather: SetFaultProfileRequest) -> anyhow::Result<()> {
        self.cloud.clone().set_fault_profile(weather).await.context("the simulated cloud takes no weather")?;
        Ok(())
    }
}

impl Ledger {
    /// Machines that are up or coming up.
    pub fn running(&self) -> impl Iterator<Item = &Sale> {
        let running_states = [InstanceState::Pending, InstanceState::Running];
        self.response
            .sales
            .iter()
            .filter(move |sale| sale.instance.as_ref().is_some_and(|one| running_states.contains(&one.state())))
    }

    /// Machines that are paid for.
    pub fn paid(&self) -> impl Iterator<Item = &Sale> {
        self.response.sales.iter().filter(|sale| sale.ended_ms.is_none())
    }

    /// Ids of the machines that are paid for, by id.
    #[must_use]
    pub fn paid_ids(&self) -> Vec<String> {
        let mut ids: Vec<String> =
            self.paid().filter_map(|sale| sale.instance.as_ref()).map(|one| one.id.clone()).collect();
        ids.sort_unstable();
        ids
    }

    /// Number of launched machines.
    #[must_use]
    pub fn launch_count(&self) -> usize {
        self.response.sales.len()
    }

    /// NodeClaims with more than one launched machine.
    #[must_use]
    pub fn double_launches(&self) -> Vec<String> {
        let mut counts = BTreeMap::<&str, usize>::new();
        for claim in self.response.sales.iter().filter_map(|sale| sale.instance.as_ref()).map(|one| one.claim.as_str())
        {
            *counts.entry(claim).or_default() += 1;
        }
        counts.into_iter().filter(|(_, count)| *count > 1).map(|(claim, count)| format!("{claim}: {count}")).collect()
    }

    /// What the machines that are paid for cost, in dollars an hour.
    #[must_use]
    pub fn dollars_an_hour(&self) -> f64 {
        let micros: i64 = self.paid().map(|sale| sale.price_micro_usd).sum();
        // The precision of f64 suffices for cents.
        micros as f64 / 1e6
    }
}
