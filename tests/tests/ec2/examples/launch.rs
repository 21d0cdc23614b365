//! What the endpoint saw of a launch.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use simulated_ec2::{Call, FleetOverride, SimulatedEc2};

/// Parameters by name.
pub(super) type Parameters = BTreeMap<String, String>;

/// A fleet that launched an instance, and its launch templates.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) fleet: Parameters,
    pub(super) overrides: Vec<FleetOverride>,
    /// `LaunchTemplateData` of each template.
    pub(super) templates: Vec<Parameters>,
}

impl Launch {
    /// The first launch of each NodePool of `cluster`, by NodePool.
    pub(super) fn first(ec2: &SimulatedEc2, cluster: &str) -> BTreeMap<String, Self> {
        let mut found = BTreeMap::new();
        for call in ec2.calls_of("CreateFleet") {
            let Some(fleet) = call.fleet.as_ref().filter(|fleet| !fleet.instances.is_empty()) else { continue };
            let tag = |key: &str| fleet.tags.get(key).cloned().unwrap_or_default();
            if tag("eks:eks-cluster-name") == cluster {
                found.entry(tag("karpenter.sh/nodepool")).or_insert_with(|| Self::read(ec2, &call));
            }
        }
        found
    }

    fn read(ec2: &SimulatedEc2, call: &Call) -> Self {
        let end = ".LaunchTemplateSpecification.LaunchTemplateName";
        let names: BTreeSet<&String> =
            call.parameters.iter().filter(|(key, _)| key.ends_with(end)).map(|(_, name)| name).collect();
        assert!(!names.is_empty(), "{call:?}");
        let created = ec2.calls_of("CreateLaunchTemplate");
        let template = |name: &String| {
            let is_named = |call: &&Call| call.parameters.get("LaunchTemplateName") == Some(name);
            let call = created.iter().find(is_named).unwrap_or_else(|| panic!("no launch template {name}"));
            below(&call.parameters, "LaunchTemplateData.")
        };
        let templates = names.into_iter().map(template).collect();
        let overrides = call.fleet.as_ref().map(|fleet| fleet.overrides.clone()).unwrap_or_default();
        Self { fleet: call.parameters.clone(), overrides, templates }
    }

    pub(super) fn instance_types(&self) -> BTreeSet<&str> {
        self.overrides.iter().filter_map(|option| option.instance_type.as_deref()).collect()
    }
}

/// The parameters below `prefix`, without it.
pub(super) fn below(parameters: &Parameters, prefix: &str) -> Parameters {
    let below =
        parameters.iter().filter_map(|(key, value)| Some((key.strip_prefix(prefix)?.to_owned(), value.clone())));
    below.collect()
}

/// Tags by resource type, in the specifications that begin with `prefix`, such as `TagSpecification.`.
pub(super) fn tags(parameters: &Parameters, prefix: &str) -> BTreeMap<String, Parameters> {
    let mut found = BTreeMap::new();
    let specifications = below(parameters, prefix);
    for (key, resource) in &specifications {
        let Some(number) = key.strip_suffix(".ResourceType") else { continue };
        let pairs = below(&specifications, &format!("{number}.Tag."));
        let keys = pairs.iter().filter_map(|(key, tag)| Some((key.strip_suffix(".Key")?, tag)));
        let of_resource = keys.map(|(at, tag)| (tag.clone(), pairs[&format!("{at}.Value")].clone())).collect();
        found.insert(resource.clone(), of_resource);
    }
    found
}

/// User data before base64; empty for none.
pub(super) fn user_data(template: &Parameters) -> String {
    let encoded = template.get("UserData").map_or("", String::as_str);
    String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
}
