//! Finds the region of the input and the zones that the input names.

use std::collections::{BTreeMap, BTreeSet};

use cloud::catalogue::Snapshot;
use manifests::cluster::Cluster;
use manifests::cluster::metadata::with_canonical_keys;
use manifests::karpenter::{NodeClaimManifest, NodeClassManifest, NodePoolManifest};
use manifests::nearest_step;
use manifests::notes::Notes;
use manifests::{InputError, Problems};
use model::labels::{REGION, ZONE};
use model::{Labels, Requirements, Text, Zone};

/// Assumed region when neither input nor catalogue determines one.
const FALLBACK: &str = "us-east-1";

/// Regions found in the input, each with the first object that names it.
type RegionEvidence = BTreeMap<Text, String>;

/// Finds the region in the input.
#[derive(Debug)]
pub struct Search<'s> {
    snapshot: &'s Snapshot,
    /// Named by nodes, NodeClaims, subnets and `--zones`. They apply even when `--region` is set.
    of_objects: RegionEvidence,
    /// Named by the requirements of NodePools. They apply only without `--region`.
    of_requirements: RegionEvidence,
    zones: BTreeSet<Zone>,
}

impl<'s> Search<'s> {
    /// Searches nodes, claims, subnets and pools.
    #[must_use]
    pub fn new(
        snapshot: &'s Snapshot,
        cluster: &Cluster,
        claims: &[NodeClaimManifest],
        classes: &[NodeClassManifest],
        pools: &[NodePoolManifest],
    ) -> Self {
        let mut search = Self {
            snapshot,
            of_objects: RegionEvidence::new(),
            of_requirements: RegionEvidence::new(),
            zones: BTreeSet::new(),
        };
        for node in &cluster.nodes {
            search.add_labels(&node.meta.labels, &format!("Node/{}", node.meta.name));
        }
        for claim in claims {
            search.add_labels(&with_canonical_keys(claim.labels.clone()), &format!("NodeClaim/{}", claim.name));
        }
        for class in classes {
            for zone in class.settings.zones.iter().flatten() {
                search.add_zone(&zone.name, &format!("a subnet of EC2NodeClass/{}", class.name), true);
            }
        }
        for pool in pools {
            search.add_requirements(&pool.requirements, &format!("NodePool/{}", pool.name));
        }
        search
    }

    /// Adds the zones of `--zones`.
    pub fn add_flag(&mut self, zones: &[String]) {
        for zone in zones {
            self.add_zone(&Zone::from(zone.as_str()), &format!("{zone} of --zones"), true);
        }
    }

    fn add_labels(&mut self, labels: &Labels, place: &str) {
        match labels.get(REGION) {
            Some(region) => {
                self.of_objects.entry(region.clone()).or_insert_with(|| place.to_owned());
                self.zones.extend(labels.get(ZONE).map(Zone::from));
            }
            None => {
                if let Some(zone) = labels.get(ZONE) {
                    self.add_zone(&Zone::from(zone), place, true);
                }
            }
        }
    }

    fn add_zone(&mut self, zone: &Zone, place: &str, is_fact: bool) {
        self.zones.insert(zone.clone());
        if let Some(region) = self.region_of(zone) {
            let evidence = if is_fact { &mut self.of_objects } else { &mut self.of_requirements };
            evidence.entry(region).or_insert_with(|| place.to_owned());
        }
    }

    fn add_requirements(&mut self, requirements: &Requirements, place: &str) {
        let values = |key: &str| requirements.get(key).and_then(|r| r.finite_values()).cloned().unwrap_or_default();
        for region in values(REGION) {
            self.of_requirements.entry(region).or_insert_with(|| place.to_owned());
        }
        for zone in values(ZONE) {
            self.add_zone(&Zone::from(zone), place, false);
        }
    }

    /// The region of `zone`: from the catalogue, else from the form of EC2 zone names
    /// (`us-east-1a`, `us-west-2-lax-1a`).
    fn region_of(&self, zone: &Zone) -> Option<Text> {
        self.snapshot.region_of_zone(zone).cloned().or_else(|| parse_region(zone))
    }

    /// The region; contradictions are reported.
    pub fn region(&self, wanted: Option<&Text>, problems: &Problems, notes: &mut Notes) -> Text {
        let mut found = self.of_objects.clone();
        if wanted.is_none() {
            for (region, place) in &self.of_requirements {
                found.entry(region.clone()).or_insert_with(|| place.clone());
            }
        }
        let refuse = |message: String| problems.add(InputError::of_source("input", message));
        let first = found.keys().next().cloned();
        match wanted {
            Some(wanted) => {
                if let Some((region, place)) = found.iter().find(|(region, _)| *region != wanted) {
                    refuse(format!("--region is {wanted}, but {place} is in {region}; one run plans one region"));
                }
                wanted.clone()
            }
            None if found.len() > 1 => {
                let places: Vec<String> = found.iter().map(|(region, place)| format!("{region} ({place})")).collect();
                refuse(format!("found {} regions: {}; one run plans one region", found.len(), places.join(", ")));
                first.unwrap_or_else(|| FALLBACK.into())
            }
            None => first.unwrap_or_else(|| self.assumed(notes)),
        }
    }

    /// The only region of the catalogue, else the fallback.
    fn assumed(&self, notes: &mut Notes) -> Text {
        if let [only] = self.snapshot.regions() {
            return only.name.clone();
        }
        notes.line(format!("nothing in the input names a region, {FALLBACK} is assumed; --region sets another"));
        FALLBACK.into()
    }

    /// Zones of `region` that the input names, and those that `pods` name.
    #[must_use]
    pub fn zones(&self, region: &str, pods: impl Iterator<Item = Zone>) -> Vec<Zone> {
        let of_pods = pods.filter(|zone| self.region_of(zone).as_deref() == Some(region));
        let elsewhere = |zone: &Zone| self.region_of(zone).is_some_and(|other| other.as_ref() != region);
        let zones: BTreeSet<Zone> = self.zones.iter().filter(|zone| !elsewhere(zone)).cloned().chain(of_pods).collect();
        zones.into_iter().collect()
    }
}

/// Error message: no zone of `region` is known, and where to name zones.
pub fn unknown_zones_message(region: &str, snapshot: &Snapshot) -> String {
    let known: Vec<&str> = snapshot.regions().iter().map(|known| known.name.as_ref()).collect();
    let remedy = format!(
        "name zones with --zones {region}a,{region}b, in status.subnets of an EC2NodeClass, or in a zone requirement of a NodePool"
    );
    if known.contains(&region) {
        return format!("the catalogue has prices and no zones of {region}, and the input names none; {remedy}");
    }
    let nearest = nearest_step(region, &known);
    let meant = nearest.map_or_else(String::new, |name| format!(" (did you mean {name}?)"));
    format!("the catalogue does not know the region {region}{meant}, and the input names no zone of it; {remedy}")
}

/// The region in the name of a zone: words up to the first number, without the letter after it.
fn parse_region(zone: &str) -> Option<Text> {
    let digit = zone.find(|c: char| c.is_ascii_digit())?;
    let number = zone[digit..].find(|c: char| !c.is_ascii_digit()).map(|end| digit + end)?;
    let words = zone[..digit].strip_suffix('-')?;
    let lower = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let regional = words.contains('-') && words.split('-').all(lower);
    let rest = &zone[number..];
    let zonal = rest.starts_with('-') || (rest.len() == 1 && rest.bytes().all(|byte| byte.is_ascii_lowercase()));
    (regional && zonal).then(|| zone[..number].into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_of_ec2_carry_their_region() {
        for (zone, region) in [
            ("us-east-1a", Some("us-east-1")),
            ("us-gov-west-1b", Some("us-gov-west-1")),
            ("us-west-2-lax-1a", Some("us-west-2")),
            ("ap-southeast-10c", Some("ap-southeast-10")),
            ("rack-7", None),
            ("zone1", None),
            ("us-east-1", None),
        ] {
            assert_eq!(parse_region(zone).as_deref(), region, "{zone}");
        }
    }
}
