//! `subnetSelectorTerms`.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::Subnet;
use model::node_class::{Resolution, ResourceTerm, SubnetEntry};
use model::{Text, Zone};

use super::conditions::missing;
use super::filters::{self, FilterNames, Filters};

const NAMES: FilterNames = FilterNames { id: "subnet-id", name: None };

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundSubnet {
    pub(super) entry: SubnetEntry,
    pub(super) vpc: Text,
    free_addresses: i32,
}

impl FoundSubnet {
    /// EC2's count of free addresses.
    pub(super) fn free_addresses(&self) -> i64 {
        i64::from(self.free_addresses)
    }
}

/// The calls for `terms`.
pub(super) fn requests(terms: &[ResourceTerm]) -> BTreeSet<Filters> {
    filters::requests(terms, &NAMES)
}

/// A subnet as EC2 describes it; `None` without id or zone.
pub(super) fn read(described: &Subnet) -> Option<FoundSubnet> {
    let entry = SubnetEntry {
        id: Text::from(described.subnet_id()?),
        zone: Zone::from(described.availability_zone()?),
        zone_id: described.availability_zone_id().map(Text::from),
    };
    let vpc = Text::from(described.vpc_id().unwrap_or_default());
    Some(FoundSubnet { entry, vpc, free_addresses: described.available_ip_address_count().unwrap_or(0) })
}

/// The union of all answers: most free addresses first, then by id.
pub(super) fn union(answers: impl IntoIterator<Item = FoundSubnet>) -> Vec<FoundSubnet> {
    let by_id: BTreeMap<Text, FoundSubnet> = answers.into_iter().map(|found| (found.entry.id.clone(), found)).collect();
    let mut found: Vec<FoundSubnet> = by_id.into_values().collect();
    found.sort_by_key(|subnet| std::cmp::Reverse(subnet.free_addresses));
    found
}

/// The condition `SubnetsReady`.
pub(super) fn condition(found: &[FoundSubnet], requests: &BTreeSet<Filters>, region: &str) -> Resolution {
    if !found.is_empty() {
        return Resolution::Met;
    }
    let selector = filters::list(requests);
    missing(
        "SubnetsNotFound",
        format!(
            "spec.subnetSelectorTerms selects no subnet in region {region} ({selector}): tag the subnets so, or correct \
             the terms"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodeclass::testing::{by_id, by_tags, parts};

    fn subnet(id: &str, zone: &str, free: i32) -> FoundSubnet {
        let described = Subnet::builder().subnet_id(id).availability_zone(zone).availability_zone_id("euw1-az1");
        read(&described.available_ip_address_count(free).vpc_id("vpc-1").build()).unwrap()
    }

    #[test]
    fn subnets_with_most_free_addresses_come_first_then_by_id_and_each_once() {
        let answers = [
            subnet("subnet-b", "eu-west-1b", 10),
            subnet("subnet-c", "eu-west-1a", 250),
            subnet("subnet-a", "eu-west-1a", 10),
            subnet("subnet-c", "eu-west-1a", 250),
        ];
        let ids: Vec<_> = union(answers).into_iter().map(|found| found.entry.id.to_string()).collect();
        assert_eq!(ids, ["subnet-c", "subnet-a", "subnet-b"]);
    }

    #[test]
    fn an_entry_has_zone_and_zone_id_and_a_subnet_without_zone_is_left_out() {
        let entry = subnet("subnet-a", "eu-west-1a", 1).entry;
        assert_eq!((entry.zone.as_ref(), entry.zone_id.as_deref()), ("eu-west-1a", Some("euw1-az1")));
        assert_eq!(read(&Subnet::builder().subnet_id("subnet-a").build()), None);
    }

    #[test]
    fn an_empty_answer_names_the_selector_and_the_region() {
        let requests = requests(&[by_id("subnet-9"), by_tags(&[("team", "web")])]);
        let (reason, message) = (condition(&[], &requests, "eu-west-1"), "subnet-id=subnet-9; tag:team=web");
        let (reason, found) = parts(&reason);
        assert_eq!(reason, "SubnetsNotFound");
        assert!(found.contains(message) && found.contains("region eu-west-1"), "{found}");
    }
}
