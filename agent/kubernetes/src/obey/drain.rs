//! Draining a node: bar it, move its pods off in the order that [`order`] says, wait for its volumes.
//!
//! A drain needs no server: it goes on by absolute moments, and what it has done stands in the cluster (the taint, the conditions
//! of the claim, the pods' deletion). The order itself stands on the Node ([`NOTE`]), so that the replica that works next goes on
//! with it although there may be no server to say so ([`go_on`]).

pub(crate) mod order;
pub(crate) mod roster;
pub(crate) mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agent::Done;
use agent::link::backoff::Backoff;
use fleetwright_proto::v1;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::claim::write_status;
use super::event::Said;
use super::guard::{Meant, early_force, owns};
use super::{Admission, Attempt, Rank, admit_claim};
use crate::cluster::Kubernetes;
use crate::conditions::Conditions;
use crate::error::{ApiError, Kind, gone_is_fine};
use crate::fields::{list_at, text_at};
use crate::moment::now_ms;
use crate::resource::{NODE, NODE_CLAIM, POD};
use order::{DISRUPTED, Guest, Step};

/// The pods are looked at this often (Karpenter: drain retry).
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Also a node without pods takes this long: the scheduler may be binding one that it placed before it saw the taint (Karpenter:
/// minimum drain time).
const LEAST_MS: i64 = 5_000;
/// First and longest wait after an eviction that was refused (Karpenter: eviction queue).
const REFUSED_MS: (i64, i64) = (100, 10_000);
/// The least time for which evictions that follow one another are spread when the API server is busy.
const BUSY: Duration = Duration::from_secs(1);

/// Annotation of a Node that is drained: the order, as JSON.
pub(crate) const NOTE: &str = "fleetwright.dev/drain";

/// An order to drain, as it stands on the Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    claim: String,
    rank: String,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    force_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    provider_id: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    interruption: bool,
}

/// The nodes that a server has ordered to be drained since this process works. Whoever goes on with an earlier order for one of
/// them leaves it to that.
#[derive(Debug, Default)]
pub struct Ordered(Mutex<BTreeSet<String>>);

impl Ordered {
    fn add(&self, node: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(node.to_owned());
    }

    fn has(&self, node: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(node)
    }
}

/// Goes on with a drain by the note that stands on its node, unless a server orders one.
pub(crate) async fn go_on(cluster: &Kubernetes, node: &str, note: &str) {
    let Some((rank, order)) = read(node, note) else {
        warn!(node, note, "cannot read the order to drain that stands on the node");
        return;
    };
    info!(node, reason = order.reason, "going on with a drain that was begun earlier");
    while !cluster.ordered().has(node) {
        match carry_on(cluster, rank, &order, true).await {
            Err(error) if error.is_transient() => {
                warn!(node, %error, "cannot go on with the drain");
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(error) => return warn!(node, %error, "giving up the drain; the server has to order it again"),
            Ok(_) => return,
        }
    }
}

fn read(node: &str, note: &str) -> Option<(Rank, v1::DrainNode)> {
    let note: Note = serde_json::from_str(note).ok()?;
    let order = v1::DrainNode {
        node_claim: note.claim,
        node: node.to_owned(),
        force_at_ms: note.force_at_ms,
        reason: note.reason,
        provider_id: note.provider_id,
        interruption: note.interruption,
        ..v1::DrainNode::default()
    };
    Some((Rank::read(&note.rank)?, order))
}

fn note(rank: Rank, order: &v1::DrainNode) -> String {
    let note = Note {
        claim: order.node_claim.clone(),
        rank: rank.note(),
        reason: order.reason.clone(),
        force_at_ms: order.force_at_ms,
        provider_id: order.provider_id.clone(),
        interruption: order.interruption,
    };
    json!(note).to_string()
}

/// What a drain remembers between two looks.
#[derive(Debug, Default)]
struct Progress {
    /// Pods whose eviction was refused: until when they are left alone, and how long that is.
    refused: BTreeMap<String, (i64, i64)>,
}

/// Drains a node as a server orders it.
pub(super) async fn drain(cluster: &Kubernetes, rank: Rank, order: &v1::DrainNode) -> Attempt {
    cluster.ordered().add(&order.node);
    carry_on(cluster, rank, order, false).await
}

/// Drains a node from where it stands. One that yields goes on by the note on the Node, and ends as soon as a server orders a drain of
/// the same node.
async fn carry_on(cluster: &Kubernetes, rank: Rank, order: &v1::DrainNode, yields: bool) -> Attempt {
    let claim: Option<Value> = gone_is_fine(cluster.api().get(&NODE_CLAIM.one("", &order.node_claim)).await)?;
    let node: Option<Value> = match order.node.as_str() {
        "" => None,
        name => gone_is_fine(cluster.api().get(&NODE.one("", name)).await)?,
    };
    if let Some(node) = &node
        && let Some(done) = refused(cluster, order, node, claim.as_ref(), yields)?
    {
        return Ok(done);
    }
    if let Some(node) = &node
        && let Some(why) = occupied(cluster, order, node).await?
    {
        return Ok(Done::not(v1::Outcome::PreconditionFailed, why));
    }
    let claim = match claim {
        // The note is the kubelet's to write, so it decides nothing about later instructions on the claim.
        Some(claim) if yields => match Rank::noted(&claim) {
            newer if newer > rank => return Ok(super::stale(newer, &order.node_claim)),
            _ => Some(claim),
        },
        Some(claim) => match admit_claim(cluster, rank, claim).await? {
            Admission::Admitted(claim) => Some(claim),
            Admission::Refused(done) => return Ok(done),
        },
        // A node without a claim is drained all the same.
        None => None,
    };
    let Some(node) = node else { return Ok(Done::well()) };
    let Some(node) = bar(cluster, node, &note(rank, order)).await? else { return Ok(Done::well()) };
    let drain = Drain { cluster, claim, node, order, yields };
    drain.condition("Drained", "Unknown", "Draining", "").await?;
    let begun = now_ms();
    if !drain.move_pods(begun).await? {
        return Ok(Done::well());
    }
    drain.condition("Drained", "True", "Drained", "").await?;
    drain.await_volumes().await?;
    info!(node = order.node, reason = order.reason, "node is drained");
    Ok(Done::well())
}

/// What the agent's own bounds have against a drain; `None` when they have nothing.
fn refused(
    cluster: &Kubernetes,
    order: &v1::DrainNode,
    node: &Value,
    claim: Option<&Value>,
    noted: bool,
) -> Result<Option<Done>, ApiError> {
    let meant = Meant { claim: &order.node_claim, provider_id: &order.provider_id };
    if let Some(why) = cluster.guard().refusal(node, claim, meant) {
        return Ok(Some(Done::not(v1::Outcome::NotFound, why)));
    }
    if noted && claim.is_some_and(|claim| !owns(claim, node)) {
        let why =
            format!("Node {} bears an order for NodeClaim {}, which does not own it", order.node, order.node_claim);
        return Ok(Some(Done::not(v1::Outcome::Failed, why)));
    }
    let standing = standing(node);
    let deadline = standing.as_ref().and_then(|(_, standing)| standing.force_at_ms);
    if let Some(why) = early_force(order, deadline, claim, now_ms()).filter(|_| !noted) {
        return Ok(Some(Done::not(v1::Outcome::Failed, why)));
    }
    if !order.interruption && standing.is_none() {
        cluster.guard().pace(node)?;
    }
    Ok(None)
}

/// Why a Node that goes because it is empty is not; `None` when it is, or when it goes in any case. The picture, by which the
/// server decided, may lack what the API server has. A drain that was begun goes on: its Node has been barred since it was empty.
async fn occupied(cluster: &Kubernetes, order: &v1::DrainNode, node: &Value) -> Result<Option<String>, ApiError> {
    if !order.only_if_empty || standing(node).is_some() {
        return Ok(None);
    }
    let there = roster::listed(cluster.api(), &order.node).await?;
    let would_move = |guest: &&Guest| !guest.stays && !guest.daemon && guest.gone_by.is_none();
    let movable: Vec<&Guest> = there.iter().filter(would_move).collect();
    Ok(movable.first().map(|pod| {
        let (count, node) = (movable.len(), &order.node);
        format!("the API server lists pods to move on Node {node}: {count}, such as {}/{}", pod.namespace, pod.name)
    }))
}

/// The order that stands on a Node.
fn standing(node: &Value) -> Option<(Rank, v1::DrainNode)> {
    let note = node.pointer("/metadata/annotations").and_then(|annotations| annotations.get(NOTE))?;
    read(text_at(node, "/metadata/name"), note.as_str()?)
}

/// Keeps new pods off a node that was just read; `None` when it is gone.
async fn bar(cluster: &Kubernetes, node: Value, note: &str) -> Result<Option<Value>, ApiError> {
    let path = NODE.one("", text_at(&node, "/metadata/name"));
    match barring(&node, note) {
        Some(patch) => gone_is_fine(cluster.api().patch(&path, &patch).await),
        None => Ok(Some(node)),
    }
}

/// The patch that bars a node: the taint, the label by which load balancers let go of it, and the order.
fn barring(node: &Value, note: &str) -> Option<Value> {
    const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
    let wanted = json!({ "key": DISRUPTED, "effect": "NoSchedule" });
    let mut taints = list_at(node, "/spec/taints");
    let barred = taints.iter().any(|taint| taint["key"] == wanted["key"] && taint["effect"] == wanted["effect"]);
    let excluded = node.pointer("/metadata/labels").and_then(|labels| labels.get(EXCLUDED)).is_some();
    let noted = node.pointer("/metadata/annotations").and_then(|annotations| annotations.get(NOTE));
    if barred && excluded && noted.is_some_and(|noted| noted == note) {
        return None;
    }
    // Other effects of the same key go (Karpenter: node termination).
    taints.retain(|taint| taint["key"] != wanted["key"]);
    taints.push(wanted);
    Some(json!({
        "metadata": {
            "resourceVersion": node.pointer("/metadata/resourceVersion"),
            "labels": { EXCLUDED: "karpenter" },
            "annotations": { NOTE: note },
        },
        "spec": { "taints": taints },
    }))
}

struct Drain<'d> {
    cluster: &'d Kubernetes,
    claim: Option<Value>,
    node: Value,
    order: &'d v1::DrainNode,
    /// It ends when a server orders a drain of the same node.
    yields: bool,
}

impl Drain<'_> {
    /// Moves the pods off. Returns whether the node is still there and this drain's to finish. The picture tells what is there,
    /// because asking the API server every second would cost it more than the drain; before the end it is asked once, since a
    /// picture may be late.
    async fn move_pods(&self, begun: i64) -> Result<bool, ApiError> {
        let mut progress = Progress::default();
        let enrolled = self.cluster.roster().enrol(&self.order.node);
        let mut doubts = Backoff::new(begun.unsigned_abs());
        loop {
            if self.yields && self.cluster.ordered().has(&self.order.node) {
                return Ok(false);
            }
            let machine = text_at(&self.node, "/spec/providerID");
            if !self.cluster.picture().has_node(&self.order.node, machine) && self.is_gone().await? {
                return Ok(false);
            }
            let now = now_ms();
            let guests = enrolled.guests(self.cluster.picture(), now);
            let step = order::step(&guests, now, self.order.force_at_ms);
            if step.waits_for.is_empty() && now - begun >= LEAST_MS {
                let there = roster::listed(self.cluster.api(), &self.order.node).await?;
                if order::step(&there, now, self.order.force_at_ms).waits_for.is_empty() {
                    return Ok(true);
                }
                tokio::time::sleep(Duration::from_millis(doubts.next_wait_ms())).await;
            }
            self.take(&step, &mut progress).await?;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Whether the node, or the one that was barred, is gone.
    async fn is_gone(&self) -> Result<bool, ApiError> {
        let there: Option<Value> = gone_is_fine(self.cluster.api().get(&NODE.one("", &self.order.node)).await)?;
        Ok(there.is_none_or(|there| text_at(&there, "/metadata/uid") != text_at(&self.node, "/metadata/uid")))
    }

    async fn take(&self, step: &Step<'_>, progress: &mut Progress) -> Result<(), ApiError> {
        for (guest, seconds) in &step.delete {
            self.delete(guest, *seconds).await?;
        }
        for guest in &step.evict {
            let waits = progress.refused.get(&guest.uid).is_some_and(|(until, _)| now_ms() < *until);
            if !waits {
                self.evict(guest, progress).await?;
            }
        }
        Ok(())
    }

    async fn evict(&self, guest: &Guest, progress: &mut Progress) -> Result<(), ApiError> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": guest.name, "namespace": guest.namespace },
            "deleteOptions": { "preconditions": { "uid": guest.uid } },
        });
        let path = format!("{}/eviction", POD.one(&guest.namespace, &guest.name));
        let error = match self.cluster.api().post(&path, &eviction).await {
            Ok(_) => {
                progress.refused.remove(&guest.uid);
                return self.say_of_pod(guest, "Evicted", "Evicted pod").await;
            }
            Err(error) => error,
        };
        match error.kind {
            // It is gone, or another pod has its name.
            Kind::NotFound | Kind::Conflict => Ok(()),
            Kind::TooMany if !error.budget && error.retry_after.is_some() => {
                tokio::time::sleep(error.retry_after.unwrap_or(BUSY)).await;
                Ok(())
            }
            // More than one budget covers the pod: the API server answers 500 and will go on to until people change that.
            Kind::TooMany | Kind::Server | Kind::Invalid => {
                let (first, longest) = REFUSED_MS;
                let wait = progress.refused.get(&guest.uid).map_or(first, |(_, last)| (2 * last).min(longest));
                progress.refused.insert(guest.uid.clone(), (now_ms() + wait, wait));
                let note = format!("Cannot evict pod {}/{}: {}", guest.namespace, guest.name, error.message);
                self.say_of_node("FailedDraining", &note).await
            }
            _ => Err(error),
        }
    }

    async fn delete(&self, guest: &Guest, seconds: i64) -> Result<(), ApiError> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "gracePeriodSeconds": seconds, "preconditions": { "uid": guest.uid },
        });
        match self.cluster.api().delete(&POD.one(&guest.namespace, &guest.name), &options).await {
            Ok(_) => {
                warn!(
                    pod = guest.name,
                    namespace = guest.namespace,
                    node = self.order.node,
                    seconds,
                    "deleted by deadline"
                );
                self.say_of_pod(guest, "Disrupted", "Deleted pod, because its node goes at its deadline").await
            }
            Err(error) if matches!(error.kind, Kind::NotFound | Kind::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits until the volumes of pods that moved are off the node. After the deadline the node goes without.
    async fn await_volumes(&self) -> Result<(), ApiError> {
        let enrolled = self.cluster.roster().enrol(&self.order.node);
        loop {
            let guests = enrolled.guests(self.cluster.picture(), now_ms());
            let attached = volumes::awaited(self.cluster, &self.order.node, &guests).await?;
            if attached.is_empty() {
                return self.condition("VolumesDetached", "True", "VolumesDetached", "").await;
            }
            if self.order.force_at_ms.is_some_and(|deadline| now_ms() >= deadline) {
                return self.condition("VolumesDetached", "False", "TerminationGracePeriodElapsed", "").await;
            }
            let note = format!("Awaiting detachment of {}", attached.join(", "));
            self.condition("VolumesDetached", "Unknown", "AwaitingVolumeDetachment", &note).await?;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Writes a condition of the claim, unless it says so already. A claim that is gone has none.
    async fn condition(&self, kind: &str, status: &str, reason: &str, message: &str) -> Result<(), ApiError> {
        let Some(claim) = &self.claim else { return Ok(()) };
        let path = NODE_CLAIM.one("", text_at(claim, "/metadata/name"));
        let Some(current) = gone_is_fine(self.cluster.api().get::<Value>(&path).await)? else { return Ok(()) };
        let there = Conditions::of(&current, String::new());
        if there.status(kind) == status || (kind == "Drained" && there.status(kind) == "True") {
            return Ok(());
        }
        let written = write_status(self.cluster, &current, json!({}), |conditions| {
            conditions.set(kind, status, reason, message);
        });
        gone_is_fine(written.await).map(drop)
    }

    async fn say_of_pod(&self, guest: &Guest, reason: &str, what: &str) -> Result<(), ApiError> {
        let why = if self.order.reason.is_empty() { String::new() } else { format!(": {}", self.order.reason) };
        let said = Said {
            resource: POD.kind,
            namespace: guest.namespace.clone(),
            name: guest.name.clone(),
            kind: "Normal".to_owned(),
            reason: reason.to_owned(),
            note: format!("{what}{why}"),
        };
        self.say(&said, &guest.uid).await
    }

    async fn say_of_node(&self, reason: &str, note: &str) -> Result<(), ApiError> {
        let said = Said {
            resource: NODE.kind,
            namespace: String::new(),
            name: self.order.node.clone(),
            kind: "Warning".to_owned(),
            reason: reason.to_owned(),
            note: note.to_owned(),
        };
        self.say(&said, text_at(&self.node, "/metadata/uid")).await
    }

    /// An event that cannot be written holds up no drain.
    async fn say(&self, said: &Said, uid: &str) -> Result<(), ApiError> {
        if let Err(error) = self.cluster.say(said, uid).await {
            warn!(%error, "cannot write an event");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_barred_once_and_other_effects_of_the_taint_go() {
        let node = json!({
            "metadata": { "resourceVersion": "3", "labels": { "a": "b" } },
            "spec": { "taints": [{ "key": DISRUPTED, "effect": "NoExecute" }, { "key": "gpu", "effect": "NoSchedule" }] },
        });
        let patch = barring(&node, "order").unwrap();
        assert_eq!(
            patch["spec"]["taints"],
            json!([{ "key": "gpu", "effect": "NoSchedule" }, { "key": DISRUPTED, "effect": "NoSchedule" }])
        );
        let mut barred = node;
        barred["spec"]["taints"] = patch["spec"]["taints"].clone();
        barred["metadata"]["labels"] = patch["metadata"]["labels"].clone();
        barred["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
        assert_eq!(barring(&barred, "order"), None);
        assert!(barring(&barred, "another order").is_some());
    }

    #[test]
    fn an_order_is_read_back_from_its_note() {
        let order = |force_at_ms| v1::DrainNode {
            node_claim: "general-7".into(),
            node: "n".into(),
            force_at_ms,
            reason: "empty".into(),
            provider_id: "aws:///z/i-1".into(),
            interruption: force_at_ms.is_some(),
            ..v1::DrainNode::default()
        };
        let rank = Rank::read("3/9").unwrap();
        for order in [order(None), order(Some(5))] {
            assert_eq!(read("n", &note(rank, &order)), Some((rank, order)));
        }
        assert_eq!(read("n", "true"), None);
    }
}
