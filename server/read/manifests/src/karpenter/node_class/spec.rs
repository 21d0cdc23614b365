//! Fields of `spec` that only launches need, and `spec` as a whole.

use model::node_class::{AmiFamily, BlockDevice, InstanceIdentity, MetadataOptions, NodeClassSettings, NodeClassSpec};

use super::{devices, kubelet, selectors};
use crate::Cursor;

/// Tags that the system sets, and that users may not set.
const OWN_TAGS: [&str; 4] =
    ["eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"];
/// The values of a field that is on or off.
pub(super) const SWITCH: [(&str, bool); 2] = [("enabled", true), ("disabled", false)];

/// Reads and validates `spec`, of which `settings` and `block_devices` have been read.
pub(super) fn read(spec: &Cursor<'_>, settings: &NodeClassSettings, block_devices: Vec<BlockDevice>) -> NodeClassSpec {
    // Without a spec only its absence is reported, and not each missing field.
    if spec.exists() {
        selectors::check(spec);
        check_identity(spec);
        check_tags(&spec.at("tags"));
    }
    NodeClassSpec {
        ami_family: settings.ami_family,
        ami_terms: selectors::image_terms(&spec.at("amiSelectorTerms")),
        subnet_terms: selectors::resource_terms(&spec.at("subnetSelectorTerms")),
        security_group_terms: selectors::resource_terms(&spec.at("securityGroupSelectorTerms")),
        reservation_terms: selectors::reservation_terms(&spec.at("capacityReservationSelectorTerms")),
        placement_group: spec.at("placementGroupSelector").exists(),
        identity: identity(spec),
        associate_public_ip: spec.at("associatePublicIPAddress").bool(),
        ip_prefix_count: read_count(&spec.at("ipPrefixCount")),
        user_data: spec.at("userData").text(),
        tags: spec.at("tags").string_map(),
        kubelet: settings.kubelet.clone(),
        kubelet_options: kubelet::read_options(&spec.at("kubelet")),
        block_devices,
        instance_store_raid0: settings.instance_store_raid0,
        network_interfaces: settings.network_interfaces.clone(),
        connection_tracking: devices::connection_tracking(&spec.at("connectionTracking")),
        detailed_monitoring: spec.at("detailedMonitoring").bool().unwrap_or(false),
        metadata_options: read_metadata_options(&spec.at("metadataOptions")),
        nested_virtualization: spec.at("cpuOptions").at("nestedVirtualization").one_of(&SWITCH),
        context: spec.at("context").text(),
    }
}

/// The family: `amiFamily`, else the family of the alias, else Custom. Without an alias `amiFamily`
/// is required; with one it must be the family of the alias or Custom.
pub(super) fn read_family(spec: &Cursor<'_>) -> AmiFamily {
    let family_at = spec.at("amiFamily");
    let families = AmiFamily::ALL.map(|family| (family.as_str(), family));
    let written = family_at.one_of(&families);
    let terms = spec.at("amiSelectorTerms").list();
    let alias = terms.iter().find_map(|term| term.at("alias").raw()?.as_str()?.split_once('@'));
    let of_alias = alias.and_then(|(name, _)| AmiFamily::parse(name));
    match (written, of_alias) {
        (Some(written), Some(alias)) if written != alias && written != AmiFamily::Custom => {
            family_at.error(format!(
                "found {:?}, allowed beside the alias in amiSelectorTerms: {}, Custom",
                written.as_str(),
                alias.as_str()
            ));
        }
        (None, None) if spec.exists() && !family_at.exists() && alias.is_none() => {
            family_at.error("missing, but required when amiSelectorTerms has no alias");
        }
        _ => {}
    }
    written.or(of_alias).unwrap_or(AmiFamily::Custom)
}

fn check_identity(spec: &Cursor<'_>) {
    let (role, profile) = (spec.at("role"), spec.at("instanceProfile"));
    for at in [&role, &profile].into_iter().filter(|at| at.exists()) {
        let _ = at.required_str();
    }
    if role.exists() == profile.exists() {
        let found = if role.exists() { "both" } else { "neither" };
        spec.error(format!("found {found} of role and instanceProfile, allowed: exactly one"));
    }
}

fn identity(spec: &Cursor<'_>) -> InstanceIdentity {
    match spec.at("instanceProfile").text() {
        Some(profile) => InstanceIdentity::Profile(profile),
        None => InstanceIdentity::Role(spec.at("role").text().unwrap_or_default()),
    }
}

/// Tags of a resource at most, of which the system sets some (Amazon EC2 User Guide, "Tag restrictions").
const MOST_TAGS: usize = 50;

/// Tags that the system sets: the owned ones, the cluster's, `Name` and those of launches.
const SYSTEM_TAGS: usize = 10;

/// Characters of a key and of a value at most.
const TAG_CHARS: [usize; 2] = [128, 256];

fn check_tags(at: &Cursor<'_>) {
    let tags = at.map();
    if tags.len() > MOST_TAGS - SYSTEM_TAGS {
        let most = MOST_TAGS - SYSTEM_TAGS;
        at.error(format!(
            "{} tags, allowed: at most {most}, because EC2 has {MOST_TAGS} of which some are ours",
            tags.len()
        ));
    }
    for (key, value) in tags {
        check_tag_bounds(key, &value);
        if key.is_empty() || key.starts_with("kubernetes.io/cluster") || OWN_TAGS.contains(&key) {
            value.error("this tag is set by the system and may not be given; remove it");
        }
    }
}

fn check_tag_bounds(key: &str, value: &Cursor<'_>) {
    let [key_chars, value_chars] =
        [key.chars().count(), value.raw().and_then(|raw| raw.as_str()).map_or(0, |text| text.chars().count())];
    let [most_of_key, most_of_value] = TAG_CHARS;
    if key.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("aws:")) {
        value.error("keys that begin with aws: are reserved by EC2; choose another one");
    }
    if key_chars > most_of_key {
        value.error(format!("its key has {key_chars} characters, allowed by EC2: at most {most_of_key}"));
    }
    if value_chars > most_of_value {
        value.error(format!("{value_chars} characters, allowed by EC2: at most {most_of_value}"));
    }
}

fn read_count(at: &Cursor<'_>) -> Option<i32> {
    at.int_within(0, i64::from(i32::MAX)).and_then(|count| i32::try_from(count).ok())
}

/// `metadataOptions`; a field that is absent has the default of the CustomResourceDefinition.
fn read_metadata_options(at: &Cursor<'_>) -> MetadataOptions {
    let default = MetadataOptions::default();
    let tokens = at.at("httpTokens").one_of(&[("required", true), ("optional", false)]);
    let hops = at.at("httpPutResponseHopLimit").int_within(1, 64).and_then(|hops| i32::try_from(hops).ok());
    MetadataOptions {
        http_endpoint: at.at("httpEndpoint").one_of(&SWITCH).unwrap_or(default.http_endpoint),
        http_protocol_ipv6: at.at("httpProtocolIPv6").one_of(&SWITCH).unwrap_or(default.http_protocol_ipv6),
        http_put_response_hop_limit: hops.unwrap_or(default.http_put_response_hop_limit),
        http_tokens_required: tokens.unwrap_or(default.http_tokens_required),
    }
}
