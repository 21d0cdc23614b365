//! Facts about all objects of the run, which the conversion of one object needs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::duration;
use super::kind::Kind;
use super::metadata::name;
use super::shape::{Fields, map, text};
use crate::Document;

/// Facts about all objects of the input.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// Names of all classes, sorted.
    pub(super) classes: Vec<String>,
    pub(super) provisioners: BTreeSet<String>,
    /// Whether a Provisioner configures a DNS server with an IPv6 address.
    pub(super) ipv6: bool,
    /// Settings of the ConfigMap `karpenter-global-settings`.
    pub(super) settings: GlobalSettings,
    /// `expireAfter` of the claims of each pool of an old version, by pool.
    pub(super) expiry: BTreeMap<String, String>,
}

/// The parts of the ConfigMap that belong to classes in v1.
#[derive(Debug, Default)]
pub(super) struct GlobalSettings {
    /// `aws.defaultInstanceProfile`.
    pub(super) instance_profile: Option<String>,
    pub(super) tags: Fields,
    /// `aws.enableENILimitedPodDensity` is false: 110 pods a node.
    pub(super) flat_pod_density: bool,
}

impl Context {
    /// Collects the facts from `documents`.
    pub(super) fn of(documents: &[Document]) -> Self {
        let mut context = Self::default();
        let mut classes = BTreeSet::new();
        for object in documents.iter().filter_map(|document| document.value.as_object()) {
            match Kind::of(object) {
                Kind::NodeTemplate | Kind::NodeClass => {
                    classes.insert(name(object).to_owned());
                }
                Kind::Provisioner => context.add_provisioner(object),
                Kind::NodePool => context.add_pool(object),
                Kind::Other if is_global_settings(object) => context.settings = GlobalSettings::of(object),
                _ => {}
            }
        }
        context.classes = classes.into_iter().collect();
        context
    }

    fn add_provisioner(&mut self, object: &Fields) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let seconds = spec["ttlSecondsUntilExpired"].as_i64();
        let servers = spec["kubeletConfiguration"]["clusterDNS"].as_array().into_iter().flatten();
        self.ipv6 |= servers.filter_map(Value::as_str).any(|address| address.contains(':'));
        self.provisioners.insert(name(object).to_owned());
        self.expiry.insert(name(object).to_owned(), seconds.map_or("Never".to_owned(), duration::of_seconds));
    }

    fn add_pool(&mut self, object: &Fields) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let beta = spec["disruption"]["expireAfter"].as_str().or(spec["template"]["spec"]["expireAfter"].as_str());
        if let Some(expiry) = beta {
            self.expiry.insert(name(object).to_owned(), expiry.to_owned());
        }
    }
}

fn is_global_settings(object: &Fields) -> bool {
    text(object, "kind") == Some("ConfigMap") && name(object) == "karpenter-global-settings"
}

impl GlobalSettings {
    fn of(object: &Fields) -> Self {
        let data = map(object, "data");
        let entry = |key: &str| data.and_then(|data| text(data, key)).filter(|text| !text.is_empty());
        let tags = entry("aws.tags").and_then(|tags| serde_json::from_str(tags).ok());
        Self {
            instance_profile: entry("aws.defaultInstanceProfile").map(str::to_owned),
            tags: tags.unwrap_or_default(),
            flat_pod_density: entry("aws.enableENILimitedPodDensity") == Some("false"),
        }
    }
}
