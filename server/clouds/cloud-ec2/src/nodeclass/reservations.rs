//! `capacityReservationSelectorTerms`.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::{CapacityReservation, CapacityReservationType};
use model::node_class::{ReservationEntry, ReservationStatus, ReservationTerm};
use model::{InstanceTypeName, Millis, Text, Timestamp, Zone};

use super::filters::Filters;

/// Time before the end of a capacity block from which nothing is launched into it (Karpenter AWS: capacity
/// reservations).
const BLOCK_EXPIRES: Millis = Millis::from_mins(40);

/// `reservationType` of a capacity block.
pub(super) const CAPACITY_BLOCK: &str = "capacity-block";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReservationRequest {
    /// By id. One call for each: a call for several ids fails when one of them does not exist.
    Id(Text),
    Filters(Filters),
}

/// The calls for `terms`. An id excludes the other fields of its term.
pub(super) fn requests(terms: &[ReservationTerm]) -> BTreeSet<ReservationRequest> {
    let request = |term: &ReservationTerm| {
        if let Some(id) = &term.id {
            return Some(ReservationRequest::Id(id.clone()));
        }
        let mut filters = Filters::of_tags(&term.tags);
        if let Some(owner) = &term.owner_id {
            filters = filters.with("owner-id", owner);
        }
        if let Some(criteria) = &term.instance_match_criteria {
            filters = filters.with("instance-match-criteria", criteria);
        }
        // Without a filter, EC2 returns every reservation of the account.
        (filters != Filters::default()).then_some(ReservationRequest::Filters(filters))
    };
    terms.iter().filter_map(request).collect()
}

/// A reservation as EC2 describes it; `None` when a field that launches need is missing. `expiring` is not decided
/// here: it depends on the time.
pub(super) fn read(described: &CapacityReservation) -> Option<ReservationStatus> {
    let block = described.reservation_type() == Some(&CapacityReservationType::CapacityBlock);
    let entry = ReservationEntry {
        id: Text::from(described.capacity_reservation_id()?),
        zone: Zone::from(described.availability_zone()?),
        instance_type: InstanceTypeName::from(described.instance_type()?),
        expiring: false,
        reservation_type: Text::from(if block { CAPACITY_BLOCK } else { "default" }),
        interruptible: described.interruptible().unwrap_or(false),
        count: described.available_instance_count().map(i64::from),
    };
    Some(ReservationStatus {
        entry,
        instance_match_criteria: described.instance_match_criteria().map_or("open", |found| found.as_str()).into(),
        owner_id: Text::from(described.owner_id().unwrap_or_default()),
        end: described.end_date().map(|end| Timestamp::from_millis(end.secs().saturating_mul(1_000))),
    })
}

/// The union of all answers by id, without those that have ended at `now`.
pub(super) fn union(answers: impl IntoIterator<Item = ReservationStatus>, now: Timestamp) -> Vec<ReservationStatus> {
    let by_id: BTreeMap<Text, ReservationStatus> =
        answers.into_iter().map(|found| (found.entry.id.clone(), found)).collect();
    let current = |mut found: ReservationStatus| {
        let left = found.end.map(|end| end - now);
        found.entry.expiring =
            &*found.entry.reservation_type == CAPACITY_BLOCK && left.is_some_and(|left| left <= BLOCK_EXPIRES);
        left.is_none_or(|left| left > Millis::ZERO).then_some(found)
    };
    by_id.into_values().filter_map(current).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodeclass::testing::tags;
    use aws_sdk_ec2::primitives::DateTime;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

    fn reservation(id: &str, kind: &str, minutes_left: Option<i64>) -> ReservationStatus {
        let end = minutes_left.map(|minutes| DateTime::from_secs(1_000_000 + minutes * 60));
        let described = CapacityReservation::builder()
            .capacity_reservation_id(id)
            .availability_zone("eu-west-1a")
            .instance_type("m5.large")
            .reservation_type(CapacityReservationType::from(kind))
            .available_instance_count(3)
            .owner_id("111122223333")
            .set_end_date(end)
            .build();
        read(&described).unwrap()
    }

    #[test]
    fn ids_have_a_call_each_and_other_terms_one_with_all_their_filters() {
        let term = ReservationTerm {
            owner_id: Some("111122223333".into()),
            instance_match_criteria: Some("targeted".into()),
            tags: tags(&[("team", "web")]),
            ..ReservationTerm::default()
        };
        let by_id = ReservationTerm { id: Some("cr-1".into()), ..term.clone() };
        let filters = Filters::of_tags(&term.tags).with("owner-id", "111122223333");
        let filters = filters.with("instance-match-criteria", "targeted");
        let expected = [ReservationRequest::Id("cr-1".into()), ReservationRequest::Filters(filters)];
        assert_eq!(requests(&[term, by_id, ReservationTerm::default()]), BTreeSet::from(expected));
    }

    #[test]
    fn an_ended_reservation_is_left_out() {
        let found = [reservation("cr-3", "default", Some(0)), reservation("cr-2", "default", Some(1))];
        let found = union(
            [found, [reservation("cr-1", "default", None), reservation("cr-2", "default", Some(1))]].concat(),
            NOW,
        );
        let shown: Vec<_> = found.iter().map(|found| (&*found.entry.id, found.entry.expiring)).collect();
        assert_eq!(shown, [("cr-1", false), ("cr-2", false)]);
        assert_eq!((found[0].entry.count, &*found[0].owner_id), (Some(3), "111122223333"));
    }

    #[test]
    fn a_capacity_block_expires_forty_minutes_before_its_end() {
        let found = [reservation("cr-1", CAPACITY_BLOCK, Some(41)), reservation("cr-2", CAPACITY_BLOCK, Some(40))];
        let shown: Vec<_> = union(found, NOW).iter().map(|found| found.entry.expiring).collect();
        assert_eq!(shown, [false, true]);
    }
}
