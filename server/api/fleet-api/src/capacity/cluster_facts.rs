//! Asks the task of a cluster for what quotes are made from.

use std::time::Duration;

use super::known_facts::Known;
use super::service::CapacityApi;
use super::worker::{AskedCluster, AskedFacts};
use controller::planning_facts::NoFacts;
use model::{ClusterName, Text};
use replica::offerings::region_and_account;
use tokio::time::{Instant, timeout};

impl CapacityApi {
    /// What the task of a cluster knows beyond what its thread has. The cluster if it does not answer.
    pub(super) async fn ask_facts(
        &self,
        name: ClusterName,
        known: Option<&Known>,
        patience: Duration,
    ) -> Result<AskedCluster, ClusterName> {
        let (taken, key) = (Instant::now(), known.map(Known::key));
        let answer = timeout(patience, self.fleet.questions.planning_facts(name.clone(), key.cloned())).await;
        let facts = match answer {
            Ok(Ok(Ok(facts))) => AskedFacts::Changed(Box::new(facts)),
            Ok(Ok(Err(NoFacts::Unchanged))) => AskedFacts::Prepared,
            Ok(Ok(Err(NoFacts::NotSynced))) => AskedFacts::NotSynced,
            Ok(Err(_)) | Err(_) => return Err(name),
        };
        if let (AskedFacts::Prepared, Some(key)) = (&facts, key) {
            self.threads.known().renew(&name, key, taken);
        }
        Ok(self.asked(name, taken, facts))
    }

    pub(super) fn asked(&self, name: ClusterName, taken: Instant, facts: AskedFacts) -> AskedCluster {
        AskedCluster { account: self.account_of(&name), name, taken, facts }
    }

    /// The account that a cluster launches in.
    fn account_of(&self, cluster: &ClusterName) -> Text {
        let entry = self.fleet.questions.entry_of(cluster);
        let scope = entry.and_then(|entry| self.fleet.scopes.get(entry));
        scope.map(|scope| Text::from(region_and_account(scope).1)).unwrap_or_default()
    }
}
