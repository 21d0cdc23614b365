//! Which cluster of this process an instance belongs to, by the id that its cloud knows it by.
//!
//! What the cloud says about an instance names neither cluster nor NodeClaim. Each cluster publishes the provider ids
//! of its NodeClaims when they change.

use std::collections::BTreeMap;

use model::{ClusterName, ProviderId, Text};
use rustc_hash::FxHashMap;

/// The instances of the NodeClaims of this process, by id.
#[derive(Debug, Default)]
pub(crate) struct InstanceOwners {
    owners: FxHashMap<Text, (ClusterName, ProviderId)>,
    /// Ids of the instances of each cluster.
    by_cluster: BTreeMap<ClusterName, Vec<Text>>,
}

impl InstanceOwners {
    /// Replaces the instances of a cluster.
    pub(crate) fn replace(&mut self, cluster: &ClusterName, provider_ids: Vec<ProviderId>) {
        self.remove(cluster);
        let ids: Vec<Text> = provider_ids.iter().map(instance_id).collect();
        for (id, provider_id) in ids.iter().zip(provider_ids) {
            self.owners.insert(id.clone(), (cluster.clone(), provider_id));
        }
        self.by_cluster.insert(cluster.clone(), ids);
    }

    /// Removes a cluster that this process does not own any more.
    pub(crate) fn remove(&mut self, cluster: &ClusterName) {
        for id in self.by_cluster.remove(cluster).unwrap_or_default() {
            if self.owners.get(&id).is_some_and(|(owner, _)| owner == cluster) {
                self.owners.remove(&id);
            }
        }
    }

    /// The cluster of the instance with this id, and its provider id there.
    pub(crate) fn get(&self, instance: &str) -> Option<&(ClusterName, ProviderId)> {
        self.owners.get(instance)
    }
}

/// The last part of a provider id, such as `i-0123` of `aws:///eu-west-1a/i-0123`.
fn instance_id(provider_id: &ProviderId) -> Text {
    Text::from(provider_id.rsplit('/').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(owners: &InstanceOwners, instance: &str) -> Option<String> {
        owners.get(instance).map(|(cluster, provider_id)| format!("{cluster} {provider_id}"))
    }

    #[test]
    fn an_instance_is_found_by_its_id_until_its_cluster_has_it_no_more() {
        let (mut owners, blue, red) = (InstanceOwners::default(), ClusterName::from("blue"), ClusterName::from("red"));
        owners.replace(&blue, vec!["aws:///a/i-1".into(), "aws:///b/i-2".into()]);
        owners.replace(&red, vec!["aws:///a/i-3".into()]);
        assert_eq!(owner(&owners, "i-2").as_deref(), Some("blue aws:///b/i-2"));
        assert_eq!(owner(&owners, "i-3").as_deref(), Some("red aws:///a/i-3"));
        owners.replace(&blue, vec!["aws:///b/i-2".into()]);
        assert_eq!((owner(&owners, "i-1"), owner(&owners, "i-2").is_some()), (None, true));
        owners.remove(&blue);
        assert_eq!((owner(&owners, "i-2"), owner(&owners, "i-3").is_some()), (None, true));
    }

    #[test]
    fn a_cluster_that_is_removed_leaves_an_instance_that_another_one_has_taken() {
        let (mut owners, blue, red) = (InstanceOwners::default(), ClusterName::from("blue"), ClusterName::from("red"));
        owners.replace(&blue, vec!["aws:///a/i-1".into()]);
        owners.replace(&red, vec!["aws:///a/i-1".into()]);
        owners.remove(&blue);
        assert_eq!(owner(&owners, "i-1").as_deref(), Some("red aws:///a/i-1"));
    }
}
