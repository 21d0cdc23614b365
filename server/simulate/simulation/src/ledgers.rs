//! Compares the ledger of the cloud with the NodeClaims of clusters.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_proto::simulation::v1;
use model::{ClaimName, ClusterName, ProviderId};

/// What the ledgers say of each other.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) alive: usize,
    /// Billed instances without a NodeClaim: provider ids.
    pub(crate) leaked: Vec<String>,
    /// NodeClaims with more than one launched instance: cluster and name.
    pub(crate) launched_twice: Vec<String>,
    /// NodeClaims whose instance has terminated: cluster and name.
    pub(crate) hollow: Vec<String>,
}

/// Compares the ledger with `claims`, the provider ids of the NodeClaims whose instance was launched.
pub(crate) fn compare(
    ledger: &v1::ReadLedgerResponse,
    claims: &BTreeMap<(ClusterName, ClaimName), ProviderId>,
) -> Comparison {
    let known: BTreeSet<&ProviderId> = claims.values().collect();
    let alive: BTreeSet<ProviderId> = (ledger.entries.iter().filter(|entry| entry.ended_ms.is_none()))
        .filter_map(|entry| entry.instance.as_ref())
        .filter(|instance| instance.state() != v1::InstanceState::ShuttingDown)
        .map(|instance| ProviderId::from(instance.provider_id.as_str()))
        .collect();
    let hollow = claims.iter().filter(|(_, id)| !alive.contains(*id));
    Comparison {
        alive: alive.len(),
        leaked: alive.iter().filter(|id| !known.contains(id)).map(ToString::to_string).collect(),
        launched_twice: launched_twice(ledger),
        hollow: hollow.map(|((cluster, claim), _)| format!("{cluster}/{claim}")).collect(),
    }
}

/// NodeClaims with more than one launched instance: cluster and name.
pub(crate) fn launched_twice(ledger: &v1::ReadLedgerResponse) -> Vec<String> {
    let mut launched: BTreeMap<String, usize> = BTreeMap::new();
    for instance in ledger.entries.iter().filter_map(|entry| entry.instance.as_ref()) {
        *launched.entry(format!("{}/{}", instance.cluster, instance.claim)).or_default() += 1;
    }
    launched.into_iter().filter(|(_, count)| *count > 1).map(|(claim, _)| claim).collect()
}
