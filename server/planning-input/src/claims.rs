//! What disruption reads from NodeClaims and their Nodes.

use std::collections::BTreeMap;

use drift::{
    DriftClaim, DriftPool, NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION, NODE_CLASS_HASH_VERSION_KEY, Selected, detect,
    node_class_hash,
};
use manifests::cluster::Cluster;
use manifests::cluster::node::NodeObject;
use manifests::karpenter::conditions::Status;
use manifests::karpenter::{NodeClaimManifest, NodeClassManifest, NodePoolManifest};
use manifests::notes::Notes;
use model::node_class::ImageEntry;
use model::repair_policy::toleration;
use model::running::{Consolidatable, RunningClaim, RunningDrift, RunningNode, UnhealthyNode};
use model::{
    ClaimName, DisruptionPolicy, Labels, Millis, Node, NodePool, NodeStage, PoolName, Requirements, Text, Timestamp,
};

use crate::prices::NodePrices;

type Hash = Option<(Text, Text)>;

/// What the drift of a NodeClaim is found from, by NodePool.
#[derive(Debug)]
pub struct ClaimFacts(BTreeMap<PoolName, PoolFacts>);

#[derive(Debug)]
struct PoolFacts {
    hash: Hash,
    requirements: Requirements,
    labels: Labels,
    class_hash: Hash,
    own_class_hash: Hash,
    images: Option<Vec<ImageEntry>>,
}

impl ClaimFacts {
    /// The facts of `pools` and their `classes`.
    #[must_use]
    pub fn of(pools: &[NodePoolManifest], classes: &[NodeClassManifest]) -> Self {
        let facts = |pool: &NodePoolManifest| {
            let class = classes.iter().find(|class| class.name == pool.class.name);
            let facts = PoolFacts {
                hash: pool.hash.clone(),
                requirements: pool.requirements.clone(),
                labels: pool.labels.clone(),
                class_hash: class.and_then(|class| class.hash.clone()),
                own_class_hash: class.map(|class| (node_class_hash(&class.spec), Text::from(NODE_CLASS_HASH_VERSION))),
                images: class.and_then(|class| class.status.images.clone()),
            };
            (pool.name.clone(), facts)
        };
        Self(pools.iter().map(facts).collect())
    }

    /// The [`RunningNode`] of each of `nodes`, without pods.
    pub fn running_nodes(
        &self,
        (cluster, claims): (&Cluster, &[NodeClaimManifest]),
        nodes: &[Node],
        (pools, policies): (&[NodePool], &BTreeMap<PoolName, DisruptionPolicy>),
        prices: &NodePrices<'_>,
        notes: &mut Notes,
        now: Timestamp,
    ) -> Vec<Option<RunningNode>> {
        let objects: BTreeMap<&Text, &NodeObject> =
            cluster.nodes.iter().map(|object| (&object.meta.name, object)).collect();
        let by_name: BTreeMap<&Text, &NodeClaimManifest> =
            claims.iter().map(|claim| (claim.name.as_text(), claim)).collect();
        let by_provider: BTreeMap<&str, &NodeClaimManifest> =
            claims.iter().filter_map(|claim| Some((claim.provider_id.as_ref()?.as_ref(), claim))).collect();
        let by_node: BTreeMap<&Text, &NodeClaimManifest> =
            claims.iter().rev().filter_map(|claim| Some((claim.node_name.as_ref()?.as_text(), claim))).collect();
        let running = |(at, node): (u32, &Node)| {
            let object = objects.get(node.name.as_text()).copied();
            let claim = match object {
                Some(object) => {
                    let of_provider = object.provider_id.as_ref().and_then(|id| by_provider.get(id.as_ref()).copied());
                    of_provider.or_else(|| by_node.get(&object.meta.name).copied())
                }
                None => by_name.get(node.name.as_text()).copied(),
            };
            let price = prices.price(node, notes);
            if price.is_none() && node.pool.is_some() {
                notes.add("the price of nodes is unknown: removing them saves nothing", &node.name);
            }
            let pool = node.pool.as_ref().and_then(|name| pools.iter().find(|pool| pool.name == *name));
            let policy = node.pool.as_ref().and_then(|name| policies.get(name));
            let claim = pool.zip(policy).map(|(pool, policy)| self.claim((node, object, claim), (pool, policy), now));
            let do_not_disrupt = object.and_then(|object| object.do_not_disrupt);
            Some(RunningNode {
                node: at,
                price: price.unwrap_or_default(),
                do_not_disrupt,
                claim,
                recent_move: None,
                pods: Vec::new(),
            })
        };
        (0..).zip(nodes).map(running).collect()
    }

    fn claim(
        &self,
        (node, object, claim): (&Node, Option<&NodeObject>, Option<&NodeClaimManifest>),
        (pool, policy): (&NodePool, &DisruptionPolicy),
        now: Timestamp,
    ) -> RunningClaim {
        let ready = object.and_then(|object| object.conditions.get("Ready")).map(|ready| ready.status == Status::True);
        let name = claim.map_or_else(|| ClaimName::from(node.name.as_text()), |claim| claim.name.clone());
        RunningClaim {
            name,
            // A capture without conditions says nothing about readiness.
            ready: ready.unwrap_or(true),
            consolidatable: consolidatable(node, claim, policy, now),
            expires: claim.and_then(|claim| Some(claim.created? + claim.expire_after.finite()?)),
            drift: claim.and_then(|claim| self.drift(claim, node, pool, now)),
            unhealthy: object.and_then(unhealthy),
            termination_grace_period: claim.and_then(|claim| claim.termination_grace_period),
        }
    }

    fn drift(&self, claim: &NodeClaimManifest, node: &Node, pool: &NodePool, now: Timestamp) -> Option<RunningDrift> {
        let facts = self.0.get(&pool.name)?;
        if claim.conditions.get("Launched").is_some_and(|launched| launched.status != Status::True) {
            return None;
        }
        let condition = claim.conditions.get("Drifted").filter(|drifted| drifted.status == Status::True);
        let annotation = |key: &str| claim.annotations.get(key).cloned();
        let pair = |key: &str, version: &str| annotation(key).zip(annotation(version));
        let class_hash = pair("karpenter.k8s.aws/ec2nodeclass-hash", "karpenter.k8s.aws/ec2nodeclass-hash-version");
        let own_class_hash = pair(NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION_KEY);
        let judged = DriftClaim {
            labels: if claim.labels.is_empty() { &node.labels } else { &claim.labels },
            created: claim.created,
            karpenter_hash: claim.hash.as_ref(),
            own_hash: None,
            class_hash: class_hash.as_ref(),
            own_class_hash: own_class_hash.as_ref(),
            image: claim.image.as_ref(),
            // A capture has no instances.
            instance: None,
            condition: condition.map(|condition| (&condition.reason, &condition.message)),
        };
        let of_pool = DriftPool {
            karpenter_hash: facts.hash.as_ref(),
            own_hash: None,
            requirements: &facts.requirements,
            labels: &facts.labels,
            catalogue: &pool.catalogue,
            class_hash: facts.class_hash.as_ref(),
            own_class_hash: facts.own_class_hash.as_ref(),
            selected: Selected { images: facts.images.as_deref(), ..Selected::default() },
        };
        let drift = detect(&judged, &of_pool, now)?;
        let since = condition.and_then(|condition| condition.since).unwrap_or(now);
        Some(RunningDrift { reason: Text::from(drift.reason.as_str()), since })
    }
}

/// By the condition of the NodeClaim, or by its last pod event (plan contract §3).
fn consolidatable(
    node: &Node,
    claim: Option<&NodeClaimManifest>,
    policy: &DisruptionPolicy,
    now: Timestamp,
) -> Consolidatable {
    let Some(wait) = policy.consolidate_after else { return Consolidatable::Never };
    let is_true = claim.is_some_and(|claim| claim.conditions.is_true("Consolidatable"));
    if is_true || node.stage != NodeStage::Initialized {
        return Consolidatable::From(now);
    }
    let initialized = claim.and_then(|claim| claim.conditions.get("Initialized")?.since);
    let since = claim.and_then(|claim| claim.last_pod_event).or(initialized);
    match since {
        Some(since) => Consolidatable::From(since + wait),
        None if wait <= Millis::ZERO => Consolidatable::From(now),
        // Without a time the wait begins now.
        None => Consolidatable::From(now + wait),
    }
}

/// The condition that a repair policy matches and whose toleration ends first.
fn unhealthy(object: &NodeObject) -> Option<UnhealthyNode> {
    let matching = object.conditions.iter().filter_map(|condition| {
        let toleration = toleration(&condition.name, condition.status.as_str())?;
        Some(UnhealthyNode {
            condition: Text::from(format!("{} is {}", condition.name, condition.status.as_str())),
            repair_from: condition.since? + toleration,
            do_not_repair: object.do_not_repair,
        })
    });
    matching.min_by_key(|unhealthy| unhealthy.repair_from)
}
