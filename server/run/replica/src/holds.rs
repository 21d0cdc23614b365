//! Encodes holds as rows and decodes them, so that the next owner of a cluster keeps their room.

use std::collections::BTreeMap;

use cluster::Target;
use controller::holds::{CapacityHold, HoldEnd, HoldId, HoldKind, HoldPlace, HoldStatus};
use controller::{ClusterEvent, Event};
use model::{ClusterName, MicroUsd, Millis, Text, Timestamp};
use store::holds::{HoldPlaceRow, HoldRow, HoldState, HoldStatusRow, LiveHolds};

use super::replacements::{decode_place, encode_place};

/// The row of what has become of a hold.
pub fn encode_status(id: &HoldId, status: &HoldStatus) -> HoldStatusRow {
    let place = |place: &HoldPlace| HoldPlaceRow {
        target: encode_place(&place.target),
        pod_set: place.pod_set,
        pods: place.pods,
        price: place.price.0,
    };
    let end = |end| match end {
        HoldEnd::Expired => HoldState::Expired,
        HoldEnd::Failed => HoldState::Failed,
    };
    HoldStatusRow {
        id: id.to_string(),
        places: status.places.iter().map(place).collect(),
        ready: status.ready,
        message: status.message.to_string(),
        end: status.end.map(end),
    }
}

/// The holds of each of `clusters` as events, those of clusters without holds included: a hold that is missing has ended.
pub fn changed_events(
    live: &LiveHolds,
    clusters: impl IntoIterator<Item = ClusterName>,
    now: Timestamp,
) -> Vec<ClusterEvent> {
    let mut by_cluster: BTreeMap<ClusterName, Vec<CapacityHold>> =
        clusters.into_iter().map(|cluster| (cluster, Vec::new())).collect();
    for row in &live.holds {
        by_cluster.entry(row.cluster.as_str().into()).or_default().push(decode(row, now));
    }
    let event = |(cluster, holds)| ClusterEvent { cluster, event: Event::HoldsChanged { read: live.read, holds } };
    by_cluster.into_iter().map(event).collect()
}

/// The holds of a cluster whose lease was granted.
pub(crate) fn loaded_event(cluster: &ClusterName, live: &LiveHolds, now: Timestamp) -> Option<Event> {
    let mut events = changed_events(live, [cluster.clone()], now).into_iter();
    events.find(|event| event.cluster == *cluster).map(|found| found.event)
}

fn decode(row: &HoldRow, now: Timestamp) -> CapacityHold {
    let place = |row: &HoldPlaceRow| {
        let target: Target = decode_place(&row.target)?;
        Some(HoldPlace { target, pod_set: row.pod_set, pods: row.pods, price: MicroUsd(row.price) })
    };
    let pods = decision_log::held_pods::decode(&row.pods);
    CapacityHold {
        id: HoldId(Text::from(row.id.as_str())),
        kind: if row.dedicated { HoldKind::Dedicated } else { HoldKind::Shared },
        pods: pods.map_err(|error| Text::from(format!("its pods are unreadable: {error}"))),
        expires: row.committed_ms.is_none().then(|| now + Millis::new(row.left_ms)),
        max_price: row.max_price.map(MicroUsd),
        status: HoldStatus {
            places: row.status.places.iter().filter_map(place).collect(),
            ready: row.status.ready,
            message: Text::from(row.status.message.as_str()),
            end: None,
        },
    }
}

#[cfg(test)]
mod tests;
