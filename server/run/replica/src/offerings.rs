//! Refused offerings, as the controller has them and as the store has them.

use controller::Event;
use controller::unavailable_offerings::{OfferingKey, OfferingUpdate, ProbeAnswer, UnavailableOffering};
use model::{CapacityType, InstanceTypeName, SizeClass, Text, Timestamp};
use store::lease::Scope;
use store::offerings::{self as rows, OfferingChange, OfferingRow};

/// The region of `scope`, under which its rows are stored, and the account.
pub fn region_and_account(scope: &Scope) -> (&str, &str) {
    match scope {
        Scope::Region { account, region } => (region, account),
        Scope::Cluster(name) => (name, ""),
    }
}

/// A change, for the store.
pub fn encode_update(update: OfferingUpdate, account: &str, holder: &str) -> OfferingChange {
    match update {
        OfferingUpdate::Refused(refused) => OfferingChange::Refused(OfferingRow {
            key: encode_key(&refused.key, account),
            failures: refused.failures,
            refused_ms: refused.refused_at.as_millis(),
            until_ms: refused.until.as_millis(),
            reason: refused.reason.to_string(),
            version: refused.version,
        }),
        OfferingUpdate::Cleared(key) => OfferingChange::Cleared(encode_key(&key, account)),
        OfferingUpdate::ProbeReleased(key) => {
            OfferingChange::ProbeReleased { key: encode_key(&key, account), holder: holder.to_owned() }
        }
    }
}

/// A key, for the store.
pub fn encode_key(key: &OfferingKey, account: &str) -> rows::OfferingKey {
    rows::OfferingKey {
        account: (!key.is_shared).then(|| account.to_owned()),
        instance_type: key.instance_type.to_string(),
        zone: key.zone.to_string(),
        capacity_type: key.capacity_type.as_str().to_owned(),
        size: key.size.smallest(),
    }
}

/// What the store has of an offering; `None` with a capacity type unknown to this version.
pub fn decode_row(row: OfferingRow) -> Option<UnavailableOffering> {
    let rows::OfferingKey { account, instance_type, zone, capacity_type, size } = row.key;
    let capacity_types = [CapacityType::Spot, CapacityType::OnDemand, CapacityType::Reserved];
    Some(UnavailableOffering {
        key: OfferingKey {
            instance_type: InstanceTypeName::from(instance_type),
            zone: Text::from(zone),
            capacity_type: capacity_types.into_iter().find(|kind| kind.as_str() == capacity_type)?,
            is_shared: account.is_none(),
            size: SizeClass::of(size),
        },
        failures: row.failures,
        refused_at: Timestamp::from_millis(row.refused_ms),
        until: Timestamp::from_millis(row.until_ms),
        reason: Text::from(row.reason),
        version: row.version,
    })
}

/// The store's answers to a claim of these keys.
pub fn answers_event(keys: Vec<OfferingKey>, answers: Vec<rows::ProbeAnswer>, until: Timestamp) -> Event {
    let answers = answers.into_iter().map(|answer| match answer {
        rows::ProbeAnswer::Granted => ProbeAnswer::Granted,
        rows::ProbeAnswer::Denied => ProbeAnswer::Denied,
        rows::ProbeAnswer::Absent => ProbeAnswer::Absent,
    });
    Event::ProbesAnswered { answers: keys.into_iter().zip(answers).collect(), until }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(is_shared: bool) -> UnavailableOffering {
        UnavailableOffering {
            key: OfferingKey {
                instance_type: "m5.large".into(),
                zone: Text::from("use1-az1"),
                capacity_type: CapacityType::Spot,
                is_shared,
                size: SizeClass::of(5),
            },
            failures: 3,
            refused_at: Timestamp::from_millis(1),
            until: Timestamp::from_millis(2),
            reason: Text::from("VcpuLimitExceeded"),
            version: 7,
        }
    }

    #[test]
    fn a_refusal_round_trips_and_names_the_account_unless_all_share_it() {
        for (is_shared, account) in [(true, None), (false, Some("123"))] {
            let refused = refused(is_shared);
            let change = encode_update(OfferingUpdate::Refused(refused.clone()), "123", "me");
            let OfferingChange::Refused(row) = change else { panic!("{change:?}") };
            assert_eq!((row.key.account.as_deref(), row.key.size), (account, 5));
            assert_eq!(decode_row(row), Some(refused));
        }
    }

    #[test]
    fn a_probe_is_given_back_by_its_holder() {
        let key = refused(true).key;
        let change = encode_update(OfferingUpdate::ProbeReleased(key.clone()), "123", "me");
        assert_eq!(change, OfferingChange::ProbeReleased { key: encode_key(&key, "123"), holder: "me".to_owned() });
    }
}
