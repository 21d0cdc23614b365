//! Clusters of full spot instances, with real agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::simulated_cloud::remote::Client;
use anyhow::anyhow;
use fleetwright_proto::simulation::v1::{LaunchRequest, Override};
use fleetwright_proto::v1;
use model::labels::CAPACITY_TYPE;
use model::resources::{CPU, MEMORY, PODS};
use model::{ClaimName, ClusterName, Millis, ProviderId, Resources, Timestamp};
use store::clock;

use super::plan::Plan;
use crate::demo::SimulatedApi;
use crate::demo::manifests::{self, one_of};
use crate::fleet::Fleet;
use crate::kube::SimulatedCluster;
use crate::kube::cluster::{ClusterSettings, Workload, pod_spec};
use crate::kube::settled::{Machine, settled};

const POOL: &str = "spot";
const INSTANCE_TYPE: &str = "m5.xlarge";
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// Age of the clusters: everything in them has settled.
const AGE: Millis = Millis::from_hours(1);

pub(super) struct Clusters {
    pub(super) fleet: Fleet,
    pub(super) instances: Vec<ProviderId>,
}

impl Clusters {
    /// Launches the instances in the cloud, and makes clusters in which they have joined.
    pub(super) async fn launch(plan: &Plan, cloud: &mut Client) -> anyhow::Result<Self> {
        let run = clock::now().as_millis();
        let (mut all, mut instances) = (Vec::new(), Vec::new());
        for number in 0..plan.clusters {
            let name = ClusterName::from(format!("spot-{run:x}-{number}"));
            let mut machines = Vec::new();
            for node in 0..plan.nodes {
                machines.push(launch(cloud, &name, node).await?);
            }
            instances.extend(machines.iter().map(|machine| machine.provider_id.clone()));
            let seed = plan.options.seed.wrapping_mul(10_000).wrapping_add(number as u64);
            let cluster = full_cluster(&machines, seed);
            all.push((Arc::new(SimulatedApi::new(&name, cluster, manifests())), seed));
        }
        Ok(Self { fleet: Fleet::new(all), instances })
    }

    /// When Nodes were tainted for their removal, by provider id.
    pub(super) fn tainted(&self) -> BTreeMap<ProviderId, Timestamp> {
        let of_one = |api: &SimulatedApi| api.with(|cluster| cluster.ledger().tainted.clone());
        self.fleet.clusters.iter().flat_map(|(api, _)| of_one(api)).collect()
    }
}

async fn launch(cloud: &mut Client, cluster: &ClusterName, node: usize) -> anyhow::Result<Machine<'static>> {
    let (claim, zone) = (format!("{POOL}-{node}"), ZONES[node % ZONES.len()]);
    let request = LaunchRequest {
        token: format!("{cluster}/{claim}"),
        cluster: cluster.to_string(),
        cluster_uid: format!("simulated-{cluster}"),
        claim: claim.clone(),
        pool: POOL.to_owned(),
        node_class: "default".to_owned(),
        capacity_type: "spot".to_owned(),
        overrides: vec![Override { instance_type: INSTANCE_TYPE.to_owned(), zone: zone.to_owned() }],
        reservation: String::new(),
    };
    let answer = cloud.launch(request).await?.into_inner();
    let instance =
        answer.instance.ok_or_else(|| anyhow!("the simulated cloud launched nothing: {:?}", answer.failure))?;
    Ok(Machine {
        claim: ClaimName::from(claim),
        pool: POOL,
        provider_id: ProviderId::from(instance.provider_id),
        instance_type: INSTANCE_TYPE,
        zone,
        capacity_type: "spot",
        allocatable: Resources::from_iter([(CPU, 3_920), (MEMORY, 14 << 30), (PODS, 58)]),
    })
}

/// A cluster whose machines each run one pod that leaves no room for another.
fn full_cluster(machines: &[Machine<'_>], seed: u64) -> SimulatedCluster {
    let (mut cluster, joined) = settled(settings(seed), machines, clock::now() - AGE);
    cluster.scale(&Workload::new("shop", "web", &pod_spec(3_000, 1 << 30)), machines.len(), joined);
    drop(cluster.tick(joined + Millis::from_mins(2)));
    cluster
}

/// The server and the queue are under test, not the cluster.
fn settings(seed: u64) -> ClusterSettings {
    ClusterSettings {
        seed,
        join_ms: (1_000, 3_000),
        ready_ms: (200, 500),
        startup_ms: (100, 200),
        start_ms: (100, 500),
        grace_ms: (500, 2_000),
        node_gone_ms: (500, 1_500),
        ..ClusterSettings::default()
    }
}

/// One NodePool of spot instances with four processors, of which a pod requests three. Requirements name only labels
/// that the machines at the beginning have, so that they have not drifted.
fn manifests() -> Vec<v1::ManifestRecord> {
    let types = [INSTANCE_TYPE, "c5.xlarge", "c6i.xlarge", "m5a.xlarge", "m6a.xlarge", "m6i.xlarge"];
    let requirements = [one_of("node.kubernetes.io/instance-type", &types), one_of(CAPACITY_TYPE, &["spot"])];
    manifests::manifests(&[manifests::pool(POOL, &requirements, "30s")])
}

#[cfg(test)]
mod tests {
    use cluster::PodPhase;

    use super::*;

    #[test]
    fn a_cluster_begins_with_a_running_pod_on_each_machine() {
        let machine = |node: usize| Machine {
            claim: ClaimName::from(format!("{POOL}-{node}")),
            pool: POOL,
            provider_id: ProviderId::from(format!("aws:///us-east-1a/i-{node}")),
            instance_type: INSTANCE_TYPE,
            zone: "us-east-1a",
            capacity_type: "spot",
            allocatable: Resources::from_iter([(CPU, 3_920), (MEMORY, 14 << 30), (PODS, 58)]),
        };
        let cluster = full_cluster(&[machine(0), machine(1)], 1);
        assert_eq!(cluster.nodes().filter(|node| node.ready && node.is_initialized()).count(), 2);
        assert_eq!(cluster.pods().filter(|pod| pod.phase == PodPhase::Running).count(), 2);
        assert_eq!(cluster.empty_nodes().count(), 0);
    }
}
