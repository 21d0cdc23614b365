//! A machine of the simulated cloud, as the kubelet on it finds it.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow};
use cloud::catalogue::{RegionOptions, Snapshot};
use model::labels::{ARCH, INSTANCE_TYPE, OS, REGION, ZONE};
use model::node_class::NodeClassSettings;
use model::{InstanceType, InstanceTypeName, Resources, quantity};

#[derive(Debug, Clone)]
pub struct Machine {
    /// Instance id; the Node's name as well.
    pub id: String,
    /// `aws:///<zone>/<instance id>`.
    pub provider_id: String,
    /// What a kubelet and the cloud's controller write: architecture, operating system, type, zone,
    /// region.
    pub labels: BTreeMap<String, String>,
    /// Whether its kubelet registers with the taint `karpenter.sh/unregistered`. Machines of other
    /// autoscalers do not.
    pub unregistered: bool,
    pub capacity: BTreeMap<String, String>,
    pub allocatable: BTreeMap<String, String>,
}

/// The instance types of a region.
#[derive(Debug)]
pub struct Types {
    region: String,
    types: BTreeMap<InstanceTypeName, InstanceType>,
}

impl Types {
    /// The types of the built-in catalogue, for a NodeClass without settings.
    ///
    /// # Errors
    /// When the catalogue is damaged.
    pub fn builtin(region: &str) -> anyhow::Result<Self> {
        let snapshot = Snapshot::builtin().map_err(|error| anyhow!("the built-in catalogue is damaged: {error}"))?;
        let built = cloud::catalogue::build(snapshot, &RegionOptions::new(region), &NodeClassSettings::default());
        let types = built.catalogue.types.into_iter().map(|one| (one.name.clone(), one)).collect();
        Ok(Self { region: region.to_owned(), types })
    }

    /// The machine `id` of this type in `zone`.
    ///
    /// # Errors
    /// When the catalogue does not have the type.
    pub fn machine(&self, id: &str, instance_type: &str, zone: &str) -> anyhow::Result<Machine> {
        let entry = self.types.get(instance_type);
        let entry = entry.with_context(|| format!("no type {instance_type} in the catalogue of {}", self.region))?;
        let only = |key: &str| entry.labels.get(key).and_then(|requirement| requirement.representative());
        let architecture = only(ARCH);
        let labels = [
            (ARCH, architecture.as_deref().unwrap_or("amd64")),
            (OS, "linux"),
            (INSTANCE_TYPE, instance_type),
            (ZONE, zone),
            (REGION, &self.region),
        ];
        Ok(Machine {
            id: id.to_owned(),
            provider_id: format!("aws:///{zone}/{id}"),
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            unregistered: true,
            capacity: written(&entry.capacity, &entry.capacity),
            // Attach limits are part of the catalogue's allocatable but no resource of a Node.
            allocatable: written(&entry.allocatable, &entry.capacity),
        })
    }

    /// The price of a type in a zone, in micro-dollars per hour; `None` when it is not offered.
    #[must_use]
    pub fn price(&self, instance_type: &str, zone: &str, capacity_type: &str) -> Option<i64> {
        let offerings = self.types.get(instance_type)?.offerings.iter();
        let mut offerings = offerings.filter(|one| one.zone == zone && one.capacity_type.as_str() == capacity_type);
        offerings.next().map(|one| one.price.0)
    }
}

fn written(amounts: &Resources, known: &Resources) -> BTreeMap<String, String> {
    let known = amounts.iter().filter(|(name, _)| known.contains(name));
    known.map(|(name, amount)| (name.to_string(), quantity::render(name, amount))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// m5.large: 2 vCPU, 8 GiB, three interfaces of ten addresses: 3 * (10 - 1) + 2 = 29 pods. The
    /// kubelet reserves 6 % of the first core and 1 % of the second: 2000 - 60 - 10 = 1930
    /// millicores.
    #[test]
    fn a_machine_has_what_its_type_has() {
        let machine = Types::builtin("us-east-1").unwrap().machine("i-1", "m5.large", "us-east-1a").unwrap();
        assert_eq!(machine.provider_id, "aws:///us-east-1a/i-1");
        assert_eq!(machine.labels[ARCH], "amd64");
        assert_eq!(machine.capacity["cpu"], "2");
        assert_eq!(machine.capacity["pods"], "29");
        assert_eq!(machine.allocatable["cpu"], "1930m");
        assert!(!machine.allocatable.keys().any(|name| name.starts_with("attachable")));
    }
}
