//! What the cloud lists of the instances of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{InstanceDetails, ProviderId, Timestamp};

/// Details of the instances of the last complete listing, by provider id. Instances with equal details share them.
#[derive(Debug, Clone, Default)]
pub struct ListedInstances {
    /// When the listing was requested.
    requested_at: Option<Timestamp>,
    instances: Arc<BTreeMap<ProviderId, ListedDetails>>,
}

/// An instance of the last listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedDetails {
    pub details: Arc<InstanceDetails>,
    /// When this process learned of it from a listing: it was launched before.
    pub known_since: Timestamp,
}

impl ListedInstances {
    /// Replaces the instances by those of a complete listing, which was answered at `now`; returns whether it is a later
    /// one. What the cloud said nothing about is left out.
    pub fn record<'i>(
        &mut self,
        requested_at: Timestamp,
        listed: impl Iterator<Item = (&'i ProviderId, &'i Arc<InstanceDetails>)>,
        now: Timestamp,
    ) -> bool {
        if self.requested_at.is_some_and(|last| requested_at <= last) {
            return false;
        }
        self.requested_at = Some(requested_at);
        let known = |(id, details): (&ProviderId, &Arc<InstanceDetails>)| {
            let before = self.instances.get(id);
            let known_since = before.map_or(now, |before| before.known_since);
            let same = before.map(|before| &before.details).filter(|before| *before == details);
            (id.clone(), ListedDetails { details: Arc::clone(same.unwrap_or(details)), known_since })
        };
        let instances = listed.filter(|(_, details)| !details.is_empty()).map(known).collect();
        if *self.instances != instances {
            self.instances = Arc::new(instances);
        }
        true
    }

    /// The instance, unless the last listing lacks it or its details.
    pub fn get(&self, provider_id: &ProviderId) -> Option<&ListedDetails> {
        self.instances.get(provider_id)
    }

    /// When the last listing was requested.
    pub fn requested_at(&self) -> Option<Timestamp> {
        self.requested_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Text;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn in_subnet(subnet: &str) -> Arc<InstanceDetails> {
        Arc::new(InstanceDetails { subnet: Text::from(subnet), ..InstanceDetails::default() })
    }

    fn record(instances: &mut ListedInstances, requested: i64, listed: &[(&str, &Arc<InstanceDetails>)]) -> bool {
        let listed: Vec<(ProviderId, &Arc<InstanceDetails>)> =
            listed.iter().map(|(id, details)| (ProviderId::from(*id), *details)).collect();
        instances.record(at(requested), listed.iter().map(|(id, details)| (id, *details)), at(requested + 1))
    }

    fn shown(instances: &ListedInstances, id: &str) -> Option<(String, i64)> {
        let found = instances.get(&ProviderId::from(id))?;
        Some((found.details.subnet.to_string(), found.known_since.as_millis() / 1_000))
    }

    #[test]
    fn an_instance_is_known_from_its_first_listing_until_one_lacks_it() {
        let mut instances = ListedInstances::default();
        assert!(record(&mut instances, 10, &[("i-1", &in_subnet("a"))]));
        assert!(record(&mut instances, 20, &[("i-1", &in_subnet("a")), ("i-2", &in_subnet("b"))]));
        assert_eq!(shown(&instances, "i-1"), Some(("a".to_owned(), 11)));
        assert_eq!(shown(&instances, "i-2"), Some(("b".to_owned(), 21)));
        assert!(record(&mut instances, 30, &[("i-2", &in_subnet("c"))]));
        assert_eq!((shown(&instances, "i-1"), shown(&instances, "i-2")), (None, Some(("c".to_owned(), 21))));
    }

    #[test]
    fn an_earlier_listing_changes_nothing_and_an_instance_without_details_is_unknown() {
        let mut instances = ListedInstances::default();
        record(&mut instances, 20, &[("i-1", &in_subnet("a")), ("i-2", &Arc::default())]);
        assert!(!record(&mut instances, 10, &[("i-1", &in_subnet("b"))]));
        assert_eq!((shown(&instances, "i-1"), shown(&instances, "i-2")), (Some(("a".to_owned(), 21)), None));
        assert_eq!(instances.requested_at(), Some(at(20)));
    }

    #[test]
    fn instances_share_details_that_stay_equal() {
        let mut instances = ListedInstances::default();
        let first = in_subnet("a");
        record(&mut instances, 10, &[("i-1", &first)]);
        record(&mut instances, 20, &[("i-1", &in_subnet("a")), ("i-2", &first)]);
        let details = |id: &str| Arc::clone(&instances.get(&ProviderId::from(id)).unwrap().details);
        assert!(Arc::ptr_eq(&details("i-1"), &details("i-2")));
    }
}
