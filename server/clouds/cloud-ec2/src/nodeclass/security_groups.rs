//! `securityGroupSelectorTerms`.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::SecurityGroup;
use model::Text;
use model::node_class::{Resolution, ResourceTerm, SecurityGroupEntry};

use super::conditions::missing;
use super::filters::{self, FilterNames, Filters};

const NAMES: FilterNames = FilterNames { id: "group-id", name: Some("group-name") };

/// A security group of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundGroup {
    pub(super) entry: SecurityGroupEntry,
    pub(super) vpc: Text,
}

/// The calls for `terms`.
pub(super) fn requests(terms: &[ResourceTerm]) -> BTreeSet<Filters> {
    filters::requests(terms, &NAMES)
}

/// A group as EC2 describes it; `None` without an id.
pub(super) fn read(described: &SecurityGroup) -> Option<FoundGroup> {
    let id = Text::from(described.group_id()?);
    let name = Text::from(described.group_name().unwrap_or_default());
    let vpc = Text::from(described.vpc_id().unwrap_or_default());
    Some(FoundGroup { entry: SecurityGroupEntry { id, name }, vpc })
}

/// The union of all answers, by id.
pub(super) fn union(answers: impl IntoIterator<Item = FoundGroup>) -> Vec<FoundGroup> {
    let by_id: BTreeMap<Text, FoundGroup> = answers.into_iter().map(|found| (found.entry.id.clone(), found)).collect();
    by_id.into_values().collect()
}

/// The condition `SecurityGroupsReady`.
pub(super) fn condition(found: &[FoundGroup], requests: &BTreeSet<Filters>, region: &str) -> Resolution {
    if !found.is_empty() {
        return Resolution::Met;
    }
    let selector = filters::list(requests);
    missing(
        "SecurityGroupsNotFound",
        format!(
            "spec.securityGroupSelectorTerms selects no security group in region {region} ({selector}): tag the groups \
             so, or correct the terms"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodeclass::testing::{by_name, parts};

    fn group(id: &str, name: &str) -> FoundGroup {
        read(&SecurityGroup::builder().group_id(id).group_name(name).vpc_id("vpc-1").build()).unwrap()
    }

    #[test]
    fn groups_are_sorted_by_id_and_each_is_listed_once() {
        let found = union([group("sg-2", "b"), group("sg-1", "c"), group("sg-2", "b")]);
        let shown: Vec<_> = found.iter().map(|found| (&*found.entry.id, &*found.entry.name)).collect();
        assert_eq!(shown, [("sg-1", "c"), ("sg-2", "b")]);
    }

    #[test]
    fn an_empty_answer_names_the_selector_and_the_region() {
        let unmet = condition(&[], &requests(&[by_name("nodes")]), "eu-west-1");
        let (reason, message) = parts(&unmet);
        assert_eq!(reason, "SecurityGroupsNotFound");
        assert!(message.contains("in region eu-west-1 (group-name=nodes)"), "{message}");
    }
}
