//! The simulated cloud's ledger: ground truth of all launches and of the instances that incur cost.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use fleetwright_proto::simulation::v1::{
    InstanceState, InterruptRequest, LedgerEntry, ReadLedgerRequest, ReadLedgerResponse, SetFaultProfileRequest,
};
use fleetwright_rpc::simulation::v1::simulated_cloud_service_client::SimulatedCloudServiceClient;
use tonic::transport::{Channel, Endpoint};

/// A client of the simulated cloud.
#[derive(Debug, Clone)]
pub struct LedgerClient {
    cloud: SimulatedCloudServiceClient<Channel>,
}

#[derive(Debug, Clone)]
pub struct Ledger {
    /// The response of the simulated cloud.
    pub response: ReadLedgerResponse,
}

impl LedgerClient {
    /// The cloud at `address`.
    ///
    /// # Errors
    /// When the address is invalid.
    pub fn connect(address: &str) -> anyhow::Result<Self> {
        let endpoint = Endpoint::from_shared(address.to_owned())?.connect_timeout(Duration::from_secs(10));
        // The ledger of a whole run exceeds the default message size.
        let cloud = SimulatedCloudServiceClient::new(endpoint.connect_lazy()).max_decoding_message_size(64 << 20);
        Ok(Self { cloud })
    }

    /// Reads the ledger.
    ///
    /// # Errors
    /// When the cloud does not respond.
    pub async fn read_ledger(&self) -> anyhow::Result<Ledger> {
        let response = self
            .cloud
            .clone()
            .read_ledger(ReadLedgerRequest {})
            .await
            .context("the simulated cloud's ledger cannot be read")?;
        Ok(Ledger { response: response.into_inner() })
    }

    /// Interrupts a spot instance, with two minutes' notice.
    ///
    /// # Errors
    /// When the cloud does not answer, or the machine is no spot machine that is up.
    pub async fn interrupt(&self, id: &str) -> anyhow::Result<()> {
        let request = InterruptRequest { id: id.to_owned(), ..InterruptRequest::default() };
        let announced = self.cloud.clone().interrupt(request).await?.into_inner().announced;
        ensure!(announced, "the simulated cloud has no spot machine {id} that is up");
        Ok(())
    }

    /// Changes the fault profile.
    ///
    /// # Errors
    /// When the cloud does not respond.
    pub async fn set_faults(&self, faults: SetFaultProfileRequest) -> anyhow::Result<()> {
        self.cloud.clone().set_fault_profile(faults).await.context("the simulated cloud rejects the fault profile")?;
        Ok(())
    }
}

impl Ledger {
    /// Instances that are pending or running.
    pub fn running(&self) -> impl Iterator<Item = &LedgerEntry> {
        let running_states = [InstanceState::Pending, InstanceState::Running];
        self.response
            .entries
            .iter()
            .filter(move |entry| entry.instance.as_ref().is_some_and(|one| running_states.contains(&one.state())))
    }

    pub fn paid(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.response.entries.iter().filter(|entry| entry.ended_ms.is_none())
    }

    /// Ids of the machines that are paid for, by id.
    #[must_use]
    pub fn paid_ids(&self) -> Vec<String> {
        let mut ids: Vec<String> =
            self.paid().filter_map(|entry| entry.instance.as_ref()).map(|one| one.id.clone()).collect();
        ids.sort_unstable();
        ids
    }

    #[must_use]
    pub fn launch_count(&self) -> usize {
        self.response.entries.len()
    }

    /// NodeClaims with more than one launched machine.
    #[must_use]
    pub fn double_launches(&self) -> Vec<String> {
        let mut counts = BTreeMap::<&str, usize>::new();
        for claim in
            self.response.entries.iter().filter_map(|entry| entry.instance.as_ref()).map(|one| one.claim.as_str())
        {
            *counts.entry(claim).or_default() += 1;
        }
        counts.into_iter().filter(|(_, count)| *count > 1).map(|(claim, count)| format!("{claim}: {count}")).collect()
    }

    /// What the machines that are paid for cost, in dollars an hour.
    #[must_use]
    pub fn dollars_an_hour(&self) -> f64 {
        let micros: i64 = self.paid().map(|entry| entry.price_micro_usd).sum();
        // The precision of f64 suffices for cents.
        micros as f64 / 1e6
    }
}
