//! Holds as resources.

use std::collections::{BTreeMap, HashMap};

use controller::holds::HOLD;
use fleetwright_proto::v1;
use prost::Message;
use store::holds::{HoldPlaceRow, HoldRow, HoldState, NewHold};

use super::request::StoredPodSets;
use api_messages::{from_millis, resource_names as names};

/// A hold as a resource.
pub fn hold(row: &HoldRow) -> v1::Hold {
    let HoldRow { id, cluster, state: now, status, .. } = row;
    let sets = pod_sets(&row.pod_sets);
    let may_expire = row.committed_ms.is_none() && matches!(now, HoldState::Pending | HoldState::Active);
    v1::Hold {
        name: names::child(cluster, "holds", id),
        cluster: names::cluster(cluster),
        creator: row.client.clone(),
        kind: kind(row.dedicated).into(),
        guaranteed: row.dedicated,
        state: state(*now).into(),
        message: message(row),
        create_time: Some(from_millis(row.created_ms)),
        expire_time: may_expire.then(|| from_millis(row.expires_ms)),
        commit_time: row.committed_ms.map(from_millis),
        end_time: row.ended_ms.or((*now == HoldState::Expired).then_some(row.expires_ms)).map(from_millis),
        nodes: nodes(&status.places, &sets),
        price_micro_usd_per_hour: status.places.iter().map(|place| place.price).sum(),
        etag: row.version.to_string(),
        node_selector: if row.dedicated { labels(id) } else { HashMap::new() },
        tolerations: if row.dedicated { vec![toleration(id)] } else { Vec::new() },
        pod_labels: labels(id),
        pod_sets: sets,
        ttl: None,
        max_price_micro_usd_per_hour: row.max_price.unwrap_or_default(),
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
        max_price_micro_usd_per_hour: new.max_price.unwrap_or_default(),
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

/// What a hold waited for says nothing once it has ended; why it failed does.
fn message(row: &HoldRow) -> String {
    match row.state {
        HoldState::Released => return "it was released".to_owned(),
        HoldState::Expired => return "it expired before it was committed".to_owned(),
        HoldState::Pending | HoldState::Active | HoldState::Committed | HoldState::Failed => {}
    }
    let is_new = row.state == HoldState::Pending && row.status.places.is_empty() && row.status.message.is_empty();
    if is_new {
        return "the replica that decides for the cluster has not planned it yet".to_owned();
    }
    row.status.message.clone()
}

fn pod_sets(bytes: &[u8]) -> Vec<v1::PodSet> {
    StoredPodSets::decode(bytes).map(|stored| stored.pod_sets).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use store::holds::HoldStatusRow;

    use super::*;

    #[test]
    fn a_hold_that_has_ended_waits_for_nothing_and_does_not_expire() {
        let row = |state| {
            let status =
                HoldStatusRow { message: "2 of 4 pods have no room yet".to_owned(), ..HoldStatusRow::default() };
            let hold = hold(&HoldRow {
                id: "h-1".to_owned(),
                cluster: "prod".to_owned(),
                client: "ci".to_owned(),
                pod_sets: Vec::new(),
                pods: Vec::new(),
                dedicated: false,
                max_price: None,
                state,
                created_ms: 1_000,
                expires_ms: 5_000,
                left_ms: 4_000,
                committed_ms: None,
                ended_ms: None,
                status,
                version: 1,
            });
            (hold.message, hold.expire_time.is_some())
        };
        for state in [HoldState::Pending, HoldState::Active] {
            assert_eq!(row(state), ("2 of 4 pods have no room yet".to_owned(), true));
        }
        assert_eq!(row(HoldState::Released), ("it was released".to_owned(), false));
        assert_eq!(row(HoldState::Expired), ("it expired before it was committed".to_owned(), false));
        assert_eq!(row(HoldState::Failed), ("2 of 4 pods have no room yet".to_owned(), false), "why it failed");
    }
}
