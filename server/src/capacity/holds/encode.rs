//! Holds as resources.

use std::collections::{BTreeMap, HashMap};

use controller::holds::HOLD;
use fleetwright_proto::v1;
use prost::Message;
use store::holds::{HoldPlaceRow, HoldRow, HoldState, NewHold};

use crate::fleet::{encode::from_millis, resource_names as names};

/// A hold as a resource.
pub(crate) fn hold(row: &HoldRow) -> v1::Hold {
    let HoldRow { id, cluster, state: now, status, .. } = row;
    let sets = pod_sets(&row.pod_sets);
    let is_uncommitted = row.committed_ms.is_none();
    v1::Hold {
        name: names::child(cluster, "holds", id),
        cluster: names::cluster(cluster),
        creator: row.client.clone(),
        kind: kind(row.dedicated).into(),
        guaranteed: row.dedicated,
        state: state(*now).into(),
        message: message(row),
        create_time: Some(from_millis(row.created_ms)),
        expire_time: is_uncommitted.then(|| from_millis(row.expires_ms)),
        commit_time: row.committed_ms.map(from_millis),
        end_time: row.ended_ms.or((*now == HoldState::Expired).then_some(row.expires_ms)).map(from_millis),
        nodes: nodes(&status.places, &sets),
        price_micro_usd_per_hour: status.places.iter().map(|place| place.price).sum(),
        etag: row.version.to_string(),
        node_selector: if row.dedicated { labels(id) } else { HashMap::new() },
        tolerations: if row.dedicated { vec![toleration(id)] } else { Vec::new() },
        pod_labels: labels(id),
        pod_sets: sets,
    }
}

/// A hold that was checked and not created.
pub(super) fn unnamed(new: &NewHold) -> v1::Hold {
    v1::Hold {
        cluster: names::cluster(&new.cluster),
        creator: new.client.clone(),
        kind: kind(new.dedicated).into(),
        guaranteed: new.dedicated,
        pod_sets: pod_sets(&new.pod_sets),
        state: v1::HoldState::Pending.into(),
        ..v1::Hold::default()
    }
}

fn kind(dedicated: bool) -> v1::HoldKind {
    if dedicated { v1::HoldKind::Dedicated } else { v1::HoldKind::Shared }
}

pub(super) fn state(state: HoldState) -> v1::HoldState {
    match state {
        HoldState::Pending => v1::HoldState::Pending,
        HoldState::Active => v1::HoldState::Active,
        HoldState::Committed => v1::HoldState::Committed,
        HoldState::Released => v1::HoldState::Released,
        HoldState::Expired => v1::HoldState::Expired,
        HoldState::Failed => v1::HoldState::Failed,
    }
}

fn message(row: &HoldRow) -> String {
    let is_new = row.state == HoldState::Pending && row.status.places.is_empty() && row.status.message.is_empty();
    if is_new {
        return "the replica that decides for the cluster has not planned it yet".to_owned();
    }
    row.status.message.clone()
}

fn pod_sets(bytes: &[u8]) -> Vec<v1::PodSet> {
    v1::HoldRequest::decode(bytes).map(|request| request.pod_sets).unwrap_or_default()
}

fn nodes(places: &[HoldPlaceRow], sets: &[v1::PodSet]) -> Vec<v1::ExistingNodePods> {
    let mut nodes: BTreeMap<&str, Vec<v1::PodSetCount>> = BTreeMap::new();
    for place in places {
        let name = place.target.split_once('/').map_or(&*place.target, |(_, name)| name);
        let pod_set = sets.get(place.pod_set as usize).map(|set| set.name.clone()).unwrap_or_default();
        let pods = i32::try_from(place.pods).unwrap_or(i32::MAX);
        nodes.entry(name).or_default().push(v1::PodSetCount { pod_set, pods });
    }
    nodes.into_iter().map(|(node, pods)| v1::ExistingNodePods { node: node.to_owned(), pods }).collect()
}

fn labels(id: &str) -> HashMap<String, String> {
    HashMap::from([(HOLD.to_owned(), id.to_owned())])
}

fn toleration(id: &str) -> v1::HoldToleration {
    v1::HoldToleration {
        key: HOLD.to_owned(),
        operator: "Equal".to_owned(),
        value: id.to_owned(),
        effect: "NoSchedule".to_owned(),
    }
}
