//! `role` and `instanceProfile`.
//!
//! For a role, the server makes an instance profile. Its name is a function of cluster, EC2NodeClass and role, so that
//! every replica makes the same one, and another role gets another profile. Nodes launched before keep theirs.

use std::collections::BTreeMap;

use model::Text;
use model::node_class::{InstanceIdentity, NodeClassQuery, Resolution};
use sha2::{Digest, Sha256};

use super::conditions::missing;

const MAX_NAME: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProfileRequest {
    /// `instanceProfile`: it must exist.
    Given(Text),
    /// `role`: it is made if it does not exist.
    Managed(ManagedProfile),
}

/// A profile that the server makes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManagedProfile {
    pub(super) name: Text,
    /// Path of the profile in IAM, as Karpenter has it.
    pub(super) path: String,
    /// Name of the role without its path.
    pub(super) role: Text,
    pub(super) tags: BTreeMap<Text, Text>,
}

/// A profile as IAM has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct KnownProfile {
    /// Name and ARN of its role; a profile has at most one.
    pub(super) role: Option<(Text, Text)>,
    pub(super) tags: BTreeMap<Text, Text>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProfileAnswer {
    /// The profile can be used. The ARN of its role, unless IAM does not show the role yet.
    Usable(Option<Text>),
    /// There is no such profile.
    NotFound,
    /// There is no such role.
    RoleNotFound,
    /// The profile that the server made has another role.
    OtherRole(Text),
}

impl ProfileRequest {
    pub(super) fn of(query: &NodeClassQuery, region: &str) -> Self {
        match &query.spec.identity {
            InstanceIdentity::Profile(name) => Self::Given(name.clone()),
            InstanceIdentity::Role(role) => Self::Managed(ManagedProfile::of(query, region, role)),
        }
    }

    pub(super) fn name(&self) -> &Text {
        match self {
            Self::Given(name) => name,
            Self::Managed(profile) => &profile.name,
        }
    }
}

impl ManagedProfile {
    fn of(query: &NodeClassQuery, region: &str, role: &str) -> Self {
        let (cluster, node_class) = (query.cluster.as_ref(), query.name.as_ref());
        let role = role.rsplit('/').next().unwrap_or(role);
        // None of these texts contains a line feed.
        let parts = [region, cluster, &query.cluster_uid, node_class, &query.uid, role].join("\n");
        let digest: String = Sha256::digest(parts).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let prefix: String = cluster.chars().take(MAX_NAME - 1 - digest.len()).collect();
        let own = [
            (format!("kubernetes.io/cluster/{cluster}"), "owned"),
            ("eks:eks-cluster-name".to_owned(), cluster),
            ("karpenter.k8s.aws/ec2nodeclass".to_owned(), node_class),
            ("topology.kubernetes.io/region".to_owned(), region),
        ];
        let mut tags = query.spec.tags.clone();
        tags.extend(own.map(|(key, value)| (Text::from(key), Text::from(value))));
        Self {
            name: Text::from(format!("{prefix}_{digest}")),
            path: format!("/karpenter/{region}/{cluster}/{}/", query.uid),
            role: Text::from(role),
            tags,
        }
    }

    /// The tags that the profile lacks.
    pub(super) fn missing_tags(&self, known: &KnownProfile) -> BTreeMap<Text, Text> {
        let lacks = |(key, value): &(&Text, &Text)| known.tags.get(*key) != Some(*value);
        self.tags.iter().filter(lacks).map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// The condition `InstanceProfileReady`.
pub(super) fn condition(request: &ProfileRequest, answer: &ProfileAnswer) -> Resolution {
    match (answer, request) {
        (ProfileAnswer::Usable(_), _) => Resolution::Met,
        (ProfileAnswer::RoleNotFound, ProfileRequest::Managed(profile)) => missing(
            "RoleNotFound",
            format!(
                "the role {} of spec.role does not exist in the account: make it, or correct spec.role",
                profile.role
            ),
        ),
        (ProfileAnswer::OtherRole(role), ProfileRequest::Managed(profile)) => missing(
            "InstanceProfileHasOtherRole",
            format!(
                "the instance profile {} that the server made for spec.role {} has the role {role}: remove that role \
                 from it",
                profile.name, profile.role
            ),
        ),
        (_, request) => missing(
            "InstanceProfileNotFound",
            format!(
                "the instance profile {} does not exist in the account: make it, or correct spec.instanceProfile",
                request.name()
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodeclass::testing::{parts, query, tags};
    use std::sync::Arc;

    fn managed(query: &NodeClassQuery) -> ManagedProfile {
        match ProfileRequest::of(query, "eu-west-1") {
            ProfileRequest::Managed(profile) => profile,
            ProfileRequest::Given(name) => panic!("{name} is given"),
        }
    }

    fn with_role(role: &str) -> NodeClassQuery {
        let mut query = query();
        Arc::make_mut(&mut query.spec).identity = InstanceIdentity::Role(role.into());
        query
    }

    #[test]
    fn a_managed_profile_has_karpenter_s_path_and_tags() {
        let mut query = with_role("service/nodes");
        Arc::make_mut(&mut query.spec).tags = tags(&[("team", "web")]);
        let profile = managed(&query);
        assert_eq!((profile.path.as_str(), &*profile.role), ("/karpenter/eu-west-1/c1/uid-nc/", "nodes"));
        let expected = [
            ("eks:eks-cluster-name", "c1"),
            ("karpenter.k8s.aws/ec2nodeclass", "default"),
            ("kubernetes.io/cluster/c1", "owned"),
            ("team", "web"),
            ("topology.kubernetes.io/region", "eu-west-1"),
        ];
        assert_eq!(profile.tags, tags(&expected));
    }

    #[test]
    fn a_name_has_the_cluster_and_is_the_same_for_every_replica() {
        let name = managed(&query()).name;
        // printf 'eu-west-1\nc1\nuid-c1\ndefault\nuid-nc\nnodes' | sha256sum
        assert_eq!(&*name, "c1_bef840861fc40205");
        assert_eq!(managed(&query()).name, name);
    }

    #[test]
    fn another_role_or_another_cluster_of_the_same_name_has_another_profile() {
        let name = managed(&query()).name;
        assert_ne!(managed(&with_role("other")).name, name);
        assert_eq!(managed(&with_role("path/nodes")).name, name);
        assert_ne!(managed(&NodeClassQuery { cluster_uid: "uid-c2".into(), ..query() }).name, name);
    }

    #[test]
    fn a_long_cluster_name_leaves_place_for_the_digest() {
        let long = "c".repeat(200);
        let name = managed(&NodeClassQuery { cluster: long.as_str().into(), ..query() }).name;
        assert_eq!((name.len(), name.rfind('_')), (128, Some(111)));
    }

    #[test]
    fn only_tags_that_are_missing_or_different_are_set() {
        let profile = managed(&query());
        let mut known = KnownProfile { role: None, tags: profile.tags.clone() };
        assert!(profile.missing_tags(&known).is_empty());
        known.tags.insert("eks:eks-cluster-name".into(), "c2".into());
        known.tags.insert("other".into(), "kept".into());
        assert_eq!(profile.missing_tags(&known), tags(&[("eks:eks-cluster-name", "c1")]));
    }

    #[test]
    fn a_profile_that_cannot_be_used_says_why() {
        let given = ProfileRequest::Given("nodes".into());
        let made = ProfileRequest::of(&query(), "eu-west-1");
        for (request, answer, reason, part) in [
            (&given, ProfileAnswer::NotFound, "InstanceProfileNotFound", "instance profile nodes does not exist"),
            (&made, ProfileAnswer::RoleNotFound, "RoleNotFound", "the role nodes of spec.role does not exist"),
            (&made, ProfileAnswer::OtherRole("x".into()), "InstanceProfileHasOtherRole", "has the role x: remove"),
        ] {
            let unmet = condition(request, &answer);
            let (found, message) = parts(&unmet);
            assert_eq!(found, reason);
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(condition(&given, &ProfileAnswer::Usable(None)), Resolution::Met);
    }
}
